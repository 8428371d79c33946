// Reverts: their plans, progress and items, and the audit rows and records that they read.
import { hash } from 'node:crypto';
import type { Fragment } from 'postgres';
import type { Operation, RecordReversal, RevertConflict, RevertSource } from '../../domain/records/reverts.ts';
import { type CreatedByRow, toCreatedColumns } from '../client/created-by.ts';
import type { Sql } from '../client/pool.ts';
import { type DueDataRow, forEachTenant } from '../client/sweeping.ts';
import type { TenantScope } from '../client/tenant.ts';
import { lockValues } from '../client/value-locks.ts';
import type { Scope } from '../client/visibility.ts';

type RevertStatus = 'planning' | 'planned' | 'running' | 'completed' | 'failed' | 'expired';

/** Who a revert writes as: the caller that applied it. */
export interface RevertApplier extends CreatedByRow {
  createdByUser: string | null;
  reachKind: Scope['reach']['kind'];
  reachId: string | null;
}

export interface RevertRow extends CreatedByRow {
  id: string;
  status: RevertStatus;
  source: RevertSource;
  objects: string[] | null;
  /** The phase of the plan: operations are read, then their records are checked. */
  phase: 'read' | 'check' | 'done';
  /** The last audit row that was read. */
  readAt: Date | null;
  readId: string | null;
  /** The last record that was checked, and then the last one that was reverted. */
  nextStep: number;
  nextObject: string;
  nextRecord: string | null;
  records: number;
  operations: number;
  /** Records to revert, and those that were. */
  pending: number;
  done: number;
  reverted: number;
  skipped: number;
  conflictCount: number;
  conflicts: RevertConflict[];
  scopes: string[];
  digest: string;
  onConflict: 'skip' | 'fail' | null;
  /** The module whose scope allows it: imports for the undo of one. */
  module: 'reverts' | 'imports';
  reachKind: Scope['reach']['kind'];
  reachId: string | null;
  appliedBy: RevertApplier | null;
  error: { code: string; message: string } | null;
  attempts: number;
  createdByUser: string | null;
  expiresAt: Date | null;
  dueAt: Date | null;
  startedAt: Date | null;
  completedAt: Date | null;
  createdAt: Date;
}

const columns = [
  ...['id', 'status', 'source', 'objects', 'phase', 'read_at', 'read_id', 'next_step', 'next_object', 'next_record'],
  ...['records', 'operations', 'pending', 'done', 'reverted', 'skipped', 'conflict_count', 'conflicts', 'scopes'],
  ...[
    'digest',
    'on_conflict',
    'module',
    'reach_kind',
    'reach_id',
    'applied_by',
    'error',
    'attempts',
    'created_by_kind',
    'created_by_id',
  ],
  ...['created_by_name', 'created_by_user', 'expires_at', 'due_at', 'started_at', 'completed_at', 'created_at'],
];

/** The digest of a plan that changes nothing. */
export const emptyDigest = hash('sha256', '');

/** Returns the digest of a plan with the decisions of one more chunk. */
export function extendDigest(digest: string, decisions: readonly unknown[]): string {
  return hash('sha256', `${digest}${JSON.stringify(decisions)}`);
}

export interface NewRevert {
  id: string;
  source: RevertSource;
  objects: string[] | null;
  digest: string;
  onConflict: 'skip' | 'fail' | null;
  module: RevertRow['module'];
  appliedBy: RevertApplier | null;
}

/** Stores a revert whose plan begins. */
export async function insertRevert(sql: Sql, scope: Scope, given: NewRevert, now: Date): Promise<RevertRow> {
  const row = {
    companyId: scope.companyId,
    testMode: scope.testMode,
    ...given,
    source: sql.json(given.source as never),
    appliedBy: given.appliedBy && sql.json(given.appliedBy as never),
    status: 'planning',
    reachKind: scope.reach.kind,
    reachId: scope.reach.kind === 'company' ? null : scope.reach.id,
    ...toCreatedColumns(scope),
    createdAt: now,
  };
  const [stored] = await sql<RevertRow[]>`insert into reverts ${sql(row)} returning ${sql(columns)}`;
  return stored as RevertRow;
}

/** Returns the reverts of a workspace, newest first. @param after time and ID of the last one of the page before */
export async function listReverts(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  after: readonly [string, string] | undefined,
  limit: number,
): Promise<RevertRow[]> {
  return sql<RevertRow[]>`
    select ${sql(columns)}
    from reverts
    where company_id = ${companyId} and test_mode = ${testMode}
      ${after ? sql`and (created_at, id) < (${after[0]}::timestamptz, ${after[1]}::uuid)` : sql``}
    order by created_at desc, id desc
    limit ${limit}`;
}

