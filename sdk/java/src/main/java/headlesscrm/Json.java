package headlesscrm;

import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Function;

/** Reads and writes JSON (RFC 8259), so that the client needs no library. */
public final class Json {
    private static final int DEEPEST = 200;

    private final String text;
    private int at;
    private int depth;

    private Json(String text) {
        this.text = text;
    }

    /**
     * Returns text, Long, Double, Boolean, List, Map or null.
     *
     * @throws IllegalArgumentException if the text is not JSON
     */
    public static Object read(String text) {
        var reader = new Json(text);
        var value = reader.value();
        reader.skipSpace();
        if (reader.at < text.length()) throw reader.problem();
        return value;
    }

    /** Writes maps, collections, structures, texts, numbers, booleans and null. */
    public static String write(Object value) {
        var out = new StringBuilder();
        write(value, out);
        return out.toString();
    }

    @SuppressWarnings("unchecked") // Every map of this reader has names as keys.
    public static Map<String, Object> object(Object value) {
        return value instanceof Map<?, ?> map ? (Map<String, Object>) map : Map.of();
    }

    public static <Value> List<Value> list(Object value, Function<Object, Value> reader) {
        var found = new ArrayList<Value>();
        if (value instanceof List<?> list) for (var each : list) found.add(each == null ? null : reader.apply(each));
        return found;
    }

    public static <Value> Map<String, Value> map(Object value, Function<Object, Value> reader) {
        var found = new LinkedHashMap<String, Value>();
        object(value).forEach((name, each) -> found.put(name, each == null ? null : reader.apply(each)));
        return found;
    }

    public static Object any(Object value) {
        return value;
    }

    public static String text(Object value) {
        return (String) value;
    }

    public static Long integer(Object value) {
        return ((Number) value).longValue();
    }

    public static Double number(Object value) {
        return ((Number) value).doubleValue();
    }

    public static Boolean flag(Object value) {
        return (Boolean) value;
    }

    private Object value() {
        skipSpace();
        if (at >= text.length()) throw problem();
        switch (text.charAt(at)) {
            case '{':
                return object();
            case '[':
                return array();
            case '"':
                return string();
            case 't':
                return word("true", true);
            case 'f':
                return word("false", false);
            case 'n':
                return word("null", null);
            default:
                return number();
        }
    }

    private Map<String, Object> object() {
        var found = new LinkedHashMap<String, Object>();
        enter();
        while (!ends('}', found.isEmpty())) {
            skipSpace();
            var name = string();
            skipSpace();
            take(':');
            found.put(name, value());
        }
        return found;
    }

    private List<Object> array() {
        var found = new ArrayList<Object>();
        enter();
        while (!ends(']', found.isEmpty())) found.add(value());
        return found;
    }

    private void enter() {
        at++;
        if (++depth > DEEPEST) throw problem();
    }

    /** True after the closing bracket; otherwise takes the comma before the next member. */
    private boolean ends(char bracket, boolean isFirst) {
        skipSpace();
        if (at < text.length() && text.charAt(at) == bracket) {
            at++;
            depth--;
            return true;
        }
        if (!isFirst) take(',');
        return false;
    }

    private String string() {
        take('"');
        var out = new StringBuilder();
        while (at < text.length()) {
            var next = text.charAt(at++);
            if (next == '"') return out.toString();
            out.append(next == '\\' ? escaped() : next);
        }
        throw problem();
    }

    private char escaped() {
        if (at >= text.length()) throw problem();
        var next = text.charAt(at++);
        if (next == 'u') {
            if (at + 4 > text.length()) throw problem();
            at += 4;
            return (char) Integer.parseInt(text.substring(at - 4, at), 16);
        }
        var known = "\"\\/bfnrt".indexOf(next);
        if (known < 0) throw problem();
        return "\"\\/\b\f\n\r\t".charAt(known);
    }

    private Object number() {
        var start = at;
        while (at < text.length() && "+-.eE0123456789".indexOf(text.charAt(at)) >= 0) at++;
        var digits = text.substring(start, at);
        if (digits.isEmpty()) throw problem();
        // The API does not send integers beyond a long.
        return digits.matches("-?\\d{1,18}") ? (Object) Long.valueOf(digits) : (Object) Double.valueOf(digits);
    }

    private Object word(String expected, Object meaning) {
        if (!text.startsWith(expected, at)) throw problem();
        at += expected.length();
        return meaning;
    }

    private void take(char expected) {
        if (at >= text.length() || text.charAt(at) != expected) throw problem();
        at++;
    }

    private void skipSpace() {
        while (at < text.length() && " \t\r\n".indexOf(text.charAt(at)) >= 0) at++;
    }

    private IllegalArgumentException problem() {
        return new IllegalArgumentException("Invalid JSON at character " + at + ".");
    }

    private static void write(Object value, StringBuilder out) {
        if (value == null || value instanceof Boolean || value instanceof Number) {
            out.append(value);
        } else if (value instanceof Structure structure) {
            write(structure.asMap(), out);
        } else if (value instanceof Map<?, ?> map) {
            var separator = "{";
            for (var entry : map.entrySet()) {
                out.append(separator);
                quote(String.valueOf(entry.getKey()), out);
                out.append(':');
                write(entry.getValue(), out);
                separator = ",";
            }
            out.append(map.isEmpty() ? "{}" : "}");
        } else if (value instanceof Collection<?> collection) {
            var separator = "[";
            for (var each : collection) {
                out.append(separator);
                write(each, out);
                separator = ",";
            }
            out.append(collection.isEmpty() ? "[]" : "]");
        } else {
            // Strings, and values written as strings in JSON: UUID, Instant, enum.
            quote(value.toString(), out);
        }
    }

    private static void quote(String text, StringBuilder out) {
        out.append('"');
        for (var each : text.toCharArray()) {
            if (each == '"' || each == '\\') out.append('\\').append(each);
            else if (each < ' ' || Character.isSurrogate(each)) out.append(String.format("\\u%04x", (int) each));
            else out.append(each);
        }
        out.append('"');
    }
}
