// The traces of a change: its rows in the audit log, and its events.
import { randomUUID } from 'node:crypto';
import { v7 as uuidv7 } from 'uuid';
import type { Possession } from '../../domain/possession.ts';
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

/** What a row of the audit log says of a thing. */
type AuditedThing = Partial<Pick<AuditRow, 'object' | 'recordId' | 'changes' | 'metadata'>>;

/** A row for what the server does by itself. @param by the part of it that does it, e.g. `billing` */
export function ownAuditRow(
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
  /** null: the server did it by itself. */
  requestId: string | null;
  data: object;
  /** Of an update: from what to what. */
  changes?: object | undefined;
  /** Whose the record was, where the event takes it from them. */
  takenFrom?: Possession | undefined;
}

// Statements that are sent without waiting must all be started with execute(): a plain await starts a microtask later, and so out of order.
export function insertAudit(sql: Sql, rows: readonly AuditRow[]): Promise<unknown> {
  // The driver writes bytes that are a parameter; in JSON they stand as PostgreSQL reads them.
  const hashOf = ({ idempotencyKeyHash: hash }: AuditRow) =>
    hash === null || rows.length === 1 ? hash : `\\x${hash.toString('hex')}`;
  const values = rows.map((row) => ({
    company_id: row.companyId,
    id: uuidv7(),
    occurred_at: row.occurredAt,
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
    idempotency_key_hash: hashOf(row),
  }));
  return auditRows.of(sql, values).execute();
}

export function insertEvents(sql: Sql, rows: readonly EventRow[]): Promise<unknown> {
  // Creations, the busiest, have none of it, and a statement that is as short as can be.
  const hasMore = rows.some(({ changes, takenFrom }) => changes || takenFrom);
  const values = rows.map((row) => ({
    company_id: row.companyId,
    id: uuidv7(),
    test_mode: row.testMode,
    event: row.event,
    occurred_at: row.occurredAt,
    actor: row.actor,
    request_id: row.requestId,
    data: row.data,
    ...(hasMore ? furtherColumns(row) : {}),
  }));
  return (hasMore ? eventsOfMore : events).of(sql, values).execute();
}

function furtherColumns({ changes, takenFrom }: EventRow) {
  return {
    changes: changes ?? null,
    assigned_to: takenFrom?.assignedTo ?? null,
    created_by_kind: takenFrom?.createdBy?.kind ?? null,
    created_by_id: takenFrom?.createdBy?.id ?? null,
    created_by_user: takenFrom?.createdBy?.userId ?? null,
  };
}

const auditRows = new Insertion({ table: 'audit_logs', documents: ['changes', 'metadata'] });
const events = new Insertion({ table: 'outbox_events', documents: ['actor', 'data'] });
const eventsOfMore = new Insertion({ table: 'outbox_events', documents: ['actor', 'data', 'changes'] });
