// Change sets: writes that were tried out and wait for a person.
import { hash } from 'node:crypto';
import { type CreatedByRow, toCreatedColumns } from '../client/created-by.ts';
import type { Sql } from '../client/pool.ts';
import { forEachTenant } from '../client/sweeping.ts';
import type { TenantScope } from '../client/tenant.ts';
import { belongsToRun, type DueTime } from '../client/test-clocks.ts';
import type { Scope } from '../client/visibility.ts';

export type ChangeSetStatus = 'pending' | 'applied' | 'rejected' | 'withdrawn' | 'expired' | 'failed';

export interface ChangeSetFailure {
  index: number;
  status: number;
  code: string;
  message: string;
}

/** A record as it was before the whole set. */
export interface Pin {
  object: string;
  id: string;
  version: number;
}

/** An operation with what its trial found. */
export interface StoredOperation {
  method: 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  path: string;
  body: Record<string, unknown> | unknown[] | null;
  ref: string | null;
  /** The path that reads its target; null if it has none yet. */
  target: string | null;
  /** The version of the target before the whole set: an ETag, or a digest of its data. */
  version: string | null;
  /** Scopes that its trial checked in addition to the declared ones. */
  scopes: string[];
  /** The records that existed before the set and that the trial changed. Not for readers. */
  pins: Pin[];
  /** A digest of which items succeeded in the trial; null for examples, which had none. */
  result: string | null;
  /** The ID that its trial created; absent if it created nothing. Not for readers. */
  triedId?: string | undefined;
  before: Record<string, unknown> | null;
  after: Record<string, unknown> | null;
  status: 'pending' | 'applied' | 'failed' | 'skipped';
  error: ChangeSetFailure | null;
}

export interface ChangeSetSummaryRow extends CreatedByRow {
  id: string;
  status: ChangeSetStatus;
  title: string;
  reason: string | null;
  atomic: boolean;
  operationCount: number;
  modules: string[];
  digest: string;
  createdByUser: string | null;
  decidedById: string | null;
  decidedByName: string | null;
  decidedAt: Date | null;
  rejectionReason: string | null;
  requestId: string | null;
  error: ChangeSetFailure | null;
  expiresAt: Date;
  createdAt: Date;
}

export interface ChangeSetRow extends ChangeSetSummaryRow {
  operations: StoredOperation[];
}

const summaryColumns = [
  ...['id', 'status', 'title', 'reason', 'atomic', 'operation_count', 'modules', 'digest'],
  ...['created_by_kind', 'created_by_id', 'created_by_name', 'created_by_user'],
  ...['decided_by_id', 'decided_by_name', 'decided_at', 'rejection_reason', 'request_id', 'error', 'expires_at'],
  'created_at',
];
const columns = [...summaryColumns, 'operations'];

/** The reader of change sets, and the modules that it can view. */
export interface ChangeSetViewer extends Scope {
  viewable: readonly string[];
}

/**
 * Returns the condition that a viewer may see a set: they proposed it, or can view all its modules
 * in the whole workspace.
 */
function isShown(sql: Sql, { actor, userId, reach, viewable }: ChangeSetViewer) {
  const isOwn = sql`created_by_kind = ${actor.kind} and created_by_id = ${actor.id} and created_by_user is not distinct from ${userId}::uuid`;
  return reach.kind === 'company' ? sql`(modules <@ ${[...viewable]}::text[] or (${isOwn}))` : sql`(${isOwn})`;
}

/** Returns change sets, newest first. @param after time and ID of the last one of the page before */
export async function listChangeSets(
  sql: Sql,
  viewer: ChangeSetViewer,
  status: ChangeSetStatus | undefined,
  after: readonly [string, string] | undefined,
  limit: number,
  now: Date,
): Promise<ChangeSetSummaryRow[]> {
  return sql<ChangeSetSummaryRow[]>`
    select ${sql(summaryColumns)}
    from change_sets
    where company_id = ${viewer.companyId} and test_mode = ${viewer.testMode} and ${isShown(sql, viewer)}
      ${status ? sql`and status = ${status}` : sql``}
      ${status === 'pending' ? sql`and expires_at > ${now}` : sql``}
      ${after ? sql`and (created_at, id) < (${after[0]}::timestamptz, ${after[1]}::uuid)` : sql``}
    order by created_at desc, id desc
    limit ${limit}`;
}

