import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONObject;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Map;

/**
 * Drives Apache's Java client: a task a line on standard input, an answer a line on standard output, both JSON. It
 * stays up from one task to the next, so that what the JIT compiler has made of the client is kept.
 */
public final class Peer {
    private static final PrintStream OUT = new PrintStream(System.out, true, StandardCharsets.UTF_8);

    private Peer() {
    }

    public static void main(String[] arguments) throws Exception {
        say(Map.of("ready", Runtime.version().toString()));
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            say(answer(JSON.parseObject(line)));
        }
        System.exit(0);
    }

    private static Map<String, Object> answer(JSONObject task) {
        try {
            switch (task.getString("shape")) {
                case "one":
                    return Sending.oneInFlight(task);
                case "64":
                    return Sending.windowed(task, 64, 1);
                case "threads-64":
                case "hot-64":
                    return Sending.threads(task, 64);
                case "threads-8":
                case "hot-8":
                    return Sending.threads(task, 8);
                case "auto-batch":
                    return Sending.automatic(task, 4096);
                case "auto-threads-64":
                    return Sending.threads(task, 64);
                case "transact-one":
                    return Transacting.threads(task, 1);
                case "transact-64":
                    return Transacting.threads(task, 64);
                case "batch":
                    return Sending.windowed(task, task.getIntValue("batches"), task.getIntValue("batch"));
                case "consume":
                case "new-consume":
                    return Consuming.filledTopic(task);
                case "orderly":
                    return Consuming.inOrder(task);
                case "lite":
                    return Consuming.lite(task);
                case "latency":
                    return Consuming.latency(task);
                default:
                    throw new IllegalArgumentException("no such shape: " + task);
            }
        } catch (Exception error) {
            return Map.of("error", String.valueOf(error));
        }
    }

    private static void say(Map<String, Object> answer) {
        OUT.println(JSON.toJSONString(answer));
    }
}
