import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.lang.reflect.ParameterizedType;
import java.lang.reflect.Type;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.Collection;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.jar.JarEntry;
import java.util.jar.JarFile;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.types.BoundField;
import org.apache.kafka.common.protocol.types.Schema;
import org.apache.kafka.common.protocol.types.TaggedFields;

/**
 * Prints what Kafka's generated classes say of themselves, one JSON object a line and class.
 *
 * Arguments are the names of classes, and of packages with a dot at their end, of which every message is taken. A class
 * that this release does not have is left out. The fields of a class stand in the order of its definition, with their
 * names in Kafka's JSON and their defaults; "schemas" has for each version the fields on the wire.
 */
public final class Schemas {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        TreeSet<String> names = new TreeSet<>();
        for (String argument : arguments) {
            if (argument.endsWith(".")) {
                names.addAll(classesIn(argument.replace('.', '/')));
            } else {
                names.add(argument);
            }
        }
        for (String name : names) {
            Class<?> type;
            try {
                type = Class.forName(name);
            } catch (ClassNotFoundException absent) {
                continue;
            }
            if (Message.class.isAssignableFrom(type)) {
                System.out.println(JSON.writeValueAsString(described(type)));
            }
        }
    }

    private static Collection<String> classesIn(String folder) throws Exception {
        TreeSet<String> names = new TreeSet<>();
        for (String path : System.getProperty("java.class.path").split(":")) {
            if (!path.endsWith(".jar") || !Path.of(path).getFileName().toString().startsWith("kafka")) {
                continue;
            }
            try (JarFile jar = new JarFile(path)) {
                for (JarEntry entry : (Iterable<JarEntry>) jar.stream()::iterator) {
                    String name = entry.getName();
                    boolean inside = name.startsWith(folder) && name.indexOf('/', folder.length()) < 0;
                    if (inside && name.endsWith(".class") && name.indexOf('$') < 0 && !name.contains("JsonConverter")) {
                        names.add(name.substring(0, name.length() - ".class".length()).replace('/', '.'));
                    }
                }
            }
        }
        return names;
    }

    private static ObjectNode described(Class<?> type) throws Exception {
        Message message = (Message) type.getDeclaredConstructor().newInstance();
        ObjectNode node = JSON.createObjectNode();
        node.put("class", type.getName());
        node.put("name", type.getSimpleName());
        node.put("apiKey", message instanceof ApiMessage ? ((ApiMessage) message).apiKey() : -1);
        node.put("lowest", message.lowestSupportedVersion());
        node.put("highest", message.highestSupportedVersion());
        node.set("fields", fields(type));
        ObjectNode schemas = node.putObject("schemas");
        Schema[] all = (Schema[]) type.getField("SCHEMAS").get(null);
        for (int version = message.lowestSupportedVersion(); version <= message.highestSupportedVersion(); version++) {
            schemas.set(Integer.toString(version), wire(all[version]));
        }
        return node;
    }

    private static ArrayNode fields(Class<?> type) throws Exception {
        Object fresh = type.getDeclaredConstructor().newInstance();
        ArrayNode nodes = JSON.createArrayNode();
        for (Field field : type.getDeclaredFields()) {
            if (Modifier.isStatic(field.getModifiers()) || field.getName().startsWith("_")) {
                continue;
            }
            field.setAccessible(true);
            ObjectNode node = nodes.addObject();
            node.put("name", field.getName());
            putDefault(node, field.get(fresh));
            Class<?> struct = structOf(field.getGenericType());
            if (struct != null) {
                node.put("struct", struct.getSimpleName());
                node.set("fields", fields(struct));
            }
        }
        return nodes;
    }

    private static void putDefault(ObjectNode node, Object value) {
        if (value instanceof Collection || value instanceof byte[] || value instanceof ByteBuffer) {
            node.put("default", "");
        } else if (value instanceof Message) {
            node.put("default", "");
        } else if (value instanceof Uuid) {
            node.put("default", value.toString());
        } else {
            node.set("default", JSON.valueToTree(value));
        }
    }

    /** The class of the structures that a field holds, one or many; null where it holds something else. */
    private static Class<?> structOf(Type type) {
        if (type instanceof ParameterizedType) {
            return structOf(((ParameterizedType) type).getActualTypeArguments()[0]);
        }
        if (!(type instanceof Class)) {
            return null;
        }
        Class<?> named = (Class<?>) type;
        if (Message.class.isAssignableFrom(named)) {
            return named;
        }
        return Collection.class.isAssignableFrom(named) ? structOf(named.getGenericSuperclass()) : null;
    }

    /** The fields by their tags; 3.9 has no method that tells them. */
    @SuppressWarnings("unchecked")
    private static Map<Integer, org.apache.kafka.common.protocol.types.Field> taggedFields(Object section)
            throws ReflectiveOperationException {
        Field fields = TaggedFields.class.getDeclaredField("fields");
        fields.setAccessible(true);
        return new TreeMap<>((Map<Integer, org.apache.kafka.common.protocol.types.Field>) fields.get(section));
    }

    private static ArrayNode wire(Schema schema) throws ReflectiveOperationException {
        ArrayNode nodes = JSON.createArrayNode();
        for (BoundField bound : schema.fields()) {
            if (bound.def.type instanceof TaggedFields) {
                ObjectNode section = nodes.addObject();
                section.put("type", "TAGGED_FIELDS");
                ArrayNode tagged = section.putArray("fields");
                for (var entry : taggedFields(bound.def.type).entrySet()) {
                    tagged.add(wire(entry.getValue().name, entry.getValue().type).put("tag", entry.getKey()));
                }
            } else {
                nodes.add(wire(bound.def.name, bound.def.type));
            }
        }
        return nodes;
    }

    private static ObjectNode wire(String name, org.apache.kafka.common.protocol.types.Type type)
            throws ReflectiveOperationException {
        ObjectNode node = JSON.createObjectNode();
        node.put("name", name);
        node.put("nullable", type.isNullable());
        if (type.isArray()) {
            node.put("type", type.getClass().getSimpleName().startsWith("Compact") ? "COMPACT_ARRAY" : "ARRAY");
            node.set("element", wire("", type.arrayElementType().get()));
        } else if (type instanceof Schema) {
            node.put("type", "STRUCT");
            node.set("fields", wire((Schema) type));
        } else {
            node.put("type", type.toString());
        }
        return node;
    }
}
