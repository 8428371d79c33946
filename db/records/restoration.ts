// Brings deleted records and their items back from the trash.
import type { Fragment } from 'postgres';
import type { StoredRecord } from '../../domain/records/draft.ts';
import type { ActingScope } from '../client/created-by.ts';
import type { Sql } from '../client/pool.ts';
import type { TenantScope } from '../client/tenant.ts';
import { getRecordTable } from './columns.ts';
import type { ClearedReference, ClearingCause } from './reference-clearing.ts';
import { compareLockOrder } from './references.ts';
import { getInsertedColumns, toRow } from './rows.ts';
import { type ItemTable, isOwn, itemColumns, type LostReference } from './trash.ts';

/** An activity or task that came back with a record. */
export interface ReturnedRecord {
  object: 'activities' | 'tasks';
  id: string;
  root: string;
}

/**
 * Inserts locked records of an object and their items again, except for links and references. The
 * caller has made sure that what the records refer to is there, and that no value of a unique field
 * is taken.
 * @param changed records that cannot come back as they were, as they are now
 */
export async function insertDeletedRecords(
  sql: Sql,
  scope: ActingScope,
  object: string,
  ids: readonly string[],
  changed: readonly StoredRecord[],
): Promise<ReturnedRecord[]> {
  const table = getRecordTable(object);
  const columns = quoteNames(sql, getInsertedColumns(table));
  const changes = changed.map(({ id, values, custom, version, updatedAt }) => [
    id,
    { ...toRow(table, values, custom), version, updated_at: updatedAt.toISOString(), updated_by_id: scope.actor.id },
  ]);
  const adapted =
    changes.length === 0 ? sql`` : sql`|| coalesce(${sql.json(Object.fromEntries(changes))}::jsonb -> id::text, '{}')`;
  const inserting = sql`
    insert into ${sql(table.name)} (${columns})
    select ${columns}
    from (
      select document ${adapted} || ${buildOwner(sql, scope)} as document from deleted_records
      where ${isOwn(sql, scope)} and object = ${object} and id = any(${[...ids]}::uuid[])
    ) deleted
    cross join lateral jsonb_populate_record(null::${sql(table.name)}, document) record`.execute();
  // The statements run in order, so each sees the effects of earlier ones.
  const items = plainItems.map(async (kind) => ({ kind, rows: await restoreItems(sql, scope, ids, kind) }));
  const [{ count }, restored] = await Promise.all([inserting, Promise.all(items)]);
  if (count !== ids.length) throw new Error('a locked record is no longer in the trash');
  return restored.flatMap(({ kind, rows }) =>
    kind === 'activities' || kind === 'tasks' ? rows.map((row) => ({ ...row, object: kind })) : [],
  );
}

/**
 * Returns the columns with the owner of a row. They come from the trash, never from the document.
 */
const buildOwner = (sql: Sql, { companyId, testMode }: TenantScope): Fragment =>
  sql`jsonb_build_object('company_id', ${companyId}::uuid, 'test_mode', ${testMode}::boolean)`;

const plainItems = ['activities', 'tasks', 'notes', 'messages', 'received_reports', 'attachments'] as const;

const quoteNames = (sql: Sql, names: readonly string[]): Fragment =>
  sql.unsafe(names.map((name) => `"${name}"`).join(', ')) as unknown as Fragment;

/**
 * Moves the items of a kind back to their table. Sends its statement immediately.
 * @returns activities and tasks; nothing of other kinds, which are no records
 */
async function restoreItems(
  sql: Sql,
  scope: TenantScope,
  roots: readonly string[],
  kind: ItemTable,
): Promise<{ id: string; root: string }[]> {
  const columns = quoteNames(sql, itemColumns[kind]);
  const isRecord = kind === 'activities' || kind === 'tasks';
  // Joined below: the planner expects one row, and would compare each row with each other one.
  const rows = await sql<{ id: string; root: string | null }[]>`
    with restored as (
      delete from deleted_items
      where ${isOwn(sql, scope)} and record_id = any(${[...roots]}::uuid[]) and kind = ${kind}
      returning id as item_id, record_id as root, document
    ), inserted as (
      insert into ${sql(kind)} (${columns})
      select ${columns} from restored cross join lateral jsonb_populate_record(null::${sql(kind)}, document || ${buildOwner(sql, scope)}) item
      on conflict do nothing
      returning id
    )
    select item_id as id, root from restored where ${isRecord}
    union all
    select id, null from inserted where ${isRecord}`.execute();
  const inserted = new Set(rows.flatMap(({ id, root }) => (root === null ? [id] : [])));
  return rows.flatMap(({ id, root }) => (root !== null && inserted.has(id) ? [{ id, root }] : []));
}

