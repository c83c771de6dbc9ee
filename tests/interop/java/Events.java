import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.serializer.SerializerFeature;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;

/** What a driver says: one JSON object a line on standard output, its first key "event". */
final class Events {
    private static final PrintStream OUT = new PrintStream(System.out, true, StandardCharsets.UTF_8);

    private Events() {
    }

    /** Print an event with the given keys and values in turn. */
    static void emit(String event, Object... pairs) {
        Map<String, Object> line = new LinkedHashMap<>();
        line.put("event", event);
        for (int i = 0; i < pairs.length; i += 2) {
            line.put((String) pairs[i], pairs[i + 1]);
        }
        emit(line);
    }

    static void emit(Map<String, Object> line) {
        String text = JSON.toJSONString(line, SerializerFeature.WriteMapNullValue,
            SerializerFeature.WriteNonStringKeyAsString, SerializerFeature.DisableCircularReferenceDetect);
        synchronized (OUT) {
            OUT.println(text);
        }
    }

    /** The class and text of an error, for the "error" key. */
    static String describe(Throwable error) {
        return error.getClass().getSimpleName() + ": " + error.getMessage();
    }
}
