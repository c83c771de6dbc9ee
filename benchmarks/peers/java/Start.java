import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;

/** Sends one message to the name server and topic that are given and says so. */
public final class Start {
    private Start() {
    }

    public static void main(String[] arguments) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("bench_java_start");
        producer.setNamesrvAddr(arguments[0]);
        producer.start();
        producer.send(new Message(arguments[1], "first".getBytes()));
        System.out.println("{\"acknowledged\":true}");
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }
}
