<?php

declare(strict_types=1);

namespace HeadlessCrm;

/**
 * Sends calls: authenticates, retries what is safe to retry, throws CrmException for every failure.
 *
 * @internal
 */
final class Transport
{
    private const FEED_WAIT_SECONDS = 30;
    private const FEED_PAUSE_SECONDS = 1.0;

    private \CurlHandle $curl;

    public function __construct(
        private readonly string $baseUrl,
        private readonly string|\Closure|null $apiKey,
        private readonly string|\Closure|null $token,
        private readonly CallOptions $defaults,
        private readonly string $userAgent,
    ) {
        $this->curl = curl_init();
    }

    /**
     * @param list<string> $segments path parameters, in the order of the path
     * @param array<string, string|int|bool|null> $query
     * @param array{name: string, contentType: string, content: string}|null $file
     */
    public function call(
        string $method,
        string $path,
        array $segments = [],
        array $query = [],
        mixed $json = null,
        ?array $file = null,
        bool $takesKey = false,
        ?string $idempotencyKey = null,
        ?string $ifMatch = null,
        bool $isFile = false,
        ?CallOptions $options = null,
    ): mixed {
        $headers = ['user-agent' => $this->userAgent, ...($options?->headers ?? [])];
        $body = null;
        if ($takesKey) {
            // All attempts send the same key, so that the server does the work once.
            $headers['Idempotency-Key'] = $idempotencyKey ?? bin2hex(random_bytes(16));
        }
        if ($ifMatch !== null) {
            $headers['If-Match'] = $ifMatch;
        }
        if ($file !== null) {
            [$body, $headers['Content-Type']] = self::form($file);
        } elseif ($json !== null) {
            // An empty array means an empty object, because no body is an empty list.
            $body = json_encode($json === [] ? new \stdClass() : $json, JSON_THROW_ON_ERROR | JSON_UNESCAPED_UNICODE);
            $headers['Content-Type'] = 'application/json';
        }
        $url = $this->baseUrl . self::fill($path, $segments) . self::queryString($query);
        $retries = $options?->retries ?? $this->defaults->retries ?? 3;
        $longestWait = $options?->longestWait ?? $this->defaults->longestWait ?? 60.0;
        for ($failures = 0; ; $failures++) {
            try {
                $answer = $this->attempt($method, $url, $headers, $body, $options);
                return $isFile ? $answer->body : self::readData($answer);
            } catch (CrmException $failure) {
                $repeatable = $method === 'GET' || $takesKey;
                if ($failures >= $retries || !$failure->mayPass($repeatable) || $failure->retryAfter > $longestWait) {
                    throw $failure;
                }
                usleep((int) ($failure->waitBefore($failures) * 1_000_000));
            }
        }
    }

    /** @param array<string, string> $headers */
    private function attempt(string $method, string $url, array $headers, ?string $body, ?CallOptions $options): Answer
    {
        $headers = [...$headers, ...$this->credential()];
        $received = [];
        // Keeps the connection, and resets the settings of the last call.
        curl_reset($this->curl);
        curl_setopt_array($this->curl, [
            CURLOPT_URL => $url,
            CURLOPT_CUSTOMREQUEST => $method,
            CURLOPT_RETURNTRANSFER => true,
            // The API never redirects, and the credential must not be sent to another host.
            CURLOPT_FOLLOWLOCATION => false,
            CURLOPT_TIMEOUT_MS => (int) (($options?->timeout ?? $this->defaults->timeout ?? 30.0) * 1000),
            // No "Expect: 100-continue", which only delays large bodies.
            CURLOPT_HTTPHEADER => ['Expect:', ...array_map(
                static fn (string $name, string $value): string => "$name: $value",
                array_keys($headers),
                $headers,
            )],
            CURLOPT_HEADERFUNCTION => static function ($_, string $line) use (&$received): int {
                [$name, $value] = [...explode(':', $line, 2), ''];
                $received[strtolower(trim($name))] = trim($value);
                return strlen($line);
            },
        ]);
        if ($body !== null) {
            curl_setopt($this->curl, CURLOPT_POSTFIELDS, $body);
        }
        $text = curl_exec($this->curl);
        if ($text === false) {
            throw curl_errno($this->curl) === CURLE_OPERATION_TIMEDOUT
                ? new CrmException('TIMED_OUT', 'The request timed out.')
                : new CrmException('CONNECTION_FAILED', 'The connection failed: ' . curl_error($this->curl));
        }
        $answer = new Answer(curl_getinfo($this->curl, CURLINFO_RESPONSE_CODE), $received, $text);
        if ($options?->onResponse !== null) {
            ($options->onResponse)($answer);
        }
        if ($answer->status < 200 || $answer->status > 299) {
            throw CrmException::ofAnswer($answer);
        }
        return $answer;
    }