export async function findRevert(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  id: string,
): Promise<RevertRow | undefined> {
  const [row] = await sql<RevertRow[]>`
    select ${sql(columns)} from reverts
    where company_id = ${companyId} and test_mode = ${testMode} and id = ${id}`;
  return row;
}

/** Returns a revert and locks it until the transaction ends. */
export async function lockRevert(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  id: string,
): Promise<RevertRow | undefined> {
  const [row] = await sql<RevertRow[]>`
    select ${sql(columns)} from reverts
    where company_id = ${companyId} and test_mode = ${testMode} and id = ${id}
    for no key update`;
  return row;
}

export type RevertChange = Partial<
  Omit<RevertRow, 'id' | 'source' | 'conflicts' | 'appliedBy' | 'error' | 'createdAt'>
> & { itemsUntil?: Date | null };

/** Changes a revert, which the caller has locked or just inserted. */
export async function updateRevert(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  id: string,
  change: RevertChange,
  json: Partial<Pick<RevertRow, 'conflicts' | 'appliedBy' | 'error'>> = {},
): Promise<void> {
  const documents = Object.fromEntries(
    Object.entries(json).map(([name, value]) => [name, value === null ? null : sql.json(value as never)]),
  );
  await sql`
    update reverts set ${sql({ ...change, ...documents })}
    where company_id = ${companyId} and test_mode = ${testMode} and id = ${id}`;
}

/** Locks the queue of reverts of a workspace, and counts those that are planned or applied by a job. */
export async function countActiveReverts(
  sql: Sql,
  { companyId, testMode }: TenantScope,
): Promise<{ running: number; leased: number }> {
  const locked = lockValues(sql, companyId, [JSON.stringify(['reverts', testMode])]);
  const counting = sql<{ running: number; leased: number }[]>`
    select count(*)::int as running, count(*) filter (where started_at is not null)::int as leased
    from reverts
    where company_id = ${companyId} and test_mode = ${testMode} and due_at is not null`.execute();
  const [, [counts]] = await Promise.all([locked, counting]);
  return counts ?? { running: 0, leased: 0 };
}

/** Returns reverts that the job may take, across tenants. */
export async function findDueReverts(sql: Sql, now: Date, limit: number): Promise<(TenantScope & { id: string })[]> {
  return sql`
    select company_id, test_mode, id from reverts
    where due_at <= ${now}
    order by due_at
    limit ${limit}`;
}

/** Returns the request ID in the audit rows of a source. Imports and reverts write their own ID there. */
const getRequestId = ({ requestId, importId, revertId }: RevertSource): string | null =>
  requestId ?? importId ?? revertId ?? null;

/** Returns the condition for audit rows that are operations of a revert. */
function isOperation(sql: Sql, source: RevertSource, objects: readonly string[] | null): Fragment {
  const { actor } = source;
  const ofSource = actor
    ? sql`(a.actor_id = ${actor.id} and a.occurred_at >= ${actor.from} and a.occurred_at <= ${actor.to})`
    : sql`a.request_id = ${getRequestId(source)}`;
  return objects ? sql`${ofSource} and a.object = any(${[...objects]}::text[])` : ofSource;
}

/** Audit rows from a part of the log, and its last row, read or not; undefined at the end. */
export interface OperationStretch {
  operations: Operation[];
  reached: { occurredAt: Date; id: string } | undefined;
}

/**
 * Returns the operations of a revert in their order, from the next part of the audit log.
 * @param stretch the number of rows to scan
 */
export async function readOperations(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  { source, objects, readAt, readId }: Pick<RevertRow, 'source' | 'objects' | 'readAt' | 'readId'>,
  stretch: number,
): Promise<OperationStretch> {
  // Rows of a request are found by their index, those of an actor among all of the time.
  const { actor } = source;
  const scanned = actor
    ? sql`and a.occurred_at >= ${actor.from} and a.occurred_at <= ${actor.to}`
    : sql`and a.request_id = ${getRequestId(source)}`;
  const rows = await sql<(Operation & { isOperation: boolean })[]>`
    select a.id, a.occurred_at, a.action, a.object, a.record_id,
      case when ${isOperation(sql, source, objects)} then a.changes end as changes, a.metadata ->> 'merge_id' as merge_id,
      coalesce(${isOperation(sql, source, objects)}, false) as is_operation
    from audit_logs a
    where a.company_id = ${companyId} and a.test_mode = ${testMode} ${scanned}
      ${readAt ? sql`and (a.occurred_at, a.id) > (${readAt}, ${readId})` : sql``}
    order by a.occurred_at, a.id
    limit ${stretch}`;
  const last = rows.at(-1);
  return {
    operations: rows.filter((row) => row.isOperation),
    reached: last && rows.length === stretch ? { occurredAt: last.occurredAt, id: last.id } : undefined,
  };
}

