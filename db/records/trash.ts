// The trash: deleted records and their items, as they were, until they are restored or removed.
import type { Fragment } from 'postgres';
import type { StoredRecord } from '../../domain/records/draft.ts';
import type { Actor } from '../client/created-by.ts';
import type { Sql } from '../client/pool.ts';
import type { TenantScope } from '../client/tenant.ts';
import { belongsToRun, type DueTime } from '../client/test-clocks.ts';
import { isVisibleTo, type Scope } from '../client/visibility.ts';
import { getRecordTable } from './columns.ts';
import { belongsToTenant } from './reached.ts';
import type { ClearedReference } from './reference-clearing.ts';
import { compareLockOrder } from './references.ts';
import { getInsertedColumns, readFurtherColumns, selectColumns, toRecord } from './rows.ts';

/** Days after which a deleted record is removed for good. */
export const daysInTrash = 30;

/**
 * The tables of items that are restored as they are, in the order in which they are restored, with
 * their columns.
 */
export const itemColumns = {
  activities: getInsertedColumns(getRecordTable('activities')),
  tasks: getInsertedColumns(getRecordTable('tasks')),
  notes: [
    ...['company_id', 'test_mode', 'id', 'object', 'record_id', 'content'],
    ...['created_by_kind', 'created_by_id', 'created_by_name', 'created_by_user', 'created_at', 'updated_at'],
  ],
  messages: [
    ...[
      'company_id',
      'test_mode',
      'id',
      'object',
      'record_id',
      'channel',
      'direction',
      'source',
      'sender',
      'recipient',
    ],
    ...['subject', 'body', 'status', 'campaign_id', 'draft_id', 'occurred_at', 'created_at'],
  ],
  received_reports: [
    ...['company_id', 'test_mode', 'id', 'provider', 'external_id', 'kind', 'object', 'record_id', 'details'],
    ...['occurred_at', 'received_at'],
  ],
  attachments: [
    ...['company_id', 'test_mode', 'id', 'object', 'record_id', 'file_id', 'file_name', 'content_type', 'size_bytes'],
    ...['sha256', 'created_by_kind', 'created_by_id', 'created_by_name', 'created_by_user', 'created_at'],
  ],
  record_tags: ['company_id', 'test_mode', 'object', 'record_id', 'tag_id', 'is_manual'],
  links: [
    ...['company_id', 'test_mode', 'id', 'link_type_id', 'from_object', 'from_id', 'to_object', 'to_id', 'cardinality'],
    ...['created_by_kind', 'created_by_id', 'created_by_name', 'created_by_user', 'created_at'],
  ],
} as const satisfies Readonly<Record<string, readonly string[]>>;

export type ItemTable = keyof typeof itemColumns;

/** An item of the trash, and the record with which it was deleted. */
export interface TrashedItem {
  kind: ItemTable;
  id: string;
  root: string;
}

/** How many items were deleted with a record, by what the API calls them. */
export interface TrashedChildren {
  notes: number;
  tasks: number;
  activities: number;
  messages: number;
  attachments: number;
  links: number;
  tags: number;
}

/** Counts items by kind. Reports of providers are no items for the API. */
export function countChildren(items: readonly Pick<TrashedItem, 'kind'>[]): TrashedChildren {
  const children = { notes: 0, tasks: 0, activities: 0, messages: 0, attachments: 0, links: 0, tags: 0 };
  for (const { kind } of items)
    if (kind === 'record_tags') children.tags += 1;
    else if (kind !== 'received_reports') children[kind] += 1;
  return children;
}

/** Who deleted records, and when. */
export interface Deleter {
  actor: Actor;
  at: Date;
}

export const isOwn = (sql: Sql, { companyId, testMode }: TenantScope): Fragment =>
  sql`company_id = ${companyId} and test_mode = ${testMode}`;

/**
 * Returns the part of a statement that stores the records of its rows `gone`, as if they had no
 * items.
 */
