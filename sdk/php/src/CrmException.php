<?php

declare(strict_types=1);

namespace HeadlessCrm;

/** A failed call. Branch on $errorCode, never on the message. */
final class CrmException extends \RuntimeException
{
    /**
     * @param string $errorCode a code of the API, or CONNECTION_FAILED, TIMED_OUT, UNREADABLE_ANSWER
     * @param string $errorMessage the message of the API, without the code
     * @param int|null $status the HTTP status; null without a response
     * @param array<string, mixed> $details facts about the failure, by code
     * @param string|null $requestId identifies the call when you ask for help
     * @param float|null $retryAfter seconds after which the same call may succeed
     */
    public function __construct(
        public readonly string $errorCode,
        public readonly string $errorMessage,
        public readonly ?int $status = null,
        public readonly array $details = [],
        public readonly ?string $requestId = null,
        public readonly ?float $retryAfter = null,
    ) {
        parent::__construct("$errorCode: $errorMessage");
    }

    /**
     * Every problem with the request. Empty for other failures.
     *
     * @return list<array{field: string, code: string, message: string}>
     */
    public function fields(): array
    {
        return $this->details['fields'] ?? [];
    }

    /** @internal */
    public static function ofAnswer(Answer $answer): self
    {
        $body = json_decode($answer->body, true);
        $error = is_array($body) ? ($body['error'] ?? null) : null;
        $code = 'UNREADABLE_ANSWER';
        $message = "The response with status $answer->status is not from the API.";
        $details = [];
        if (is_array($error) && is_string($error['code'] ?? null)) {
            $code = $error['code'];
            $message = $error['message'] ?? '';
            $details = $error['details'] ?? [];
        } elseif (is_string($error)) {
            // Sign-in errors have the format of RFC 6749.
            $code = $error;
            $message = $body['error_description'] ?? '';
        }
        $wait = self::readWait($answer->headers['retry-after'] ?? null);
        return new self($code, $message, $answer->status, $details, $answer->headers['x-request-id'] ?? null, $wait);
    }

    /** Parses Retry-After. Proxies may send a date instead of seconds. */
    private static function readWait(?string $header): ?float
    {
        if ($header === null) {
            return null;
        }
        if (ctype_digit($header)) {
            return (float) $header;
        }
        $date = strtotime($header);
        return $date === false ? null : max(0.0, $date - microtime(true));
    }

    /** @internal */
    public function mayPass(bool $repeatable): bool
    {
        // Only a larger plan or the next month helps.
        if ($this->errorCode === 'QUOTA_EXCEEDED') {
            return false;
        }
        // Rejected before anything was done.
        if ($this->status === 429 || in_array($this->errorCode, ['QUOTA_UNAVAILABLE', 'IDEMPOTENCY_IN_PROGRESS'], true)) {
            return true;
        }
        return $repeatable && ($this->status === null || $this->status >= 500);
    }

    /**
     * Returns the requested wait in seconds, or a backoff that doubles from half a second to eight.
     *
     * @internal
     */
    public function waitBefore(int $failures): float
    {
        $chance = mt_rand() / mt_getrandmax();
        return $this->retryAfter !== null
            ? $this->retryAfter + $chance * 0.25
            : min(8.0, 0.5 * 2 ** min($failures, 5)) * (0.5 + $chance / 2);
    }
}
