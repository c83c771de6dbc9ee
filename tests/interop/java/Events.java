import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.serializer.SerializerFeature;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;

/** What a driver says: one JSON object a line on standard output, its first key "event"; after the number of its job. */
final class Events {
    /** Those of a driver that has its JVM to itself. */
    static final Events ALONE = new Events("");

    private static final PrintStream OUT = new PrintStream(System.out, true, StandardCharsets.UTF_8);

    static {
        System.setOut(System.err); // clients of 4.x log to the console, and a line once landed in the middle of an event
    }

    private final String prefix;

    private Events(String prefix) {
        this.prefix = prefix;
    }

    /** Those of one of several drivers in a JVM. */
    static Events of(int job) {
        return new Events(job + " ");
    }

    /** Print an event of this driver. */
    void tell(String event, Object... pairs) {
        print(prefix + text(line(event, pairs)));
    }

    void tell(Map<String, Object> line) {
        print(prefix + text(line));
    }

    /** Print a line that is no event: a word, and a text behind it. */
    void remark(String word, String text) {
        print(prefix + word + " " + JSON.toJSONString(text));
    }

    /** Print an event with the given keys and values in turn. */
    static void emit(String event, Object... pairs) {
        ALONE.tell(event, pairs);
    }

    private static Map<String, Object> line(String event, Object... pairs) {
        Map<String, Object> line = new LinkedHashMap<>();
        line.put("event", event);
        for (int i = 0; i < pairs.length; i += 2) {
            line.put((String) pairs[i], pairs[i + 1]);
        }
        return line;
    }

    private static String text(Map<String, Object> line) {
        return JSON.toJSONString(line, SerializerFeature.WriteMapNullValue,
            SerializerFeature.WriteNonStringKeyAsString, SerializerFeature.DisableCircularReferenceDetect);
    }

    private static void print(String text) {
        synchronized (OUT) {
            OUT.println(text);
        }
    }

    /** The class and text of an error, for the "error" key. */
    static String describe(Throwable error) {
        return error.getClass().getSimpleName() + ": " + error.getMessage();
    }
}
