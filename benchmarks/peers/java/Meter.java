import com.sun.management.OperatingSystemMXBean;
import java.lang.management.ManagementFactory;
import java.util.LinkedHashMap;
import java.util.Map;

/** Time and CPU of this process from its making until {@link #stop}. */
final class Meter {
    private static final OperatingSystemMXBean PROCESS =
        (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();

    final long began = System.nanoTime();
    private final long cpu = PROCESS.getProcessCpuTime();

    Map<String, Object> stop(long messages) {
        Map<String, Object> answer = new LinkedHashMap<>();
        answer.put("messages", messages);
        answer.put("seconds", (System.nanoTime() - began) / 1e9);
        answer.put("cpu", (PROCESS.getProcessCpuTime() - cpu) / 1e9);
        return answer;
    }
}
