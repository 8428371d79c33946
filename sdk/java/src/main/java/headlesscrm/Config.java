package headlesscrm;

import java.time.Duration;
import java.util.function.Supplier;

/** The address of the API and the credential. */
public final class Config {
    final String baseUrl;
    Supplier<String> apiKey;
    Supplier<String> token;
    Duration timeout = Duration.ofSeconds(30);
    Duration longestWait = Duration.ofSeconds(60);
    int retries = 3;

    /** @param baseUrl the address of the API, without /v1 */
    public Config(String baseUrl) {
        this.baseUrl = baseUrl.replaceAll("/+$", "");
    }

    /** {@code svc_live_…} or {@code svc_test_…}. */
    public Config apiKey(String key) {
        apiKey = () -> key;
        return this;
    }

    /** An OAuth access token or a session token, read before each attempt so that it can be renewed. */
    public Config token(Supplier<String> source) {
        token = source;
        return this;
    }

    /** Limits each attempt. Default: 30 s. */
    public Config timeout(Duration limit) {
        timeout = limit;
        return this;
    }

    /** Retries after a failed attempt. Default: 3. */
    public Config retries(int count) {
        retries = count;
        return this;
    }

    /** A failure with a longer Retry-After is thrown immediately. Default: 60 s. */
    public Config longestWait(Duration longest) {
        longestWait = longest;
        return this;
    }
}
