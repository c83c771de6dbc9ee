import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.util.Arrays;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;

/** The settings of configuration classes: names, types, values of a fresh object, and which a file can set. */
public final class ConfigKeys {
    private static final Collection<String> READ_FROM_FILES = Arrays.asList(
        "int", "Integer", "long", "Long", "double", "Double", "boolean", "Boolean", "float", "Float", "String");

    private ConfigKeys() {
    }

    public static void main(String[] args) throws Exception {
        for (String name : new Options(args).required("classes").split(",")) {
            Class<?> kind;
            try {
                kind = Class.forName(name);
            } catch (ClassNotFoundException absent) {
                continue;
            }
            Events.emit("keys", "class", kind.getSimpleName(), "keys", describe(kind));
        }
    }

    private static Map<String, Object> describe(Class<?> kind) throws Exception {
        Object fresh = kind.getDeclaredConstructor().newInstance();
        Map<String, String> setters = setters(kind);
        Map<String, Object> found = new TreeMap<>();
        for (Map.Entry<String, Field> entry : fields(kind).entrySet()) {
            Field field = entry.getValue();
            String key = setters.containsKey(entry.getKey()) ? entry.getKey() : withoutIs(entry.getKey());
            if (!setters.containsKey(key)) {
                key = entry.getKey();
            }
            String type = setters.getOrDefault(key, field.getType().getSimpleName());
            field.setAccessible(true);
            found.put(key, facts(type, setters.containsKey(key), text(field.get(fresh))));
        }
        for (Map.Entry<String, String> entry : setters.entrySet()) {
            found.putIfAbsent(entry.getKey(), facts(entry.getValue(), true, null));
        }
        return found;
    }

    private static Map<String, Object> facts(String type, boolean settable, String value) {
        Map<String, Object> facts = new LinkedHashMap<>();
        facts.put("type", type);
        facts.put("settable", settable);
        facts.put("default", value);
        return facts;
    }

    /**
     * Key to parameter type; of setters of one name one that a properties file reaches. Apache's reader of files tries
     * all of those, in the order of getMethods, which a JVM chooses. The one with a String is named, as it takes every
     * text, and without it the first by the name of its type.
     */
    private static Map<String, String> setters(Class<?> kind) {
        Map<String, String> found = new TreeMap<>();
        for (Method method : kind.getMethods()) {
            String name = method.getName();
            if (!name.startsWith("set") || name.length() < 4 || method.getParameterCount() != 1) {
                continue;
            }
            String type = method.getParameterTypes()[0].getSimpleName();
            String key = name.substring(3, 4).toLowerCase() + name.substring(4);
            if (READ_FROM_FILES.contains(type)) {
                found.merge(key, type, ConfigKeys::preferred);
            }
        }
        return found;
    }

    private static String preferred(String one, String other) {
        if (one.equals("String") || other.equals("String")) {
            return "String";
        }
        return one.compareTo(other) < 0 ? one : other;
    }

    private static Map<String, Field> fields(Class<?> kind) {
        Map<String, Field> found = new TreeMap<>();
        for (Class<?> each = kind; each != null && each != Object.class; each = each.getSuperclass()) {
            for (Field field : each.getDeclaredFields()) {
                if (!Modifier.isStatic(field.getModifiers()) && !field.isSynthetic()) {
                    found.putIfAbsent(field.getName(), field);
                }
            }
        }
        return found;
    }

    private static String withoutIs(String name) {
        boolean marked = name.startsWith("is") && name.length() > 2 && Character.isUpperCase(name.charAt(2));
        return marked ? Character.toLowerCase(name.charAt(2)) + name.substring(3) : name;
    }

    private static String text(Object value) {
        if (value == null) {
            return null;
        }
        if (value instanceof Collection && ((Collection<?>) value).stream().allMatch(ConfigKeys::plain)) {
            Collection<String> sorted = new TreeSet<>();
            ((Collection<?>) value).forEach(each -> sorted.add(String.valueOf(each)));
            return String.join(",", sorted);
        }
        return plain(value) ? String.valueOf(value) : "<" + value.getClass().getSimpleName() + ">";
    }

    private static boolean plain(Object value) {
        return value instanceof Number || value instanceof Boolean || value instanceof String || value instanceof Enum;
    }
}
