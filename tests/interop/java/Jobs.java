import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONObject;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.CountDownLatch;

/**
 * Producers and consumers in one JVM, which takes a second to start: each a job with a number and a thread.
 *
 * A line of standard input is a JSON object. With "main" and "arguments" it begins the "job", without them it ends one,
 * and with "abandon" at once. The lines that a job prints begin with its number; the last one says "ended", or "broken"
 * with the error. The end of input ends it.
 */
public final class Jobs {
    private static final Map<Integer, Job> BEGUN = new HashMap<>();

    private Jobs() {
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            JSONObject request = JSON.parseObject(line);
            int number = request.getIntValue("job");
            if (request.containsKey("main")) {
                String[] of = request.getJSONArray("arguments").toArray(new String[0]);
                Job job = new Job(number, request.getString("main"), of);
                BEGUN.put(number, job);
                job.start();
            } else {
                BEGUN.get(number).end(request.getBooleanValue("abandon"));
            }
        }
        System.exit(0);
    }

    private static final class Job extends Thread {
        private final Events events;
        private final String main;
        private final String[] arguments;
        private final CountDownLatch told = new CountDownLatch(1);

        Job(int number, String main, String[] arguments) {
            super("job-" + number);
            this.events = Events.of(number);
            this.main = main;
            this.arguments = arguments;
        }

        @Override
        public void run() {
            try {
                work();
                events.remark("ended", "");
            } catch (Throwable error) {
                StringWriter trace = new StringWriter();
                error.printStackTrace(new PrintWriter(trace, true));
                events.remark("broken", trace.toString());
            }
        }

        void end(boolean atOnce) {
            told.countDown();
            if (atOnce) {
                interrupt();
            }
        }

        private void work() throws Exception {
            Options options = new Options(arguments);
            switch (main) {
                case "Producer":
                    Producer.send(options, events);
                    break;
                case "TransactionProducer":
                    TransactionProducer.send(options, events, told::await);
                    break;
                case "PushConsumer":
                    PushConsumer.consume(options, events, told::await);
                    break;
                case "LitePullConsumer":
                    LitePullConsumer.consume(options, events, () -> told.getCount() == 0);
                    break;
                case "PullConsumer":
                    PullConsumer.work(options, events);
                    break;
                default:
                    throw new IllegalArgumentException("no such driver: " + main);
            }
        }
    }
}
