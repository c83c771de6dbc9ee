import java.util.Arrays;

/** How long single sends took, in nanoseconds: as bare numbers, so that noting one costs next to nothing. */
final class Times {
    private long[] values = new long[1024];
    private int count;

    int count() {
        return count;
    }

    void add(long value) {
        if (count == values.length) {
            values = Arrays.copyOf(values, 2 * count);
        }
        values[count++] = value;
    }

    void addAll(Times others) {
        for (int i = 0; i < others.count; i++) {
            add(others.values[i]);
        }
    }

    /** By nearest rank. */
    double percentile(double share) {
        long[] sorted = Arrays.copyOf(values, count);
        Arrays.sort(sorted);
        return count == 0 ? 0 : sorted[Math.max(0, (int) Math.ceil(share * count) - 1)];
    }
}
