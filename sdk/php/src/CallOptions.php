<?php

declare(strict_types=1);

namespace HeadlessCrm;

/** What can be set for a single call. */
final class CallOptions
{
    /**
     * @param float|null $timeout seconds for each attempt
     * @param int|null $retries further attempts after one that failed
     * @param float|null $longestWait seconds; a failure with a longer Retry-After is thrown at once
     * @param array<string, string> $headers sent beside the client's own
     * @param (\Closure(Answer): void)|null $onResponse sees every answer, also those of failed attempts
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
