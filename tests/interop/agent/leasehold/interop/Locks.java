package leasehold.interop;

import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import org.redisson.api.RBucket;
import org.redisson.api.RFencedLock;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.StringCodec;

/** Everything that is an {@code RLock}. Times are in milliseconds. */
final class Locks {
    private final RedissonClient redisson;
    /** One object for a name, as a service keeps it: a lock object remembers the last lease that was used through it. */
    private final Map<String, RLock> objects = new ConcurrentHashMap<>();

    Locks(RedissonClient redisson) {
        this.redisson = redisson;
    }

    Object carryOut(String object, String verb, List<String> rest) throws InterruptedException {
        RLock lock = find(object);
        switch (verb) {
            case "lock":
                if (rest.isEmpty()) {
                    lock.lock();
                } else {
                    lock.lock(Agent.number(rest, 0), TimeUnit.MILLISECONDS);
                }
                return "";
            case "lockInterruptibly":
                lock.lockInterruptibly();
                return "";
            case "tryLock":
                return tryLock(lock, rest);
            case "unlock":
                lock.unlock();
                return "";
            case "forceUnlock":
                return lock.forceUnlock();
            case "isLocked":
                return lock.isLocked();
            case "isHeld":
                return lock.isHeldByCurrentThread();
            case "holdCount":
                return lock.getHoldCount();
            case "remaining":
                return lock.remainTimeToLive();
            case "delete":
                return ((org.redisson.api.RObject) lock).delete();
            case "bump":
                return bump(lock, rest);
            default:
                return fenced((RFencedLock) lock, verb, rest);
        }
    }

    private static Object tryLock(RLock lock, List<String> rest) throws InterruptedException {
        return switch (rest.size()) {
            case 0 -> lock.tryLock();
            case 1 -> lock.tryLock(Agent.number(rest, 0), TimeUnit.MILLISECONDS);
            default -> lock.tryLock(Agent.number(rest, 0), Agent.number(rest, 1), TimeUnit.MILLISECONDS);
        };
    }

    private static Object fenced(RFencedLock lock, String verb, List<String> rest) {
        return switch (verb) {
            case "lockAndGetToken" -> rest.isEmpty()
                    ? lock.lockAndGetToken()
                    : lock.lockAndGetToken(Agent.number(rest, 0), TimeUnit.MILLISECONDS);
            case "tryLockAndGetToken" -> switch (rest.size()) {
                case 0 -> lock.tryLockAndGetToken();
                case 1 -> lock.tryLockAndGetToken(Agent.number(rest, 0), TimeUnit.MILLISECONDS);
                default -> lock.tryLockAndGetToken(
                        Agent.number(rest, 0), Agent.number(rest, 1), TimeUnit.MILLISECONDS);
            };
            case "getToken" -> lock.getToken();
            default -> throw new IllegalArgumentException("no verb " + verb);
        };
    }

    /** Adds one to a number so many times, reading and writing it in two commands under the lock. */
    private Object bump(RLock lock, List<String> rest) {
        RBucket<String> number = redisson.getBucket(rest.get(0), StringCodec.INSTANCE);
        for (long left = Agent.number(rest, 1); left > 0; left--) {
            lock.lock();
            try {
                String read = number.get();
                number.set(Long.toString((read == null ? 0 : Long.parseLong(read)) + 1));
            } finally {
                lock.unlock();
            }
        }
        return "";
    }

    private RLock find(String object) {
        return objects.computeIfAbsent(object, this::make);
    }

    /** A multi lock is written {@code multi:kind:name|kind:name}. */
    private RLock make(String object) {
        String kind = object.substring(0, object.indexOf(':'));
        String name = object.substring(kind.length() + 1);
        return switch (kind) {
            case "lock" -> redisson.getLock(name);
            case "fair" -> redisson.getFairLock(name);
            case "read" -> redisson.getReadWriteLock(name).readLock();
            case "write" -> redisson.getReadWriteLock(name).writeLock();
            case "spin" -> redisson.getSpinLock(name);
            case "fenced" -> redisson.getFencedLock(name);
            case "multi" -> redisson.getMultiLock(
                    Arrays.stream(name.split("\\|")).map(this::make).toArray(RLock[]::new));
            default -> throw new IllegalArgumentException("no kind " + kind);
        };
    }
}
