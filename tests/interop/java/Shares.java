import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import org.apache.rocketmq.client.consumer.AllocateMessageQueueStrategy;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Prints a "shares" line for each of the --strategies, each number of queues to --queues and of members to --members:
 * for each queue, in order, the number of the member that gets it as a letter from "a" on, or "-" where nobody does.
 */
public final class Shares {
    private Shares() {
    }

    public static void main(String[] arguments) {
        Options options = new Options(arguments);
        int queues = options.number("queues", 1);
        int members = options.number("members", 1);
        for (String name : options.required("strategies").split(",")) {
            AllocateMessageQueueStrategy strategy = Strategies.of(name, options);
            for (int some = 1; some <= queues; some++) {
                List<String> shares = new ArrayList<>();
                for (int few = 1; few <= members; few++) {
                    shares.add(shares(strategy, queues(some), members(few)));
                }
                Events.emit("shares", "strategy", name, "queues", some, "shares", shares);
            }
        }
    }

    private static List<MessageQueue> queues(int count) {
        List<MessageQueue> made = new ArrayList<>();
        for (int number = 0; number < count; number++) {
            made.add(new MessageQueue("Orders", "room" + number % 3 + "@broker-" + number % 2, number));
        }
        Collections.sort(made);
        return made;
    }

    private static List<String> members(int count) {
        List<String> made = new ArrayList<>();
        for (int number = 0; number < count; number++) {
            made.add("10.0.0." + number + "@room" + number % 4);
        }
        Collections.sort(made);
        return made;
    }

    private static String shares(AllocateMessageQueueStrategy strategy, List<MessageQueue> queues, List<String> ids) {
        char[] owners = new char[queues.size()];
        Arrays.fill(owners, '-');
        for (int member = 0; member < ids.size(); member++) {
            for (MessageQueue queue : strategy.allocate("billing", ids.get(member), queues, ids)) {
                owners[queues.indexOf(queue)] = (char) ('a' + member);
            }
        }
        return new String(owners);
    }
}
