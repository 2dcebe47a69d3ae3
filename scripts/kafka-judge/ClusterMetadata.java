import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.metadata.ConfigRecord;
import org.apache.kafka.common.metadata.PartitionRecord;
import org.apache.kafka.common.metadata.TopicRecord;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.metadata.bootstrap.BootstrapMetadata;
import org.apache.kafka.metadata.util.BatchFileWriter;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import org.apache.kafka.server.common.MetadataVersion;

/**
 * The cluster metadata of a one-broker cluster that was stopped, as a snapshot in its metadata log.
 *
 * <p>Writing it before the broker's only start makes the topics known under the ids that the partition directories
 * already carry, and saves a start and a stop.
 */
final class ClusterMetadata {
    /**
     * Above any epoch that a log is likely to hold: a client that met a higher one in a record would wait for a leader
     * that knows it. An int's upper half is left for the election that is to come.
     */
    private static final int LEADER_EPOCH = Integer.MAX_VALUE / 2;
    private static final int NO_LEADER = -1;
    private static final short WITH_DIRECTORIES = 1;

    private final int nodeId;
    private final Path logDirectory;

    ClusterMetadata(int nodeId, Path logDirectory) {
        this.nodeId = nodeId;
        this.logDirectory = logDirectory;
    }

    /** Topics have every partition from 0 to the highest one named; topicIds belong to the partitions, in order. */
    void write(List<TopicPartition> partitions, List<Uuid> topicIds, Map<String, String> topicSettings)
            throws Exception {
        Map<String, Uuid> ids = new HashMap<>();
        Map<String, Integer> highest = new HashMap<>();
        for (int i = 0; i < partitions.size(); i++) {
            ids.putIfAbsent(partitions.get(i).topic(), topicIds.get(i));
            highest.merge(partitions.get(i).topic(), partitions.get(i).partition(), Math::max);
        }
        List<ApiMessageAndVersion> records = new ArrayList<>(
            BootstrapMetadata.fromVersion(MetadataVersion.latestProduction(), "judge").records());
        for (Map.Entry<String, Uuid> topic : ids.entrySet()) {
            add(records, new TopicRecord().setName(topic.getKey()).setTopicId(topic.getValue()), 0);
            for (int partition = 0; partition <= highest.get(topic.getKey()); partition++) {
                add(records, partition(topic.getValue(), partition), WITH_DIRECTORIES);
            }
            topicSettings.forEach((name, value) -> add(records, new ConfigRecord()
                .setResourceType(ConfigResource.Type.TOPIC.id()).setResourceName(topic.getKey())
                .setName(name).setValue(value), 0));
        }
        Path folder = Files.createDirectory(logDirectory.resolve("__cluster_metadata-0"));
        String name = String.format("%020d-%010d.checkpoint", records.size(), 1);
        try (BatchFileWriter snapshot = BatchFileWriter.open(folder.resolve(name))) {
            snapshot.append(records);
        }
    }

    /** No broker leads a partition of a stopped cluster, and its only replica is in sync. */
    private PartitionRecord partition(Uuid topicId, int partition) throws Exception {
        Properties properties = Utils.loadProps(logDirectory.resolve("meta.properties").toString());
        return new PartitionRecord().setTopicId(topicId).setPartitionId(partition).setLeader(NO_LEADER)
            .setReplicas(List.of(nodeId)).setIsr(List.of(nodeId)).setLeaderEpoch(LEADER_EPOCH)
            .setDirectories(List.of(Uuid.fromString(properties.getProperty("directory.id"))));
    }

    private static void add(List<ApiMessageAndVersion> records, ApiMessage message, int version) {
        records.add(new ApiMessageAndVersion(message, (short) version));
    }
}
