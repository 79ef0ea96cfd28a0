package leasehold.bench;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Function;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/**
 * Does the work of a benchmark with Redisson, as {@code cargo xtask bench} tells it.
 *
 * <p>Its words are the library and the URL of the server. It says {@code ready}, and then reads one task a line and answers with
 * one line; benches/README.md has the tasks. Redisson runs with its defaults.
 */
public final class Peer {
    /** One client, and the kind of lock that is measured. */
    record Locks(RedissonClient client, Function<String, RLock> kind) {
        RLock of(String name) {
            return kind.apply(name);
        }
    }

    private Peer() {}

    public static void main(String[] words) throws IOException, InterruptedException {
        Locks here = connect(words[0], words[1]);
        var standing = new Standing(here);
        System.out.println("ready");
        var input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] task = line.split(" ");
            String figures = switch (task[0]) {
                case "pairs" -> Work.pairs(here, task[1], Integer.parseInt(task[2]), millis(task[3]));
                case "wake" -> {
                    var there = connect(words[0], words[1]);
                    String times = Work.wakeUps(
                        here, there, task[1], Integer.parseInt(task[2]), micros(task[3]), micros(task[4]));
                    there.client().shutdown();
                    yield times;
                }
                case "hot" -> Work.hot(
                    here, task[1], Integer.parseInt(task[2]), Long.parseLong(task[3]), millis(task[4]));
                case "hold" -> standing.hold(task[1], Integer.parseInt(task[2]));
                case "wait" -> standing.wait(connect(words[0], words[1]), task[1], Integer.parseInt(task[2]));
                case "queue" -> standing.queue(task[1], Integer.parseInt(task[2]));
                case "go" -> standing.go();
                case "count" -> standing.count();
                default -> throw new IllegalArgumentException("no such task: " + line);
            };
            System.out.println("ok " + figures);
        }
        // Nothing is released: the server of a benchmark is emptied.
        Runtime.getRuntime().halt(0);
    }

    private static Locks connect(String library, String url) {
        var config = new Config();
        config.useSingleServer().setAddress(url);
        var client = Redisson.create(config);
        return switch (library) {
            case "redisson" -> new Locks(client, client::getLock);
            case "redisson-fair" -> new Locks(client, client::getFairLock);
            default -> throw new IllegalArgumentException("no such library: " + library);
        };
    }

    private static long millis(String word) {
        return Long.parseLong(word) * 1_000_000;
    }

    private static long micros(String word) {
        return Long.parseLong(word) * 1_000;
    }

    /** Starts so many threads and waits for their ends. */
    static <T> List<T> inThreads(int count, Function<Integer, T> work) throws InterruptedException {
        var results = new ArrayList<T>();
        var threads = new ArrayList<Thread>();
        for (int number = 0; number < count; number++) {
            results.add(null);
        }
        for (int number = 0; number < count; number++) {
            int own = number;
            var thread = new Thread(() -> results.set(own, work.apply(own)));
            thread.start();
            threads.add(thread);
        }
        for (var thread : threads) {
            thread.join();
        }
        return results;
    }
}