const itemColumns: string[] = [
  ...['object', 'record_id', 'operations', 'existed_before', 'exists_after', 'first_at', 'last_at', 'fields'],
];
const plannedColumns: string[] = [...itemColumns, 'step', 'conflicts'];

/** An item of a plan. */
export interface RevertItem extends RecordReversal {
  /** Null if the plan leaves the record as it is. */
  step: number | null;
  conflicts: RevertConflict[];
}

/**
 * Returns the stored reversals of some records. Looks them up by key, because PostgreSQL would scan
 * all items for a join.
 */
export async function findReversals(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  revertId: string,
  keys: readonly { object: string; recordId: string }[],
): Promise<RecordReversal[]> {
  if (keys.length === 0) return [];
  return sql<RecordReversal[]>`
    select ${sql(itemColumns)} from revert_items
    where company_id = ${companyId} and test_mode = ${testMode} and revert_id = ${revertId}
      and object = any(${[...new Set(keys.map(({ object }) => object))]}::text[])
      and record_id = any(${keys.map(({ recordId }) => recordId)}::uuid[])`;
}

/** Stores what operations did to records. @returns how many of them are new */
export async function storeReversals(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  revertId: string,
  reversals: readonly RecordReversal[],
): Promise<number> {
  if (reversals.length === 0) return 0;
  const rows = reversals.map((each) => ({
    object: each.object,
    record_id: each.recordId,
    operations: each.operations,
    existed_before: each.existedBefore,
    exists_after: each.existsAfter,
    first_at: each.firstAt,
    last_at: each.lastAt,
    fields: each.fields,
  }));
  const stored = await sql<{ isNew: boolean }[]>`
    insert into revert_items (company_id, test_mode, revert_id, object, record_id, operations, existed_before, exists_after, first_at,
      last_at, fields)
    select ${companyId}, ${testMode}, ${revertId}, i.object, i.record_id, i.operations, i.existed_before, i.exists_after, i.first_at,
      i.last_at, i.fields
    from jsonb_to_recordset(${sql.json(rows as never)}) as i (object text, record_id uuid, operations int, existed_before boolean,
      exists_after boolean, first_at timestamptz, last_at timestamptz, fields jsonb)
    on conflict (company_id, test_mode, revert_id, object, record_id) do update
    set operations = excluded.operations, existed_before = excluded.existed_before, exists_after = excluded.exists_after,
      last_at = excluded.last_at, fields = excluded.fields
    returning operations, xmax = 0 as is_new`;
  return stored.filter(({ isNew }) => isNew).length;
}

/** Returns the next items to check, in the order of objects and records. */
export async function findUncheckedItems(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  { id, nextObject, nextRecord }: Pick<RevertRow, 'id' | 'nextObject' | 'nextRecord'>,
  limit: number,
): Promise<RecordReversal[]> {
  return sql<RecordReversal[]>`
    select ${sql(itemColumns)} from revert_items
    where company_id = ${companyId} and test_mode = ${testMode} and revert_id = ${id}
      ${nextRecord === null ? sql`` : sql`and (object, record_id) > (${nextObject}, ${nextRecord})`}
    order by object, record_id
    limit ${limit}`;
}

/** Stores the steps and conflicts of checked items. */
export async function storePlan(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  revertId: string,
  items: readonly Pick<RevertItem, 'object' | 'recordId' | 'step' | 'conflicts'>[],
): Promise<void> {
  const noted = items.filter(({ step, conflicts }) => step !== null || conflicts.length > 0);
  if (noted.length === 0) return;
  const rows = noted.map(({ object, recordId, step, conflicts }) => ({ object, record_id: recordId, step, conflicts }));
  await sql`
    update revert_items i
    set step = planned.step, conflicts = planned.conflicts
    from jsonb_to_recordset(${sql.json(rows as never)}) as planned (object text, record_id uuid, step smallint, conflicts jsonb)
    where i.company_id = ${companyId} and i.test_mode = ${testMode} and i.revert_id = ${revertId}
      and i.object = any(${[...new Set(noted.map(({ object }) => object))]}::text[])
      and i.record_id = any(${noted.map(({ recordId }) => recordId)}::uuid[])
      and i.object = planned.object and i.record_id = planned.record_id`;
}

