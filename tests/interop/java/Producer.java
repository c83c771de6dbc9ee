import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.List;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.RequestCallback;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.selector.SelectMessageQueueByHash;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageAccessor;

/**
 * Sends --count messages to --topic and prints a "sent" or "failed" line for each and a "done" line at the end.
 *
 * In --keys, --body, --sharding-key a "%d" stands for the message's number, counted from --first.
 * --tags is a list, taken in turn. --delay-ms delays by the timer; of such messages every --recall-every th is recalled.
 * --mode is sync, async (at most --window in flight), oneway, batch (--batch-size), request or request-callback: these
 * print a "reply" line for each. --auto-batch has messages wait for others (5.x). --trace-topic has them traced.
 */
public final class Producer {
    private final Options options;
    private final Events events;
    private final DefaultMQProducer producer;
    private final String mode;
    private final boolean quiet;
    private final AtomicInteger sent = new AtomicInteger();
    private final AtomicInteger failed = new AtomicInteger();

    private Producer(Options options, Events events) {
        this.options = options;
        this.events = events;
        mode = options.text("mode", "sync");
        quiet = options.flag("quiet");
        String group = options.text("group", "java-producer");
        String traces = options.text("trace-topic", null);
        producer = traces == null ? new DefaultMQProducer(group) : new DefaultMQProducer(group, true, traces);
        producer.setNamesrvAddr(options.required("namesrv"));
        producer.setSendMsgTimeout(options.number("timeout-ms", 10_000));
        producer.setCompressMsgBodyOverHowmuch(options.number("compress-over", 4096));
        if (options.flag("auto-batch")) {
            batchAutomatically();
        }
    }

    public static void main(String[] arguments) throws Exception {
        send(new Options(arguments), Events.ALONE);
        System.exit(0);
    }

    /** Send it all. */
    static void send(Options options, Events events) throws Exception {
        Producer driver = new Producer(options, events);
        driver.producer.start();
        try {
            driver.run();
        } finally {
            Closing.promptly(driver.producer::shutdown);
        }
    }

    private void run() throws Exception {
        int first = options.number("first", 0);
        int count = options.number("count", 1);
        events.tell("ready");
        long begun = System.nanoTime();
        switch (mode) {
            case "sync":
                for (int i = first; i < first + count; i++) {
                    sendAndWait(i);
                }
                break;
            case "async":
                sendAsynchronously(first, count);
                break;
            case "request":
                for (int i = first; i < first + count; i++) {
                    ask(i);
                }
                break;
            case "request-callback":
                askAll(first, count);
                break;
            case "oneway":
                for (int i = first; i < first + count; i++) {
                    sendOneway(i);
                }
                break;
            case "batch":
                int size = options.number("batch-size", 10);
                for (int i = first; i < first + count; i += size) {
                    sendBatch(i, Math.min(size, first + count - i));
                }
                break;
            default:
                throw new IllegalArgumentException("no such mode: " + mode);
        }
        long micros = (System.nanoTime() - begun) / 1000;
        events.tell("done", "sent", sent.get(), "failed", failed.get(), "micros", micros);
    }

    private void sendAndWait(int number) {
        String shardingKey = numbered("sharding-key", number);
        try {
            Message message = message(number);
            SendResult result = shardingKey == null ? producer.send(message)
                : producer.send(message, new SelectMessageQueueByHash(), shardingKey);
            report(number, result);
            int every = options.number("recall-every", 0);
            if (every > 0 && number % every == 0) {
                recall(number, recallHandle(result));
            }
        } catch (Exception error) {
            reportFailure(number, error);
        }
    }

    private void sendAsynchronously(int first, int count) throws InterruptedException {
        int window = options.number("window", 64);
        Semaphore room = new Semaphore(window);
        for (int i = first; i < first + count; i++) {
            int number = i;
            room.acquire();
            try {
                producer.send(message(number), new SendCallback() {
                    @Override
                    public void onSuccess(SendResult result) {
                        report(number, result);
                        room.release();
                    }

                    @Override
                    public void onException(Throwable error) {
                        reportFailure(number, error);
                        room.release();
                    }
                });
            } catch (Exception error) {
                reportFailure(number, error);
                room.release();
            }
        }
        room.acquire(window);
    }

    /** The setter is one of 5.x, and this is compiled against older releases too. */
    private void batchAutomatically() {
        try {
            DefaultMQProducer.class.getMethod("setAutoBatch", boolean.class).invoke(producer, true);
        } catch (ReflectiveOperationException error) {
            throw new IllegalArgumentException("this release batches nothing by itself", error);
        }
    }

