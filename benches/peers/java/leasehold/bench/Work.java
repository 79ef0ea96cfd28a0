package leasehold.bench;

import java.lang.management.ManagementFactory;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.SynchronousQueue;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.LongStream;

/** The work that ends by itself: pairs on own names, wake-ups, and a hot name. Times are nanoseconds. */
final class Work {
    private Work() {}

    /** Each of some threads acquires and releases a lock of its own, again and again. */
    static String pairs(Peer.Locks here, String name, int tasks, long window) throws InterruptedException {
        long used = processorTime();
        long begun = System.nanoTime();
        var each = Peer.inThreads(tasks, task -> {
            var lock = here.of(name + ":" + task);
            var times = LongStream.builder();
            while (System.nanoTime() - begun < window) {
                long at = System.nanoTime();
                lock.lock();
                lock.unlock();
                times.add(System.nanoTime() - at);
            }
            return times.build().toArray();
        });
        long wall = System.nanoTime() - begun;
        long cpu = processorTime() - used;
        long[] times = sorted(each);
        return "pairs=" + times.length + " wall=" + wall + " p50=" + quantile(times, 50) + " p99=" + quantile(times, 99)
            + " cpu=" + cpu;
    }

    /** One client releases the lock while another waits for it, after a pause of another length each time. */
    static String wakeUps(Peer.Locks here, Peer.Locks there, String name, int count, long least, long most)
            throws InterruptedException {
        var ask = new SynchronousQueue<Integer>();
        var told = new SynchronousQueue<Long>();
        var waiter = new Thread(() -> {
            var lock = there.of(name);
            try {
                for (int number = 0; number < count; number++) {
                    ask.take();
                    lock.lock();
                    long granted = System.nanoTime();
                    lock.unlock();
                    told.put(granted);
                }
            } catch (InterruptedException error) {
                throw new IllegalStateException(error);
            }
        });
        waiter.start();
        var lock = here.of(name);
        long[] times = new long[count];
        for (int number = 0; number < count; number++) {
            lock.lock();
            ask.put(number);
            long pause = least + (most - least) * (number * 618L % 1_000) / 1_000;
            Thread.sleep(pause / 1_000_000, (int) (pause % 1_000_000));
            long begun = System.nanoTime();
            lock.unlock();
            times[number] = Math.max(0, told.take() - begun);
        }
        waiter.join();
        Arrays.sort(times);
        return "p50=" + quantile(times, 50) + " p99=" + quantile(times, 99);
    }

    /** All threads want one name, from a time of the wall clock on that several processes have in common. */
    static String hot(Peer.Locks here, String name, int tasks, long start, long window) throws InterruptedException {
        Thread.sleep(Math.max(0, start - System.currentTimeMillis()));
        long used = processorTime();
        long begun = System.nanoTime();
        long[] atTheEnd = new long[1];
        var after = new AtomicLong();
        var clock = new Thread(() -> {
            try {
                Thread.sleep(window / 1_000_000);
            } catch (InterruptedException error) {
                throw new IllegalStateException(error);
            }
            atTheEnd[0] = processorTime();
        });
        clock.start();
        var each = Peer.inThreads(tasks, task -> {
            var lock = here.of(name);
            var grants = LongStream.builder();
            while (System.nanoTime() - begun < window) {
                lock.lock();
                long at = System.nanoTime() - begun;
                // Grants after the end come from emptying the line.
                if (at < window) {
                    grants.add(at);
                } else {
                    after.incrementAndGet();
                }
                lock.unlock();
            }
            return grants.build().toArray();
        });
        clock.join();
        long[] all = sorted(each);
        long gap = 0;
        long last = 0;
        for (long at : all) {
            gap = Math.max(gap, at - last);
            last = at;
        }
        gap = Math.max(gap, window - last);
        var shares = each.stream().mapToInt(grants -> grants.length).summaryStatistics();
        return "grants=" + all.length + " after=" + after + " least=" + shares.getMin() + " most=" + shares.getMax() + " gap="
            + gap + " cpu=" + (atTheEnd[0] - used);
    }

    /** The processor time of this process, compiler and collector included. */
    static long processorTime() {
        return ((com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean()).getProcessCpuTime();
    }

    private static long[] sorted(List<long[]> each) {
        long[] all = each.stream().flatMapToLong(Arrays::stream).toArray();
        Arrays.sort(all);
        return all;
    }

    private static long quantile(long[] sorted, int percent) {
        return sorted.length == 0 ? 0 : sorted[(int) ((sorted.length - 1L) * percent / 100)];
    }
}
