import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.protocol.Errors;

/** What goes to the lab, one line each, from whichever thread: answers to commands, and events in between. */
final class Lines {
    private final PrintStream out;

    Lines(PrintStream out) {
        this.out = out;
    }

    void event(String name, Map<String, ?> fields) {
        Map<String, Object> line = new LinkedHashMap<>();
        line.put("event", name);
        line.putAll(fields);
        say(line);
    }

    void answer(Object command, Map<String, ?> fields) {
        Map<String, Object> line = new LinkedHashMap<>();
        line.put("answer", command);
        line.putAll(fields);
        say(line);
    }

    private synchronized void say(Map<String, ?> line) {
        byte[] bytes = (Json.write(line) + "\n").getBytes(StandardCharsets.US_ASCII);
        out.write(bytes, 0, bytes.length);
        out.flush();
    }

    /** class; error: Kafka's name, where it has one; causes: classes of what it was thrown for, outermost first. */
    static Map<String, Object> described(Throwable failure) {
        Map<String, Object> fields = new LinkedHashMap<>();
        fields.put("class", failure.getClass().getSimpleName());
        Errors error = Errors.forException(failure);
        fields.put("error", error == Errors.UNKNOWN_SERVER_ERROR ? null : error.name());
        List<String> causes = new ArrayList<>();
        for (Throwable cause = failure.getCause(); cause != null && causes.size() < 5; cause = cause.getCause()) {
            causes.add(cause.getClass().getSimpleName());
        }
        fields.put("causes", causes);
        fields.put("message", String.valueOf(failure.getMessage()));
        return fields;
    }
}
