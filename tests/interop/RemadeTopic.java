import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicCollection;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * One client that outlives its topic: `produce BOOTSTRAP TOPIC` or `consume BOOTSTRAP TOPIC`. For each line on stdin one
 * record with this value is sent, or awaited, within 30 s; one line says how it went. Defaults wherever they do not wait.
 * `delete BOOTSTRAP TOPIC` deletes the topic whose id a line says, whatever its name.
 */
public class RemadeTopic {
    static final int WAIT_MS = 30_000;

    public static void main(String[] args) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", args[1]);
        try (BufferedReader lines = new BufferedReader(new InputStreamReader(System.in))) {
            if (args[0].equals("produce")) {
                produce(settings, args[2], lines);
            } else if (args[0].equals("delete")) {
                delete(settings, lines);
            } else {
                consume(settings, new TopicPartition(args[2], 0), lines);
            }
        }
    }

    static void produce(Properties settings, String topic, BufferedReader lines) throws Exception {
        settings.put(ProducerConfig.DELIVERY_TIMEOUT_MS_CONFIG, WAIT_MS);
        settings.put(ProducerConfig.REQUEST_TIMEOUT_MS_CONFIG, 10_000);
        settings.put(ProducerConfig.MAX_BLOCK_MS_CONFIG, WAIT_MS);
        try (KafkaProducer<String, String> producer =
                new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            for (String value = lines.readLine(); value != null; value = lines.readLine()) {
                try {
                    producer.send(new ProducerRecord<>(topic, 0, null, value)).get();
                    System.out.println("done");
                } catch (Exception failure) {
                    System.out.println("failed: " + failure);
                }
            }
        }
    }

    static void delete(Properties settings, BufferedReader lines) throws Exception {
        try (Admin admin = Admin.create(settings)) {
            for (String id = lines.readLine(); id != null; id = lines.readLine()) {
                try {
                    admin.deleteTopics(TopicCollection.ofTopicIds(List.of(Uuid.fromString(id)))).all().get();
                    System.out.println("done");
                } catch (ExecutionException failure) {
                    System.out.println("failed: " + failure.getCause().getClass().getSimpleName());
                }
            }
        }
    }

    static void consume(Properties settings, TopicPartition partition, BufferedReader lines) throws Exception {
        settings.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest");
        settings.put(ConsumerConfig.ENABLE_AUTO_COMMIT_CONFIG, false);
        try (KafkaConsumer<String, String> consumer =
                new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            consumer.assign(List.of(partition));
            consumer.seekToBeginning(List.of(partition));
            for (String value = lines.readLine(); value != null; value = lines.readLine()) {
                System.out.println(arrives(consumer, value) ? "done" : "failed: it did not come");
            }
        }
    }

    static boolean arrives(KafkaConsumer<String, String> consumer, String value) {
        long end = System.nanoTime() + WAIT_MS * 1_000_000L;
        while (System.nanoTime() < end) {
            for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(200))) {
                if (record.value().equals(value)) {
                    return true;
                }
            }
        }
        return false;
    }
}