/**
 * Puts the tags back on records that were just restored, except for those that were deleted. Sends
 * its statement immediately.
 */
export function restoreTags(sql: Sql, scope: TenantScope, roots: readonly string[]): Promise<unknown> {
  const { companyId } = scope;
  const columns = quoteNames(sql, itemColumns.record_tags);
  return sql`
    with restored as (
      delete from deleted_items
      where ${isOwn(sql, scope)} and record_id = any(${[...roots]}::uuid[]) and kind = 'record_tags'
      returning id, document
    ), existing as materialized (
      -- Locked, since a tag that is being deleted must not be put on.
      select id from tags
      where company_id = ${companyId} and id in (select id from restored)
      order by id
      for key share
    )
    insert into record_tags (${columns})
    select ${columns}
    from (select document from restored where id in (select id from existing)) restored
    cross join lateral jsonb_populate_record(null::record_tags, document || ${buildOwner(sql, scope)}) item`.execute();
}

/**
 * Returns the custom values that activities or tasks of records bring back, for the check of unique
 * fields.
 */
export async function findTrashedValues(
  sql: Sql,
  scope: TenantScope,
  roots: readonly string[],
  kind: 'activities' | 'tasks',
): Promise<(Pick<StoredRecord, 'id' | 'values' | 'custom'> & { root: string })[]> {
  const rows = await sql<
    { id: string; root: string; custom: StoredRecord['custom']; entityType: string; entityId: string }[]
  >`
    select id, record_id as root, document -> 'custom' as custom, document ->> 'entity_type' as entity_type,
      document ->> 'entity_id' as entity_id
    from deleted_items
    where ${isOwn(sql, scope)} and record_id = any(${[...roots]}::uuid[]) and kind = ${kind} and document -> 'custom' <> '{}'
    order by id`;
  return rows.map(({ id, root, custom, entityType, entityId }) => ({
    id,
    root,
    values: { entity_type: entityType, entity_id: entityId },
    custom,
  }));
}

/** A link in the trash. */
export interface TrashedLink {
  id: string;
  root: string;
  fromObject: string;
  fromId: string;
  toObject: string;
  toId: string;
}

/** Returns the links that were deleted with records, or with others whose links wait for these. */
export async function findTrashedLinks(sql: Sql, scope: TenantScope, roots: readonly string[]): Promise<TrashedLink[]> {
  return await sql<TrashedLink[]>`
    select id, record_id as root, document ->> 'from_object' as from_object, document ->> 'from_id' as from_id,
      document ->> 'to_object' as to_object, document ->> 'to_id' as to_id
    from deleted_items
    where ${isOwn(sql, scope)} and record_id = any(${[...roots]}::uuid[]) and kind = 'links'
    order by id`;
}

/**
 * Leaves links to other records in the trash, which the caller has locked, with which they come
 * back.
 */
export async function passLinks(
  sql: Sql,
  scope: TenantScope,
  links: readonly { id: string; root: string; to: string }[],
): Promise<void> {
  if (links.length === 0) return;
  const ids = links.map(({ id }) => id);
  const roots = [...new Set(links.map(({ root }) => root))];
  await sql`
    update deleted_items i
    set record_id = passed.root
    from unnest(${ids}::uuid[], ${links.map(({ to }) => to)}::uuid[]) as passed (id, root)
    where i.company_id = ${scope.companyId} and i.test_mode = ${scope.testMode} and i.record_id = any(${roots}::uuid[])
      and i.kind = 'links' and i.id = any(${ids}::uuid[]) and i.id = passed.id`;
}

