package leasehold.interop;

import java.util.TreeMap;
import java.util.Map;
import org.redisson.api.RMap;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.StringCodec;

/** What lies under a name, as a JVM reads it. */
final class Keys {
    private final RedissonClient redisson;

    Keys(RedissonClient redisson) {
        this.redisson = redisson;
    }

    Object carryOut(String name, String verb) {
        switch (verb) {
            case "fields":
                RMap<String, String> map = redisson.getMap(name, StringCodec.INSTANCE);
                Map<String, String> sorted = new TreeMap<>(map.readAllMap());
                return sorted;
            case "exists":
                return redisson.getBucket(name, StringCodec.INSTANCE).isExists();
            default:
                throw new IllegalArgumentException("no verb " + verb);
        }
    }
}
