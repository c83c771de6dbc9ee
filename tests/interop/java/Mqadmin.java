import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONObject;
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Pattern;
import org.apache.rocketmq.tools.command.MQAdminStartup;
import org.apache.rocketmq.tools.command.SubCommand;

/**
 * Apache's command `mqadmin` behind standard input, many times in one JVM.
 *
 * Each line is a JSON object: the "arguments" of one call, and the "seconds" after which it is interrupted; a call that has
 * no end by itself is so when it has printed "enough", a regular expression. It is answered by one "said" line with what the
 * call printed on either stream, and whether its time was up. First comes a "ready" line with the names of all commands.
 * The end of input ends it.
 */
public final class Mqadmin {
    /** How long a call that was interrupted has to come to its end. */
    private static final long GRACE_MS = 3_000;

    private static final long PAUSE_MS = 20;

    private static final PrintStream OUT = System.out;
    private static final PrintStream ERR = System.err;

    private Mqadmin() {
    }

    public static void main(String[] arguments) throws Exception {
        Events.emit("ready", "commands", names());
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            JSONObject request = JSON.parseObject(line);
            String[] of = request.getJSONArray("arguments").toArray(new String[0]);
            String enough = request.getString("enough");
            say(of, (long) (request.getDoubleValue("seconds") * 1_000), enough == null ? null : Pattern.compile(enough));
        }
        System.exit(0);
    }

    private static void say(String[] arguments, long limitMs, Pattern enough) throws Exception {
        ByteArrayOutputStream said = new ByteArrayOutputStream();
        PrintStream both = new PrintStream(said, true, StandardCharsets.UTF_8);
        // Commands keep clients of theirs from one call to the next, which have been shut down by then.
        registered().clear();
        Thread call = new Thread(() -> Closing.promptly(() -> MQAdminStartup.main0(arguments, null)), "mqadmin");
        call.setDaemon(true);
        System.setOut(both);
        System.setErr(both);
        boolean isLate = false;
        try {
            call.start();
            isLate = !ends(call, limitMs, enough, said);
            if (call.isAlive()) {
                call.interrupt();
                call.join(GRACE_MS);
            }
        } finally {
            System.setOut(OUT);
            System.setErr(ERR);
        }
        Events.emit("said", "text", said.toString(StandardCharsets.UTF_8), "late", isLate);
    }

    /** Wait until a call ends or has printed enough. */
    private static boolean ends(Thread call, long limitMs, Pattern enough, ByteArrayOutputStream said)
        throws InterruptedException {
        if (enough == null) {
            call.join(limitMs);
            return !call.isAlive();
        }
        long end = System.nanoTime() + limitMs * 1_000_000;
        while (System.nanoTime() < end) {
            call.join(PAUSE_MS);
            if (!call.isAlive() || enough.matcher(said.toString(StandardCharsets.UTF_8)).find()) {
                return true;
            }
        }
        return false;
    }

    private static List<String> names() throws Exception {
        MQAdminStartup.initCommand();
        List<String> found = new ArrayList<>();
        for (SubCommand each : registered()) {
            found.add(each.commandName());
        }
        return found;
    }

    /** The list of commands, whose name is another one in 4.x. */
    @SuppressWarnings("unchecked")
    private static List<SubCommand> registered() throws Exception {
        for (Field each : MQAdminStartup.class.getDeclaredFields()) {
            if (Modifier.isStatic(each.getModifiers()) && List.class.isAssignableFrom(each.getType())) {
                each.setAccessible(true);
                return (List<SubCommand>) each.get(null);
            }
        }
        throw new IllegalStateException("MQAdminStartup keeps no list of commands any more");
    }
}
