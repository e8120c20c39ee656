import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.AuthorizationException;
import org.apache.kafka.common.errors.OutOfOrderSequenceException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** The driver for Java's client; for arguments and output see __init__.py beside this file. */
public class FailoverDriver {
    static final int PACE_MS = 10;

    public static void main(String[] args) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", args[1]);
        switch (args[0]) {
            case "produce" -> produce(settings, args[2]);
            case "commit" -> commit(settings, args[2], args[3]);
            case "transact" -> transact(settings, args[2], args[3]);
            default -> throw new IllegalArgumentException("unknown work " + args[0]);
        }
    }

    /** System.nanoTime is CLOCK_MONOTONIC on Linux. */
    static synchronized void saySuccess() {
        System.out.println(System.nanoTime());
    }

    static synchronized void sayFailure(Exception failure) {
        System.out.println("failed: " + failure.toString().replace('\n', ' '));
    }

    static KafkaProducer<byte[], byte[]> producer(Properties settings) {
        return new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
    }

    static ProducerRecord<byte[], byte[]> record(String topic) {
        return new ProducerRecord<>(topic, new byte[100]);
    }

    static void produce(Properties settings, String topic) throws Exception {
        KafkaProducer<byte[], byte[]> producer = producer(settings);
        while (true) {
            producer.send(record(topic), (metadata, failure) -> {
                if (failure == null) {
                    saySuccess();
                } else {
                    sayFailure(failure);
                }
            });
            Thread.sleep(PACE_MS);
        }
    }

    static void commit(Properties settings, String topic, String group) {
        settings.put("group.id", group);
        KafkaConsumer<byte[], byte[]> consumer =
                new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        TopicPartition partition = new TopicPartition(topic, 0);
        consumer.subscribe(List.of(topic));
        for (long offset = 1; ; offset++) {
            try {
                consumer.poll(Duration.ofMillis(PACE_MS));
                if (consumer.assignment().contains(partition)) {
                    consumer.commitSync(Map.of(partition, new OffsetAndMetadata(offset)));
                    saySuccess();
                }
            } catch (KafkaException failure) {
                sayFailure(failure);
            }
        }
    }

    static void transact(Properties settings, String topic, String id) throws Exception {
        settings.put("transactional.id", id);
        while (true) {
            try (KafkaProducer<byte[], byte[]> producer = producer(settings)) {
                producer.initTransactions();
                while (true) {
                    one(producer, topic);
                    Thread.sleep(PACE_MS);
                }
            } catch (KafkaException failure) {
                sayFailure(failure);
            }
        }
    }

    /** One transaction, as the library's documentation wants it: aborted unless the failure is fatal. */
    static void one(KafkaProducer<byte[], byte[]> producer, String topic) {
        try {
            producer.beginTransaction();
            producer.send(record(topic));
            commit(producer);
            saySuccess();
        } catch (ProducerFencedException | OutOfOrderSequenceException | AuthorizationException fatal) {
            throw fatal;
        } catch (KafkaException failure) {
            sayFailure(failure);
            producer.abortTransaction();
        }
    }

    static void commit(KafkaProducer<byte[], byte[]> producer) {
        while (true) {
            try {
                producer.commitTransaction();
                return;
            } catch (TimeoutException again) {
                sayFailure(again);
            }
        }
    }
}