export function keepRecords(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  object: string,
  { actor, at }: Deleter,
): Fragment {
  const purgeAt = new Date(at.getTime() + daysInTrash * 86_400_000);
  const owner = getRecordTable(object).assigned === 'assigned' ? sql`assigned_to` : sql`null::uuid`;
  // A record that was restored can be here still, if references to it are being restored.
  return sql`
    insert into deleted_records (company_id, test_mode, object, id, document, children, deleted_at, deleted_by_kind, deleted_by_id,
      deleted_by_name, purge_at, assigned_to, created_by_kind, created_by_id, created_by_user)
    select ${companyId}, ${testMode}, ${object}, id, to_jsonb(gone), ${JSON.stringify(countChildren([]))}::text::jsonb, ${at},
      ${actor.kind}, ${actor.id}, ${actor.name}, ${purgeAt}, ${owner}, created_by_kind, created_by_id, created_by_user
    from gone
    on conflict (company_id, test_mode, id) do update
    set document = excluded.document, children = excluded.children, deleted_at = excluded.deleted_at,
      deleted_by_kind = excluded.deleted_by_kind, deleted_by_id = excluded.deleted_by_id,
      deleted_by_name = excluded.deleted_by_name, purge_at = excluded.purge_at, assigned_to = excluded.assigned_to,
      restored_by = null`;
}

/**
 * Stores how many items the records have that this transaction deleted. If any has items, the
 * statement is sent immediately.
 */
export function keepCounts(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  records: readonly { id: string; children: TrashedChildren }[],
): Promise<unknown> {
  const counted = records.filter(({ children }) => Object.values(children).some((count) => count > 0));
  if (counted.length === 0) return Promise.resolve();
  const ids = counted.map(({ id }) => id);
  return sql`
    update deleted_records d
    set children = counted.children::jsonb
    from unnest(${ids}::uuid[], ${counted.map(({ children }) => JSON.stringify(children))}::text[]) as counted (id, children)
    where d.company_id = ${companyId} and d.test_mode = ${testMode} and d.id = any(${ids}::uuid[]) and d.id = counted.id`.execute();
}

/** A reference of one record to another that is to be restored with the other one. */
export interface LostReference {
  object: string;
  id: string;
  field: string;
}

/**
 * Stores cleared references with the records that they referred to, if these are in the trash.
 * Sends its statement immediately.
 */
export function keepClearedReferences(
  sql: Sql,
  scope: TenantScope,
  object: string,
  cleared: readonly ClearedReference[],
): Promise<unknown> {
  const references = cleared.map(({ from, ...reference }) => ({ ...reference, to: from }));
  return keepReferences(sql, scope, object, references);
}

/**
 * Keeps references of living records until the records that they referred to are restored.
 * @param object of the records that they referred to
 */
export function keepReferences(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  object: string,
  references: readonly (LostReference & { to: string })[],
): Promise<unknown> {
  if (references.length === 0) return Promise.resolve();
  const documents = references.map((reference) => JSON.stringify({ object: reference.object, field: reference.field }));
  // Locked, so that nothing is added to a record that is just being removed for good.
  return sql`
    with kept as materialized (
      select id from deleted_records
      where company_id = ${companyId} and test_mode = ${testMode} and object = ${object}
        and id = any(${references.map(({ to }) => to)}::uuid[])
      order by id
      for key share
    )
    insert into deleted_items (company_id, test_mode, record_id, kind, id, document)
    select ${companyId}, ${testMode}, kept.id, 'references', reference.id, reference.document::jsonb
    from unnest(${references.map(({ id }) => id)}::uuid[], ${references.map(({ to }) => to)}::uuid[], ${documents}::text[])
      as reference (id, record_id, document)
    join kept on kept.id = reference.record_id
    on conflict do nothing`.execute();
}

/** A deleted record that is locked to be restored. */
export interface LockedRecord extends StoredRecord {
  deletedAt: Date;
  /** The record into which it was merged. */
  mergedInto: string | null;
}

/** Returns the condition that a row is in the trash, and not restored or due to be removed. */
export function isInTrash(sql: Sql, scope: TenantScope, object: string, now: Date): Fragment {
  return sql`${isOwn(sql, scope)} and object = ${object} and not is_restored and purge_at > ${now}`;
}

