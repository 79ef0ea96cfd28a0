package leasehold.bench;

import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicLong;
import org.redisson.api.RLock;

/**
 * The work that stands while the server and others are measured: locks that are held, and waiters. No process starts a hundred thousand
 * threads, and each owner is a number that is passed as the id of a thread.
 */
final class Standing {
    /** The calls that are under way while a process is filled with locks. */
    private static final int FILLERS = 64;

    private final Peer.Locks locks;
    private final AtomicLong grants = new AtomicLong();
    private RLock held;

    Standing(Peer.Locks locks) {
        this.locks = locks;
    }

    /** Holds so many locks, each of its own name. */
    String hold(String name, int count) throws InterruptedException {
        long before = live();
        var room = new Semaphore(FILLERS);
        for (int number = 0; number < count; number++) {
            room.acquire();
            locks.of(name + ":" + number).lockAsync(1).whenComplete((done, error) -> end(error, room::release));
        }
        room.acquire(FILLERS);
        return "bytes=" + (live() - before);
    }

    /** Has so many owners wait for one name, which another client holds. */
    String wait(Peer.Locks other, String name, int count) throws InterruptedException {
        other.of(name).lock();
        long before = live();
        lineUp(name, count);
        return "bytes=" + (live() - before);
    }

    /** Has so many owners wait for one name, which this client holds until {@link #go}. */
    String queue(String name, int count) throws InterruptedException {
        held = locks.of(name);
        held.lock();
        lineUp(name, count);
        return "";
    }

    private void lineUp(String name, int count) throws InterruptedException {
        for (int number = 0; number < count; number++) {
            stand(locks.of(name), 1_000_000L + number);
        }
        // Redisson does not tell when its waiter waits, but then it takes no more memory.
        long begun = System.nanoTime();
        long seen = 0;
        long now = live();
        while (now - seen > now / 100 && System.nanoTime() - begun < 20_000_000_000L) {
            Thread.sleep(300);
            seen = now;
            now = live();
        }
    }

    /** An owner that is granted the lock releases it and stands in line again. */
    private void stand(RLock lock, long owner) {
        lock.lockAsync(owner)
            .thenCompose(granted -> {
                grants.incrementAndGet();
                return lock.unlockAsync(owner);
            })
            // Off the stack of the call before.
            .whenCompleteAsync((released, error) -> end(error, () -> stand(lock, owner)));
    }

    private static void end(Throwable error, Runnable next) {
        if (error != null) {
            error.printStackTrace();
            Runtime.getRuntime().halt(1);
        }
        next.run();
    }

    /** Lets the first waiter have the lock. */
    String go() {
        held.unlock();
        return "";
    }

    /** The grants so far, and the processor time. */
    String count() {
        return "grants=" + grants.get() + " cpu=" + Work.processorTime();
    }

    /** The memory that is in use after a collection. */
    private static long live() {
        for (int time = 0; time < 3; time++) {
            System.gc();
        }
        return Runtime.getRuntime().totalMemory() - Runtime.getRuntime().freeMemory();
    }
}