/** Pending sets that a search for those about a record reads: their operations can be large. */
const searchedSets = 100;

/**
 * Returns pending sets with an operation on a record or its items, newest first, of the newest 100
 * pending ones.
 */
export async function listPendingAbout(
  sql: Sql,
  viewer: ChangeSetViewer,
  recordId: string,
  limit: number,
  now: Date,
): Promise<Pick<ChangeSetSummaryRow, 'id' | 'title' | 'createdAt'>[]> {
  return sql<Pick<ChangeSetSummaryRow, 'id' | 'title' | 'createdAt'>[]>`
    select id, title, created_at
    from (
      select id, title, created_at, operations
      from change_sets
      where company_id = ${viewer.companyId} and test_mode = ${viewer.testMode} and ${isShown(sql, viewer)}
        and status = 'pending' and expires_at > ${now}
      order by created_at desc, id desc
      limit ${searchedSets}
    ) pending
    where exists (
      select from jsonb_array_elements(operations) operation where strpos(lower(operation->>'path'), ${recordId}) > 0
    )
    order by created_at desc, id desc
    limit ${limit}`;
}

/** Returns a change set that the viewer may see. */
export async function findChangeSet(sql: Sql, viewer: ChangeSetViewer, id: string): Promise<ChangeSetRow | undefined> {
  const [row] = await sql<ChangeSetRow[]>`
    select ${sql(columns)}
    from change_sets
    where company_id = ${viewer.companyId} and test_mode = ${viewer.testMode} and id = ${id} and ${isShown(sql, viewer)}`;
  return row;
}

/** Returns a change set that the viewer may see, locked until the transaction ends. */
export async function lockChangeSet(sql: Sql, viewer: ChangeSetViewer, id: string): Promise<ChangeSetRow | undefined> {
  const [row] = await sql<ChangeSetRow[]>`
    select ${sql(columns)}
    from change_sets
    where company_id = ${viewer.companyId} and test_mode = ${viewer.testMode} and id = ${id} and ${isShown(sql, viewer)}
    for no key update`;
  return row;
}

/** Returns a digest of a JSON value. @param without names of members to leave out */
export const hashJson = (value: unknown, without: readonly string[] = []): string =>
  hash(
    'sha256',
    JSON.stringify(value, (name, member) => (without.includes(name) ? undefined : member)),
  );

export interface NewChangeSet {
  id: string;
  title: string;
  reason: string | null;
  atomic: boolean;
  operations: StoredOperation[];
  modules: string[];
  digest: string;
  /** The same for the same proposal; null for sets that were put together on purpose. */
  proposalDigest: string | null;
  expiresAt: Date;
}

/** @returns undefined if the credential has a pending set for the same proposal */
export async function insertChangeSet(
  sql: Sql,
  scope: Scope,
  given: NewChangeSet,
  now: Date,
): Promise<ChangeSetRow | undefined> {
  const row = {
    companyId: scope.companyId,
    testMode: scope.testMode,
    ...given,
    operations: sql.json(given.operations as never),
    operationCount: given.operations.length,
    status: 'pending',
    ...toCreatedColumns(scope),
    createdAt: now,
  };
  const [stored] = await sql<ChangeSetRow[]>`
    insert into change_sets ${sql(row)}
    on conflict (company_id, test_mode, created_by_id, created_by_user, proposal_digest)
      where status = 'pending' and proposal_digest is not null
    do nothing
    returning ${sql(columns)}`;
  return stored;
}

/** Returns the condition that a set is a pending one of a credential. */
const isOwnPending = (sql: Sql, { actor, userId }: Scope) =>
  sql`status = 'pending' and created_by_id = ${actor.id} and created_by_user is not distinct from ${userId}::uuid`;

