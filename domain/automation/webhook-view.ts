// A delivery as the API shows it.
import { eventName } from './webhook-bodies.ts';

export type DeliveryStatus = 'pending' | 'retrying' | 'succeeded' | 'failed' | 'cancelled' | 'skipped';

/** A stored delivery. */
export interface StoredDelivery {
  id: string;
  subscription_id: string;
  event_id: string;
  event: string;
  status: DeliveryStatus;
  attempts: number;
  max_attempts: number;
  next_attempt_at: Date | null;
  leased_until: Date | null;
  last_response_code: number | null;
  last_response_snippet: string | null;
  last_error: string | null;
  duration_ms: number | null;
  replay_of: string | null;
  is_test: boolean;
  created_at: Date;
  completed_at: Date | null;
}

/** While an attempt is on its way, the time of the next one is not known. */
export function toDeliveryResponse(row: StoredDelivery, now: Date) {
  const isUnderway = row.leased_until !== null && row.leased_until > now;
  return {
    id: row.id,
    subscription_id: row.subscription_id,
    event_id: eventName(row.event_id),
    event: row.event,
    status: row.status,
    attempts: row.attempts,
    max_attempts: row.max_attempts,
    next_attempt_at: isUnderway ? null : (row.next_attempt_at?.toISOString() ?? null),
    last_response_code: row.last_response_code,
    last_response_snippet: row.last_response_snippet,
    last_error: row.last_error as 'timeout' | 'dns' | 'tls' | 'connect' | 'blocked_address' | 'http_error' | null,
    duration_ms: row.duration_ms,
    replay_of: row.replay_of,
    is_test: row.is_test,
    created_at: row.created_at.toISOString(),
    completed_at: row.completed_at?.toISOString() ?? null,
  };
}
