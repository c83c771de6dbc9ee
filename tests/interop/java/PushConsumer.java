import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyContext;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Consumes --topic (--tags or --sql) in --group and prints a "message" line for each message.
 *
 * A "ready" line follows the first assignment, when every queue of the share has its process queue; then it runs until
 * the end of standard input. The first --fail-first deliveries of every message are answered with "later"
 * (--retry-level sets the delay of the next one). --orderly, --broadcast and --quiet are true or false; an orderly
 * listener takes --busy-ms longer for each call. {@link Strategies} knows what --allocate names. --from is first, last or
 * timestamp, then with --timestamp. With --reply every message is replied to, by a body that begins with it, and a
 * "replied" line says so. With --trace-topic calls of the listener are traced. With --persist-ms offsets are committed
 * that often from the start on; the client itself begins 10 s after its start, which no setting of it changes.
 */
public final class PushConsumer {
    private static final int PAUSE_MS = 10;

    private final Options options;
    private final Events events;
    private final DefaultMQPushConsumer consumer;
    private final DefaultMQProducer replies;
    private final AnnouncedAllocation allocation;
    private final AtomicInteger received = new AtomicInteger();
    private final int failFirst;
    private final int retryLevel;
    private final boolean quiet;
    private volatile boolean ended;

    private PushConsumer(Options options, Events events) throws Exception {
        this.options = options;
        this.events = events;
        failFirst = options.number("fail-first", 0);
        retryLevel = options.number("retry-level", 0);
        quiet = options.flag("quiet");
        allocation = new AnnouncedAllocation(Strategies.of(options), events);
        String group = options.required("group");
        String traces = options.text("trace-topic", null);
        consumer = traces == null ? new DefaultMQPushConsumer(group) : new DefaultMQPushConsumer(group, true, traces);
        replies = options.text("reply", null) == null ? null : new DefaultMQProducer(options.required("group") + "-replies");
        configure();
        subscribe();
    }

    public static void main(String[] arguments) throws Exception {
        consume(new Options(arguments), Events.ALONE, () -> {
            while (System.in.read() >= 0) {
                continue;
            }
        });
        System.exit(0);
    }

    /** Consume until {@code end} returns. */
    static void consume(Options options, Events events, End end) throws Exception {
        PushConsumer driver = new PushConsumer(options, events);
        try {
            driver.startReplies();
            driver.consumer.start();
            driver.awaitAssignment();
            driver.persistOften();
            events.tell("ready", "clientId", driver.clientId());
            end.await();
        } finally {
            driver.ended = true;
            Closing.promptly(driver.consumer::shutdown);
            driver.endReplies();
        }
        events.tell("stopped", "received", driver.received.get());
    }

    /** What a consumer waits for before it stops. */
    interface End {
        void await() throws Exception;
    }

    private void configure() {
        consumer.setNamesrvAddr(options.required("namesrv"));
        consumer.setInstanceName(options.text("instance", "java-" + ProcessHandle.current().pid()));
        consumer.setAllocateMessageQueueStrategy(allocation);
        String where = options.text("from", "first").toUpperCase();
        consumer.setConsumeFromWhere(
            ConsumeFromWhere.valueOf("CONSUME_FROM_" + where + (where.equals("TIMESTAMP") ? "" : "_OFFSET")));
        consumer.setConsumeTimestamp(options.text("timestamp", consumer.getConsumeTimestamp()));
        consumer.setMaxReconsumeTimes(options.number("max-reconsume", -1));
        consumer.setConsumeMessageBatchMaxSize(options.number("batch", 1));
        consumer.setPollNameServerInterval(options.number("poll-ms", 1_000));
        // A share that changes makes a new version of the subscription. If the heartbeat with it meets one under way it is
        // not sent ("lock heartBeat, but failed"), and a broker refuses all pulls until the next, after 30 s by default.
        consumer.setHeartbeatBrokerInterval(options.number("heartbeat-ms", 1_000));
        consumer.setAwaitTerminationMillisWhenShutdown(5_000);
        consumer.setConsumeThreadMin(options.number("threads", 4));
        consumer.setConsumeThreadMax(options.number("threads", 4));
        if (options.flag("broadcast")) {
            // The enum moved between releases; asked for its class, it needs no import.
            consumer.setMessageModel(Enum.valueOf(consumer.getMessageModel().getDeclaringClass(), "BROADCASTING"));
        }
    }

