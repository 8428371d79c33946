// Clears references to deleted records: immediately if they are few, by a job otherwise.
import type { Fragment } from 'postgres';
import type { ActingScope, Actor } from '../client/created-by.ts';
import type { Sql } from '../client/pool.ts';
import type { TenantScope } from '../client/tenant.ts';

/** References that a deletion clears in its own transaction. */
export const mostClearedAtOnce = 1000;

interface Referring {
  object: 'leads' | 'customers' | 'deals';
  column: 'account_id' | 'lead_id' | 'customer_id' | 'converted_customer_id';
}

/**
 * The references to the records of an object, in the order in which all transactions lock: leads,
 * accounts, customers, deals.
 */
const referringTo: Readonly<Record<string, readonly Referring[]>> = {
  leads: [
    { object: 'customers', column: 'lead_id' },
    { object: 'deals', column: 'lead_id' },
  ],
  accounts: [
    { object: 'customers', column: 'account_id' },
    { object: 'deals', column: 'account_id' },
  ],
  customers: [
    { object: 'leads', column: 'converted_customer_id' },
    { object: 'deals', column: 'customer_id' },
  ],
};

/** Returns true for objects to whose records other records can refer. */
export const isReferredTo = (object: string): boolean => object in referringTo;

/** A record that lost its reference to a deleted one. */
export interface ClearedReference {
  object: Referring['object'];
  id: string;
  field: Referring['column'];
  /** The deleted record. */
  from: string;
  changedAt: Date;
}

const isOwnRow = (sql: Sql, { companyId, testMode }: TenantScope): Fragment =>
  sql`r.company_id = ${companyId} and r.test_mode = ${testMode}`;

/**
 * Locks the leads that were converted to customers that will be deleted: leads come before
 * customers in the order of locks. Sends its statement immediately.
 * @param only some of the leads; undefined: all
 */
export function lockConvertedLeads(
  sql: Sql,
  scope: TenantScope,
  customerIds: readonly string[],
  only?: readonly string[],
): Promise<unknown> {
  return sql`
    select r.id from leads r
    where ${isOwnRow(sql, scope)} and r.converted_customer_id = any(${[...customerIds]}::uuid[])
      ${only ? sql`and r.id = any(${[...only]}::uuid[])` : sql``}
    order by r.id
    for no key update`.execute();
}

/** Counts the records that refer to some others, up to `most`. Sends its statement immediately. */
export async function countReferring(
  sql: Sql,
  scope: TenantScope,
  object: string,
  ids: readonly string[],
  most: number,
): Promise<number> {
  const parts = (referringTo[object] ?? []).map(
    ({ object: source, column }) => sql`
      (select r.id from ${sql(source)} r where ${isOwnRow(sql, scope)} and r.${sql(column)} = any(${[...ids]}::uuid[]) limit ${most})`,
  );
  const rows = await sql<{ count: number }[]>`
    select count(*)::int as count
    from (${parts.map((part, index) => (index === 0 ? part : sql` union all ${part}`))}) referring`.execute();
  return rows[0]?.count ?? 0;
}

/**
 * Clears references to deleted records. Each changed record gets the next version and a later
 * timestamp.
 * @param ids of deleted records of one object
 * @param limit the maximum number
 */
export async function clearReferences(
  sql: Sql,
  scope: ActingScope,
  object: string,
  ids: readonly string[],
  limit: number,
  now: Date,
): Promise<ClearedReference[]> {
  const cleared: ClearedReference[] = [];
  for (const { object: source, column } of referringTo[object] ?? []) {
    if (cleared.length >= limit) break;
    const table = sql(source);
    const isReferring = sql`${isOwnRow(sql, scope)} and r.${sql(column)} = any(${[...ids]}::uuid[])`;
    // Selected by the index of the reference, then locked in the order of the ids, as everywhere.
    const rows = await sql<Omit<ClearedReference, 'object' | 'field'>[]>`
      with picked as materialized (
        select r.id from ${table} r where ${isReferring} limit ${limit - cleared.length}
      ), referring as materialized (
        select r.id, r.${sql(column)} as gone from ${table} r
        where ${isReferring} and r.id = any(array(select id from picked))
        order by r.id
        for no key update
      )
      update ${table} r
      set ${sql(column)} = null, version = r.version + 1, updated_at = greatest(r.updated_at + interval '1 millisecond', ${now}),
        updated_by_id = ${scope.actor.id}
      from referring
      where ${isOwnRow(sql, scope)} and r.id = any(array(select id from referring)) and r.id = referring.id
      returning r.id, referring.gone as "from", r.updated_at as changed_at`;
    cleared.push(...rows.map((row) => ({ ...row, object: source, field: column })));
  }
  return cleared;
}

