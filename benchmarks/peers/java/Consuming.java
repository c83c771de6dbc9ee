import com.alibaba.fastjson.JSONObject;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;

/** The push consumer with its defaults: messages come to the listener one by one, in its threads. */
final class Consuming {
    /** Between two messages, so that the pull that waits for the next one is at the broker. */
    private static final long PAUSE_MS = 5;

    private Consuming() {
    }

    /** From the first message to the last of a topic that is filled. */
    static Map<String, Object> filledTopic(JSONObject task) throws Exception {
        long wanted = task.getLongValue("filled");
        AtomicLong count = new AtomicLong();
        BlockingQueue<Meter> first = new LinkedBlockingQueue<>();
        BlockingQueue<Map<String, Object>> last = new LinkedBlockingQueue<>();
        DefaultMQPushConsumer consumer = started(task, task.getString("filled_topic"), (messages, context) -> {
            long number = count.incrementAndGet();
            if (number == 1) {
                first.add(new Meter());
            }
            if (number == wanted) {
                last.add(first.remove().stop(wanted));
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        try {
            return last.take();
        } finally {
            consumer.shutdown();
        }
    }

    /** From a send to the listener, one message at a time. */
    static Map<String, Object> latency(JSONObject task) throws Exception {
        Message message = new Message(task.getString("topic"), task.getString("body").getBytes(StandardCharsets.UTF_8));
        BlockingQueue<Long> arrivals = new LinkedBlockingQueue<>();
        DefaultMQProducer producer = new DefaultMQProducer("bench_java");
        producer.setNamesrvAddr(task.getString("namesrv"));
        producer.start();
        DefaultMQPushConsumer consumer = started(task, task.getString("topic"), (messages, context) -> {
            arrivals.add(System.nanoTime());
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        try {
            producer.send(message);
            arrivals.take();
            List<Long> times = new ArrayList<>();
            long deadline = System.nanoTime() + (long) (task.getDoubleValue("seconds") * 1e9);
            while (times.size() < task.getLongValue("messages") && System.nanoTime() < deadline) {
                Thread.sleep(PAUSE_MS);
                long began = System.nanoTime();
                producer.send(message);
                times.add(arrivals.take() - began);
            }
            Collections.sort(times);
            return Map.of("messages", times.size(), "latency_ms", times.get(times.size() / 2) / 1e6);
        } finally {
            consumer.shutdown();
            producer.shutdown();
        }
    }

    private static DefaultMQPushConsumer started(JSONObject task, String topic, MessageListenerConcurrently listener)
        throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(task.getString("group"));
        consumer.setNamesrvAddr(task.getString("namesrv"));
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener(listener);
        consumer.start();
        return consumer;
    }
}
