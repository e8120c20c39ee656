import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * The process's producer. Every record that was handed over has one event, by its number: `delivered`, or `failed`, in
 * which `inside` says that the call itself failed, on the thread that made it.
 */
final class ProducerSide {
    private final Lines lines;
    private final ConsumerSide consumer;
    private KafkaProducer<byte[], byte[]> producer;

    /** consumer: whose offsets its transactions have. */
    ProducerSide(Lines lines, ConsumerSide consumer) {
        this.lines = lines;
        this.consumer = consumer;
    }

    /** The answer to a command; null where it is not one of these. */
    Map<String, ?> carryOut(String what, Map<String, Object> command) {
        switch (what) {
            case "producer.open":
                producer = new KafkaProducer<>(
                        properties(command), new ByteArraySerializer(), new ByteArraySerializer());
                break;
            case "producer.send":
                send(command);
                break;
            case "producer.init":
                producer.initTransactions();
                break;
            case "producer.begin":
                producer.beginTransaction();
                break;
            case "producer.offsets":
                offsets(command);
                break;
            case "producer.commit":
                producer.commitTransaction();
                break;
            case "producer.abort":
                producer.abortTransaction();
                break;
            case "producer.close":
                close((Long) command.get("limit_ms"));
                break;
            default:
                return null;
        }
        return Map.of();
    }

    /** Of a command, as texts, which the client reads as whatever type a property has. */
    static Map<String, Object> properties(Map<String, Object> command) {
        Map<String, Object> found = new HashMap<>();
        ((Map<?, ?>) command.get("properties")).forEach((name, value) -> found.put((String) name, value.toString()));
        return found;
    }

    private void send(Map<String, Object> command) {
        Object number = command.get("number");
        Thread caller = Thread.currentThread();
        AtomicBoolean inside = new AtomicBoolean(true);
        AtomicBoolean over = new AtomicBoolean();
        byte[] value = ((String) command.get("value")).getBytes(StandardCharsets.ISO_8859_1);
        int partition = ((Long) command.get("partition")).intValue();
        try {
            producer.send(
                    new ProducerRecord<>((String) command.get("topic"), partition, null, value), (metadata, failure) -> {
                        if (over.getAndSet(true)) {
                            return;
                        }
                        if (failure == null) {
                            // None where the broker only said that it has the record already.
                            long offset = metadata.hasOffset() ? metadata.offset() : -1;
                            lines.event("delivered", Map.of("number", number, "offset", offset));
                        } else {
                            failed(number, failure, inside.get() && Thread.currentThread() == caller);
                        }
                    });
        } catch (KafkaException | IllegalStateException failure) {
            if (!over.getAndSet(true)) {
                failed(number, failure, true);
            }
        } finally {
            inside.set(false);
        }
    }

    private void failed(Object number, Exception failure, boolean inside) {
        Map<String, Object> fields = new HashMap<>(Lines.described(failure));
        fields.put("number", number);
        fields.put("inside", inside);
        lines.event("failed", fields);
    }

    private void offsets(Map<String, Object> command) {
        ConsumerGroupMetadata whose = new ConsumerGroupMetadata(
                (String) command.get("group"),
                ((Long) command.get("generation")).intValue(),
                (String) command.get("member"),
                Optional.ofNullable((String) command.get("instance")));
        producer.sendOffsetsToTransaction(consumer.offsets(command), whose);
    }

    /** Wait for what is under way, at most so long; callbacks have come then. */
    void close(long limitMs) {
        if (producer != null) {
            KafkaProducer<byte[], byte[]> closing = producer;
            producer = null;
            closing.close(Duration.ofMillis(limitMs));
        }
    }
}
