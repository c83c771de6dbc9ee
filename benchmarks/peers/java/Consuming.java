import com.alibaba.fastjson.JSONObject;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;

/** Consumers with their defaults: messages come to a listener one by one, in its threads, or are polled. */
final class Consuming {
    /** Between two messages, so that the pull that waits for the next one is at the broker. */
    private static final long PAUSE_MS = 5;

    private Consuming() {
    }

    /** From the first message to the last of a topic that is filled. */
    static Map<String, Object> filledTopic(JSONObject task) throws Exception {
        Count count = new Count(task);
        DefaultMQPushConsumer consumer = started(task, task.getString("filled_topic"), (messages, context) -> {
            count.add(1);
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        return count.whole(consumer::shutdown);
    }

    /** The same in the order of the queues. */
    static Map<String, Object> inOrder(JSONObject task) throws Exception {
        Count count = new Count(task);
        DefaultMQPushConsumer consumer = made(task, task.getString("filled_topic"));
        consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
            count.add(1);
            return ConsumeOrderlyStatus.SUCCESS;
        });
        consumer.start();
        return count.whole(consumer::shutdown);
    }

    /** The same by polling, as many at a time as the caller may have. */
    static Map<String, Object> lite(JSONObject task) throws Exception {
        Count count = new Count(task);
        DefaultLitePullConsumer consumer = new DefaultLitePullConsumer(task.getString("group"));
        consumer.setNamesrvAddr(task.getString("namesrv"));
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setPullBatchSize(32); // as push consumers ask for, and ours beside it
        consumer.subscribe(task.getString("filled_topic"), "*");
        consumer.start();
        while (!count.isComplete()) {
            count.add(consumer.poll().size());
        }
        return count.whole(consumer::shutdown);
    }

    /** What has come of a topic that is filled. */
    private static final class Count {
        private final long wanted;
        private final AtomicLong count = new AtomicLong();
        private final BlockingQueue<Meter> first = new LinkedBlockingQueue<>();
        private final BlockingQueue<Map<String, Object>> last = new LinkedBlockingQueue<>();

        Count(JSONObject task) {
            wanted = task.getLongValue("filled");
        }

        void add(int messages) {
            if (messages == 0) {
                return;
            }
            long number = count.addAndGet(messages);
            if (number == messages) {
                first.add(new Meter());
            }
            if (number >= wanted && number - messages < wanted) {
                last.add(first.remove().stop(wanted));
            }
        }

        boolean isComplete() {
            return count.get() >= wanted;
        }

        Map<String, Object> whole(Runnable shutdown) throws InterruptedException {
            try {
                return last.take();
            } finally {
                shutdown.run();
            }
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
        DefaultMQPushConsumer consumer = made(task, topic);
        consumer.registerMessageListener(listener);
        consumer.start();
        return consumer;
    }

    private static DefaultMQPushConsumer made(JSONObject task, String topic) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(task.getString("group"));
        consumer.setNamesrvAddr(task.getString("namesrv"));
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        return consumer;
    }
}
