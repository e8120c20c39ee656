import java.io.File;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.CompressionType;
import org.apache.kafka.common.record.FileLogInputStream.FileChannelRecordBatch;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.RecordBatch;
import org.apache.kafka.common.record.SimpleRecord;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.metadata.properties.MetaProperties;
import org.apache.kafka.storage.internals.checkpoint.CleanShutdownFileHandler;
import org.apache.kafka.storage.internals.checkpoint.LeaderEpochCheckpointFile;
import org.apache.kafka.storage.internals.checkpoint.PartitionMetadataFile;
import org.apache.kafka.storage.internals.log.AppendOrigin;
import org.apache.kafka.storage.internals.log.EpochEntry;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogSegment;
import org.apache.kafka.storage.internals.log.ProducerAppendInfo;
import org.apache.kafka.storage.internals.log.ProducerStateEntry;
import org.apache.kafka.storage.internals.log.ProducerStateManager;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;

/** Writes a broker's log dir with Apache Kafka's own classes, or reads one: `write DIR`, `read DIR`. One fact per line. */
public class KafkasFiles {
    static final int BATCHES = 200;
    static final int BATCHES_PER_SEGMENT = 50;
    static final long FIRST_TIMESTAMP = 1_700_000_000_000L;
    static final String TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAQ";
    static final LogDirFailureChannel CHANNEL = new LogDirFailureChannel(1);

    public static void main(String[] args) throws Exception {
        if (args[0].equals("write")) {
            write(new File(args[1]));
        } else {
            read(new File(args[1]));
        }
        System.exit(0);
    }

    static LogConfig config() {
        Properties properties = new Properties();
        properties.put("index.interval.bytes", "500");
        return new LogConfig(properties);
    }

    static ProducerStateManager producers(File partition) throws Exception {
        ProducerStateManagerConfig config = new ProducerStateManagerConfig(86_400_000, false);
        return new ProducerStateManager(new TopicPartition("t", 0), partition, 900_000, config, Time.SYSTEM);
    }

    static void write(File dir) throws Exception {
        File partition = new File(dir, "t-0");
        Files.createDirectories(partition.toPath());
        CompressionType[] codecs = CompressionType.values();
        ProducerStateManager producers = producers(partition);
        List<EpochEntry> epochs = new ArrayList<>();
        LogSegment segment = null;
        long offset = 0;
        for (int n = 0; n < BATCHES; n++) {
            int epoch = n / 70;
            if (n % 70 == 0) {
                epochs.add(new EpochEntry(epoch, offset));
            }
            if (n % BATCHES_PER_SEGMENT == 0) {
                if (segment != null) {
                    segment.onBecomeInactiveSegment();
                    segment.flush();
                    segment.close();
                    producers.updateMapEndOffset(offset);
                    producers.takeSnapshot();
                }
                segment = LogSegment.open(partition, offset, config(), Time.SYSTEM, 0, false);
            }
            SimpleRecord[] records = new SimpleRecord[1 + n % 4];
            for (int r = 0; r < records.length; r++) {
                long timestamp = FIRST_TIMESTAMP + n * 10L + r;
                byte[] key = ("k" + n).getBytes();
                byte[] value = n % 9 == 8 ? null : ("v" + n + "." + r + "x".repeat(n)).getBytes();
                records[r] = new SimpleRecord(timestamp, key, value,
                    new RecordHeader[] {new RecordHeader("h", ("" + r).getBytes())});
                System.out.println("record " + (offset + r) + " " + timestamp + " " + new String(key) + " "
                    + (value == null ? "-" : new String(value)));
            }
            Compression codec = Compression.of(codecs[n % codecs.length]).build();
            boolean idempotent = n % 2 == 1;
            int sequence = idempotent ? sequenceBefore(n) : RecordBatch.NO_SEQUENCE;
            MemoryRecords batch = MemoryRecords.withRecords(RecordBatch.CURRENT_MAGIC_VALUE, offset, codec,
                TimestampType.CREATE_TIME, idempotent ? 77L : RecordBatch.NO_PRODUCER_ID,
                idempotent ? (short) 3 : RecordBatch.NO_PRODUCER_EPOCH, sequence, epoch, false, records);
            long last = offset + records.length - 1;
            segment.append(last, batch);
            if (idempotent) {
                ProducerAppendInfo info = producers.prepareUpdate(77L, AppendOrigin.REPLICATION);
                info.append(batch.batches().iterator().next(), Optional.empty());
                producers.update(info);
            }
            offset = last + 1;
        }
        segment.onBecomeInactiveSegment();
        segment.flush();
        segment.close();
        producers.updateMapEndOffset(offset);
        producers.takeSnapshot();
        new LeaderEpochCheckpointFile(LeaderEpochCheckpointFile.newFile(partition), CHANNEL).write(epochs);
        PartitionMetadataFile metadata = new PartitionMetadataFile(PartitionMetadataFile.newFile(partition), CHANNEL);
        metadata.record(Uuid.fromString(TOPIC_ID));
        metadata.maybeFlush();
        new CleanShutdownFileHandler(dir.getPath()).write(91L);
        System.out.println("end " + offset);
    }