/** A record whose reference now leads to another record. */
export interface MovedReference {
  object: Referring['object'];
  id: string;
  field: Referring['column'];
  changedAt: Date;
}

/** Leaves the references to a record as they are when this transaction deletes it. A job moves them. */
export async function deferReferences(sql: Sql): Promise<void> {
  await sql`select set_config('app.references_are_noted', 'on', true)`;
}

/**
 * Returns some references to a record, all of one field. Those of leads are first, which are locked
 * before the customers to which they refer.
 */
export async function pickReferences(
  sql: Sql,
  scope: TenantScope,
  object: string,
  id: string,
  limit: number,
): Promise<Pick<MovedReference, 'id' | 'field'>[]> {
  for (const { object: source, column } of referringTo[object] ?? []) {
    const rows = await sql<{ id: string }[]>`
      select r.id from ${sql(source)} r where ${isOwnRow(sql, scope)} and r.${sql(column)} = ${id} limit ${limit}`;
    if (rows.length > 0) return rows.map((row) => ({ id: row.id, field: column }));
  }
  return [];
}

/**
 * Moves the references to one record to another one. Each changed record gets the next version and a
 * later timestamp.
 * @param only references that are moved back; undefined: all
 */
export async function moveReferences(
  sql: Sql,
  scope: ActingScope,
  object: string,
  { from, to }: { from: string; to: string },
  only: readonly Pick<MovedReference, 'id' | 'field'>[] | undefined,
  now: Date,
): Promise<MovedReference[]> {
  const moved: MovedReference[] = [];
  for (const { object: source, column } of referringTo[object] ?? []) {
    const ids = only?.filter(({ field }) => field === column).map(({ id }) => id);
    if (ids?.length === 0) continue;
    const table = sql(source);
    const rows = await sql<{ id: string; changedAt: Date }[]>`
      with referring as materialized (
        select r.id from ${table} r
        where ${isOwnRow(sql, scope)} and r.${sql(column)} = ${from} ${ids ? sql`and r.id = any(${ids}::uuid[])` : sql``}
        order by r.id
        for no key update
      )
      update ${table} r
      set ${sql(column)} = ${to}, version = r.version + 1, updated_at = greatest(r.updated_at + interval '1 millisecond', ${now}),
        updated_by_id = ${scope.actor.id}
      where ${isOwnRow(sql, scope)} and r.id = any(array(select id from referring))
      returning r.id, r.updated_at as changed_at`;
    moved.push(...rows.map((row) => ({ ...row, object: source, field: column })));
  }
  return moved;
}

/** The actor who deleted a record, for the audit rows and events of the effects. */
export interface ClearingCause {
  actor: Actor;
  apiKeyId: string | null;
  keyName: string | null;
  requestId: string;
  ip: string;
  userAgent: string | null;
}

/** A deleted record with references that are not cleared yet. */
export interface PendingClearing {
  object: string;
  recordId: string;
  causedBy: ClearingCause;
}

/**
 * Leaves the references to records to the job: from now on, this transaction may delete the records
 * although others refer to them. Sends its statement immediately.
 */
export function noteClearings(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  object: string,
  ids: readonly string[],
  causedBy: ClearingCause,
  now: Date,
): Promise<unknown> {
  return sql`
    insert into reference_clearings (company_id, test_mode, object, record_id, caused_by, created_at)
    select ${companyId}, ${testMode}, ${object}, id, ${sql.json({ ...causedBy } as never)}, ${now}
    from unnest(${[...ids]}::uuid[]) id
    where set_config('app.references_are_noted', 'on', true) = 'on'`.execute();
}

/**
 * Takes a deleted record of a tenant until the transaction ends. Skips one that another server
 * works on.
 */
export async function takeClearing(
  sql: Sql,
  { companyId, testMode }: TenantScope,
): Promise<PendingClearing | undefined> {
  const [row] = await sql<PendingClearing[]>`
    select object, record_id, caused_by
    from reference_clearings
    where company_id = ${companyId} and test_mode = ${testMode}
    order by object, record_id
    limit 1
    for update skip locked`;
  return row;
}

/** Records that there are no references to a deleted record left. */
export async function endClearing(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  { object, recordId }: PendingClearing,
): Promise<void> {
  await sql`
    delete from reference_clearings
    where company_id = ${companyId} and test_mode = ${testMode} and object = ${object} and record_id = ${recordId}`;
}