/**
 * Restores the links of records that are still in their trash. Both records of each are there and
 * locked.
 * @param ids those whose other record is there; the rest is lost
 * @returns those that are links again; the others have no type, or another link has taken their
 * place
 */
export async function restoreLinks(
  sql: Sql,
  scope: TenantScope,
  roots: readonly string[],
  ids: readonly string[],
): Promise<Set<string>> {
  const columns = quoteNames(sql, itemColumns.links);
  const rows = await sql<{ id: string }[]>`
    with restored as (
      delete from deleted_items
      where ${isOwn(sql, scope)} and record_id = any(${[...roots]}::uuid[]) and kind = 'links'
      returning id, record_id, document
    ), existing as materialized (
      -- Locked, since a type without links can be deleted.
      select id from link_types
      where company_id = ${scope.companyId} and id in (select (document ->> 'link_type_id')::uuid from restored)
      order by id
      for key share
    )
    insert into links (${columns})
    select ${columns}
    from (
      select document from restored
      where id = any(${[...ids]}::uuid[])
      order by record_id, document ->> 'link_type_id', document ->> 'to_id', document ->> 'from_id'
    ) restored
    cross join lateral jsonb_populate_record(null::links, document || ${buildOwner(sql, scope)}) item
    where item.link_type_id in (select id from existing)
    on conflict do nothing
    returning id`;
  return new Set(rows.map(({ id }) => id));
}

/** A reference that was restored. */
export interface RestoredReference {
  object: ClearedReference['object'];
  id: string;
  field: ClearedReference['field'];
  /** The record to which it is. */
  to: string;
  changedAt: Date;
}

/**
 * Restores references to records that were restored, if they are still empty: each changes the
 * record that has it. In records that are in the trash themselves, they come back with them.
 * @param limit the maximum number, for all records together
 * @returns the references of living records, and the records that have more
 */
export async function restoreReferences(
  sql: Sql,
  scope: ActingScope,
  roots: readonly string[],
  limit: number,
  now: Date,
): Promise<{ restored: RestoredReference[]; unfinished: string[] }> {
  const ids = [...roots];
  // Their records and ids are also named as arrays, since the planner would scan all items for the
  // join alone.
  const items = await sql<(LostReference & { to: string })[]>`
    with picked as materialized (
      select record_id, id from deleted_items
      where ${isOwn(sql, scope)} and record_id = any(${ids}::uuid[]) and kind = 'references'
      order by record_id, id
      limit ${limit}
    )
    delete from deleted_items
    where ${isOwn(sql, scope)} and record_id = any(array(select record_id from picked)) and kind = 'references'
      and id = any(array(select id from picked)) and (record_id, id) in (select record_id, id from picked)
    returning id, record_id as "to", document ->> 'object' as object, document ->> 'field' as field`;
  const restored: RestoredReference[] = [];
  const ordered = items.toSorted((a, b) => (a.to < b.to ? -1 : 1));
  const byField = Map.groupBy(ordered, ({ object, field }) => `${object} ${field}`);
  // Leads, customers, deals: in the order in which all transactions lock.
  for (const name of [...byField.keys()].sort((a, b) =>
    compareLockOrder(a.split(' ')[0] ?? '', b.split(' ')[0] ?? ''),
  )) {
    const [object, field] = name.split(' ') as [RestoredReference['object'], RestoredReference['field']];
    // A field that led to several of the records gets the first one of them.
    const targets = new Map((byField.get(name) ?? []).toReversed().map(({ id, to }) => [id, to]));
    const rows = await fillReferences(sql, scope, object, field, targets, now);
    restored.push(...rows.map((row) => ({ ...row, object, field })));
    for (const { id } of rows) targets.delete(id);
    if (targets.size > 0) await fillInTrash(sql, scope, object, field, targets);
  }
  return { restored, unfinished: items.length === limit ? await findUnfinished(sql, scope, ids) : [] };
}

