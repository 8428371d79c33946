package headlesscrm;

import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Function;

/** A JSON object. It keeps every property, including those without a method. */
public abstract class Structure {
    private final Map<String, Object> properties;

    protected Structure(Map<String, Object> properties) {
        this.properties = properties;
    }

    protected Structure() {
        this(new LinkedHashMap<>());
    }

    /** A property by its name, such as a field of a record: text, Long, Double, Boolean, List, Map or null. */
    public final Object getProperty(String name) {
        return properties.get(name);
    }

    /** Every property by its name. */
    public final Map<String, Object> asMap() {
        return Collections.unmodifiableMap(properties);
    }

    /** Null returns a value that is sent as null, which clears a field. */
    protected final void put(String name, Object value) {
        properties.put(name, value);
    }

    protected final <Value> Value read(String name, Function<Object, Value> reader) {
        var value = properties.get(name);
        return value == null ? null : reader.apply(value);
    }

    protected final <Value> List<Value> readList(String name, Function<Object, Value> reader) {
        return read(name, value -> Json.list(value, reader));
    }

    protected final <Value> Map<String, Value> readMap(String name, Function<Object, Value> reader) {
        return read(name, value -> Json.map(value, reader));
    }

    @Override
    public final boolean equals(Object other) {
        return other != null && other.getClass() == getClass() && ((Structure) other).properties.equals(properties);
    }

    @Override
    public final int hashCode() {
        return properties.hashCode();
    }

    @Override
    public final String toString() {
        return Json.write(properties);
    }
}