/** Returns the pending set of a credential for the same proposal. */
export async function findSameProposal(
  sql: Sql,
  scope: Scope,
  proposalDigest: string,
): Promise<ChangeSetRow | undefined> {
  const [row] = await sql<ChangeSetRow[]>`
    select ${sql(columns)} from change_sets
    where company_id = ${scope.companyId} and test_mode = ${scope.testMode} and ${isOwnPending(sql, scope)}
      and proposal_digest = ${proposalDigest}`;
  return row;
}

/** Lets a credential make the same proposal again, although the former one has not been expired yet. */
export async function releaseProposal(sql: Sql, { companyId, testMode }: TenantScope, id: string): Promise<void> {
  await sql`
    update change_sets set proposal_digest = null
    where company_id = ${companyId} and test_mode = ${testMode} and id = ${id}`;
}

/** Withdraws a set, if it is still pending. @returns false if it was decided meanwhile */
export async function withdrawPending(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  id: string,
  operations: readonly StoredOperation[],
): Promise<boolean> {
  const ended = await sql`
    update change_sets set status = 'withdrawn', operations = ${sql.json(operations as never)}
    where company_id = ${companyId} and test_mode = ${testMode} and id = ${id} and status = 'pending'`;
  return ended.count > 0;
}

/** Returns the number of pending sets of a credential. */
export async function countPendingChangeSets(sql: Sql, scope: Scope, now: Date): Promise<number> {
  const [row] = await sql<{ count: number }[]>`
    select count(*)::int as count from change_sets
    where company_id = ${scope.companyId} and test_mode = ${scope.testMode} and ${isOwnPending(sql, scope)} and expires_at > ${now}`;
  return row?.count ?? 0;
}

export interface Decision {
  status: ChangeSetStatus;
  operations: StoredOperation[];
  decidedById?: string | null;
  decidedByName?: string | null;
  decidedAt?: Date;
  rejectionReason?: string | null;
  requestId?: string | null;
  error?: ChangeSetFailure | null;
}

/** Ends a change set that the caller has locked. */
export async function decideChangeSet(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  id: string,
  { operations, error, ...rest }: Decision,
): Promise<void> {
  const change = {
    ...rest,
    operations: sql.json(operations as never),
    error: error ? sql.json(error as never) : null,
  };
  await sql`
    update change_sets set ${sql(change)}
    where company_id = ${companyId} and test_mode = ${testMode} and id = ${id}`;
}

/** Returns the companies with pending sets whose time is over. For the platform role. */
export async function findExpiredChangeSets(
  sql: Sql,
  limit: number,
  due: DueTime,
): Promise<(TenantScope & { id: string })[]> {
  return sql`
    select company_id, test_mode, id from change_sets
    where status = 'pending' and expires_at <= ${due.now} and ${belongsToRun(sql, 'change_sets', due)}
    order by expires_at
    limit ${limit}`;
}

/** Expires a set, if it is still pending and its time is over. */
export async function expireChangeSet(
  sql: Sql,
  { companyId, testMode, id }: TenantScope & { id: string },
  now: Date,
): Promise<ChangeSetSummaryRow | undefined> {
  const [row] = await sql<ChangeSetSummaryRow[]>`
    update change_sets set status = 'expired'
    where company_id = ${companyId} and test_mode = ${testMode} and id = ${id} and status = 'pending' and expires_at <= ${now}
    returning ${sql(summaryColumns)}`;
  return row;
}

/** How long a set stays after its time is over. */
const keptMs = 90 * 86_400_000;

/** Deletes sets 90 days after their time was over. @returns the number of sets */
export async function sweepChangeSets(sql: Sql, limit: number, now: Date): Promise<number> {
  const due = await sql<(TenantScope & { id: string })[]>`
    select company_id, test_mode, id from change_sets
    where status <> 'pending' and expires_at < ${new Date(now.getTime() - keptMs)}
    order by expires_at
    limit ${limit}`;
  return forEachTenant(due, async ({ companyId, testMode }, rows) => {
    const deleted = await sql`
      delete from change_sets
      where company_id = ${companyId} and test_mode = ${testMode} and id = any(${rows.map(({ id }) => id)}::uuid[])`;
    return deleted.count;
  });
}
