package leasehold.interop;

import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.redisson.api.RCountDownLatch;
import org.redisson.api.RPermitExpirableSemaphore;
import org.redisson.api.RSemaphore;
import org.redisson.api.RedissonClient;

/** Semaphores and latches. Times are in milliseconds. */
final class Counters {
    private final RedissonClient redisson;

    Counters(RedissonClient redisson) {
        this.redisson = redisson;
    }

    Object carryOut(String object, String verb, List<String> rest) throws InterruptedException {
        String kind = object.substring(0, object.indexOf(':'));
        String name = object.substring(kind.length() + 1);
        return switch (kind) {
            case "semaphore" -> semaphore(redisson.getSemaphore(name), verb, rest);
            case "permit" -> permits(redisson.getPermitExpirableSemaphore(name), verb, rest);
            default -> latch(redisson.getCountDownLatch(name), verb, rest);
        };
    }

    private static Object semaphore(RSemaphore semaphore, String verb, List<String> rest)
            throws InterruptedException {
        int permits = rest.isEmpty() ? 1 : (int) Agent.number(rest, 0);
        switch (verb) {
            case "trySetPermits":
                return rest.size() < 2
                        ? semaphore.trySetPermits(permits)
                        : semaphore.trySetPermits(permits, Duration.ofMillis(Agent.number(rest, 1)));
            case "acquire":
                semaphore.acquire(permits);
                return "";
            case "tryAcquire":
                return rest.size() < 2
                        ? semaphore.tryAcquire(permits)
                        : semaphore.tryAcquire(permits, Duration.ofMillis(Agent.number(rest, 1)));
            case "release":
                semaphore.release(permits);
                return "";
            case "releaseIfExists":
                return semaphore.releaseIfExists(permits);
            case "available":
                return semaphore.availablePermits();
            case "drain":
                return semaphore.drainPermits();
            case "addPermits":
                semaphore.addPermits(permits);
                return "";
            case "delete":
                return semaphore.delete();
            default:
                throw new IllegalArgumentException("no verb " + verb);
        }
    }

    private static Object permits(RPermitExpirableSemaphore semaphore, String verb, List<String> rest)
            throws InterruptedException {
        switch (verb) {
            case "trySetPermits":
                return semaphore.trySetPermits((int) Agent.number(rest, 0));
            case "setPermits":
                semaphore.setPermits((int) Agent.number(rest, 0));
                return "";
            case "addPermits":
                semaphore.addPermits((int) Agent.number(rest, 0));
                return "";
            case "acquire":
                return rest.isEmpty()
                        ? semaphore.acquire()
                        : semaphore.acquire(Agent.number(rest, 0), TimeUnit.MILLISECONDS);
            case "acquireMany":
                return String.join(",", semaphore.acquire((int) Agent.number(rest, 0)));
            case "tryAcquire":
                return switch (rest.size()) {
                    case 0 -> semaphore.tryAcquire();
                    case 1 -> semaphore.tryAcquire(Agent.number(rest, 0), TimeUnit.MILLISECONDS);
                    default -> semaphore.tryAcquire(
                            Agent.number(rest, 0), Agent.number(rest, 1), TimeUnit.MILLISECONDS);
                };
            case "release":
                semaphore.release(rest.get(0));
                return "";
            case "tryRelease":
                return semaphore.tryRelease(rest.get(0));
            case "tryReleaseMany":
                return semaphore.tryRelease(Arrays.asList(rest.get(0).split(",")));
            case "updateLease":
                return semaphore.updateLeaseTime(rest.get(0), Agent.number(rest, 1), TimeUnit.MILLISECONDS);
            case "lease":
                return semaphore.getLeaseTime(rest.get(0));
            case "available":
                return semaphore.availablePermits();
            case "acquired":
                return semaphore.acquiredPermits();
            case "permits":
                return semaphore.getPermits();
            case "delete":
                return semaphore.delete();
            default:
                throw new IllegalArgumentException("no verb " + verb);
        }
    }

    private static Object latch(RCountDownLatch latch, String verb, List<String> rest) throws InterruptedException {
        switch (verb) {
            case "trySetCount":
                return latch.trySetCount(Agent.number(rest, 0));
            case "countDown":
                latch.countDown();
                return "";
            case "count":
                return latch.getCount();
            case "await":
                if (rest.isEmpty()) {
                    latch.await();
                    return true;
                }
                return latch.await(Agent.number(rest, 0), TimeUnit.MILLISECONDS);
            case "delete":
                return latch.delete();
            default:
                throw new IllegalArgumentException("no verb " + verb);
        }
    }
}
