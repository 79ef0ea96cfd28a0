// Peers times the locks of two Go libraries for the benchmark that started it.
//
// It is given the server's address, and then reads one task a line: `library workers pairs`. Each of the workers, a goroutine
// with a key of its own, acquires and releases `pairs` times. The answer is one line of integers: pairs in all, nanoseconds in
// all, the median and the 99th percentile of a pair in nanoseconds, and the nanoseconds of processor time that this process used.
// Both libraries run with their defaults, and share one client of go-redis with its default pool.
package main

import (
	"bufio"
	"context"
	"fmt"
	"log"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

const lease = 30 * time.Second

// A pair acquires and releases the lock of one name once.
type pair func(ctx context.Context, name string) error

func main() {
	log.SetFlags(0)
	if len(os.Args) != 2 {
		log.Fatal("usage: peers host:port")
	}
	client := redis.NewClient(&redis.Options{Addr: os.Args[1]})
	libraries := map[string]pair{"redsync": byRedsync(client), "redislock": byRedislock(client)}
	tasks := bufio.NewScanner(os.Stdin)
	for tasks.Scan() {
		var library string
		var workers, pairs int
		if _, err := fmt.Sscan(tasks.Text(), &library, &workers, &pairs); err != nil {
			log.Fatal(err)
		}
		once, known := libraries[library]
		if !known {
			log.Fatalf("no such library: %s", library)
		}
		repeat(library, once, workers, pairs)
	}
}

func byRedsync(client *redis.Client) pair {
	locks := redsync.New(goredis.NewPool(client))
	return func(ctx context.Context, name string) error {
		mutex := locks.NewMutex(name, redsync.WithExpiry(lease))
		if err := mutex.LockContext(ctx); err != nil {
			return err
		}
		_, err := mutex.UnlockContext(ctx)
		return err
	}
}

func byRedislock(client *redis.Client) pair {
	locks := redislock.New(client)
	return func(ctx context.Context, name string) error {
		lock, err := locks.Obtain(ctx, name, lease, nil)
		if err != nil {
			return err
		}
		return lock.Release(ctx)
	}
}

func repeat(library string, once pair, workers, pairs int) {
	times := make([][]time.Duration, workers)
	used := processorTime()
	begun := time.Now()
	var group sync.WaitGroup
	for worker := range workers {
		group.Go(func() {
			name := fmt.Sprintf("bench:simple:%s:%d", library, worker)
			for range pairs {
				at := time.Now()
				if err := once(context.Background(), name); err != nil {
					log.Fatal(err)
				}
				times[worker] = append(times[worker], time.Since(at))
			}
		})
	}
	group.Wait()
	all, cost := time.Since(begun), processorTime()-used
	sample := slices.Concat(times...)
	slices.Sort(sample)
	last := len(sample) - 1
	fmt.Println(len(sample), int64(all), int64(sample[last/2]), int64(sample[last*99/100]), int64(cost))
}

func processorTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		log.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
