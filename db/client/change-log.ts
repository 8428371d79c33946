// The audit rows and events of a change.
import { randomUUID } from 'node:crypto';
import { v7 as uuidv7 } from 'uuid';
import type { Ownership } from '../../domain/ownership.ts';
import { Insertion } from './insertion.ts';
import type { Sql } from './pool.ts';
import type { TenantScope } from './tenant.ts';

export interface AuditRow {
  companyId: string;
  occurredAt: Date;
  actorKind: string;
  actorId: string;
  apiKeyId: string | null;
  keyName: string | null;
  requestId: string;
  ip: string;
  userAgent: string | null;
  action: string;
  object: string | null;
  recordId: string | null;
  changes: object | null;
  metadata: object | null;
  testMode: boolean;
  idempotencyKeyHash: Buffer | null;
}

/** The parts of an audit row that describe what changed. */
type AuditedThing = Partial<Pick<AuditRow, 'object' | 'recordId' | 'changes' | 'metadata'>>;

/**
 * Returns an audit row for an action of the server itself.
 * @param by the part of the server that acts, e.g. `billing`
 */
export function buildSystemAuditRow(
  { companyId, testMode }: TenantScope,
  by: string,
  action: string,
  { object = null, recordId = null, changes = null, metadata = null }: AuditedThing,
  now: Date,
): AuditRow {
  return {
    companyId,
    testMode,
    occurredAt: now,
    actorKind: 'system',
    actorId: by,
    apiKeyId: null,
    keyName: null,
    requestId: randomUUID(),
    ip: '',
    userAgent: null,
    action,
    object,
    recordId,
    changes,
    metadata,
    idempotencyKeyHash: null,
  };
}

export interface EventRow {
  companyId: string;
  testMode: boolean;
  event: string;
  occurredAt: Date;
  actor: object;
  /** null if the server itself caused the event. */
  requestId: string | null;
  data: object;
  /** Of an update: the values before and after. */
  changes?: object | undefined;
  /** The ownership before the change, if the change takes the record away from someone. */
  previousOwnership?: Ownership | undefined;
}

// Statements that are sent without waiting must all be started with execute(). A plain await starts
// a microtask later, and so out of order.
/**
 * Inserts audit rows. The audit log is on the real time, but a record whose test clock was reset
 * keeps a time in the future, and its next changes are later still. In test mode, times in the
 * future become the present, in which the changes of one record keep their order. In live mode,
 * only the clocks of servers differ, by little, and their times are in order as they are.
 */
export function insertAudit(sql: Sql, rows: readonly AuditRow[]): Promise<unknown> {
  const now = Date.now();
  // The driver encodes a parameter of bytes. In JSON, bytes need PostgreSQL's text format.
  const encodeHash = ({ idempotencyKeyHash: hash }: AuditRow) =>
    hash === null || rows.length === 1 ? hash : `\\x${hash.toString('hex')}`;
  const values = rows.map((row) => ({
    company_id: row.companyId,
    id: uuidv7(),
    occurred_at: row.testMode && row.occurredAt.getTime() > now ? new Date(now) : row.occurredAt,
    actor_kind: row.actorKind,
    actor_id: row.actorId,
    api_key_id: row.apiKeyId,
    key_name: row.keyName,
    request_id: row.requestId,
    ip: row.ip,
    user_agent: row.userAgent,
    action: row.action,
    object: row.object,
    record_id: row.recordId,
    changes: row.changes,
    metadata: row.metadata,
    test_mode: row.testMode,
    idempotency_key_hash: encodeHash(row),
  }));
  return auditRows.of(sql, values).execute();
}

export function insertEvents(sql: Sql, rows: readonly EventRow[]): Promise<unknown> {
  // Creations are the most frequent events and have neither, so they use a shorter statement.
  const hasDetails = rows.some(({ changes, previousOwnership }) => changes || previousOwnership);
  const values = rows.map((row) => ({
    company_id: row.companyId,
    id: uuidv7(),
    test_mode: row.testMode,
    event: row.event,
    occurred_at: row.occurredAt,
    actor: row.actor,
    request_id: row.requestId,
    data: row.data,
    ...(hasDetails ? toDetailColumns(row) : {}),
  }));
  return (hasDetails ? detailedEvents : events).of(sql, values).execute();
}

function toDetailColumns({ changes, previousOwnership }: EventRow) {
  return {
    changes: changes ?? null,
    assigned_to: previousOwnership?.assignedTo ?? null,
    created_by_kind: previousOwnership?.createdBy?.kind ?? null,
    created_by_id: previousOwnership?.createdBy?.id ?? null,
    created_by_user: previousOwnership?.createdBy?.userId ?? null,
  };
}

const auditRows = new Insertion({ table: 'audit_logs', documents: ['changes', 'metadata'] });
const events = new Insertion({ table: 'outbox_events', documents: ['actor', 'data'] });
const detailedEvents = new Insertion({ table: 'outbox_events', documents: ['actor', 'data', 'changes'] });
