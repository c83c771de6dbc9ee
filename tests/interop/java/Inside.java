import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONObject;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.TreeMap;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/** What Apache's admin client has consumers do, or asks of them, through brokers: commands of {@link Admin}. */
final class Inside {
    private Inside() {
    }

    static Object execute(DefaultMQAdminExt admin, JSONObject request) throws Exception {
        String group = request.getString("group");
        String client = request.getString("client");
        String topic = request.getString("topic");
        switch (request.getString("command")) {
            case "running_info":
                return runningInfo(admin, group, client, request.getBooleanValue("jstack"));
            case "consume_directly":
                return consumeDirectly(admin, group, client, topic, request.getString("id"));
            case "consume_status":
                return consumeStatus(admin, topic, group, client);
            case "reset_clients":
                return named(admin.resetOffsetByTimestamp(topic, group, request.getLongValue("timestamp"), true));
            case "consume_stats":
                return consumeStats(admin, group, topic);
            default:
                throw new IllegalArgumentException("no such command: " + request);
        }
    }

    private static Object runningInfo(DefaultMQAdminExt admin, String group, String client, boolean jstack)
        throws Exception {
        var info = admin.getConsumerRunningInfo(group, client, jstack);
        Map<String, Object> queues = new TreeMap<>();
        info.getMqTable().forEach((queue, held) -> queues.put(named(queue), JSON.toJSON(held)));
        Map<String, Object> found = new LinkedHashMap<>();
        found.put("properties", info.getProperties());
        found.put("queues", queues);
        found.put("status", JSON.toJSON(info.getStatusTable()));
        found.put("subscriptions", info.getSubscriptionSet().size());
        found.put("jstack", info.getJstack());
        found.put("formatted", info.formatString());
        found.put("analyzed", info.analyzeProcessQueue(client, info));
        return found;
    }

    private static Object consumeDirectly(DefaultMQAdminExt admin, String group, String client, String topic, String id)
        throws Exception {
        var result = admin.consumeMessageDirectly(group, client, topic, id);
        Map<String, Object> found = new LinkedHashMap<>();
        found.put("result", String.valueOf(result.getConsumeResult()));
        found.put("remark", result.getRemark());
        found.put("order", result.isOrder());
        found.put("autoCommit", result.isAutoCommit());
        return found;
    }

    private static Object consumeStatus(DefaultMQAdminExt admin, String topic, String group, String client)
        throws Exception {
        Map<String, Object> clients = new TreeMap<>();
        admin.getConsumeStatus(topic, group, client).forEach((id, table) -> clients.put(id, named(table)));
        return clients;
    }

    private static Object consumeStats(DefaultMQAdminExt admin, String group, String topic) throws Exception {
        var stats = admin.examineConsumeStats(group, topic);
        Map<String, Object> queues = new TreeMap<>();
        stats.getOffsetTable().forEach((queue, each) -> queues.put(named(queue),
            Map.of("broker", each.getBrokerOffset(), "consumer", each.getConsumerOffset(), "last", each.getLastTimestamp())));
        return Map.of("queues", queues, "tps", stats.getConsumeTps(), "diff", stats.computeTotalDiff());
    }

    private static Map<String, Object> named(Map<MessageQueue, Long> table) {
        Map<String, Object> found = new TreeMap<>();
        table.forEach((queue, offset) -> found.put(named(queue), offset));
        return found;
    }

    private static String named(MessageQueue queue) {
        return queue.getTopic() + ":" + queue.getQueueId();
    }
}
