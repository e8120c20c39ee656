import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;

/**
 * Kafka's Java client as one process of the lab: at most one producer and one consumer, told what to do by lines on
 * stdin. A line is {"do": …, "id": …, …}; each is answered once it is done, in order, by {"answer": id, …}, with
 * "failed" where the call threw. `lines.py` says what else a line has. Ends when stdin does, whatever it is doing.
 */
public final class LabClient {
    private LabClient() {}

    public static void main(String[] words) throws InterruptedException {
        Lines lines = new Lines(new PrintStream(new FileOutputStream(FileDescriptor.out), false));
        BlockingQueue<String> commands = new LinkedBlockingQueue<>();
        Thread reading = new Thread(() -> read(commands), "stdin");
        reading.setDaemon(true);
        reading.start();
        ConsumerSide consumer = new ConsumerSide(lines);
        ProducerSide producer = new ProducerSide(lines, consumer);
        while (true) {
            @SuppressWarnings("unchecked")
            Map<String, Object> command = (Map<String, Object>) Json.read(commands.take());
            String what = (String) command.get("do");
            Map<String, ?> answer;
            try {
                answer = producer.carryOut(what, command);
                answer = answer == null ? consumer.carryOut(what, command) : answer;
                if (answer == null) {
                    throw new IllegalArgumentException("there is no command " + what);
                }
            } catch (RuntimeException failure) {
                answer = Map.of("failed", Lines.described(failure));
            }
            lines.answer(command.get("id"), answer);
        }
    }

    private static void read(BlockingQueue<String> commands) {
        try (BufferedReader lines =
                new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII))) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                commands.add(line);
            }
        } catch (IOException gone) {
            // As the end.
        }
        Runtime.getRuntime().halt(0);
    }
}