    /** @return array<string, string> */
    private function credential(): array
    {
        $read = static fn (string|\Closure $secret): string => is_string($secret) ? $secret : $secret();
        if ($this->apiKey !== null) {
            return ['x-api-key' => $read($this->apiKey)];
        }
        return $this->token === null ? [] : ['Authorization' => 'Bearer ' . $read($this->token)];
    }

    /**
     * Every item of a list, over all pages.
     *
     * @param \Closure(?string): array<string, mixed> $fetch takes a cursor, null for the first page
     */
    public static function items(string $name, \Closure $fetch): \Generator
    {
        $cursor = null;
        do {
            $page = $fetch($cursor);
            foreach ($page[$name] as $item) {
                yield $item;
            }
            $cursor = $page['next_cursor'] ?? null;
        } while ($cursor !== null);
    }

    /**
     * Every page of an endless list. Waits for news, and retries through outages.
     *
     * @param \Closure(?string, int, CallOptions): array<string, mixed> $fetch
     */
    public static function follow(?string $cursor, ?int $wait, ?CallOptions $options, \Closure $fetch): \Generator
    {
        $wait ??= self::FEED_WAIT_SECONDS;
        $patient = new CallOptions(
            timeout: $options?->timeout ?? $wait + 15.0,
            retries: $options?->retries ?? PHP_INT_MAX,
            longestWait: $options?->longestWait ?? INF,
            headers: $options?->headers ?? [],
            onResponse: $options?->onResponse,
        );
        while (true) {
            $asked = microtime(true);
            // The first call returns immediately, so that the caller can store where the feed starts.
            $isBegun = $cursor !== null && $cursor !== 'now';
            $page = $fetch($cursor, $isBegun ? $wait : 0, $patient);
            $isNew = $page['next_cursor'] !== $cursor;
            $cursor = $page['next_cursor'];
            if ($isNew) {
                yield $page;
            } elseif (microtime(true) - $asked < self::FEED_PAUSE_SECONDS) {
                usleep((int) (self::FEED_PAUSE_SECONDS * 1_000_000));
            }
        }
    }

    private static function readData(Answer $answer): mixed
    {
        $body = json_decode($answer->body, true);
        if ($body === null) {
            throw new CrmException('UNREADABLE_ANSWER', 'The response is not JSON.', $answer->status);
        }
        $isEnvelope = is_array($body) && array_key_exists('success', $body) && array_key_exists('data', $body);
        return $isEnvelope ? $body['data'] : $body;
    }

    /** @param list<string> $segments */
    private static function fill(string $path, array $segments): string
    {
        return preg_replace_callback('/\{\w+\}/', static function () use (&$segments): string {
            $value = array_shift($segments);
            if (in_array($value, ['', '.', '..'], true)) {
                throw new \InvalidArgumentException("A path parameter must not be \"$value\".");
            }
            return rawurlencode($value);
        }, $path);
    }

    /** @param array<string, string|int|bool|null> $query */
    private static function queryString(array $query): string
    {
        $sent = array_filter($query, static fn (mixed $value): bool => $value !== null);
        $texts = array_map(static fn (mixed $value): mixed => is_bool($value) ? ($value ? 'true' : 'false') : $value, $sent);
        return $texts === [] ? '' : '?' . http_build_query($texts, '', '&', PHP_QUERY_RFC3986);
    }

    /**
     * A form with one file. The same file encodes to the same bytes, as a repeated Idempotency-Key requires.
     *
     * @param array{name: string, contentType: string, content: string} $file
     * @return array{string, string} the body and its type
     */
    private static function form(array $file): array
    {
        $boundary = 'headless-crm-' . substr(hash('sha256', $file['content']), 0, 32);
        $name = strtr($file['name'], ['\\' => '\\\\', '"' => '%22', "\r" => '%0D', "\n" => '%0A']);
        $head = "--$boundary\r\nContent-Disposition: form-data; name=\"file\"; filename=\"$name\"\r\n"
            . "Content-Type: {$file['contentType']}\r\n\r\n";
        return ["$head{$file['content']}\r\n--$boundary--\r\n", "multipart/form-data; boundary=$boundary"];
    }
}
