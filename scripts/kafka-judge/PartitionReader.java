import com.fasterxml.jackson.core.JsonGenerator;
import java.io.IOException;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** Reads partitions from their start to their end with Kafka's own consumer, once for each isolation level. */
final class PartitionReader {
    private static final List<String> ISOLATIONS = List.of("read_uncommitted", "read_committed");
    private static final Duration POLL = Duration.ofMillis(100);
    /** This many answers in a row without data mean that no offset up to the end has a record: compaction took them. */
    private static final int EMPTY_ANSWERS_MAX = 5;
    private static final long SILENCE_NS_MAX = Duration.ofSeconds(60).toNanos();

    private final Map<String, KafkaConsumer<byte[], byte[]>> consumers = new LinkedHashMap<>();

    PartitionReader(String bootstrap) {
        for (String isolation : ISOLATIONS) {
            consumers.put(isolation, new KafkaConsumer<>(
                Map.of("bootstrap.servers", bootstrap, "isolation.level", isolation, "auto.offset.reset", "none",
                    "enable.auto.commit", false, "fetch.max.wait.ms", 20, "retry.backoff.ms", 20,
                    "max.partition.fetch.bytes", 16 << 20, "max.poll.records", 10_000),
                new ByteArrayDeserializer(), new ByteArrayDeserializer()));
        }
    }

    /** One line about the partition, then one for each record. */
    void print(TopicPartition partition, List<String> brokerLog, JsonGenerator lines) throws IOException {
        long[] ends = new long[ISOLATIONS.size()];
        long start = 0;
        for (int i = 0; i < ends.length; i++) {
            KafkaConsumer<byte[], byte[]> consumer = consumers.get(ISOLATIONS.get(i));
            ends[i] = consumer.endOffsets(List.of(partition)).get(partition);
            start = consumer.beginningOffsets(List.of(partition)).get(partition);
        }
        lines.writeStartObject();
        lines.writeStringField("partition", partition.toString());
        lines.writeNumberField("logStartOffset", start);
        lines.writeNumberField("endOffset", ends[0]);
        lines.writeNumberField("lastStableOffset", ends[1]);
        lines.writeArrayFieldStart("brokerLog");
        for (String line : brokerLog) {
            lines.writeString(line);
        }
        lines.writeEndArray();
        lines.writeEndObject();
        lines.writeRaw('\n');
        for (int i = 0; i < ends.length; i++) {
            printRecords(partition, ISOLATIONS.get(i), ends[i], lines);
        }
    }

    private void printRecords(TopicPartition partition, String isolation, long end, JsonGenerator lines)
            throws IOException {
        KafkaConsumer<byte[], byte[]> consumer = consumers.get(isolation);
        consumer.assign(List.of(partition));
        consumer.seekToBeginning(List.of(partition));
        long position = consumer.position(partition);
        double answersBefore = answers(consumer);
        long progressAt = System.nanoTime();
        while (position < end) {
            ConsumerRecords<byte[], byte[]> records = consumer.poll(POLL);
            for (ConsumerRecord<byte[], byte[]> record : records) {
                print(isolation, record, lines);
            }
            if (consumer.position(partition) > position) {
                position = consumer.position(partition);
                answersBefore = answers(consumer);
                progressAt = System.nanoTime();
            } else if (answers(consumer) - answersBefore >= EMPTY_ANSWERS_MAX) {
                break;
            } else if (System.nanoTime() - progressAt > SILENCE_NS_MAX) {
                throw new IllegalStateException("no answer to a fetch of " + partition + " at " + position);
            }
        }
    }

    private static double answers(KafkaConsumer<byte[], byte[]> consumer) {
        return consumer.metrics().values().stream()
            .filter(metric -> metric.metricName().name().equals("fetch-total"))
            .mapToDouble(metric -> ((Number) metric.metricValue()).doubleValue()).sum();
    }

    private static void print(String isolation, ConsumerRecord<byte[], byte[]> record, JsonGenerator lines)
            throws IOException {
        lines.writeStartObject();
        lines.writeStringField("isolation", isolation);
        lines.writeNumberField("offset", record.offset());
        lines.writeNumberField("timestamp", record.timestamp());
        lines.writeStringField("timestampType", record.timestampType().toString());
        lines.writeFieldName("key_base64");
        print(record.key(), lines);
        lines.writeFieldName("value_base64");
        print(record.value(), lines);
        lines.writeArrayFieldStart("headers");
        for (Header header : record.headers()) {
            lines.writeStartArray();
            lines.writeString(header.key());
            print(header.value(), lines);
            lines.writeEndArray();
        }
        lines.writeEndArray();
        lines.writeFieldName("leaderEpoch");
        lines.writeObject(record.leaderEpoch().orElse(null));
        lines.writeEndObject();
        lines.writeRaw('\n');
    }

    private static void print(byte[] bytes, JsonGenerator lines) throws IOException {
        if (bytes == null) {
            lines.writeNull();
        } else {
            lines.writeBinary(bytes);
        }
    }
}
