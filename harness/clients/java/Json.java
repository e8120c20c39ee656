import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** As much of JSON as lines between the lab and its clients need: whole numbers only. Written text is ASCII. */
final class Json {
    private final String text;
    private int at;

    private Json(String text) {
        this.text = text;
    }

    /** A Map, a List, a String, a Long, a Boolean or null. Throws IllegalArgumentException. */
    static Object read(String text) {
        Json json = new Json(text);
        try {
            Object value = json.value();
            json.blanks();
            if (json.at != text.length()) {
                throw json.wrong();
            }
            return value;
        } catch (StringIndexOutOfBoundsException | NumberFormatException cut) {
            throw json.wrong();
        }
    }

    private IllegalArgumentException wrong() {
        return new IllegalArgumentException("no JSON, from character " + at + " on");
    }

    private void blanks() {
        while (at < text.length() && Character.isWhitespace(text.charAt(at))) {
            at++;
        }
    }

    private boolean next(char wanted) {
        blanks();
        if (text.charAt(at) != wanted) {
            return false;
        }
        at++;
        return true;
    }

    private void must(char wanted) {
        if (!next(wanted)) {
            throw wrong();
        }
    }

    private Object value() {
        blanks();
        return switch (text.charAt(at)) {
            case '{' -> object();
            case '[' -> array();
            case '"' -> string();
            case 't' -> word("true", true);
            case 'f' -> word("false", false);
            case 'n' -> word("null", null);
            default -> number();
        };
    }

    private Object word(String word, Object value) {
        if (!text.startsWith(word, at)) {
            throw wrong();
        }
        at += word.length();
        return value;
    }

    private Long number() {
        int from = at;
        while (at < text.length() && (text.charAt(at) == '-' || Character.isDigit(text.charAt(at)))) {
            at++;
        }
        return Long.valueOf(text.substring(from, at));
    }

    private Map<String, Object> object() {
        Map<String, Object> found = new LinkedHashMap<>();
        must('{');
        if (next('}')) {
            return found;
        }
        do {
            blanks();
            String name = string();
            must(':');
            found.put(name, value());
        } while (next(','));
        must('}');
        return found;
    }

    private List<Object> array() {
        List<Object> found = new ArrayList<>();
        must('[');
        if (next(']')) {
            return found;
        }
        do {
            found.add(value());
        } while (next(','));
        must(']');
        return found;
    }

    private String string() {
        StringBuilder found = new StringBuilder();
        must('"');
        for (char one = text.charAt(at++); one != '"'; one = text.charAt(at++)) {
            found.append(one == '\\' ? escaped() : one);
        }
        return found.toString();
    }

    private char escaped() {
        char kind = text.charAt(at++);
        switch (kind) {
            case 'n':
                return '\n';
            case 't':
                return '\t';
            case 'r':
                return '\r';
            case 'b':
                return '\b';
            case 'f':
                return '\f';
            case 'u':
                at += 4;
                return (char) Integer.parseInt(text.substring(at - 4, at), 16);
            default:
                return kind;
        }
    }

    /** The text of a Map, a Collection, a String, a number, a Boolean or null. */
    static String write(Object value) {
        StringBuilder out = new StringBuilder();
        write(out, value);
        return out.toString();
    }

    private static void write(StringBuilder out, Object value) {
        if (value instanceof Map<?, ?> map) {
            String between = "{";
            for (Map.Entry<?, ?> entry : map.entrySet()) {
                out.append(between);
                quote(out, entry.getKey().toString());
                out.append(':');
                write(out, entry.getValue());
                between = ",";
            }
            out.append(map.isEmpty() ? "{}" : "}");
        } else if (value instanceof Iterable<?> many) {
            String between = "";
            out.append('[');
            for (Object one : many) {
                out.append(between);
                write(out, one);
                between = ",";
            }
            out.append(']');
        } else if (value instanceof CharSequence words) {
            quote(out, words);
        } else {
            out.append(value);
        }
    }

    private static void quote(StringBuilder out, CharSequence words) {
        out.append('"');
        for (int place = 0; place < words.length(); place++) {
            char one = words.charAt(place);
            if (one == '"' || one == '\\') {
                out.append('\\').append(one);
            } else if (one < ' ' || one > '~') {
                out.append(String.format("\\u%04x", (int) one));
            } else {
                out.append(one);
            }
        }
        out.append('"');
    }
}
