import java.nio.charset.StandardCharsets;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.client.producer.TransactionSendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Sends --count messages to --topic in transactions and prints a "sent" line for each, then "ready"; a "checked" line
 * for each question of a broker. It ends when it is told to.
 *
 * A body is a number and a blank, then what the executor says, or "raise", then a blank and what the checker says; they
 * come from --bodies, a list.
 */
public final class TransactionProducer implements TransactionListener {
    private final Events events;
    private final TransactionMQProducer producer;

    private TransactionProducer(Options options, Events events) {
        this.events = events;
        producer = new TransactionMQProducer(options.required("group"));
        producer.setNamesrvAddr(options.required("namesrv"));
        producer.setInstanceName(options.text("instance", "transactions-" + ProcessHandle.current().pid()));
        producer.setSendMsgTimeout(10_000);
        producer.setHeartbeatBrokerInterval(options.number("heartbeat-ms", 1_000));
        producer.setPollNameServerInterval(options.number("poll-ms", 1_000));
        producer.setTransactionListener(this);
    }

    public static void main(String[] arguments) throws Exception {
        send(new Options(arguments), Events.ALONE, () -> {
            while (System.in.read() >= 0) {
                continue;
            }
        });
        System.exit(0);
    }

    /** Send it all, and stay to be asked. */
    static void send(Options options, Events events, PushConsumer.End end) throws Exception {
        TransactionProducer driver = new TransactionProducer(options, events);
        driver.producer.start();
        try {
            for (String body : options.text("bodies", "").split(",")) {
                if (!body.isEmpty()) {
                    driver.send(options, body);
                }
            }
            if (options.flag("known")) {
                driver.producer.fetchPublishMessageQueues(options.required("topic"));
            }
            events.tell("ready");
            end.await();
        } finally {
            Closing.promptly(driver.producer::shutdown);
        }
    }

    private void send(Options options, String body) throws Exception {
        Message message = new Message(options.required("topic"), "red", body.getBytes(StandardCharsets.UTF_8));
        String immunity = options.text("immunity", null);
        if (immunity != null) {
            message.putUserProperty("CHECK_IMMUNITY_TIME_IN_SECONDS", immunity);
        }
        TransactionSendResult result = producer.sendMessageInTransaction(message, "arg");
        events.tell("sent", "body", body, "status", result.getSendStatus().name(), "msgId", result.getMsgId(),
            "transactionId", result.getTransactionId(), "localState", result.getLocalTransactionState().name(),
            "queueOffset", result.getQueueOffset());
    }

    @Override
    public LocalTransactionState executeLocalTransaction(Message message, Object arg) {
        String said = word(message, 1);
        if (said.equals("raise")) {
            throw new IllegalStateException("as wanted");
        }
        return LocalTransactionState.valueOf(said);
    }

    @Override
    public LocalTransactionState checkLocalTransaction(MessageExt message) {
        String said = word(message, 2);
        events.tell("checked", "body", new String(message.getBody(), StandardCharsets.UTF_8), "said", said,
            "transactionId", message.getTransactionId(), "msgId", message.getMsgId(), "topic", message.getTopic(),
            "queueId", message.getQueueId(), "properties", message.getProperties());
        return LocalTransactionState.valueOf(said);
    }

    private static String word(Message message, int index) {
        return new String(message.getBody(), StandardCharsets.UTF_8).split(" ")[index];
    }
}
