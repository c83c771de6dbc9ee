import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.serializer.SerializerFeature;
import com.alibaba.fastjson.serializer.ValueFilter;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Comparator;
import java.util.List;
import java.util.Set;
import org.apache.rocketmq.remoting.protocol.RemotingSerializable;

/** Reads JSON into classes of the protocol as a server does, and says what came of it, or which error. */
public final class JsonRead {
    private JsonRead() {
    }

    public static void main(String[] args) throws Exception {
        String cases = new Options(args).required("cases");
        for (String line : Files.readAllLines(Paths.get(cases), StandardCharsets.UTF_8)) {
            String[] cells = line.split("\t", -1);
            byte[] text = Base64.getDecoder().decode(cells[1]);
            Events.emit("read", "value", read(kind(cells[0]), text));
        }
    }

    /** By the last part of its name: packages differ between releases. */
    private static Class<?> kind(String name) throws ClassNotFoundException {
        String[] places = {"remoting.protocol", "remoting.protocol.heartbeat", "common.protocol.heartbeat",
            "remoting.protocol.body", "common.protocol.body", "common", "common.subscription",
            "remoting.protocol.subscription"};
        for (String place : places) {
            try {
                return Class.forName("org.apache.rocketmq." + place + "." + name);
            } catch (ClassNotFoundException elsewhere) {
                continue;
            }
        }
        throw new ClassNotFoundException(name);
    }

    private static String read(Class<?> kind, byte[] text) {
        try {
            Object value = RemotingSerializable.decode(text, kind);
            return value == null ? "null" : written(value);
        } catch (Throwable failure) {
            return "error " + failure.getClass().getSimpleName();
        }
    }

    private static String written(Object value) {
        ValueFilter sorting = (owner, name, each) -> each instanceof Set ? sorted((Set<?>) each) : each;
        return JSON.toJSONString(value, sorting, SerializerFeature.MapSortField,
            SerializerFeature.BrowserCompatible, SerializerFeature.QuoteFieldNames,
            SerializerFeature.WriteNonStringKeyAsString, SerializerFeature.DisableCircularReferenceDetect);
    }

    /** In an order that depends on the content alone: a HashSet of objects without hashCode has another in every JVM. */
    private static List<Object> sorted(Set<?> members) {
        List<Object> found = new ArrayList<>(members);
        found.sort(Comparator.comparing(JsonRead::written));
        return found;
    }
}
