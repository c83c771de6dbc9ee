import com.alibaba.fastjson.JSONObject;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;

/** Sends until the time or the messages of a task are used up: threads that wait, or so many in flight. */
final class Sending {
    private final String topic;
    private final byte[] body;
    private final long seconds;
    private long left;

    private Sending(JSONObject task) {
        topic = task.getString("topic");
        body = task.getString("body").getBytes(StandardCharsets.UTF_8);
        seconds = (long) (task.getDoubleValue("seconds") * 1e9);
        left = task.getLongValue("messages");
    }

    static DefaultMQProducer producer(JSONObject task) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("bench_java");
        producer.setNamesrvAddr(task.getString("namesrv"));
        producer.setAutoBatch(task.getString("shape").startsWith("auto-"));
        producer.start();
        for (int i = 0; i < task.getIntValue("queues"); i++) {
            producer.send(new Message(task.getString("topic"), task.getString("body").getBytes(StandardCharsets.UTF_8)));
        }
        return producer;
    }

    static Map<String, Object> oneInFlight(JSONObject task) throws Exception {
        return threads(task, 1);
    }

    /** So many threads share a producer: each sends and waits, and none begins before all are warm. */
    static Map<String, Object> threads(JSONObject task, int count) throws Exception {
        DefaultMQProducer producer = producer(task);
        ExecutorService pool = Executors.newFixedThreadPool(count);
        try {
            AtomicReference<Meter> meter = new AtomicReference<>();
            CyclicBarrier start = new CyclicBarrier(count, () -> meter.set(new Meter()));
            List<Future<Times>> threads = new ArrayList<>();
            for (int i = 0; i < count; i++) {
                int number = i;
                threads.add(pool.submit(() -> {
                    new Sending(task).send(producer, share(task.getLongValue("warm"), number, count), Long.MAX_VALUE);
                    start.await(60, TimeUnit.SECONDS);
                    Sending work = new Sending(task);
                    return work.send(producer, share(work.left, number, count), work.seconds);
                }));
            }
            Times times = new Times();
            for (Future<Times> thread : threads) {
                times.addAll(thread.get());
            }
            Map<String, Object> answer = meter.get().stop(times.count());
            answer.put("p50_us", times.percentile(0.50) / 1e3);
            answer.put("p99_us", times.percentile(0.99) / 1e3);
            answer.put("sent", task.getIntValue("queues") + task.getLongValue("warm") + times.count());
            return answer;
        } finally {
            pool.shutdownNow();
            producer.shutdown();
        }
    }

    /** What falls to one of so many threads. */
    static long share(long messages, int number, int of) {
        return messages / of + (number < messages % of ? 1 : 0);
    }

    private Times send(DefaultMQProducer producer, long messages, long nanos) throws Exception {
        Times times = new Times();
        long began = System.nanoTime();
        long before = began;
        while (times.count() < messages && before - began < nanos) {
            producer.send(message());
            long now = System.nanoTime();
            times.add(now - before);
            before = now;
        }
        return times;
    }

    /** Keep `window` sends in flight, each of a batch of so many messages where that is more than one. */
    static Map<String, Object> windowed(JSONObject task, int window, int batch) throws Exception {
        Sending work = new Sending(task);
        DefaultMQProducer producer = producer(task);
        try {
            Room room = new Room(window);
            Meter meter = new Meter();
            long sent = 0;
            while (work.left > 0 && System.nanoTime() - meter.began < work.seconds) {
                int count = (int) Math.min(batch, work.left);
                room.acquire();
                if (batch == 1) {
                    producer.send(work.message(), room);
                } else {
                    producer.send(work.messages(count), room);
                }
                work.left -= count;
                sent += count;
            }
            room.close(window);
            Map<String, Object> answer = meter.stop(sent);
            answer.put("sent", task.getIntValue("queues") + sent);
            return answer;
        } finally {
            producer.shutdown();
        }
    }

    /** The same by single sends that are batched automatically, warmed up by as many as the task says. */
    static Map<String, Object> automatic(JSONObject task, int window) throws Exception {
        JSONObject warming = (JSONObject) task.clone();
        warming.put("messages", task.getLongValue("warm"));
        long warm = (Long) windowed(warming, window, 1).get("sent");
        Map<String, Object> answer = windowed(task, window, 1);
        answer.put("sent", warm + (Long) answer.get("sent"));
        return answer;
    }

    private Message message() {
        return new Message(topic, body);
    }

    private List<Message> messages(int count) {
        List<Message> messages = new ArrayList<>(count);
        for (int i = 0; i < count; i++) {
            messages.add(message());
        }
        return messages;
    }

    /** The window: an answer makes room for the next send. */
    private static final class Room extends Semaphore implements SendCallback {
        private final transient AtomicReference<Throwable> failure = new AtomicReference<>();

        Room(int window) {
            super(window);
        }

        @Override
        public void onSuccess(SendResult result) {
            release();
        }

        @Override
        public void onException(Throwable error) {
            failure.compareAndSet(null, error);
            release();
        }

        void close(int window) throws Exception {
            acquire(window);
            if (failure.get() != null) {
                throw new IllegalStateException("a send failed", failure.get());
            }
        }
    }
}