/** Returns which of the records have references that are still to be restored. */
async function findUnfinished(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  roots: readonly string[],
): Promise<string[]> {
  const rows = await sql<{ id: string }[]>`
    select root.id from unnest(${[...roots]}::uuid[]) as root (id)
    where exists (
      select from deleted_items i
      where i.company_id = ${companyId} and i.test_mode = ${testMode} and i.record_id = root.id and i.kind = 'references'
    )`;
  return rows.map(({ id }) => id);
}

/**
 * Sets an empty reference of living records, each with its next version.
 * @param targets by the ids of the records
 */
function fillReferences(
  sql: Sql,
  { companyId, testMode, actor }: ActingScope,
  object: string,
  field: string,
  targets: ReadonlyMap<string, string>,
  now: Date,
): Promise<{ id: string; to: string; changedAt: Date }[]> {
  const column = sql(field);
  const ids = [...targets.keys()];
  return sql<{ id: string; to: string; changedAt: Date }[]>`
    with empty as materialized (
      select r.id from ${sql(object)} r
      where r.company_id = ${companyId} and r.test_mode = ${testMode} and r.id = any(${ids}::uuid[]) and r.${column} is null
      order by r.id
      for no key update
    )
    update ${sql(object)} r
    set ${column} = target.id, version = r.version + 1, updated_at = greatest(r.updated_at + interval '1 millisecond', ${now}),
      updated_by_id = ${actor.id}
    from unnest(${ids}::uuid[], ${[...targets.values()]}::uuid[]) as target (of, id)
    where r.company_id = ${companyId} and r.test_mode = ${testMode} and r.id = any(array(select id from empty)) and r.id = target.of
    returning r.id, r.${column} as "to", r.updated_at as changed_at`.execute();
}

/** Sets an empty reference of records in the trash. @param targets by the ids of the records */
async function fillInTrash(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  object: string,
  field: string,
  targets: ReadonlyMap<string, string>,
): Promise<void> {
  const ids = [...targets.keys()];
  await sql`
    update deleted_records d
    set document = d.document || jsonb_build_object(${field}::text, target.id::text)
    from unnest(${ids}::uuid[], ${[...targets.values()]}::uuid[]) as target (of, id)
    where d.company_id = ${companyId} and d.test_mode = ${testMode} and d.object = ${object} and d.id = any(${ids}::uuid[])
      and d.id = target.of and d.document ->> ${field}::text is null`;
}

/** Who restored a record, as the audit rows and events of what follows name it. */
export type RestoringCause = ClearingCause;

/** Leaves the references to restored records to the job. */
export async function notePendingReferences(
  sql: Sql,
  scope: TenantScope,
  roots: readonly string[],
  restoredBy: RestoringCause,
): Promise<void> {
  if (roots.length === 0) return;
  await sql`
    update deleted_records set restored_by = ${sql.json({ ...restoredBy } as never)}
    where ${isOwn(sql, scope)} and id = any(${[...roots]}::uuid[])`;
}

/** A restored record to which references are still to be restored. */
export interface PendingRestoring {
  object: string;
  recordId: string;
  restoredBy: RestoringCause;
}

/**
 * Takes such a record of a tenant until the transaction ends; one that another server works on is
 * left to it.
 */
export async function takeRestoring(sql: Sql, scope: TenantScope): Promise<PendingRestoring | undefined> {
  const [row] = await sql<PendingRestoring[]>`
    select object, id as record_id, restored_by from deleted_records
    where ${isOwn(sql, scope)} and is_restored
    limit 1
    for update skip locked`;
  return row;
}

/**
 * Ends the clearing of references to records that are restored: those that a job has not cleared
 * yet stay.
 */
export async function stopClearing(
  sql: Sql,
  scope: TenantScope,
  object: string,
  ids: readonly string[],
): Promise<void> {
  await sql`
    delete from reference_clearings
    where ${isOwn(sql, scope)} and object = ${object} and record_id = any(${[...ids]}::uuid[])`;
}

/** Tenants with references that are still to be restored, for the platform role. */
export async function findRestoring(sql: Sql, limit: number): Promise<TenantScope[]> {
  return await sql<TenantScope[]>`
    select distinct company_id, test_mode
    from (select company_id, test_mode from deleted_records where is_restored limit ${limit}) waiting`;
}
