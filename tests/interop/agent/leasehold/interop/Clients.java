package leasehold.interop;

import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.redisson.Redisson;
import org.redisson.api.RedissonClient;
import org.redisson.config.BaseConfig;
import org.redisson.config.BaseMasterSlaveServersConfig;
import org.redisson.config.Config;
import org.redisson.config.NameMapper;
import org.redisson.config.ShardedSubscriptionMode;

/** The instances of Redisson in this process, by name. Each has a UUID of its own. */
final class Clients {
    private final Map<String, Client> clients = new ConcurrentHashMap<>();

    /** One instance, and the objects that were made of it. */
    private static final class Client {
        final RedissonClient redisson;
        final Locks locks;
        final Counters counters;

        Client(RedissonClient redisson) {
            this.redisson = redisson;
            this.locks = new Locks(redisson);
            this.counters = new Counters(redisson);
        }
    }

    /** {@code single|cluster, addresses, setting=value ...}; returns the UUID. */
    String connect(String name, List<String> arguments) {
        var config = new Config();
        config.setThreads(8).setNettyThreads(4);
        String[] addresses = Agent.parts(arguments.get(1));
        String prefix = "";
        String sharded = "AUTO";
        for (String argument : arguments.subList(2, arguments.size())) {
            String value = argument.substring(argument.indexOf('=') + 1);
            switch (argument.substring(0, argument.indexOf('='))) {
                case "watchdog" -> config.setLockWatchdogTimeout(Long.parseLong(value));
                case "fairWait" -> config.setFairLockWaitTimeout(Long.parseLong(value));
                case "prefix" -> prefix = value;
                case "sharded" -> sharded = value;
                default -> throw new IllegalArgumentException("no setting " + argument);
            }
        }
        config.setNameMapper(mapper(prefix));
        if (arguments.get(0).equals("cluster")) {
            var servers = config.useClusterServers().addNodeAddress(addresses);
            servers.setShardedSubscriptionMode(ShardedSubscriptionMode.valueOf(sharded));
            slim(servers);
        } else {
            var server = config.useSingleServer().setAddress(addresses[0]);
            // Few connections to begin with, so that an instance is there soon; more are made when they are needed.
            server.setConnectionMinimumIdleSize(2).setSubscriptionConnectionMinimumIdleSize(1);
        }
        var redisson = Redisson.create(config);
        clients.put(name, new Client(redisson));
        return redisson.getId();
    }

    private static void slim(BaseMasterSlaveServersConfig<?> servers) {
        servers.setMasterConnectionMinimumIdleSize(2).setSubscriptionConnectionMinimumIdleSize(1);
        servers.setSlaveConnectionMinimumIdleSize(1);
    }

    private static NameMapper mapper(String prefix) {
        return prefix.isEmpty() ? NameMapper.direct() : new NameMapper() {
            @Override
            public String map(String name) {
                return prefix + name;
            }

            @Override
            public String unmap(String name) {
                return name.substring(prefix.length());
            }
        };
    }

    void disconnect(String name) {
        clients.remove(name).redisson.shutdown();
    }

    void disconnectAll() {
        clients.values().forEach(client -> client.redisson.shutdown());
    }

    /** Most verbs begin with an object, written {@code kind:name}. */
    Object carryOut(String name, String verb, List<String> arguments) throws Exception {
        var client = clients.get(name);
        if (client == null) {
            throw new IllegalArgumentException("no client " + name);
        }
        String object = arguments.get(0);
        String kind = object.substring(0, object.indexOf(':'));
        var rest = arguments.subList(1, arguments.size());
        return switch (kind) {
            case "semaphore", "permit", "latch" -> client.counters.carryOut(object, verb, rest);
            case "key" -> new Keys(client.redisson).carryOut(object.substring(4), verb);
            default -> client.locks.carryOut(object, verb, rest);
        };
    }
}
