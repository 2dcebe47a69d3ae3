import java.io.ByteArrayInputStream;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import kafka.server.KafkaConfig;
import kafka.server.KafkaRaftServer;
import org.apache.kafka.common.utils.Exit;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.common.utils.Utils;

/**
 * Loads the classes of a broker and of the tools that are used most, for a JVM that archives them when it ends.
 *
 * <p>The folder, which is the first argument, holds {@code broker.properties} and a formatted log directory. The other
 * arguments are the tools: the full names of TopicCommand, ConsoleProducer, ConsoleConsumer, ConfigCommand,
 * GetOffsetShell and DumpLogSegments. Exit status 0 means that the broker ran and that all of them were used.
 */
public final class LoadClasses {
    private static final String TOPIC = "orders";

    /** What a tool does in place of ending the process. */
    private static final class EndedException extends RuntimeException { }

    public static void main(String[] arguments) throws Exception {
        Exit.setExitProcedure((status, message) -> {
            throw new EndedException();
        });
        Path folder = Path.of(arguments[0]);
        Properties settings = Utils.loadProps(folder.resolve("broker.properties").toString());
        new KafkaRaftServer(new KafkaConfig(settings), Time.SYSTEM).startup();
        String bootstrap = settings.getProperty("listeners").split("[/,]+")[1];
        String log = settings.getProperty("log.dirs") + "/" + TOPIC + "-0/00000000000000000000.log";
        System.setIn(new ByteArrayInputStream("first\nsecond\n".getBytes()));
        use(arguments[1], bootstrap, "--create", "--topic", TOPIC);
        use(arguments[2], bootstrap, "--topic", TOPIC);
        use(arguments[3], bootstrap, "--topic", TOPIC, "--from-beginning", "--max-messages", "2");
        use(arguments[4], bootstrap, "--describe", "--all", "--entity-type", "topics", "--entity-name", TOPIC);
        use(arguments[5], bootstrap, "--topic", TOPIC);
        use(arguments[6], null, "--deep-iteration", "--print-data-log", "--files", log);
        Runtime.getRuntime().exit(0);
    }

    private static void use(String tool, String bootstrap, String... arguments) throws Exception {
        List<String> all = new ArrayList<>(List.of(arguments));
        if (bootstrap != null) {
            all.addAll(List.of("--bootstrap-server", bootstrap));
        }
        try {
            Class.forName(tool).getMethod("main", String[].class).invoke(null, (Object) all.toArray(new String[0]));
        } catch (java.lang.reflect.InvocationTargetException ended) {
            if (!(ended.getCause() instanceof EndedException)) {
                throw ended;
            }
        }
    }
}
