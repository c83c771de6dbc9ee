import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import org.apache.rocketmq.client.consumer.AllocateMessageQueueStrategy;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMachineRoomNearby;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragelyByCircle;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueByConfig;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueByMachineRoom;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueConsistentHash;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * The strategy that --allocate names: averagely, by_circle, consistent_hash, config with --queues ("broker:0,broker:1"),
 * machine_room with --rooms ("room1,room2"), or nearby. The room of a broker stands before the "@" of its name, that of
 * a member between the "@" of its client id and the "-" of its instance name.
 */
final class Strategies {
    private Strategies() {
    }

    static AllocateMessageQueueStrategy of(Options options) {
        return of(options.text("allocate", "averagely"), options);
    }

    static AllocateMessageQueueStrategy of(String name, Options options) {
        switch (name) {
            case "averagely":
                return new AllocateMessageQueueAveragely();
            case "by_circle":
                return new AllocateMessageQueueAveragelyByCircle();
            case "consistent_hash":
                return new AllocateMessageQueueConsistentHash();
            case "config":
                AllocateMessageQueueByConfig config = new AllocateMessageQueueByConfig();
                config.setMessageQueueList(queues(options.required("topic"), options.required("queues")));
                return config;
            case "machine_room":
                AllocateMessageQueueByMachineRoom room = new AllocateMessageQueueByMachineRoom();
                room.setConsumeridcs(Set.of(options.required("rooms").split(",")));
                return room;
            case "nearby":
                return new AllocateMachineRoomNearby(new AllocateMessageQueueAveragely(), new Rooms());
            default:
                throw new IllegalArgumentException("no such strategy: " + name);
        }
    }

    private static List<MessageQueue> queues(String topic, String named) {
        List<MessageQueue> found = new ArrayList<>();
        for (String each : named.split(",")) {
            int colon = each.lastIndexOf(':');
            found.add(new MessageQueue(topic, each.substring(0, colon), Integer.parseInt(each.substring(colon + 1))));
        }
        return found;
    }

    private static final class Rooms implements AllocateMachineRoomNearby.MachineRoomResolver {
        @Override
        public String brokerDeployIn(MessageQueue queue) {
            return queue.getBrokerName().split("@")[0];
        }

        @Override
        public String consumerDeployIn(String client) {
            return client.split("@")[1].split("-")[0];
        }
    }
}
