//! Chaos for `run`: whatever happens to the lock, its next command never starts before the last one has ended.
//!
//! Each round has a holder and a waiter on a lock. The holder's command writes lines into a file for as long as it runs, and the waiter's
//! command one at its start. `LEASEHOLD_ROUNDS=n` says how many rounds each fault has.

use crate::support::{Done, Running, Start as _, lines, name, path, run_script};
use leasehold_test_support::{Proxy, Server, Way};
use rustix::process::Signal;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// How many rounds run at once, each with servers of its own.
const AT_ONCE: usize = 8;

const OPTIONS: [&str; 4] = ["--lease", "3s", "--grace", "800ms"];

/// A source of times that differ from round to round, and are the same each time.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    fn millis(&mut self, bound: u64) -> Duration {
        Duration::from_millis(self.below(bound))
    }
}

/// What a round has.
struct Round {
    chance: Chance,
    server: Server,
    name: String,
}

impl Round {
    /// The holder's command. SIGTERM ends it after a clean-up that takes its time, or not at all.
    fn holder(&mut self, log: &Path) -> String {
        let on = format!("echo on >> '{}'", log.display());
        let on_term = match self.chance.below(3) {
            0 => ":".to_owned(),
            _ => format!("sleep 0.{}; {on}; exit 0", self.chance.below(6)),
        };
        format!(
            "exec 2>/dev/null; trap '{}' TERM; echo in; while :; do {on}; sleep 0.05; done",
            on_term.replace('\'', "'\\''")
        )
    }

    /// Waits for the lock, and returns the lines of both commands when all have ended.
    fn succeed(&self, holder: Running, log: &Path) -> (Done, Vec<String>) {
        let next = format!("echo next >> '{0}'; sleep 0.3; echo done >> '{0}'", log.display());
        assert_eq!(run_script(&self.server, &[&self.name], &next).finish().code(), 0);
        let done = holder.finish();
        (done, lines(log))
    }
}

/// Runs many rounds of a fault.
fn rounds(fault: impl Fn(&mut Round) -> (Done, Vec<String>) + Sync) {
    let many = std::env::var("LEASEHOLD_ROUNDS").map_or(2, |many| many.parse().expect("a number"));
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..AT_ONCE.min(many) {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= many {
                        return;
                    }
                    let chance = Chance(number as u64 + 1);
                    let mut round = Round { chance, server: Server::start(), name: name() };
                    let (done, lines) = fault(&mut round);
                    let first = lines.iter().position(|line| line == "next").expect("the next command ran");
                    assert!(first > 0 && lines[first..] == ["next", "done"], "round {number}: {lines:?} {done:?}");
                    assert_eq!(done.code(), 76, "round {number}: {done:?}");
                }
            });
        }
    });
}

#[test]
fn partition_keeps_commands_apart() {
    rounds(|round| {
        let (log, proxy) = (path(&round.server), Proxy::to(&round.server));
        let script = round.holder(&log);
        let mut command = run_script(&round.server, &[&[&*round.name], &OPTIONS[..]].concat(), &script);
        let holder = command.env("LEASEHOLD_URL", proxy.url()).start();
        holder.says("in");
        thread::sleep(round.chance.millis(1_500));
        proxy.freeze([Way::Both, Way::ToServer, Way::ToClient][round.chance.below(3) as usize]);
        round.succeed(holder, &log)
    });
}

#[test]
fn frozen_server_keeps_commands_apart() {
    rounds(|round| {
        let log = path(&round.server);
        let script = round.holder(&log);
        let holder = run_script(&round.server, &[&[&*round.name], &OPTIONS[..]].concat(), &script).start();
        holder.says("in");
        thread::sleep(round.chance.millis(1_500));
        round.server.stop();
        thread::sleep(Duration::from_millis(2_500) + round.chance.millis(1_500));
        round.server.resume();
        round.succeed(holder, &log)
    });
}

#[test]
fn max_hold_keeps_commands_apart() {
    rounds(|round| {
        let log = path(&round.server);
        let script = round.holder(&log);
        let most = format!("{}ms", 300 + round.chance.below(1_500));
        let options = [&[&*round.name, "--max-hold", &most], &OPTIONS[..]].concat();
        let holder = run_script(&round.server, &options, &script).start();
        holder.says("in");
        round.succeed(holder, &log)
    });
}

/// A library for `LD_PRELOAD` that adds the seconds in the file `CLOCK_STEP` to the time of day.
const STEPPED_CLOCK: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
static long step(void) {
    char text[32] = {0};
    const char *path = getenv("CLOCK_STEP");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return 0;
    long got = read(file, text, sizeof text - 1);
    close(file);
    return got > 0 ? atol(text) : 0;
}
int clock_gettime(clockid_t clock, struct timespec *time) {
    int result = syscall(SYS_clock_gettime, clock, time);
    if (result == 0 && clock == CLOCK_REALTIME) time->tv_sec += step();
    return result;
}
int gettimeofday(struct timeval *restrict time, void *restrict zone) {
    struct timespec now;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    time->tv_sec = now.tv_sec;
    time->tv_usec = now.tv_nsec / 1000;
    return 0;
}
time_t time(time_t *out) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (out) *out = now.tv_sec;
    return now.tv_sec;
}
"#;

/// The clock of the holder's machine is stepped by up to two days in both directions, while the lock is held and again in a partition.
#[test]
fn step_of_the_clock_keeps_commands_apart() {
    let folder = Server::start();
    let (source, library) = (folder.dir().join("clock.c"), folder.dir().join("clock.so"));
    std::fs::write(&source, STEPPED_CLOCK).expect("a file");
    let built = Command::new("cc").args(["-shared", "-fPIC", "-o"]).args([&library, &source]).status();
    assert!(built.is_ok_and(|status| status.success()), "the embedded engine needs a C compiler, too");
    rounds(|round| {
        let (log, step, proxy) = (path(&round.server), path(&round.server), Proxy::to(&round.server));
        let script = round.holder(&log);
        std::fs::write(&step, "0").expect("a file");
        let mut command = run_script(&round.server, &[&[&*round.name], &OPTIONS[..]].concat(), &script);
        command.env("LEASEHOLD_URL", proxy.url()).env("LD_PRELOAD", &library).env("CLOCK_STEP", &step);
        let holder = command.start();
        holder.says("in");
        for _ in 0..2 {
            thread::sleep(round.chance.millis(800));
            let seconds = i64::try_from(round.chance.below(345_600)).expect("seconds") - 172_800;
            std::fs::write(&step, seconds.to_string()).expect("a file");
        }
        proxy.freeze(Way::Both);
        round.succeed(holder, &log)
    });
}

/// `leasehold` is stopped for less than its lease: it comes back in time to end its command.
#[test]
fn pause_of_leasehold_in_a_partition_keeps_commands_apart() {
    rounds(|round| {
        let (log, proxy) = (path(&round.server), Proxy::to(&round.server));
        let script = round.holder(&log);
        let mut command = run_script(&round.server, &[&[&*round.name], &OPTIONS[..]].concat(), &script);
        let holder = command.env("LEASEHOLD_URL", proxy.url()).start();
        holder.says("in");
        proxy.freeze(Way::Both);
        holder.signal(Signal::STOP);
        thread::sleep(Duration::from_millis(1_000) + round.chance.millis(700));
        holder.signal(Signal::CONT);
        round.succeed(holder, &log)
    });
}
