package main

import (
	"context"
	"fmt"
	"log"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// fillers are the goroutines that fill a process with locks.
const fillers = 64

// acquire stops the process where a library fails.
func acquire(here locker, name string) func() error {
	release, err := here(context.Background(), name)
	if err != nil {
		log.Fatal(err)
	}
	return release
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// pairs has each goroutine acquire and release a lock of its own, again and again.
func pairs(here locker, name string, tasks int, window time.Duration) string {
	times := make([][]time.Duration, tasks)
	used, begun := processorTime(), time.Now()
	var group sync.WaitGroup
	for task := range tasks {
		group.Go(func() {
			own := fmt.Sprintf("%s:%d", name, task)
			for time.Since(begun) < window {
				at := time.Now()
				must(acquire(here, own)())
				times[task] = append(times[task], time.Since(at))
			}
		})
	}
	group.Wait()
	wall, cpu := time.Since(begun), processorTime()-used
	sample := slices.Concat(times...)
	slices.Sort(sample)
	return fmt.Sprintf("pairs=%d wall=%d p50=%d p99=%d cpu=%d", len(sample), wall, quantile(sample, 50), quantile(sample, 99), cpu)
}

// wakeUps has one client release the lock while another waits for it, after a pause of another length each time.
func wakeUps(here, there locker, name string, count int, least, most time.Duration) string {
	ask, told := make(chan struct{}, 1), make(chan time.Time, 1)
	go func() {
		for range ask {
			release := acquire(there, name)
			granted := time.Now()
			must(release())
			told <- granted
		}
	}()
	times := make([]time.Duration, 0, count)
	for number := range count {
		release := acquire(here, name)
		ask <- struct{}{}
		time.Sleep(least + (most-least)*time.Duration(number*618%1000)/1000)
		begun := time.Now()
		must(release())
		times = append(times, max(0, (<-told).Sub(begun)))
	}
	close(ask)
	slices.Sort(times)
	return fmt.Sprintf("p50=%d p99=%d", quantile(times, 50), quantile(times, 99))
}

// hot has all goroutines want one name, from a time of the wall clock on that several processes have in common.
func hot(here locker, name string, tasks int, start time.Time, window time.Duration) string {
	time.Sleep(time.Until(start))
	used, begun := processorTime(), time.Now()
	each := make([][]time.Duration, tasks)
	// Those that wait at the end give up, so that a library whose waiter is never woken is not waited for.
	ctx, stop := context.WithTimeout(context.Background(), window)
	defer stop()
	var group sync.WaitGroup
	for task := range tasks {
		group.Go(func() {
			for {
				release, err := here(ctx, name)
				at := time.Since(begun)
				if at >= window || ctx.Err() != nil {
					if err == nil {
						_ = release()
					}
					return
				}
				must(err)
				each[task] = append(each[task], at)
				if err := release(); ctx.Err() == nil {
					must(err)
				}
			}
		})
	}
	<-ctx.Done()
	cpu := processorTime() - used
	group.Wait()
	all := slices.Concat(each...)
	slices.Sort(all)
	least, most := len(all), 0
	for _, grants := range each {
		least, most = min(least, len(grants)), max(most, len(grants))
	}
	gap, last := time.Duration(0), time.Duration(0)
	for _, at := range append(slices.Clone(all), window) {
		gap, last = max(gap, at-last), at
	}
	return fmt.Sprintf("grants=%d after=0 least=%d most=%d gap=%d cpu=%d", len(all), least, most, gap, cpu)
}

// hold acquires so many locks, each of its own name, and keeps them.
func hold(here locker, name string, count int) string {
	before := live()
	var group sync.WaitGroup
	for task := range fillers {
		group.Go(func() {
			for number := task; number < count; number += fillers {
				release := acquire(here, fmt.Sprintf("%s:%d", name, number))
				standing.Store(number, release)
			}
		})
	}
	group.Wait()
	return fmt.Sprintf("bytes=%d", live()-before)
}

// wait has so many goroutines wait for one name, which another client holds.
func wait(here, other locker, name string, count int) string {
	standing.Store(name, acquire(other, name))
	before := live()
	var started atomic.Int64
	for range count {
		go func() {
			started.Add(1)
			must(acquire(here, name)())
		}()
	}
	// A library does not tell when its waiter waits, but then it takes no more memory.
	begun, seen, now := time.Now(), int64(0), live()
	for started.Load() < int64(count) || (now-seen > now/100 && time.Since(begun) < 20*time.Second) {
		time.Sleep(300 * time.Millisecond)
		seen, now = now, live()
	}
	return fmt.Sprintf("bytes=%d", live()-before)
}

// standing keeps locks from being collected.
var standing sync.Map

// live is the memory that is in use after a collection.
func live() int64 {
	runtime.GC()
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	return int64(memory.HeapAlloc + memory.StackInuse)
}

func quantile(sorted []time.Duration, percent int) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[(len(sorted)-1)*percent/100]
}
