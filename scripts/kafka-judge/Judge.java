import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonGenerator;
import java.io.BufferedOutputStream;
import java.io.FileOutputStream;
import java.io.FileDescriptor;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.regex.Pattern;
import kafka.server.ControllerConfigurationValidator;
import kafka.server.KafkaConfig;
import kafka.server.KafkaRaftServer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.common.utils.Utils;

/**
 * Lets one real broker adopt the partitions of a prepared folder, and prints what it finds in them as JSON lines.
 *
 * <p>The folder holds {@code broker.properties}, {@code topic.properties} (the settings of every topic), the broker's
 * log so far in {@code broker.log}, and the log directory that {@code broker.properties} names. The arguments after the
 * folder are {@code topic-partition:topicId}, one for each partition. Exit status 0 means that the broker adopted every
 * partition and that every record was read in both isolation levels. A reason goes to standard error after
 * {@code judge: }. The process never outlives its standard input.
 */
public final class Judge {
    private static final Pattern LOG_LINE =
        Pattern.compile("\\[[^\\]]*\\] (?<message>(?<level>[A-Z]+) .*) \\([^ ]*\\)");

    public static void main(String[] arguments) {
        endWithStandardInput();
        try {
            judge(Path.of(arguments[0]), List.of(arguments).subList(1, arguments.length));
            Runtime.getRuntime().halt(0);
        } catch (Throwable failure) {
            for (Throwable cause = failure.getCause(); cause != null; cause = cause.getCause()) {
                failure = cause;
            }
            System.err.println("judge: " + failure.getClass().getSimpleName() + ": " + failure.getMessage());
            Runtime.getRuntime().halt(1);
        }
    }

    private static void judge(Path folder, List<String> arguments) throws Exception {
        List<TopicPartition> partitions = new ArrayList<>();
        List<Uuid> topicIds = new ArrayList<>();
        for (String argument : arguments) {
            String[] nameAndId = argument.split(":");
            int dash = nameAndId[0].lastIndexOf('-');
            int number = Integer.parseInt(nameAndId[0].substring(dash + 1));
            partitions.add(new TopicPartition(nameAndId[0].substring(0, dash), number));
            topicIds.add(Uuid.fromString(nameAndId[1]));
        }
        Properties settings = Utils.loadProps(folder.resolve("broker.properties").toString());
        Map<String, String> topicSettings =
            Utils.propsToStringMap(Utils.loadProps(folder.resolve("topic.properties").toString()));
        KafkaConfig config = new KafkaConfig(settings);
        for (TopicPartition partition : partitions) {
            ConfigResource topic = new ConfigResource(ConfigResource.Type.TOPIC, partition.topic());
            new ControllerConfigurationValidator(config).validate(topic, topicSettings, Map.of());
        }
        Path logDirectory = Path.of(settings.getProperty("log.dirs"));
        new ClusterMetadata(config.nodeId(), logDirectory).write(partitions, topicIds, topicSettings);

        new KafkaRaftServer(config, Time.SYSTEM).startup();
        refuseStrays(logDirectory);
        PartitionReader reader = new PartitionReader(settings.getProperty("listeners").split("[/,]+")[1]);
        // Standard output itself, not System.out: the broker's libraries print to that one.
        try (JsonGenerator lines = new JsonFactory().createGenerator(
                new BufferedOutputStream(new FileOutputStream(FileDescriptor.out), 1 << 16))) {
            lines.setRootValueSeparator(null);
            for (TopicPartition partition : partitions) {
                reader.print(partition, brokerLog(folder, partition), lines);
            }
        }
    }

    /** A partition that the broker set aside would be read as an empty one that it made in its place. */
    private static void refuseStrays(Path logDirectory) throws IOException {
        try (DirectoryStream<Path> strays = Files.newDirectoryStream(logDirectory, "*-stray")) {
            for (Path stray : strays) {
                throw new IllegalStateException("the broker set the directory aside as " + stray.getFileName());
            }
        }
    }

    /** What the broker said about a partition: warnings, errors, and which segments it recovered. */
    private static List<String> brokerLog(Path folder, TopicPartition partition) throws IOException {
        Pattern name = Pattern.compile("(?<![\\w.-])" + Pattern.quote(partition.toString()) + "(?![\\w-])");
        List<String> said = new ArrayList<>();
        for (String line : Files.readString(folder.resolve("broker.log"), StandardCharsets.UTF_8).split("\n")) {
            var parts = LOG_LINE.matcher(line);
            if (!parts.matches() || !name.matcher(line).find()) {
                continue;
            }
            String message = parts.group("message");
            if (!parts.group("level").equals("INFO") || message.contains("Recovering ")) {
                said.add(message.replace(folder.toString() + "/", ""));
            }
        }
        return said;
    }

    private static void endWithStandardInput() {
        Thread watch = new Thread(() -> {
            try {
                while (System.in.read() >= 0) { }
            } catch (IOException closed) {
                // Gone is gone, however it went.
            }
            Runtime.getRuntime().halt(1);
        });
        watch.setDaemon(true);
        watch.start();
    }
}
