import com.alibaba.fastjson.JSONObject;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.client.producer.TransactionSendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** Threads that share a producer of transactions: each sends, commits at once and goes on. */
final class Transacting implements TransactionListener {
    private final JSONObject task;

    private Transacting(JSONObject task) {
        this.task = task;
    }

    static Map<String, Object> threads(JSONObject task, int count) throws Exception {
        TransactionMQProducer producer = new TransactionMQProducer("bench_java_transactions");
        producer.setNamesrvAddr(task.getString("namesrv"));
        Transacting work = new Transacting(task);
        producer.setTransactionListener(work);
        producer.start();
        ExecutorService pool = Executors.newFixedThreadPool(count);
        try {
            AtomicReference<Meter> meter = new AtomicReference<>();
            CyclicBarrier start = new CyclicBarrier(count, () -> meter.set(new Meter()));
            long warm = task.getLongValue("warm");
            List<Future<Times>> threads = new ArrayList<>();
            for (int i = 0; i < count; i++) {
                int number = i;
                threads.add(pool.submit(() -> {
                    work.send(producer, Sending.share(warm, number, count), Double.MAX_VALUE);
                    start.await(60, TimeUnit.SECONDS);
                    long messages = Sending.share(task.getLongValue("messages"), number, count);
                    return work.send(producer, messages, task.getDoubleValue("seconds") * 1e9);
                }));
            }
            Times times = new Times();
            for (Future<Times> thread : threads) {
                times.addAll(thread.get());
            }
            Map<String, Object> answer = meter.get().stop(times.count());
            answer.put("p50_us", times.percentile(0.50) / 1e3);
            answer.put("p99_us", times.percentile(0.99) / 1e3);
            answer.put("sent", warm + times.count());
            return answer;
        } finally {
            pool.shutdownNow();
            producer.shutdown();
        }
    }

    private Times send(TransactionMQProducer producer, long messages, double nanos) throws Exception {
        Times times = new Times();
        byte[] body = task.getString("body").getBytes(StandardCharsets.UTF_8);
        long began = System.nanoTime();
        long before = began;
        while (times.count() < messages && before - began < nanos) {
            Message message = new Message(task.getString("topic"), body);
            TransactionSendResult result = producer.sendMessageInTransaction(message, null);
            if (result.getLocalTransactionState() != LocalTransactionState.COMMIT_MESSAGE) {
                throw new IllegalStateException("a transaction was not committed: " + result);
            }
            long now = System.nanoTime();
            times.add(now - before);
            before = now;
        }
        return times;
    }

    @Override
    public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
        return LocalTransactionState.COMMIT_MESSAGE;
    }

    /** What arrives shall be committed by the path that is measured, not by a check. */
    @Override
    public LocalTransactionState checkLocalTransaction(MessageExt message) {
        return LocalTransactionState.UNKNOW;
    }
}