    private void ask(int number) {
        try {
            reportReply(number, producer.request(message(number), options.number("timeout-ms", 10_000)));
        } catch (Exception error) {
            reportFailure(number, error);
        }
    }

    private void askAll(int first, int count) throws InterruptedException {
        Semaphore answered = new Semaphore(0);
        for (int i = first; i < first + count; i++) {
            int number = i;
            try {
                producer.request(message(number), new RequestCallback() {
                    @Override
                    public void onSuccess(Message reply) {
                        // 5.x calls this without a reply when the request was sent.
                        if (reply != null) {
                            reportReply(number, reply);
                            answered.release();
                        }
                    }

                    @Override
                    public void onException(Throwable error) {
                        reportFailure(number, error);
                        answered.release();
                    }
                }, options.number("timeout-ms", 10_000));
            } catch (Exception error) {
                reportFailure(number, error);
                answered.release();
            }
        }
        answered.acquire(count);
    }

    private void reportReply(int number, Message reply) {
        sent.incrementAndGet();
        events.tell("reply", "number", number, "topic", reply.getTopic(),
            "body", Base64.getEncoder().encodeToString(reply.getBody()), "properties", reply.getProperties());
    }

    private void sendOneway(int number) {
        try {
            producer.sendOneway(message(number));
            sent.incrementAndGet();
        } catch (Exception error) {
            reportFailure(number, error);
        }
    }

    private void sendBatch(int first, int count) {
        List<Message> messages = new ArrayList<>();
        for (int i = first; i < first + count; i++) {
            messages.add(message(i));
        }
        try {
            report(first, producer.send(messages));
            sent.addAndGet(count - 1);
        } catch (Exception error) {
            reportFailure(first, error);
            failed.addAndGet(count - 1);
        }
    }

    private Message message(int number) {
        Message message = new Message(options.required("topic"), body(number));
        String tags = options.text("tags", "");
        if (!tags.isEmpty()) {
            String[] all = tags.split(",");
            message.setTags(all[number % all.length]);
        }
        String keys = numbered("keys", number);
        if (keys != null) {
            message.setKeys(keys);
        }
        int level = options.number("delay-level", 0);
        if (level > 0) {
            message.setDelayTimeLevel(level);
        }
        String delay = options.text("delay-ms", "");
        if (!delay.isEmpty()) {
            MessageAccessor.putProperty(message, "TIMER_DELAY_MS", delay);
        }
        for (String pair : options.text("properties", "").split(",")) {
            if (!pair.isEmpty()) {
                message.putUserProperty(pair.substring(0, pair.indexOf('=')), pair.substring(pair.indexOf('=') + 1));
            }
        }
        return message;
    }

    /** The body text, padded with dots to --body-size bytes where that is given. */
    private byte[] body(int number) {
        byte[] text = options.text("body", "body-%d").replace("%d", Integer.toString(number))
            .getBytes(StandardCharsets.UTF_8);
        int size = options.number("body-size", text.length);
        byte[] body = Arrays.copyOf(text, size);
        if (size > text.length) {
            Arrays.fill(body, text.length, size, (byte) '.');
        }
        return body;
    }

    private String numbered(String option, int number) {
        String pattern = options.text(option, null);
        return pattern == null ? null : pattern.replace("%d", Integer.toString(number));
    }

    private void report(int number, SendResult result) {
        sent.incrementAndGet();
        if (!quiet) {
            events.tell("sent", "number", number, "status", result.getSendStatus().name(),
                "msgId", result.getMsgId(), "offsetMsgId", result.getOffsetMsgId(),
                "topic", result.getMessageQueue().getTopic(), "brokerName", result.getMessageQueue().getBrokerName(),
                "queueId", result.getMessageQueue().getQueueId(), "queueOffset", result.getQueueOffset(),
                "transactionId", result.getTransactionId(), "regionId", result.getRegionId(),
                "recallHandle", recallHandle(result));
        }
    }

    /** Take a message back that is not due yet; releases before 5.3 cannot. */
    private void recall(int number, String handle) throws Exception {
        Object id = DefaultMQProducer.class.getMethod("recallMessage", String.class, String.class)
            .invoke(producer, options.required("topic"), handle);
        events.tell("recalled", "number", number, "msgId", id);
    }

    /** By what a message can be taken back; null for most, and with releases before 5.3. */
    private static String recallHandle(SendResult result) {
        try {
            return (String) SendResult.class.getMethod("getRecallHandle").invoke(result);
        } catch (ReflectiveOperationException error) {
            return null;
        }
    }

    private void reportFailure(int number, Throwable error) {
        failed.incrementAndGet();
        events.tell("failed", "number", number, "error", Events.describe(error));
    }
}
