import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Takes --steps, a JSON array, one after the other on queues of --topic in --group, and ends.
 *
 * A step is an object; "do" says what to do, "queue" on which one. An "asking" line comes before each, a "told" line with
 * the answer after it. What "update" says reaches the broker when the consumer stops.
 */
public final class PullConsumer {
    private static final int PAUSE_MS = 20;

    private final String topic;
    private final DefaultMQPullConsumer consumer;

    private PullConsumer(Options options) {
        topic = options.required("topic");
        consumer = new DefaultMQPullConsumer(options.required("group"));
        consumer.setNamesrvAddr(options.required("namesrv"));
        consumer.setInstanceName(options.text("instance", "pull-" + ProcessHandle.current().pid()));
        consumer.setRegisterTopics(Set.of(topic));
        consumer.setBrokerSuspendMaxTimeMillis(options.number("suspend-ms", 20_000));
    }

    public static void main(String[] arguments) throws Exception {
        work(new Options(arguments), Events.ALONE);
        System.exit(0);
    }

    /** Take all the steps. */
    static void work(Options options, Events events) throws Exception {
        PullConsumer driver = new PullConsumer(options);
        driver.consumer.start();
        try {
            driver.awaitShare();
            JSONArray steps = JSON.parseArray(options.required("steps"));
            for (int number = 0; number < steps.size(); number++) {
                JSONObject step = steps.getJSONObject(number);
                events.tell("asking", "number", number);
                events.tell("told", "number", number, "value", driver.take(step));
            }
        } finally {
            Closing.promptly(driver.consumer::shutdown);
        }
    }

    private Object take(JSONObject step) throws Exception {
        MessageQueue queue = queue(step.getIntValue("queue"));
        long offset = step.getLongValue("offset");
        int most = step.getIntValue("most");
        switch (step.getString("do")) {
            case "queues":
                return numbers(consumer.fetchSubscribeMessageQueues(topic));
            case "share":
                return numbers(consumer.fetchMessageQueuesInBalance(topic));
            case "pull":
                return told(consumer.pull(queue, step.getString("tags"), offset, most));
            case "pull_sql":
                return told(consumer.pull(queue, MessageSelector.bySql(step.getString("sql")), offset, most));
            case "pull_block":
                return told(consumer.pullBlockIfNotFound(queue, step.getString("tags"), offset, most));
            case "update":
                consumer.updateConsumeOffset(queue, offset);
                return null;
            case "committed":
                return consumer.fetchConsumeOffset(queue, true);
            case "search":
                return consumer.searchOffset(queue, step.getLongValue("timestamp"));
            case "ends":
                return List.of(consumer.minOffset(queue), consumer.maxOffset(queue));
            default:
                throw new IllegalArgumentException("no such step: " + step);
        }
    }

    /** Only queues of its share are committed in the end. */
    private void awaitShare() throws Exception {
        while (consumer.fetchMessageQueuesInBalance(topic).isEmpty()) {
            Thread.sleep(PAUSE_MS);
        }
    }

    private MessageQueue queue(int number) throws Exception {
        for (MessageQueue each : consumer.fetchSubscribeMessageQueues(topic)) {
            if (each.getQueueId() == number) {
                return each;
            }
        }
        throw new IllegalArgumentException("no queue " + number + " of " + topic);
    }

    private static Set<Integer> numbers(Set<MessageQueue> queues) {
        Set<Integer> found = new TreeSet<>();
        queues.forEach(each -> found.add(each.getQueueId()));
        return found;
    }

    private static Map<String, Object> told(PullResult result) {
        List<String> bodies = new ArrayList<>();
        if (result.getMsgFoundList() != null) {
            for (MessageExt message : result.getMsgFoundList()) {
                bodies.add(new String(message.getBody(), StandardCharsets.UTF_8));
            }
        }
        Map<String, Object> found = new LinkedHashMap<>();
        found.put("status", result.getPullStatus().name());
        found.put("next", result.getNextBeginOffset());
        found.put("min", result.getMinOffset());
        found.put("max", result.getMaxOffset());
        found.put("bodies", bodies);
        return found;
    }
}
