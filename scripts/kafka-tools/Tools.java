import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * Runs Kafka's tools one after another, as if each had a process of its own.
 *
 * <p>The arguments are {@code name=class}, one for each tool. A line of standard input is a JSON object with the
 * {@code name} of a tool or the full name of a class, its {@code arguments} and its {@code stdin}; each is answered by
 * a line with its {@code status}, its {@code stdout} and its {@code stderr}. The process never outlives its standard
 * input.
 */
public final class Tools {
    private static final int NOT_ENDED = -1;

    /** Unwinds a tool that has ended; what it does on the way is not told, since its process would be gone. */
    private static final class EndedError extends Error { }

    /** Keeps what a tool prints until it has ended. */
    private static final class Output extends OutputStream {
        private ByteArrayOutputStream printed;

        @Override
        public synchronized void write(int octet) {
            if (printed != null) {
                printed.write(octet);
            }
        }

        @Override
        public synchronized void write(byte[] bytes, int from, int count) {
            if (printed != null) {
                printed.write(bytes, from, count);
            }
        }

        synchronized void begin() {
            printed = new ByteArrayOutputStream();
        }

        synchronized String end() {
            String text = printed.toString(StandardCharsets.UTF_8);
            printed = null;
            return text;
        }
    }

    /** What System.in is for the present tool; some classes keep the first System.in that they find. */
    private static final class Input extends InputStream {
        private volatile InputStream given = InputStream.nullInputStream();

        @Override
        public int read() throws IOException {
            return given.read();
        }

        @Override
        public int read(byte[] bytes, int from, int count) throws IOException {
            return given.read(bytes, from, count);
        }

        @Override
        public int available() throws IOException {
            return given.available();
        }
    }

    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Input IN = new Input();
    private static final Output OUT = new Output();
    private static final Output ERR = new Output();
    private static final ConcurrentLinkedQueue<Runnable> HOOKS = new ConcurrentLinkedQueue<>();
    private static final AtomicInteger STATUS = new AtomicInteger();
    private static volatile ObjectNode answer;

    public static void main(String[] arguments) throws Exception {
        Map<String, String> classes = new HashMap<>();
        for (String argument : arguments) {
            String[] nameAndClass = argument.split("=");
            classes.put(nameAndClass[0], nameAndClass[1]);
        }
        BlockingQueue<String> lines = new LinkedBlockingQueue<>();
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        System.setIn(IN);
        System.setOut(new PrintStream(OUT, true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(ERR, true, StandardCharsets.UTF_8));
        Class<?> exit = exitClass();
        replace(exit, "setExitProcedure", (proxy, method, given) -> exit((int) given[0]));
        replace(exit, "setHaltProcedure", (proxy, method, given) -> exit((int) given[0]));
        replace(exit, "setShutdownHookAdder", (proxy, method, given) -> {
            HOOKS.add((Runnable) given[1]);
            return null;
        });
        Thread runner = new Thread(() -> {
            PrintStream answers = new PrintStream(new FileOutputStream(FileDescriptor.out), true, StandardCharsets.UTF_8);
            try {
                while (true) {
                    answers.println(run(classes, JSON.readTree(lines.take())));
                }
            } catch (Throwable failure) {
                failure.printStackTrace(new PrintStream(new FileOutputStream(FileDescriptor.err)));
                Runtime.getRuntime().halt(1);
            }
        });
        runner.start();
        input.lines().forEach(lines::add);
        Runtime.getRuntime().halt(0);
    }

    private static ObjectNode run(Map<String, String> classes, JsonNode call) throws InterruptedException {
        String name = call.get("name").asText();
        String[] arguments = JSON.convertValue(call.get("arguments"), String[].class);
        IN.given = new ByteArrayInputStream(call.get("stdin").asText().getBytes(StandardCharsets.UTF_8));
        STATUS.set(NOT_ENDED);
        OUT.begin();
        ERR.begin();
        Thread tool = new Thread(() -> {
            try {
                Class.forName(classes.getOrDefault(name, name)).getMethod("main", String[].class)
                    .invoke(null, (Object) arguments);
                end(0);
            } catch (InvocationTargetException failure) {
                if (!(failure.getCause() instanceof EndedError)) {
                    failure.getCause().printStackTrace();
                    end(1);
                }
            } catch (ReflectiveOperationException failure) {
                failure.printStackTrace();
                end(1);
            }
        }, "main");
        tool.start();
        tool.join();
        for (Runnable hook = HOOKS.poll(); hook != null; hook = HOOKS.poll()) {
            hook.run();
        }
        return answer;
    }

    /** Finds the class by which tools end the process: it moved to another package in Kafka 4.4. */
    private static Class<?> exitClass() throws ClassNotFoundException {
        try {
            return Class.forName("org.apache.kafka.common.utils.internals.Exit");
        } catch (ClassNotFoundException absent) {
            return Class.forName("org.apache.kafka.common.utils.Exit");
        }
    }

    /** Calls a setter of that class with an interface whose only method is this handler. */
    private static void replace(Class<?> exit, String setter, InvocationHandler handler)
        throws ReflectiveOperationException {
        for (Method method : exit.getMethods()) {
            if (method.getName().equals(setter)) {
                Class<?> type = method.getParameterTypes()[0];
                method.invoke(null, Proxy.newProxyInstance(type.getClassLoader(), new Class<?>[] {type}, handler));
                return;
            }
        }
        throw new NoSuchMethodException(exit + " has no " + setter);
    }

    private static Object exit(int status) {
        end(status);
        throw new EndedError();
    }

    /** Takes the first status that there is, and what was printed until then. */
    private static void end(int status) {
        if (STATUS.compareAndSet(NOT_ENDED, status)) {
            answer = JSON.createObjectNode().put("status", status).put("stdout", OUT.end()).put("stderr", ERR.end());
        }
    }
}
