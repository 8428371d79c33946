// Converts deliveries to API responses.
import { toEventId } from './webhook-bodies.ts';

export type DeliveryStatus = 'pending' | 'retrying' | 'succeeded' | 'failed' | 'cancelled' | 'skipped';

/** A stored delivery. */
export interface StoredDelivery {
  id: string;
  subscriptionId: string;
  eventId: string;
  event: string;
  status: DeliveryStatus;
  attempts: number;
  maxAttempts: number;
  nextAttemptAt: Date | null;
  leasedUntil: Date | null;
  lastResponseCode: number | null;
  lastResponseSnippet: string | null;
  lastError: string | null;
  durationMs: number | null;
  replayOf: string | null;
  isTest: boolean;
  createdAt: Date;
  completedAt: Date | null;
}

/**
 * Returns a delivery for a response. The time of the next attempt is unknown while an attempt is
 * under way.
 * @param realNow the real time, which leases are on
 */
export function toDeliveryResponse(row: StoredDelivery, realNow: Date) {
  const isUnderway = row.leasedUntil !== null && row.leasedUntil > realNow;
  return {
    id: row.id,
    subscription_id: row.subscriptionId,
    event_id: toEventId(row.eventId),
    event: row.event,
    status: row.status,
    attempts: row.attempts,
    max_attempts: row.maxAttempts,
    next_attempt_at: isUnderway ? null : (row.nextAttemptAt?.toISOString() ?? null),
    last_response_code: row.lastResponseCode,
    last_response_snippet: row.lastResponseSnippet,
    last_error: row.lastError as 'timeout' | 'dns' | 'tls' | 'connect' | 'blocked_address' | 'http_error' | null,
    duration_ms: row.durationMs,
    replay_of: row.replayOf,
    is_test: row.isTest,
    created_at: row.createdAt.toISOString(),
    completed_at: row.completedAt?.toISOString() ?? null,
  };
}
