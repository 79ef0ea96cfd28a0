package leasehold.interop;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/**
 * A process with a real Redisson that does what it is told, by lines on its standard input, and answers by lines on its standard
 * output. The fields of a line are separated by tabs; the README beside the pom has the commands.
 *
 * <p>A request is {@code number, actor, client, verb, arguments}. Each actor is one thread, because Redisson knows an owner by
 * its thread; an actor does one thing after the other, and different actors do not wait for each other. A reply is
 * {@code number, ok, value, began, ended}, or {@code number, error, class, message, began, ended}; both times are microseconds
 * of the machine's clock, which another process can compare with its own.
 */
public final class Agent {
    private static final PrintStream OUT = new PrintStream(System.out, false, StandardCharsets.UTF_8);

    private final Clients clients = new Clients();
    private final Map<String, ExecutorService> actors = new ConcurrentHashMap<>();
    private final Map<String, Thread> threads = new ConcurrentHashMap<>();

    private Agent() {}

    public static void main(String[] args) throws IOException {
        var agent = new Agent();
        var input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            agent.take(List.of(line.split("\t", -1)));
        }
        // Whoever gave the orders is gone. Nothing is released: this is also how a holder ends whose parent was killed.
        Runtime.getRuntime().halt(0);
    }

    private void take(List<String> request) {
        String number = request.get(0);
        String actor = request.get(1);
        if (request.get(3).equals("interrupt")) {
            // Not by the actor itself, who may be waiting.
            answer(number, () -> {
                threads.get(actor).interrupt();
                return "";
            });
            return;
        }
        actors.computeIfAbsent(actor, this::start).execute(() -> answer(number, () -> {
            var arguments = request.subList(4, request.size());
            return carryOut(request.get(2), request.get(3), arguments);
        }));
    }

    private ExecutorService start(String actor) {
        return Executors.newSingleThreadExecutor(work -> {
            var thread = new Thread(work, actor);
            thread.setDaemon(true);
            threads.put(actor, thread);
            return thread;
        });
    }

    private Object carryOut(String client, String verb, List<String> arguments) throws Exception {
        switch (verb) {
            case "ping":
                return "pong";
            case "connect":
                return clients.connect(client, arguments);
            case "disconnect":
                clients.disconnect(client);
                return "";
            case "thread":
                return threadId();
            case "exit":
                clients.disconnectAll();
                Runtime.getRuntime().halt(0);
                return "";
            default:
                return clients.carryOut(client, verb, arguments);
        }
    }

    /** The number of this thread, as Redisson takes it. */
    @SuppressWarnings("deprecation")
    private static long threadId() {
        return Thread.currentThread().getId();
    }

    /** What an actor does. */
    private interface Work {
        Object run() throws Exception;
    }

    private static void answer(String number, Work work) {
        long began = micros();
        String outcome;
        try {
            Object value = work.run();
            outcome = "ok\t" + flat(value);
        } catch (Throwable error) {
            // What Redisson throws may wrap what matters.
            Throwable cause = error.getCause() != null && error instanceof RuntimeException ? error.getCause() : error;
            outcome = "error\t" + cause.getClass().getSimpleName() + "\t" + flat(cause.getMessage());
        }
        String line = number + "\t" + outcome + "\t" + began + "\t" + micros() + "\n";
        synchronized (OUT) {
            OUT.print(line);
            OUT.flush();
        }
    }

    private static String flat(Object value) {
        return String.valueOf(value).replace('\t', ' ').replace('\n', ' ').replace('\r', ' ');
    }

    private static long micros() {
        return ChronoUnit.MICROS.between(Instant.EPOCH, Instant.now());
    }

    static long number(List<String> arguments, int at) {
        return Long.parseLong(arguments.get(at));
    }

    static String[] parts(String list) {
        return Arrays.stream(list.split(",")).map(String::strip).toArray(String[]::new);
    }
}