    private void subscribe() throws Exception {
        String sql = options.text("sql", null);
        if (sql == null) {
            consumer.subscribe(options.required("topic"), options.text("tags", "*"));
        } else {
            consumer.subscribe(options.required("topic"), MessageSelector.bySql(sql));
        }
        if (options.flag("orderly")) {
            consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
                boolean success = take(messages);
                stayFor(options.number("busy-ms", 0));
                return success ? ConsumeOrderlyStatus.SUCCESS : ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT;
            });
        } else {
            consumer.registerMessageListener((MessageListenerConcurrently) this::listen);
        }
    }

    private ConsumeConcurrentlyStatus listen(List<MessageExt> messages, ConsumeConcurrentlyContext context) {
        if (take(messages)) {
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        }
        context.setDelayLevelWhenNextConsume(retryLevel);
        return ConsumeConcurrentlyStatus.RECONSUME_LATER;
    }

    private static void stayFor(int millis) {
        try {
            Thread.sleep(millis);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
    }

    private void startReplies() throws Exception {
        if (replies != null) {
            replies.setNamesrvAddr(options.required("namesrv"));
            replies.start();
        }
    }

    private void endReplies() throws Exception {
        if (replies != null) {
            Closing.promptly(replies::shutdown);
        }
    }

    /** Reply to a request, where --reply has the beginning of the body. */
    private void reply(MessageExt request) {
        if (replies == null) {
            return;
        }
        try {
            byte[] body = (options.required("reply") + new String(request.getBody(), StandardCharsets.UTF_8))
                .getBytes(StandardCharsets.UTF_8);
            SendResult result = replies.send(MessageUtil.createReplyMessage(request, body), 10_000);
            events.tell("replied", "status", result.getSendStatus().name(), "offsetMsgId", result.getOffsetMsgId());
        } catch (Exception error) {
            events.tell("not replied", "error", Events.describe(error));
        }
    }

    /** Print the messages; false when they have not failed often enough yet. */
    private boolean take(List<MessageExt> messages) {
        boolean success = true;
        for (MessageExt message : messages) {
            boolean accepted = message.getReconsumeTimes() >= failFirst;
            received.incrementAndGet();
            success &= accepted;
            if (!quiet) {
                events.tell(described(message, accepted));
            }
            reply(message);
        }
        return success;
    }

    private static Map<String, Object> described(MessageExt message, boolean accepted) {
        Map<String, Object> line = new LinkedHashMap<>();
        line.put("event", "message");
        line.put("accepted", accepted);
        line.put("topic", message.getTopic());
        line.put("brokerName", message.getBrokerName());
        line.put("queueId", message.getQueueId());
        line.put("queueOffset", message.getQueueOffset());
        line.put("msgId", message.getMsgId());
        line.put("tags", message.getTags());
        line.put("keys", message.getKeys());
        line.put("body", Base64.getEncoder().encodeToString(message.getBody()));
        line.put("reconsumeTimes", message.getReconsumeTimes());
        line.put("sysFlag", message.getSysFlag());
        line.put("flag", message.getFlag());
        line.put("bornTimestamp", message.getBornTimestamp());
        line.put("storeTimestamp", message.getStoreTimestamp());
        line.put("properties", message.getProperties());
        return line;
    }

    private void persistOften() {
        int period = options.number("persist-ms", 0);
        if (period > 0) {
            Thread persisting = new Thread(() -> {
                while (!ended) {
                    consumer.getDefaultMQPushConsumerImpl().persistConsumerOffset();
                    stayFor(period);
                }
            }, "persisting");
            persisting.setDaemon(true);
            persisting.start();
        }
    }

    private String clientId() {
        return consumer.getDefaultMQPushConsumerImpl().getmQClientFactory().getClientId();
    }

    /** Until its process queue stands, a queue's starting offset is not decided: only then may a test send. */
    private void awaitAssignment() throws InterruptedException {
        List<MessageQueue> share = allocationOf(options.required("topic"));
        while (!consumer.getDefaultMQPushConsumerImpl().getRebalanceImpl().getProcessQueueTable().keySet()
            .containsAll(share)) {
            Thread.sleep(PAUSE_MS);
        }
    }

    private List<MessageQueue> allocationOf(String topic) throws InterruptedException {
        return options.flag("broadcast") ? List.of() : allocation.awaitShare(topic);
    }
}