/**
 * Locks deleted records that the caller could see, until the transaction ends. They are restored or
 * removed only once.
 * @returns them in the order of their ids
 */
export async function lockDeletedRecords(
  sql: Sql,
  scope: Scope,
  object: string,
  ids: readonly string[],
  now: Date,
): Promise<LockedRecord[]> {
  const table = getRecordTable(object);
  const rows = await sql`
    select ${selectColumns(sql, table)}, d.deleted_at, d.merged_into
    from (
      select id, document, deleted_at, merged_into from deleted_records
      where ${isInTrash(sql, scope, object, now)} and id = any(${[...ids]}::uuid[]) and ${isVisibleTo(sql, scope)}
      order by id
      for update
    ) d
    cross join lateral jsonb_populate_record(null::${sql(table.name)}, d.document) r
    order by d.id`.values();
  return rows.map((row) => {
    const [deletedAt, mergedInto] = readFurtherColumns(table, row) as [string, string | null];
    return { ...toRecord(table, row), deletedAt: new Date(deletedAt), mergedInto };
  });
}

/** A record by its object and ID. */
export interface RecordKey {
  object: string;
  id: string;
}

/**
 * Finds the records in the trash with which others were deleted, which may be themselves, and locks
 * them: they can be neither restored nor removed until the transaction ends.
 * @returns the IDs of those in the trash, by the IDs of the given records
 */
export async function lockInTrash(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  keys: readonly RecordKey[],
): Promise<Map<string, string>> {
  if (keys.length === 0) return new Map();
  const ids = keys.map(({ id }) => id);
  const rows = await sql<{ id: string; root: string }[]>`
    with holder as materialized (
      select id, id as root from unnest(${ids}::uuid[]) as named (id)
      union
      select i.id, i.record_id from deleted_items i
      where i.company_id = ${companyId} and i.test_mode = ${testMode} and i.kind in ('activities', 'tasks')
        and i.id = any(${ids}::uuid[])
    ), locked as materialized (
      select d.id from deleted_records d
      where d.company_id = ${companyId} and d.test_mode = ${testMode} and not d.is_restored
        and d.id = any(array(select root from holder))
      order by d.id
      for key share
    )
    select holder.id, locked.id as root from holder join locked on locked.id = holder.root`;
  return new Map(rows.map(({ id, root }) => [id, root]));
}

/**
 * Returns which of some records exist, visible or not. They cannot be deleted until the transaction
 * ends.
 */
export async function holdExisting(sql: Sql, scope: TenantScope, keys: readonly RecordKey[]): Promise<Set<string>> {
  const existing = new Set<string>();
  const byObject = Map.groupBy(keys, ({ object }) => object);
  for (const object of [...byObject.keys()].sort(compareLockOrder)) {
    const table = getRecordTable(object);
    const ids = (byObject.get(object) ?? []).map(({ id }) => id);
    const rows = await sql<{ id: string }[]>`
      select r.id from ${sql(table.name)} r
      where ${belongsToTenant(sql, scope, table)} and r.id = any(${ids}::uuid[])
      order by r.id
      for key share`;
    for (const { id } of rows) existing.add(id);
  }
  return existing;
}

/**
 * Takes records out of the trash, with what could not be restored. Merges that deleted them can no
 * longer be undone.
 */
export async function forgetRestored(sql: Sql, scope: TenantScope, roots: readonly string[]): Promise<void> {
  const ids = [...roots];
  await Promise.all([
    sql`
      update merges set undo = null, fields = '[]'
      where ${isOwn(sql, scope)} and source_id = any(${ids}::uuid[]) and undo is not null`.execute(),
    sql`delete from deleted_items where ${isOwn(sql, scope)} and record_id = any(${ids}::uuid[])`.execute(),
    sql`delete from deleted_records where ${isOwn(sql, scope)} and id = any(${ids}::uuid[])`.execute(),
  ]);
}

/**
 * Removes a locked record from the trash for good, with its items. If there are very many, it is
 * due to be removed, and the job removes the rest.
 */
