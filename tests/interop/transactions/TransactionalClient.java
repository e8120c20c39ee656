import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * One transactional producer: `BOOTSTRAP TRANSACTIONAL_ID`. Each line on stdin is one transaction, and is answered by
 * one line, "committed", "aborted" or what failed:
 * `transact TOPIC commit|abort VALUE...`: the values, in turn to partitions 0 to 2;
 * `transform SOURCE TARGET GROUP COUNT commit|abort`: COUNT records that the group has not read yet, each in <>.
 */
public class TransactionalClient {
    static final int WAIT_MS = 60_000;

    public static void main(String[] args) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", args[0]);
        settings.put(ProducerConfig.TRANSACTIONAL_ID_CONFIG, args[1]);
        settings.put(ProducerConfig.MAX_BLOCK_MS_CONFIG, WAIT_MS);
        try (BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
                KafkaProducer<String, String> producer =
                        new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            producer.initTransactions();
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                List<String> words = List.of(line.split(" "));
                try {
                    if (words.get(0).equals("open")) {
                        System.out.println("open");
                    } else if (words.get(0).equals("transact")) {
                        System.out.println(transact(producer, words.get(1), words.get(2), words.subList(3, words.size())));
                    } else {
                        System.out.println(transform(args[0], producer, words));
                    }
                } catch (Exception failure) {
                    System.out.println("failed: " + failure);
                }
            }
        }
    }

    static String transact(KafkaProducer<String, String> producer, String topic, String end, List<String> values) {
        producer.beginTransaction();
        try {
            int place = 0;
            for (String value : values) {
                producer.send(new ProducerRecord<>(topic, place++ % 3, null, value));
            }
            return end(producer, end);
        } catch (KafkaException failure) {
            producer.abortTransaction();
            return "aborted";
        }
    }

    static String end(KafkaProducer<String, String> producer, String end) {
        if (end.equals("abort")) {
            producer.flush();
            producer.abortTransaction();
            return "aborted";
        }
        while (true) {
            try {
                producer.commitTransaction();
                return "committed";
            } catch (TimeoutException late) {
                // It may be called again.
            }
        }
    }

    static String transform(String bootstrap, KafkaProducer<String, String> producer, List<String> words) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put(ConsumerConfig.GROUP_ID_CONFIG, words.get(3));
        settings.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest");
        settings.put(ConsumerConfig.ENABLE_AUTO_COMMIT_CONFIG, false);
        settings.put(ConsumerConfig.ISOLATION_LEVEL_CONFIG, "read_committed");
        int count = Integer.parseInt(words.get(4));
        try (KafkaConsumer<String, String> consumer =
                new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(words.get(1)));
            List<ConsumerRecord<String, String>> taken = new ArrayList<>();
            while (taken.size() < count) {
                consumer.poll(Duration.ofMillis(200)).forEach(taken::add);
            }
            producer.beginTransaction();
            Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
            for (ConsumerRecord<String, String> record : taken.subList(0, count)) {
                producer.send(new ProducerRecord<>(words.get(2), 0, null, "<" + record.value() + ">"));
                offsets.put(
                        new TopicPartition(record.topic(), record.partition()),
                        new OffsetAndMetadata(record.offset() + 1));
            }
            producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
            return end(producer, words.get(5));
        }
    }
}
