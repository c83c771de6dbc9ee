import java.util.ArrayList;
import java.util.Base64;
import java.util.Collection;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.BooleanSupplier;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Polls --topic (--tags or --sql) in --group until the end of standard input and prints a "message" line for each message.
 *
 * With --assign true it takes all queues of the topic, otherwise its share. A "ready" line follows the first assignment,
 * an "assigned" line every change of it.
 * With --seek N it goes to that offset in each of its queues once it has received --after messages, and until then tells
 * of none: a pull that is answered just as Apache's consumer seeks may still be handed over. It commits after every
 * poll, and in the end once more with a request that is answered: those of a shutdown are not, and one of them may be
 * lost.
 */
public final class LitePullConsumer {
    private static final int PAUSE_MS = 50;
    private static final int POLL_MS = 200;

    private LitePullConsumer() {
    }

    public static void main(String[] arguments) throws Exception {
        AtomicBoolean ended = new AtomicBoolean();
        Thread reader = new Thread(() -> {
            try {
                while (System.in.read() >= 0) {
                    continue;
                }
            } catch (java.io.IOException error) {
                Events.emit("broken", "error", error.toString());
            }
            ended.set(true);
        });
        reader.setDaemon(true);
        reader.start();
        consume(new Options(arguments), Events.ALONE, ended::get);
        System.exit(0);
    }

    /** Consume until {@code ended} says so. */
    static void consume(Options options, Events events, BooleanSupplier ended) throws Exception {
        String topic = options.required("topic");
        DefaultLitePullConsumer consumer = new DefaultLitePullConsumer(options.required("group"));
        consumer.setNamesrvAddr(options.required("namesrv"));
        consumer.setInstanceName(options.text("instance", "lite-" + ProcessHandle.current().pid()));
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setAutoCommit(false);
        consumer.setHeartbeatBrokerInterval(1_000);
        consumer.setPollNameServerInterval(1_000);
        boolean assigns = options.flag("assign");
        String sql = options.text("sql", null);
        if (sql != null) {
            consumer.subscribe(topic, MessageSelector.bySql(sql));
        } else if (!assigns) {
            consumer.subscribe(topic, options.text("tags", "*"));
        }
        consumer.start();
        try {
            Collection<MessageQueue> queues = assigns ? consumer.fetchMessageQueues(topic) : awaitShare(consumer);
            if (assigns) {
                consumer.assign(queues);
            }
            int seek = options.number("seek", -1);
            if (seek >= 0) {
                for (int before = options.number("after", 0); before > 0;) {
                    before -= consumer.poll(POLL_MS).size();
                }
                for (MessageQueue queue : queues) {
                    consumer.seek(queue, seek);
                }
            }
            events.tell("ready", "queues", ids(queues), "clientId", consumer.buildMQClientId());
            int received = 0;
            Collection<MessageQueue> mine = List.of();
            while (!ended.getAsBoolean()) {
                Collection<MessageQueue> now = new HashSet<>(consumer.assignment());
                if (!now.equals(mine)) {
                    mine = now;
                    events.tell("assigned", "topic", topic, "queues", ids(mine));
                }
                List<MessageExt> messages = consumer.poll(POLL_MS);
                for (MessageExt message : messages) {
                    events.tell(described(message));
                }
                received += messages.size();
                if (!messages.isEmpty()) {
                    consumer.commitSync();
                }
            }
            commitToBroker(consumer);
            events.tell("stopped", "received", received);
        } finally {
            Closing.promptly(consumer::shutdown);
        }
    }

    private static void commitToBroker(DefaultLitePullConsumer consumer) throws Exception {
        for (MessageQueue queue : consumer.assignment()) {
            long offset = consumer.committed(queue);
            if (offset >= 0) {
                consumer.getOffsetStore().updateConsumeOffsetToBroker(queue, offset, false);
            }
        }
    }

    private static Collection<MessageQueue> awaitShare(DefaultLitePullConsumer consumer) throws Exception {
        while (consumer.assignment().isEmpty()) {
            Thread.sleep(PAUSE_MS);
        }
        return consumer.assignment();
    }

    private static List<String> ids(Collection<MessageQueue> queues) {
        List<String> found = new ArrayList<>();
        for (MessageQueue queue : queues) {
            found.add(queue.getBrokerName() + ":" + queue.getQueueId());
        }
        return found;
    }

    private static Map<String, Object> described(MessageExt message) {
        Map<String, Object> line = new LinkedHashMap<>();
        line.put("event", "message");
        line.put("body", Base64.getEncoder().encodeToString(message.getBody()));
        line.put("queueId", message.getQueueId());
        line.put("queueOffset", message.getQueueOffset());
        line.put("tags", message.getTags());
        return line;
    }
}
