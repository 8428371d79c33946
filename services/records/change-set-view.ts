// Change sets as responses show them.
import { toActor } from '../../db/client/created-by.ts';
import type * as db from '../../db/records/change-sets.ts';
import type { components } from '../../generated/api.ts';

type Summary = components['schemas']['ChangeSetSummary'];

export function toSummary(row: db.ChangeSetSummaryRow, testMode: boolean, now: Date): Summary {
  return {
    id: row.id,
    // Until the job expires it, a set may be pending after its time.
    status: row.status === 'pending' && row.expiresAt <= now ? 'expired' : row.status,
    title: row.title,
    reason: row.reason,
    atomic: row.atomic,
    operation_count: row.operationCount,
    proposed_by: toActor(row),
    digest: row.digest,
    decided_by: row.decidedById === null ? null : { kind: 'user', id: row.decidedById, name: row.decidedByName },
    decided_at: row.decidedAt?.toISOString() ?? null,
    rejection_reason: row.rejectionReason,
    request_id: row.requestId,
    error: row.error,
    expires_at: row.expiresAt.toISOString(),
    test_mode: testMode,
    created_at: row.createdAt.toISOString(),
  };
}

export function toChangeSet(row: db.ChangeSetRow, testMode: boolean, now: Date): components['schemas']['ChangeSet'] {
  return {
    ...toSummary(row, testMode, now),
    operations: row.operations.map(({ method, path, body, ref, version, before, after, status, error }) => ({
      method,
      path,
      body,
      if_version: toVersionNumber(version),
      ref,
      before,
      after,
      status,
      error,
    })),
  };
}

/** Returns the number in an ETag; null for a version that is a digest. */
const toVersionNumber = (version: string | null): number | null => {
  const number = version?.match(/^"(\d+)"$/)?.[1];
  return number === undefined ? null : Number(number);
};
