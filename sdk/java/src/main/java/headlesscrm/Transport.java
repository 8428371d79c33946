package headlesscrm;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.net.http.HttpTimeoutException;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.time.Duration;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.UUID;

/** Sends calls: authenticates, retries what is safe to retry, throws {@link CrmException} for every failure. */
final class Transport {
    private final Config config;
    private final String userAgent;
    // Follows no redirects: the API has none, and the credential must not be sent to another host.
    private final HttpClient http;

    Transport(Config config, String userAgent) {
        this.config = config;
        this.userAgent = userAgent;
        this.http = HttpClient.newBuilder()
                .version(HttpClient.Version.HTTP_1_1)
                .connectTimeout(config.timeout)
                .build();
    }

    /** One call with all its attempts. */
    final class Call {
        private final String method;
        private final String path;
        private final Map<String, String> headers = new LinkedHashMap<>();
        private final StringBuilder query = new StringBuilder();
        private HttpRequest.BodyPublisher body = HttpRequest.BodyPublishers.noBody();
        private boolean takesKey;

        private Call(String method, String path) {
            this.method = method;
            this.path = path;
        }

        Call query(Map<String, Object> parameters) {
            parameters.forEach((name, value) -> {
                if (value == null) return;
                query.append(query.isEmpty() ? '?' : '&').append(name).append('=').append(encode(value.toString()));
            });
            return this;
        }

        /** Sends nothing for null, if the body is optional. */
        Call json(Object value) {
            if (value == null) return this;
            headers.put("Content-Type", "application/json");
            body = HttpRequest.BodyPublishers.ofString(Json.write(value));
            return this;
        }

        /** The same file encodes to the same bytes, as a repeated Idempotency-Key requires. */
        Call form(Upload file) {
            var boundary = "headless-crm-" + sha256(file.content()).substring(0, 32);
            var name = file.name().replace("\\", "\\\\").replace("\"", "%22").replace("\r", "%0D").replace("\n", "%0A");
            var head = "--" + boundary + "\r\nContent-Disposition: form-data; name=\"file\"; filename=\"" + name
                    + "\"\r\nContent-Type: " + file.contentType() + "\r\n\r\n";
            var bytes = new ByteArrayOutputStream();
            bytes.writeBytes(head.getBytes(StandardCharsets.UTF_8));
            bytes.writeBytes(file.content());
            bytes.writeBytes(("\r\n--" + boundary + "--\r\n").getBytes(StandardCharsets.UTF_8));
            headers.put("Content-Type", "multipart/form-data; boundary=" + boundary);
            body = HttpRequest.BodyPublishers.ofByteArray(bytes.toByteArray());
            return this;
        }

        Call takesKey() {
            takesKey = true;
            return this;
        }

        /** Returns the data of the envelope, or the whole body without one. */
        Object receive(CallOptions options) {
            Object answer;
            try {
                answer = Json.read(new String(receiveBytes(options), StandardCharsets.UTF_8));
            } catch (IllegalArgumentException notJson) {
                throw CrmException.withoutAnswer("UNREADABLE_ANSWER", "The response is not JSON.", notJson);
            }
            var object = Json.object(answer);
            return object.containsKey("success") && object.containsKey("data") ? object.get("data") : answer;
        }

        byte[] receiveBytes(CallOptions given) {
            var options = given == null ? new CallOptions() : given;
            headers.putAll(options.headers);
            // All attempts send the same key, so that the server does the work once.
            if (takesKey)
                headers.put(
                        "Idempotency-Key",
                        options.idempotencyKey == null ? UUID.randomUUID().toString() : options.idempotencyKey);
            var retries = options.retries == null ? config.retries : options.retries;
            var longestWait = options.longestWait == null ? config.longestWait : options.longestWait;
            for (var failures = 0; ; failures++) {
                try {
                    return attempt(options);
                } catch (CrmException failure) {
                    var wait = failure.retryAfter();
                    if (failures >= retries || !failure.mayPass(method.equals("GET") || takesKey)) throw failure;
                    if (wait != null && wait.compareTo(longestWait) > 0) throw failure;
                    sleep(failure.waitBefore(failures));
                }
            }
        }

        private byte[] attempt(CallOptions options) {
            var request = HttpRequest.newBuilder(URI.create(config.baseUrl + path + query))
                    .timeout(options.timeout == null ? config.timeout : options.timeout)
                    .header("User-Agent", userAgent)
                    .method(method, body);
            headers.forEach(request::setHeader);
            if (config.apiKey != null) request.setHeader("x-api-key", config.apiKey.get());
            else if (config.token != null) request.setHeader("Authorization", "Bearer " + config.token.get());
            HttpResponse<byte[]> response;
            try {
                response = http.send(request.build(), HttpResponse.BodyHandlers.ofByteArray());
            } catch (HttpTimeoutException late) {
                throw CrmException.withoutAnswer("TIMED_OUT", "The request timed out.", late);
            } catch (IOException broken) {
                throw CrmException.withoutAnswer("CONNECTION_FAILED", "The connection failed: " + broken, broken);
            } catch (InterruptedException interrupted) {
                throw interruption(interrupted);
            }
            options.onResponse.accept(response);
            if (response.statusCode() / 100 != 2) throw CrmException.of(response);
            return response.body();
        }
    }

    /** @param path with every parameter encoded by {@link #segment} */
    Call call(String method, String path) {
        return new Call(method, path);
    }

    /** @throws IllegalArgumentException for a value that would change the path */
    static String segment(String value) {
        if (value == null || value.isEmpty() || value.equals(".") || value.equals(".."))
            throw new IllegalArgumentException("A path parameter must not be \"" + value + "\".");
        return encode(value);
    }

    static void sleep(Duration wait) {
        try {
            Thread.sleep(wait.toMillis());
        } catch (InterruptedException interrupted) {
            throw interruption(interrupted);
        }
    }

    private static RuntimeException interruption(InterruptedException cause) {
        Thread.currentThread().interrupt();
        return new IllegalStateException("The thread was interrupted.", cause);
    }

    private static String encode(String value) {
        return URLEncoder.encode(value, StandardCharsets.UTF_8).replace("+", "%20");
    }

    private static String sha256(byte[] content) {
        try {
            return HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(content));
        } catch (NoSuchAlgorithmException impossible) {
            throw new IllegalStateException(impossible); // Every Java has SHA-256.
        }
    }
}