export async function purgeRecord(sql: Sql, scope: TenantScope, root: string, now: Date): Promise<void> {
  const removed = await removeItems(sql, scope, root, mostRemovedAtOnce);
  if (removed < mostRemovedAtOnce) await forgetRestored(sql, scope, [root]);
  else await sql`update deleted_records set purge_at = ${now} where ${isOwn(sql, scope)} and id = ${root}`;
}

/** Items that one call removes. */
const mostRemovedAtOnce = 5000;

async function removeItems(sql: Sql, scope: TenantScope, root: string, limit: number): Promise<number> {
  const merges = await sql<{ id: string }[]>`select id from merges where ${isOwn(sql, scope)} and source_id = ${root}`;
  return removeListedItems(sql, scope, [root, ...merges.map(({ id }) => id)], limit);
}

/** @param ids of records in the trash, or of merges whose items a job moved */
async function removeListedItems(sql: Sql, scope: TenantScope, ids: readonly string[], limit: number): Promise<number> {
  const items = sql`deleted_items where ${isOwn(sql, scope)} and record_id = any(${[...ids]}::uuid[])`;
  const [last] = await sql<{ recordId: string; kind: string; id: string }[]>`
    select record_id, kind, id from ${items} order by record_id, kind, id offset ${limit - 1} limit 1`;
  // A range of the key: a join is planned for few rows, and takes seconds for thousands.
  const removed = await sql`
    delete from ${items} ${last ? sql`and (record_id, kind, id) <= (${last.recordId}, ${last.kind}, ${last.id})` : sql``}`;
  return removed.count;
}

/**
 * Removes a record of a tenant that has been in the trash long enough, or some of its items. The
 * source of a merge stays until everything has moved, because the list of moved items goes with it.
 * @returns false if there is none that no other server works on
 */
export async function purgeSomeExpired(sql: Sql, scope: TenantScope, now: Date, limit: number): Promise<boolean> {
  const [due] = await sql<{ id: string }[]>`
    select id from deleted_records d
    where ${isOwn(sql, scope)} and purge_at <= ${now} and not is_restored
      and not exists (
        select from merges where ${isOwn(sql, scope)} and source_id = d.id and status = 'running'
      )
    order by purge_at
    limit 1
    for update skip locked`;
  if (!due) return false;
  const removed = await removeItems(sql, scope, due.id, limit);
  if (removed < limit) await forgetRestored(sql, scope, [due.id]);
  return true;
}

/**
 * Removes some records of an object from the trash, whenever they were deleted.
 * @returns how many; 0 if there are none
 */
export async function purgeSome(sql: Sql, scope: TenantScope, object: string, limit: number): Promise<number> {
  const rows = await sql<{ id: string }[]>`
    select id from deleted_records
    where ${isOwn(sql, scope)} and object = ${object}
    order by id
    limit ${limit}
    for update`;
  const ids = rows.map(({ id }) => id);
  if (ids.length === 0) return removeSomeMerges(sql, scope, object, limit);
  await sql`delete from deleted_items where ${isOwn(sql, scope)} and record_id = any(${ids}::uuid[])`;
  await sql`delete from deleted_records where ${isOwn(sql, scope)} and id = any(${ids}::uuid[])`;
  return ids.length;
}

async function removeSomeMerges(sql: Sql, scope: TenantScope, object: string, limit: number): Promise<number> {
  const rows = await sql<{ id: string }[]>`
    select id from merges where ${isOwn(sql, scope)} and object = ${object} limit ${limit}`;
  const ids = rows.map(({ id }) => id);
  if (ids.length === 0) return 0;
  const items = await removeListedItems(sql, scope, ids, limit);
  if (items === limit) return items;
  await sql`delete from merges where ${isOwn(sql, scope)} and id = any(${ids}::uuid[])`;
  return ids.length;
}

/** Tenants with records that have been in the trash long enough, for the platform role. */
export async function findDueTrash(sql: Sql, due: DueTime, limit: number): Promise<TenantScope[]> {
  return await sql<TenantScope[]>`
    select distinct company_id, test_mode
    from (select company_id, test_mode from deleted_records
      where purge_at <= ${due.now} and ${belongsToRun(sql, 'deleted_records', due)} order by purge_at limit ${limit}) due`;
}
