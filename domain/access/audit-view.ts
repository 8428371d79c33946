// Converts rows of the audit log to API responses.
import type { components } from '../../generated/api.ts';

interface AuditRow {
  id: string;
  occurredAt: Date;
  actor: components['schemas']['Actor'];
  action: string;
  object: string | null;
  recordId: string | null;
  changes: Record<string, { from: unknown; to: unknown }> | null;
  metadata: Record<string, unknown> | null;
  requestId: string;
  ip: string;
  testMode: boolean;
}

export function toAuditLog(row: AuditRow): components['schemas']['AuditLog'] {
  return {
    id: row.id,
    occurred_at: row.occurredAt.toISOString(),
    actor: row.actor,
    action: row.action,
    object: row.object,
    record_id: row.recordId,
    changes: row.changes,
    metadata: row.metadata,
    request_id: row.requestId,
    ip: row.ip,
    test_mode: row.testMode,
  };
}