    static int sequenceBefore(int n) {
        int sequence = 0;
        for (int m = 1; m < n; m += 2) {
            sequence += 1 + m % 4;
        }
        return sequence;
    }

    static void read(File dir) throws Exception {
        File partition = new File(dir, "t-0");
        File[] files = partition.listFiles();
        java.util.Arrays.sort(files);
        for (File file : files) {
            if (file.getName().endsWith(".log")) {
                long base = Long.parseLong(file.getName().substring(0, 20));
                LogSegment segment = LogSegment.open(partition, base, config(), Time.SYSTEM, true, 0, false, "");
                segment.sanityCheck(false);
                for (FileChannelRecordBatch batch : segment.log().batches()) {
                    batch.ensureValid();
                    int records = 0;
                    for (org.apache.kafka.common.record.Record record : batch) {
                        records++;
                    }
                    System.out.println("batch " + batch.baseOffset() + " " + batch.lastOffset() + " "
                        + batch.partitionLeaderEpoch() + " " + batch.compressionType().name + " " + records);
                }
                System.out.println("next " + base + " " + segment.readNextOffset());
            } else if (file.getName().endsWith(".snapshot")) {
                for (ProducerStateEntry entry : ProducerStateManager.readSnapshot(file)) {
                    System.out.println("producer " + file.getName() + " " + entry.producerId() + " "
                        + entry.producerEpoch() + " " + entry.lastSeq() + " " + entry.lastDataOffset());
                }
            }
        }
        File epochs = LeaderEpochCheckpointFile.newFile(partition);
        for (EpochEntry entry : new LeaderEpochCheckpointFile(epochs, CHANNEL).read()) {
            System.out.println("epoch " + entry.epoch + " " + entry.startOffset);
        }
        PartitionMetadataFile metadata = new PartitionMetadataFile(PartitionMetadataFile.newFile(partition), CHANNEL);
        System.out.println("topic-id " + metadata.read().topicId());
        for (String name : List.of("recovery-point-offset-checkpoint", "replication-offset-checkpoint",
                "log-start-offset-checkpoint")) {
            var found = new kafka.server.checkpoints.OffsetCheckpointFile(new File(dir, name), CHANNEL).read();
            System.out.println(name + " " + found.get(new TopicPartition("t", 0)).get());
        }
        Properties properties = new Properties();
        try (var reader = Files.newBufferedReader(Path.of(dir.getPath(), "meta.properties"))) {
            properties.load(reader);
        }
        MetaProperties meta = new MetaProperties.Builder(properties).build();
        System.out.println("broker " + meta.nodeId().getAsInt() + " " + meta.clusterId().get());
        System.out.println("clean " + new CleanShutdownFileHandler(dir.getPath()).read().getAsLong());
    }
}