/** Returns the next items to revert, all of one step. */
export async function findItemsToRevert(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  { id, nextStep, nextObject, nextRecord }: Pick<RevertRow, 'id' | 'nextStep' | 'nextObject' | 'nextRecord'>,
  limit: number,
): Promise<RevertItem[]> {
  const rows = await sql<RevertItem[]>`
    select ${sql(plannedColumns)} from revert_items
    where company_id = ${companyId} and test_mode = ${testMode} and revert_id = ${id} and step is not null
      ${nextRecord === null ? sql`` : sql`and (step, object, record_id) > (${nextStep}, ${nextObject}, ${nextRecord})`}
    order by step, object, record_id
    limit ${limit}`;
  const [first] = rows;
  return rows.filter(({ step, object }) => step === first?.step && object === first.object);
}

/** Returns which records are in the trash themselves, and can be restored. */
export async function findRestorable(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  object: string,
  ids: readonly string[],
  now: Date,
): Promise<Set<string>> {
  if (ids.length === 0) return new Set();
  const rows = await sql<{ id: string }[]>`
    select id from deleted_records
    where company_id = ${companyId} and test_mode = ${testMode} and object = ${object} and id = any(${[...ids]}::uuid[])
      and not is_restored and purge_at > ${now}`;
  return new Set(rows.map(({ id }) => id));
}

/** How much it takes to restore a record. */
interface TrashedSize {
  id: string;
  /** True if it is in the trash because it was merged into another record. */
  isMerged: boolean;
  /** Notes, tasks and other items that return with it. */
  items: number;
}

/** Returns what restoring records from the trash takes, by their ids. */
export async function findTrashedSizes(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  object: string,
  ids: readonly string[],
): Promise<Map<string, TrashedSize>> {
  const rows = await sql<TrashedSize[]>`
    select id, merged_into is not null as is_merged,
      (select coalesce(sum(counted.value::int), 0)::int from jsonb_each_text(children) as counted) as items
    from deleted_records
    where company_id = ${companyId} and test_mode = ${testMode} and object = ${object} and id = any(${[...ids]}::uuid[])`;
  return new Map(rows.map((row) => [row.id, row]));
}

/** Returns which records others wrote to since a time, apart from the operations and their revert. */
export async function findChangedByOthers(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  { id, source }: Pick<RevertRow, 'id' | 'source'>,
  records: readonly { id: string; since: Date }[],
): Promise<Set<string>> {
  if (records.length === 0) return new Set();
  const rows = await sql<{ id: string }[]>`
    select written.id
    from unnest(${records.map((each) => each.id)}::text[], ${records.map(({ since }) => since.toISOString())}::timestamptz[])
      as written (id, since)
    where exists (
      select from audit_logs a
      where a.company_id = ${companyId} and a.test_mode = ${testMode} and a.record_id = written.id and a.occurred_at >= written.since
        and a.actor_kind <> 'system' and a.request_id <> ${id} and not ${isOperation(sql, source, null)}
    )`;
  return new Set(rows.map((row) => row.id));
}

/**
 * Removes the items of plans that ended or expired.
 * @returns how many rows: `limit` if there may be more
 */
export async function sweepReverts(sql: Sql, limit: number, now: Date): Promise<number> {
  const due = await sql<DueDataRow[]>`
    select company_id, test_mode, id from reverts where items_until < ${now} order by items_until limit ${limit}`;
  return forEachTenant(due, async ({ companyId, testMode }, rows) => {
    const ids = rows.map(({ id }) => id);
    const own = sql`company_id = ${companyId} and test_mode = ${testMode}`;
    const items = await sql`
      delete from revert_items
      where ${own} and (revert_id, object, record_id) in (
        select revert_id, object, record_id from revert_items where ${own} and revert_id = any(${ids}::uuid[]) limit ${limit}
      )`;
    // A revert can have more items than one batch. The next batch finds it again.
    if (items.count === limit) return limit;
    const kept = await sql`
      update reverts set items_until = null, status = case when status = 'planned' then 'expired' else status end
      where ${own} and id = any(${ids}::uuid[])`;
    return kept.count;
  });
}
