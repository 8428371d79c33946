package headlesscrm;

import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.time.ZonedDateTime;
import java.time.format.DateTimeFormatter;
import java.time.format.DateTimeParseException;
import java.util.List;
import java.util.Map;

/** A failed call. Branch on {@link #code()}, never on the message. */
public final class CrmException extends RuntimeException {
    private static final long serialVersionUID = 1;

    private final String code;
    private final String plainMessage;
    private final int status;
    private final transient Map<String, Object> details;
    private final String requestId;
    private final Duration retryAfter;

    private CrmException(
            String code,
            String message,
            int status,
            Map<String, Object> details,
            String requestId,
            Duration retryAfter,
            Throwable cause) {
        super(code + ": " + message, cause);
        this.code = code;
        this.plainMessage = message;
        this.status = status;
        this.details = details;
        this.requestId = requestId;
        this.retryAfter = retryAfter;
    }

    /** A code of the API, or CONNECTION_FAILED, TIMED_OUT, UNREADABLE_ANSWER. */
    public String code() {
        return code;
    }

    /** The message of the API, without the code. */
    public String message() {
        return plainMessage;
    }

    /** The HTTP status; 0 without a response. */
    public int status() {
        return status;
    }

    /** Facts about the failure, by code. */
    public Map<String, Object> details() {
        return details;
    }

    /** Every problem with the request: field, code, message. Empty for other failures. */
    public List<Map<String, Object>> fields() {
        return Json.list(details.get("fields"), Json::object);
    }

    /** Identifies the call when you ask for help; null without a response. */
    public String requestId() {
        return requestId;
    }

    /** The time after which the same call may succeed; null if the response does not say. */
    public Duration retryAfter() {
        return retryAfter;
    }

    static CrmException withoutAnswer(String code, String message, Throwable cause) {
        return new CrmException(code, message, 0, Map.of(), null, null, cause);
    }

    static CrmException of(HttpResponse<byte[]> response) {
        var status = response.statusCode();
        var code = "UNREADABLE_ANSWER";
        var message = "The response with status " + status + " is not from the API.";
        Map<String, Object> details = Map.of();
        var body = Json.object(readOrNull(response.body()));
        if (body.get("error") instanceof Map<?, ?> error && error.get("code") instanceof String apiCode) {
            code = apiCode;
            message = String.valueOf(error.get("message"));
            details = Json.object(error.get("details"));
        } else if (body.get("error") instanceof String word) {
            // Sign-in errors have the format of RFC 6749.
            code = word;
            message = String.valueOf(body.get("error_description"));
        }
        var requestId = response.headers().firstValue("x-request-id").orElse(null);
        var wait = response.headers().firstValue("retry-after").map(CrmException::readWait).orElse(null);
        return new CrmException(code, message, status, details, requestId, wait, null);
    }

    private static Object readOrNull(byte[] body) {
        try {
            return Json.read(new String(body, StandardCharsets.UTF_8));
        } catch (IllegalArgumentException notJson) {
            return null;
        }
    }

    /** Parses Retry-After. Proxies may send a date instead of seconds. */
    private static Duration readWait(String header) {
        if (header.matches("\\d{1,9}")) return Duration.ofSeconds(Long.parseLong(header));
        try {
            var date = ZonedDateTime.parse(header, DateTimeFormatter.RFC_1123_DATE_TIME).toInstant();
            var wait = Duration.between(Instant.now(), date);
            return wait.isNegative() ? Duration.ZERO : wait;
        } catch (DateTimeParseException unknown) {
            return null;
        }
    }

    boolean mayPass(boolean repeatable) {
        // Only a larger plan or the next month helps.
        if (code.equals("QUOTA_EXCEEDED")) return false;
        // Rejected before anything was done.
        if (status == 429 || code.equals("QUOTA_UNAVAILABLE") || code.equals("IDEMPOTENCY_IN_PROGRESS")) return true;
        return repeatable && (status == 0 || status >= 500);
    }

    /** Returns the requested wait, or a backoff that doubles from half a second to eight. */
    Duration waitBefore(int failures) {
        var chance = Math.random();
        if (retryAfter != null) return retryAfter.plusMillis((long) (chance * 250));
        var longest = Math.min(8000, 500L << Math.min(failures, 5));
        return Duration.ofMillis((long) (longest * (0.5 + chance / 2)));
    }
}
