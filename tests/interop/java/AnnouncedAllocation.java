import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.client.consumer.AllocateMessageQueueStrategy;
import org.apache.rocketmq.common.message.MessageQueue;

/** A strategy that hands out queues as another one does and prints an "assigned" line whenever a topic's share changes. */
final class AnnouncedAllocation implements AllocateMessageQueueStrategy {
    private final AllocateMessageQueueStrategy strategy;
    private final Events events;
    private final Map<String, List<MessageQueue>> shares = new HashMap<>();

    AnnouncedAllocation(AllocateMessageQueueStrategy strategy, Events events) {
        this.strategy = strategy;
        this.events = events;
    }

    @Override
    public List<MessageQueue> allocate(String group, String client, List<MessageQueue> queues, List<String> clients) {
        List<MessageQueue> share = strategy.allocate(group, client, queues, clients);
        String topic = queues.get(0).getTopic();
        synchronized (this) {
            List<MessageQueue> before = shares.put(topic, share);
            if (!share.equals(before)) {
                events.tell("assigned", "topic", topic, "queues", described(share), "clients", clients);
            }
            notifyAll();
        }
        return share;
    }

    @Override
    public String getName() {
        return strategy.getName();
    }

    /** The share of a topic once it has been computed for the first time. */
    synchronized List<MessageQueue> awaitShare(String topic) throws InterruptedException {
        while (!shares.containsKey(topic)) {
            wait();
        }
        return shares.get(topic);
    }

    private static List<String> described(List<MessageQueue> queues) {
        List<String> names = new ArrayList<>();
        for (MessageQueue queue : queues) {
            names.add(queue.getBrokerName() + ":" + queue.getQueueId());
        }
        return names;
    }
}
