import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONObject;
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.rocketmq.client.impl.MQAdminImpl;
import org.apache.rocketmq.client.impl.MQClientManager;
import org.apache.rocketmq.common.MQVersion;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/**
 * Apache's admin clients behind standard input, one for each "namesrv" that is named: each line a JSON object with
 * that, a "command" and its arguments, each answered by one "result" or "failed" line, in order. The end of input ends
 * it.
 */
public final class Admin {
    /** Whether this is 4.x, which takes the two strings of deleteTopicInNameServer the other way round. */
    private static final boolean OLDER = MQVersion.CURRENT_VERSION < MQVersion.Version.V5_0_0.ordinal();

    private static final Map<String, Admin> STARTED = new LinkedHashMap<>();

    private final DefaultMQAdminExt admin;

    private Admin(String namesrv) {
        admin = new DefaultMQAdminExt(10_000L);
        admin.setNamesrvAddr(namesrv);
        admin.setInstanceName("java-admin-" + ProcessHandle.current().pid() + "-" + STARTED.size());
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            answer(JSON.parseObject(line));
        }
        for (Admin driver : STARTED.values()) {
            driver.admin.shutdown();
        }
        System.exit(0);
    }

    private static Admin of(String namesrv) throws Exception {
        Admin driver = STARTED.get(namesrv);
        if (driver == null) {
            driver = new Admin(namesrv);
            driver.admin.start();
            STARTED.put(namesrv, driver);
        }
        return driver;
    }

    private static void answer(JSONObject request) {
        try {
            Events.emit("result", "value", of(request.getString("namesrv")).execute(request));
        } catch (Exception error) {
            Events.emit("failed", "error", Events.describe(error));
        }
    }

    // The protocol's classes live in other packages in 4.x and 5.x: `var` keeps their names out of this file.
    private Object execute(JSONObject request) throws Exception {
        switch (request.getString("command")) {
            case "create_topic":
                return createTopic(request);
            case "delete_topic":
                return deleteTopic(request);
            case "topics":
                return new TreeSet<>(admin.fetchAllTopicList().getTopicList());
            case "route":
                return JSON.toJSON(admin.examineTopicRouteInfo(request.getString("topic")));
            case "cluster":
                return cluster();
            case "topic_offsets":
                return topicOffsets(request.getString("topic"));
            case "consumer_offsets":
                return consumerOffsets(request.getString("group"), request.getString("topic"));
            case "consumers":
                return consumers(request.getString("group"));
            case "search_offset":
                return admin.searchOffset(queue(request), request.getLongValue("timestamp"));
            case "queue_ends":
                return Map.of("min", admin.minOffset(queue(request)), "max", admin.maxOffset(queue(request)));
            case "create_group":
                return createGroup(request.getString("group"));
            case "commit":
                admin.updateConsumeOffset(masters().get(request.getString("broker")), request.getString("group"),
                    queue(request), request.getLongValue("offset"));
                return null;
            case "broker":
                return Map.of("config", admin.getBrokerConfig(request.getString("address")),
                    "runtime", admin.fetchBrokerRuntimeStats(request.getString("address")).getTable());
            case "view":
                return located(admin.viewMessage(request.getString("topic"), request.getString("id")));
            case "query_unique":
                return located(impl().queryMessageByUniqKey(request.getString("topic"), request.getString("id")));
            case "query_key":
                return queryKey(request);
            case "mqadmin":
                return mqadmin(request.getJSONArray("arguments").toArray(new String[0]));
            default:
                return Inside.execute(admin, request);
        }
    }

    private Object createTopic(JSONObject request) throws Exception {
        TopicConfig config = new TopicConfig(request.getString("topic"));
        config.setReadQueueNums(request.getIntValue("queues"));
        config.setWriteQueueNums(request.getIntValue("queues"));
        for (String address : masters().values()) {
            admin.createAndUpdateTopicConfig(address, config);
        }
        return masters().keySet();
    }

    private Object createGroup(String group) throws Exception {
        for (String address : masters().values()) {
            var config = admin.examineSubscriptionGroupConfig(address, "TOOLS_CONSUMER");
            config.setGroupName(group);
            admin.createAndUpdateSubscriptionGroupConfig(address, config);
        }
        return masters().keySet();
    }

    private Object deleteTopic(JSONObject request) throws Exception {
        String topic = request.getString("topic");
        admin.deleteTopicInBroker(new TreeSet<>(masters().values()), topic);
        Set<String> nameServers = new TreeSet<>(admin.getNameServerAddressList());
        for (String cluster : admin.examineBrokerClusterInfo().getClusterAddrTable().keySet()) {
            if (OLDER) {
                admin.deleteTopicInNameServer(nameServers, topic, cluster);
            } else {
                admin.deleteTopicInNameServer(nameServers, cluster, topic);
            }
        }
        return topic;
    }

    /** Broker name to the address of its master. */
    private Map<String, String> masters() throws Exception {
        Map<String, String> found = new TreeMap<>();
        for (var data : admin.examineBrokerClusterInfo().getBrokerAddrTable().values()) {
            String master = data.getBrokerAddrs().get(0L);
            if (master != null) {
                found.put(data.getBrokerName(), master);
            }
        }
        return found;
    }

    private Object cluster() throws Exception {
        Map<String, Object> brokers = new TreeMap<>();
        for (var data : admin.examineBrokerClusterInfo().getBrokerAddrTable().values()) {
            brokers.put(data.getBrokerName(), Map.of("cluster", data.getCluster(), "addresses", data.getBrokerAddrs()));
        }
        return brokers;
    }

    private Object topicOffsets(String topic) throws Exception {
        Map<String, Object> queues = new TreeMap<>();
        admin.examineTopicStats(topic).getOffsetTable().forEach((queue, stats) ->
            queues.put(named(queue), Map.of("min", stats.getMinOffset(), "max", stats.getMaxOffset())));
        return queues;
    }

    private Object consumerOffsets(String group, String topic) throws Exception {
        Map<String, Object> queues = new TreeMap<>();
        admin.examineConsumeStats(group, topic).getOffsetTable().forEach((queue, stats) ->
            queues.put(named(queue), Map.of("broker", stats.getBrokerOffset(), "consumer", stats.getConsumerOffset())));
        return queues;
    }

    private Object consumers(String group) throws Exception {
        Map<String, Object> clients = new LinkedHashMap<>();
        for (var connection : admin.examineConsumerConnectionInfo(group).getConnectionSet()) {
            clients.put(connection.getClientId(), Map.of("address", connection.getClientAddr(),
                "language", connection.getLanguage().name(), "version", connection.getVersion()));
        }
        return clients;
    }

    private Object queryKey(JSONObject request) throws Exception {
        List<Object> found = new ArrayList<>();
        for (MessageExt message : admin.queryMessage(request.getString("topic"), request.getString("key"), 32, 0,
            Long.MAX_VALUE).getMessageList()) {
            found.add(located(message));
        }
        return found;
    }

    /** What the command `mqadmin` prints; it is started once for each line, in this JVM. */
    private static String mqadmin(String[] arguments) {
        PrintStream out = System.out;
        PrintStream err = System.err;
        ByteArrayOutputStream said = new ByteArrayOutputStream();
        PrintStream both = new PrintStream(said, true, StandardCharsets.UTF_8);
        System.setOut(both);
        System.setErr(both);
        try {
            Closing.promptly(() -> MQAdminStartup.main0(arguments, null));
        } finally {
            System.setOut(out);
            System.setErr(err);
        }
        return said.toString(StandardCharsets.UTF_8);
    }

    private MQAdminImpl impl() {
        return MQClientManager.getInstance().getOrCreateMQClientInstance(admin).getMQAdminImpl();
    }

    private static Object located(MessageExt message) {
        return Map.of("msgId", message.getMsgId(), "topic", message.getTopic(), "queueId", message.getQueueId(),
            "queueOffset", message.getQueueOffset(), "physicalOffset", message.getCommitLogOffset());
    }

    private static MessageQueue queue(JSONObject request) {
        return new MessageQueue(request.getString("topic"), request.getString("broker"), request.getIntValue("queueId"));
    }

    private static String named(MessageQueue queue) {
        return queue.getBrokerName() + ":" + queue.getQueueId();
    }
}
