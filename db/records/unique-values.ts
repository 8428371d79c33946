// Values of unique fields, found by custom_value_hashes: their records, and repeated values.
import type { RepeatedValue, UniqueValue, ValueHolder } from '../../domain/records/unique-values.ts';
import { markUnprepared, type Sql } from '../client/pipeline.ts';
import { enterTenant } from '../client/tenant.ts';
import { lockValues } from '../client/value-locks.ts';
import { isVisibleTo, type Scope } from '../client/visibility.ts';
import { getRecordTable } from './columns.ts';
import { selectById } from './reached.ts';

/**
 * Finds the records that have one of the values, visible or not. Locks the values until the
 * transaction ends, and prevents that a field of the object becomes unique. Call it in the
 * transaction that stores the values.
 */
export async function findHolders(
  sql: Sql,
  scope: Scope,
  object: string,
  wanted: readonly UniqueValue[],
): Promise<ValueHolder[]> {
  if (wanted.length === 0) return [];
  const { companyId, testMode } = scope;
  const table = getRecordTable(object);
  const fields = [...new Set(wanted.map(({ field }) => field))];
  const joining = joinWriters(sql, companyId, object, fields);
  const locking = lockValues(
    sql,
    companyId,
    wanted.map(({ field, value }) => JSON.stringify(['unique', testMode, object, field, value])),
  );
  // A separate statement: it must see what the locks' last holders committed.
  const finding = markUnprepared(
    sql<{ id: string; visible: boolean; stored: (string | null)[] }[]>`
      select r.id, ${isVisibleTo(sql, scope, table.assigned)} as visible,
        array(select r.custom ->> field from unnest(${fields}::text[]) field) as stored
      from (
        select distinct h.record_id from custom_value_hashes h
        where h.company_id = ${companyId} and h.test_mode = ${testMode} and h.hash = any(array(
          select custom_value_hash(${object}::text, w.field, w.value)
          from unnest(${wanted.map(({ field }) => field)}::text[], ${wanted.map(({ value }) => value)}::text[]) w (field, value)
        ))
      ) h
      cross join lateral (${selectById(sql, scope, table, sql`h.record_id`)}) r`,
  );
  const [, , rows] = await Promise.all([joining, locking, finding]);
  const valuesOf = Map.groupBy(wanted, ({ field }) => field);
  return rows.flatMap(({ id, visible, stored }) =>
    fields.flatMap((field, place) =>
      (valuesOf.get(field) ?? []).some(({ value }) => value === stored[place])
        ? [{ field, value: stored[place] ?? '', id, visible }]
        : [],
    ),
  );
}

/**
 * Prevents fields of the object from becoming unique until the transaction ends, and tells
 * keep_custom_value_hashes which fields are checked. This must precede all locks on values: a field
 * that becomes unique waits for its writers, and these wait for each other.
 */
async function joinWriters(sql: Sql, companyId: string, object: string, fields: readonly string[]): Promise<void> {
  const names = ` ${fields.map((field) => `${object}.${field}`).join(' ')} `;
  const joined = await sql`
    select pg_advisory_xact_lock_shared(unique_fields_lock(id, ${object})),
      set_config('app.checked_unique_fields', coalesce(current_setting('app.checked_unique_fields', true), '') || ${names}::text, true)
    from companies where id = ${companyId}`.execute();
  if (joined.count !== 1) throw new Error('values are checked in a company that does not exist');
}

/** The maximum of records to scan for one value. */
const mostOfValue = 100;

/**
 * Finds values of a field that several records have, in both modes, and blocks writes of the
 * object's custom values until the transaction ends.
 * @param limit values of each mode
 */
export async function findRepeatedValues(
  sql: Sql,
  scope: Scope,
  object: string,
  field: string,
  limit: number,
): Promise<RepeatedValue[]> {
  const { companyId, testMode } = scope;
  const locking = lockWriters(sql, companyId, object);
  const planning = readInOrder(sql);
  // Row-level security shows the records of one mode at a time.
  const searching = [testMode, !testMode].map(async (mode) => {
    const entering = enterTenant(sql, { companyId, testMode: mode });
    const [, found] = await Promise.all([
      entering,
      selectRepeated(sql, { ...scope, testMode: mode }, object, field, limit),
    ]);
    return found.map((each) => ({ ...each, testMode: mode }));
  });
  const back = enterTenant(sql, { companyId, testMode });
  const [, , found] = await Promise.all([locking, planning, Promise.all(searching), back]);
  return found.flat();
}

async function lockWriters(sql: Sql, companyId: string, object: string): Promise<void> {
  const locked = await sql`
    select pg_advisory_xact_lock(unique_fields_lock(id, ${object})) from companies where id = ${companyId}`.execute();
  if (locked.count !== 1) throw new Error('writers are locked in a company that does not exist');
}

/**
 * Counts hashes in the order of their index, even with outdated statistics, as after an import.
 * Sends its statements immediately.
 */
async function readInOrder(sql: Sql): Promise<void> {
  const settings = ['set local enable_hashagg = off', 'set local enable_bitmapscan = off'];
  await Promise.all(settings.map((setting) => sql.unsafe(setting).execute()));
}

/**
 * Reads the hashes of the field in their order. Only hashes that repeat lead to records. Sends its
 * statement immediately.
 */
async function selectRepeated(
  sql: Sql,
  scope: Scope,
  object: string,
  field: string,
  limit: number,
): Promise<readonly { value: string; ids: string[] }[]> {
  const table = getRecordTable(object);
  const ofField = sql`h.company_id = ${scope.companyId} and h.test_mode = ${scope.testMode}`;
  return await markUnprepared(
    sql<{ value: string; ids: string[] }[]>`
      select repeated.value, coalesce(repeated.ids, '{}') as ids
      from (
        select h.hash from custom_value_hashes h
        where ${ofField} and h.hash >= custom_field_hash(${object}, ${field}) and h.hash <= (custom_field_hash(${object}, ${field}) | 281474976710655)
        group by h.hash
        having count(*) > 1
        order by h.hash
      ) candidate
      cross join lateral (
        select r.custom ->> ${field}::text as value,
          array_agg(r.id order by r.created_at, r.id) filter (where ${isVisibleTo(sql, scope, table.assigned)}) as ids
        from (
          select distinct h.record_id from custom_value_hashes h where ${ofField} and h.hash = candidate.hash limit ${mostOfValue}
        ) h
        cross join lateral (${selectById(sql, scope, table, sql`h.record_id`)}) r
        where r.custom ? ${field}::text
        group by 1
        having count(*) > 1
      ) repeated
      limit ${limit}`,
  ).execute();
}
