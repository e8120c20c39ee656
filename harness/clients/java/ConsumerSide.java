import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.NavigableMap;
import java.util.Optional;
import java.util.TreeMap;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * The process's consumer, subscribed to one topic. Its callbacks are the events `assigned`, `revoked` and `lost`, and
 * `committed` of an asynchronous commit; they come before the answer to the command that they came in.
 */
final class ConsumerSide implements ConsumerRebalanceListener {
    private final Lines lines;
    /** The leader epochs of what was handed out, each by the first offset of it. */
    private final Map<TopicPartition, NavigableMap<Long, Integer>> epochs = new HashMap<>();
    private KafkaConsumer<byte[], byte[]> consumer;

    ConsumerSide(Lines lines) {
        this.lines = lines;
    }

    /** The answer to a command; null where it is not one of these. */
    Map<String, ?> carryOut(String what, Map<String, Object> command) {
        Map<String, Object> answer = new HashMap<>();
        switch (what) {
            case "consumer.open":
                consumer = new KafkaConsumer<>(
                        ProducerSide.properties(command), new ByteArrayDeserializer(), new ByteArrayDeserializer());
                consumer.subscribe(List.of((String) command.get("topic")), this);
                break;
            case "consumer.poll":
                poll((Long) command.get("wait_ms"), answer);
                break;
            case "consumer.commit":
                consumer.commitSync(offsets(command));
                break;
            case "consumer.commit_async":
                commitAsync(command);
                break;
            case "consumer.seek":
                consumer.seek(
                        new TopicPartition((String) command.get("topic"), ((Long) command.get("partition")).intValue()),
                        (Long) command.get("offset"));
                break;
            case "consumer.close":
                close((Long) command.get("limit_ms"));
                return answer;
            default:
                return null;
        }
        who(answer);
        return answer;
    }

    /** Who the consumer is in its group: an empty member id where it is none. */
    private void who(Map<String, Object> fields) {
        ConsumerGroupMetadata whose = consumer.groupMetadata();
        fields.put("member", whose.memberId());
        fields.put("generation", whose.generationId());
    }

    private void poll(long waitMs, Map<String, Object> answer) {
        List<List<Object>> records = new ArrayList<>();
        Map<String, Long> positions = new HashMap<>();
        for (ConsumerRecord<byte[], byte[]> one : consumer.poll(Duration.ofMillis(waitMs))) {
            String value = one.value() == null ? null : new String(one.value(), StandardCharsets.ISO_8859_1);
            List<Object> fields = new ArrayList<>(List.of(one.partition(), one.offset(), one.key() != null));
            fields.add(value);
            records.add(fields);
            one.leaderEpoch().ifPresent(epoch -> note(one, epoch));
            positions.computeIfAbsent(
                    Integer.toString(one.partition()),
                    name -> consumer.position(new TopicPartition(one.topic(), one.partition())));
        }
        answer.put("records", records);
        answer.put("positions", positions);
    }

    private void commitAsync(Map<String, Object> command) {
        consumer.commitAsync(offsets(command), (committed, failure) -> {
            lines.event("committed", failure == null ? Map.of() : Lines.described(failure));
        });
    }

    private void note(ConsumerRecord<byte[], byte[]> record, int epoch) {
        NavigableMap<Long, Integer> known =
                epochs.computeIfAbsent(new TopicPartition(record.topic(), record.partition()), place -> new TreeMap<>());
        Map.Entry<Long, Integer> below = known.floorEntry(record.offset());
        if (below == null || below.getValue() != epoch) {
            known.put(record.offset(), epoch);
        }
    }

    /**
     * Of a command: [topic, partition, offset] each. Each has the leader epoch of the record before it, as those have that
     * the client commits by itself: who begins there does not believe a leader of before (KIP-320).
     */
    Map<TopicPartition, OffsetAndMetadata> offsets(Map<String, Object> command) {
        Map<TopicPartition, OffsetAndMetadata> found = new HashMap<>();
        for (Object each : (List<?>) command.get("offsets")) {
            List<?> one = (List<?>) each;
            TopicPartition place = new TopicPartition((String) one.get(0), ((Long) one.get(1)).intValue());
            long offset = (Long) one.get(2);
            Map.Entry<Long, Integer> before = epochs.getOrDefault(place, new TreeMap<>()).lowerEntry(offset);
            Optional<Integer> epoch = Optional.ofNullable(before == null ? null : before.getValue());
            found.put(place, new OffsetAndMetadata(offset, epoch, ""));
        }
        return found;
    }

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
        callback("assigned", partitions);
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
        callback("revoked", partitions);
    }

    @Override
    public void onPartitionsLost(Collection<TopicPartition> partitions) {
        callback("lost", partitions);
    }

    private void callback(String name, Collection<TopicPartition> partitions) {
        epochs.keySet().removeAll(partitions);
        Map<String, Object> fields = new HashMap<>();
        fields.put("partitions", partitions.stream().map(TopicPartition::partition).sorted().toList());
        who(fields);
        lines.event(name, fields);
    }

    void close(long limitMs) {
        if (consumer != null) {
            // Its callbacks still ask who it is.
            try {
                consumer.close(Duration.ofMillis(limitMs));
            } finally {
                consumer = null;
                epochs.clear();
            }
        }
    }
}
