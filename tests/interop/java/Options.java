import java.util.HashMap;
import java.util.Map;

/** The arguments of a driver: {@code --name value} pairs, all optional unless asked for by {@link #required}. */
final class Options {
    private final Map<String, String> values = new HashMap<>();

    Options(String[] arguments) {
        if (arguments.length % 2 != 0) {
            throw new IllegalArgumentException("arguments come in pairs: --name value");
        }
        for (int i = 0; i < arguments.length; i += 2) {
            if (!arguments[i].startsWith("--")) {
                throw new IllegalArgumentException("not an option: " + arguments[i]);
            }
            values.put(arguments[i].substring(2), arguments[i + 1]);
        }
    }

    String required(String name) {
        String value = values.get(name);
        if (value == null) {
            throw new IllegalArgumentException("missing --" + name);
        }
        return value;
    }

    String text(String name, String otherwise) {
        return values.getOrDefault(name, otherwise);
    }

    int number(String name, int otherwise) {
        String value = values.get(name);
        return value == null ? otherwise : Integer.parseInt(value);
    }

    boolean flag(String name) {
        return Boolean.parseBoolean(values.get(name));
    }
}
