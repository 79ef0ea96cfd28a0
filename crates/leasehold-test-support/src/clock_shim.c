// The clock of a server, read from a file: preloaded, so that a server of any build shows the wall time that a test has set.
//
// The file has eight bytes, the microseconds since the epoch; or those by which the wall clock of the machine is moved, where the name of
// the file comes by LEASEHOLD_CLOCK_STEP: then the clocks run, and only the wall clock is another. The monotonic clocks show the latest of these: Valkey adds to the wall
// time what they have gone on since. It would take the processor's own counter for that, which nothing can hold, if it could read
// what processor this is; so it cannot. System calls are made raw: an allocator may ask for the time before this library is set up,
// and must not come back to itself.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile const int64_t *wall;
static volatile int64_t latest;
static int runs;

__attribute__((constructor)) static void map_clock(void) {
  const char *path = getenv("LEASEHOLD_CLOCK");
  if (path == NULL) {
    path = getenv("LEASEHOLD_CLOCK_STEP");
    runs = path != NULL;
  }
  int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  if (file < 0) return;
  void *page = mmap(NULL, sizeof *wall, PROT_READ, MAP_SHARED, file, 0);
  if (page != MAP_FAILED) wall = page;
  close(file);
}

int clock_gettime(clockid_t id, struct timespec *out) {
  int is_wall = id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE;
  int is_monotonic = id == CLOCK_MONOTONIC || id == CLOCK_MONOTONIC_COARSE || id == CLOCK_MONOTONIC_RAW;
  if (wall == NULL || !(is_wall || is_monotonic)) return (int)syscall(SYS_clock_gettime, id, out);
  int64_t micros = *wall;
  if (runs) {
    int failed = (int)syscall(SYS_clock_gettime, id, out);
    if (failed || !is_wall) return failed;
    micros += (int64_t)out->tv_sec * 1000000 + out->tv_nsec / 1000;
    out->tv_sec = micros / 1000000;
    out->tv_nsec = micros % 1000000 * 1000;
    return 0;
  }
  if (is_monotonic) {
    if (micros > latest) latest = micros;
    micros = latest;
  }
  out->tv_sec = micros / 1000000;
  out->tv_nsec = micros % 1000000 * 1000;
  return 0;
}

int gettimeofday(struct timeval *restrict out, void *restrict zone) {
  struct timespec now;
  (void)zone;
  if (clock_gettime(CLOCK_REALTIME, &now) != 0) return -1;
  out->tv_sec = now.tv_sec;
  out->tv_usec = now.tv_nsec / 1000;
  return 0;
}

time_t time(time_t *out) {
  struct timespec now;
  if (clock_gettime(CLOCK_REALTIME, &now) != 0) return (time_t)-1;
  if (out != NULL) *out = now.tv_sec;
  return now.tv_sec;
}

FILE *fopen(const char *path, const char *mode) {
  FILE *(*next)(const char *, const char *) = (FILE * (*)(const char *, const char *)) dlsym(RTLD_NEXT, "fopen");
  if (strcmp(path, "/proc/cpuinfo") != 0) return next(path, mode);
  errno = ENOENT;
  return NULL;
}

FILE *fopen64(const char *path, const char *mode) {
  return fopen(path, mode);
}
