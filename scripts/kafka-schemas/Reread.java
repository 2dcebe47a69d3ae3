import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.protocol.Readable;

/**
 * Reads messages with Kafka's own classes, and writes them with those again.
 *
 * Each line of standard input is a class, a version and the message's bytes in hexadecimal. Its answer is a line: how
 * many bytes were left over, the bytes as Kafka writes the message, and the message as Kafka's JSON shows it; or `!` and
 * why Kafka cannot read it; or `?` for a class or a version that this release does not have.
 */
public final class Reread {
    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream answers = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] parts = line.split(" ", -1);
            answers.println(answer(parts[0], Short.parseShort(parts[1]), HexFormat.of().parseHex(parts[2])));
        }
        answers.flush();
    }

    private static String answer(String name, short version, byte[] bytes) throws Exception {
        Class<?> type;
        try {
            type = Class.forName(name);
        } catch (ClassNotFoundException absent) {
            return "?";
        }
        Message fresh = (Message) type.getDeclaredConstructor().newInstance();
        // What was a key's version until 4 is its type since, and its version 0.
        short asked = name.endsWith("Key") ? fresh.highestSupportedVersion() : version;
        if (asked < fresh.lowestSupportedVersion() || asked > fresh.highestSupportedVersion()) {
            return "?";
        }
        ByteBufferAccessor source = new ByteBufferAccessor(ByteBuffer.wrap(bytes));
        Object message;
        try {
            message = type.getConstructor(Readable.class, short.class).newInstance(source, asked);
        } catch (InvocationTargetException failure) {
            return "! " + String.valueOf(failure.getCause()).replace('\n', ' ');
        }
        ObjectSerializationCache cache = new ObjectSerializationCache();
        byte[] again = new byte[((Message) message).size(cache, asked)];
        ((Message) message).write(new ByteBufferAccessor(ByteBuffer.wrap(again)), cache, asked);
        Object json = Class.forName(name + "JsonConverter").getMethod("write", type, short.class)
            .invoke(null, message, asked);
        return source.remaining() + " " + HexFormat.of().formatHex(again) + " " + json;
    }
}
