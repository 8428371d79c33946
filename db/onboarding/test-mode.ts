// Reset of test mode: the lock of the reset, and the deletions step by step.
import type { Sql } from '../client/pool.ts';
import type { Scope } from '../client/visibility.ts';
import { getRecordTable } from '../records/columns.ts';
import { deleteRecords, deleteUnmoved } from '../records/deletion.ts';
import { lockFeed, moveFeed } from '../records/feed.ts';
import { belongsToTenant } from '../records/reached.ts';
import { purgeSome } from '../records/trash.ts';

/** Milliseconds after which a reset without progress counts as dead. */
const lease = 30_000;

/**
 * Claims the reset of a company's test data.
 * @returns false while another call has it
 */
export async function claimReset(sql: Sql, companyId: string, now: Date): Promise<boolean> {
  const claimed = await sql`
    insert into test_mode_resets (company_id, claimed_until) values (${companyId}, ${new Date(now.getTime() + lease)})
    on conflict (company_id) do update set claimed_until = excluded.claimed_until
    where test_mode_resets.claimed_until < ${now}`;
  return claimed.count === 1;
}

/** Extends the claim of the reset. */
export async function keepReset(sql: Sql, companyId: string): Promise<void> {
  await sql`
    update test_mode_resets set claimed_until = now() + ${lease} * interval '1 millisecond' where company_id = ${companyId}`;
}

export async function endReset(sql: Sql, companyId: string): Promise<void> {
  await sql`delete from test_mode_resets where company_id = ${companyId}`;
}

/** How many rows were deleted, by the names that the response shows. */
export type Deleted = Record<string, number>;

/**
 * Deletes some records of an object, with everything that belongs only to them.
 * @returns undefined if there are no more
 */
export async function deleteSomeRecords(
  sql: Sql,
  scope: Scope,
  object: string,
  limit: number,
): Promise<Deleted | undefined> {
  const table = getRecordTable(object);
  const rows = await sql<{ id: string }[]>`
    select r.id from ${sql(table.name)} r where ${belongsToTenant(sql, scope, table)} order by r.id limit ${limit}`;
  if (rows.length === 0) return undefined;
  const everybody: Scope = { ...scope, reach: { kind: 'company' } };
  const ids = rows.map(({ id }) => id);
  const records = await deleteRecords(sql, everybody, object, ids);
  await deleteUnmoved(sql, everybody, object, ids, new Date());
  await sql`
    delete from sla_clocks
    where company_id = ${scope.companyId} and test_mode = ${scope.testMode} and object = ${object} and record_id = any(${ids}::uuid[])`;
  const deleted: Deleted = {};
  const add = (name: string, count: number): void => {
    deleted[name] = (deleted[name] ?? 0) + count;
  };
  add(object, records.length);
  for (const { gone } of records) for (const [name, count] of Object.entries(gone)) add(name, count);
  return deleted;
}

/** Removes some deleted records of an object for good. No quota counts them. @returns how many */
export async function emptySomeTrash(sql: Sql, scope: Scope, object: string, limit: number): Promise<number> {
  return purgeSome(sql, scope, object, limit);
}

/** Deleted together with their records, for every object that is reset. */
export const kindsOnRecords = ['activities', 'tasks', 'notes', 'attachments'] as const;

/**
 * Tables of scheduling, messaging and automation, with the names under which their rows are
 * counted. Rows of uncounted tables belong to a row that is counted. Merges are not among them: they
 * are deleted after the trash of their object, which needs them to find what they have not moved.
 */
const otherTables = [
  ['taken_times', null],
  ['slot_reservations', 'reservations'],
  ['bookings', 'bookings'],
  ['scheduling_assignments', null],
  ['scheduling_turns', null],
  ['message_drafts', 'drafts'],
  ['campaign_runs', 'campaign_runs'],
  ['campaigns', 'campaigns'],
  ['workforce_runs', 'workforce_runs'],
  ['do_not_call', 'dnc_entries'],
  ['email_suppressions', 'email_suppressions'],
  ['phone_numbers', 'phone_numbers'],
  ['received_reports', 'inbound_reports'],
  ['messages', 'messages'],
  ['exports', 'exports'],
  ['import_errors', null],
  ['import_parts', null],
  ['imports', 'imports'],
  ['request_log', null],
  ['revert_items', null],
  ['reverts', 'reverts'],
  ['change_sets', 'change_sets'],
] as const;

/** The keys of tables without an id. */
const keyColumns: Partial<Record<string, string[]>> = {
  scheduling_turns: ['pool_id', 'user_id'],
  import_errors: ['import_id', 'row'],
  revert_items: ['revert_id', 'object', 'record_id'],
  import_parts: ['import_id', 'number'],
};

/** Deleted independently of records if all objects are reset. */
export const otherKinds: readonly string[] = otherTables.flatMap(([, name]) => name ?? []);

/**
 * Deletes some reservations, bookings, messages and other rows of these tables.
 * @returns undefined if there are no more
 */
export async function deleteSomeOthers(
  sql: Sql,
  { companyId, testMode }: Scope,
  limit: number,
): Promise<Deleted | undefined> {
  for (const [table, name] of otherTables) {
    const key = sql(keyColumns[table] ?? ['id']);
    const gone = await sql`
      delete from ${sql(table)}
      where company_id = ${companyId} and test_mode = ${testMode} and (${key}) in (
        select ${key} from ${sql(table)} where company_id = ${companyId} and test_mode = ${testMode} limit ${limit}
      )`;
    if (gone.count > 0) return name ? { [name]: gone.count } : {};
  }
  return undefined;
}

/**
 * Deletes some of the stored responses of Idempotency-Keys.
 * @returns how many
 */
export async function deleteSomeResponses(
  sql: Sql,
  { companyId, testMode }: Scope,
  before: Date,
  limit: number,
): Promise<number> {
  const gone = await sql`
    delete from idempotency_records
    where company_id = ${companyId} and test_mode = ${testMode} and (endpoint, key) in (
      select endpoint, key from idempotency_records
      where company_id = ${companyId} and test_mode = ${testMode} and created_at < ${before}
      limit ${limit}
    )`;
  return gone.count;
}

/**
 * Ends the current feed: drops waiting events, and skips one position, so that all earlier cursors
 * are expired.
 * @returns the position up to which events must be deleted
 */
export async function cutFeed(sql: Sql, { companyId, testMode }: Scope): Promise<number> {
  const scope = { companyId, testMode };
  const last = await lockFeed(sql, scope);
  await sql`delete from outbox_events where company_id = ${companyId} and test_mode = ${testMode}`;
  await moveFeed(sql, scope, last + 1);
  return last + 1;
}

/**
 * Deletes some of the events up to a position, the oldest first.
 * @returns how many
 */
export async function deleteSomeEvents(
  sql: Sql,
  { companyId, testMode }: Scope,
  until: number,
  limit: number,
): Promise<number> {
  const own = sql`company_id = ${companyId} and test_mode = ${testMode}`;
  const gone = await sql`
    delete from feed_events
    where ${own} and position <= (
      select max(position) from (
        select position from feed_events where ${own} and position <= ${until} order by position limit ${limit}
      ) oldest
    )`;
  return gone.count;
}
