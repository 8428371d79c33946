<?php

declare(strict_types=1);

namespace HeadlessCrm;

/** Options of a single call. */
final class CallOptions
{
    /**
     * @param float|null $timeout seconds for each attempt
     * @param int|null $retries retries after a failed attempt
     * @param float|null $longestWait seconds; a failure with a longer Retry-After is thrown immediately
     * @param array<string, string> $headers sent in addition to the client's own
     * @param (\Closure(Answer): void)|null $onResponse receives every response, including those of failed attempts
     */
    public function __construct(
        public readonly ?float $timeout = null,
        public readonly ?int $retries = null,
        public readonly ?float $longestWait = null,
        public readonly array $headers = [],
        public readonly ?\Closure $onResponse = null,
    ) {
    }
}
