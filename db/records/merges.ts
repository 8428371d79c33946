// Merges of records, with what their undo needs.
import type { StoredValue } from '../../domain/objects/field-values.ts';
import type { Ownership } from '../../domain/ownership.ts';
import { type CreatedByRow, toCreatedColumns } from '../client/created-by.ts';
import type { Sql } from '../client/pool.ts';
import type { TenantScope } from '../client/tenant.ts';
import { isVisibleTo, type Scope, selectVisibleUserIds } from '../client/visibility.ts';
import { getRecordTable } from './columns.ts';
import type { MovedIds } from './merge-moves.ts';
import { belongsToTenant } from './reached.ts';
import type { ClearingCause, MovedReference } from './reference-clearing.ts';
import { keepRecords } from './trash.ts';

/** A field in which the records of a merge differed, as the API shows it. */
interface MergedField {
  field: string;
  source: StoredValue;
  target: StoredValue;
  chosen: 'source' | 'target';
}

/** How many items moved, by what the API calls them. */
export interface MovedCounts {
  notes: number;
  tasks: number;
  activities: number;
  messages: number;
  attachments: number;
  links: number;
  tags: number;
  bookings: number;
  drafts: number;
  references: number;
}

type Changed = Record<string, { from: StoredValue; to: StoredValue }>;

/** What the undo of a merge needs, apart from the source, which is in the trash. */
export interface MergeUndo {
  /** What the merge changed in the target, in stored form. */
  values: Changed;
  custom: Changed;
  /** Tags that the merge added to the target. */
  tagIds: string[];
  items: MovedIds;
  /** SLA clocks that continue on the target. */
  clockIds: string[];
  references: Pick<MovedReference, 'id' | 'field'>[];
}

export interface MergeRow extends CreatedByRow {
  id: string;
  object: string;
  sourceId: string;
  targetId: string;
  moved: MovedCounts;
  fields: MergedField[];
  undoUntil: Date;
  createdAt: Date;
  undoneAt: Date | null;
  status: 'running' | 'completed';
  /** How many items are still to move; null if all have moved. */
  remaining: MovedCounts | null;
}

const columns = [
  ...['id', 'object', 'source_id', 'target_id', 'moved', 'fields', 'undo_until', 'created_at', 'undone_at'],
  ...['status', 'remaining'],
  ...['created_by_kind', 'created_by_id', 'created_by_name'],
];

const isOwn = (sql: Sql, { companyId, testMode }: TenantScope) =>
  sql`company_id = ${companyId} and test_mode = ${testMode}`;

/** Moves the source of a merge to the trash, without items: they have moved. @returns who could see it */
export async function trashSource(
  sql: Sql,
  scope: Scope,
  object: string,
  { id, into }: { id: string; into: string },
  now: Date,
): Promise<Ownership> {
  const table = getRecordTable(object);
  const owner = table.assigned === 'assigned' ? sql`r.assigned_to` : sql`null::uuid as assigned_to`;
  const [row] = await sql<
    { assignedTo: string | null; createdByKind: string; createdById: string; createdByUser: string | null }[]
  >`
    with gone as (
      delete from ${sql(table.name)} r where ${belongsToTenant(sql, scope, table)} and r.id = ${id} returning r.*
    ), kept as (${keepRecords(sql, scope, object, { actor: scope.actor, at: now })})
    select ${owner}, r.created_by_kind, r.created_by_id, r.created_by_user from gone r`;
  if (!row) throw new Error('a locked record is not there');
  await sql`update deleted_records set merged_into = ${into} where ${isOwn(sql, scope)} and id = ${id}`;
  const { assignedTo, createdByKind: kind, createdById, createdByUser: userId } = row;
  return { assignedTo, createdBy: { kind, id: createdById, userId } };
}

export async function insertMerge(
  sql: Sql,
  scope: Scope & { userId: string | null },
  merge: Omit<MergeRow, keyof CreatedByRow | 'undoneAt'>,
  undo: MergeUndo,
  causedBy: ClearingCause,
): Promise<void> {
  const { moved, fields, remaining, ...plain } = merge;
  const documents = {
    ...(remaining ? buildJobColumns(sql, remaining, causedBy) : {}),
    moved: sql.json(moved as never),
    fields: sql.json(fields as never),
    undo: sql.json(undo as never),
  };
  const row = {
    companyId: scope.companyId,
    testMode: scope.testMode,
    ...plain,
    ...documents,
    ...toCreatedColumns(scope),
  };
  await sql`insert into merges ${sql(row as never)}`;
}

/** Returns the columns by which the job finds a merge that it finishes, and what it records. */
const buildJobColumns = (sql: Sql, remaining: MovedCounts, causedBy: ClearingCause) => ({
  remaining: sql.json(remaining as never),
  causedBy: sql.json(causedBy as never),
  dueAt: sql`now()`,
});

/** Returns one visible merge of these objects. */
export async function findMerge(
  sql: Sql,
  scope: Scope,
  objects: readonly string[],
  id: string,
): Promise<MergeRow | undefined> {
  const [row] = await sql<MergeRow[]>`
    select ${sql(columns)} from merges
    where ${isOwn(sql, scope)} and id = ${id} and object = any(${[...objects]}::text[]) and ${isVisibleTo(sql, scope, 'unassigned')}`;
  return row;
}

type LockedMerge = Pick<MergeRow, 'undoneAt' | 'undoUntil' | 'status' | 'moved' | 'remaining'> & {
  undo: MergeUndo | null;
};

/** Locks a merge until the transaction ends. @returns what its undo needs; null if it can no longer be undone */
export async function lockMerge(sql: Sql, scope: TenantScope, id: string): Promise<LockedMerge | undefined> {
  const [row] = await sql<LockedMerge[]>`
    select undo, undone_at, undo_until, status, moved, remaining from merges where ${isOwn(sql, scope)} and id = ${id} for update`;
  return row;
}

/** Records that a merge was undone. @param pending what a job still moves back */
export async function endMerge(
  sql: Sql,
  scope: TenantScope,
  id: string,
  now: Date,
  pending?: { remaining: MovedCounts; causedBy: ClearingCause },
): Promise<void> {
  const job = pending && {
    status: 'running',
    attempts: 0,
    ...buildJobColumns(sql, pending.remaining, pending.causedBy),
  };
  const columns = { undoneAt: now, undo: null, fields: sql.json([]), ...job };
  await sql`update merges set ${sql(columns as never)} where ${isOwn(sql, scope)} and id = ${id}`;
}

/** Finds the merges that took records away, unless they were undone. @returns their ids by those of the records */
export async function findStandingMerges(
  sql: Sql,
  scope: TenantScope,
  sourceIds: readonly string[],
): Promise<Map<string, string>> {
  if (sourceIds.length === 0) return new Map();
  const rows = await sql<{ id: string; sourceId: string }[]>`
    select id, source_id from merges
    where ${isOwn(sql, scope)} and source_id = any(${[...sourceIds]}::uuid[]) and undone_at is null`;
  return new Map(rows.map(({ id, sourceId }) => [sourceId, id]));
}

/** Finds a later standing merge into the same record that changed one of the fields. */
export async function findLaterMerge(
  sql: Sql,
  scope: TenantScope,
  { targetId, createdAt, id }: Pick<MergeRow, 'targetId' | 'createdAt' | 'id'>,
  fields: readonly string[],
): Promise<string | undefined> {
  const [row] = await sql<{ id: string }[]>`
    select id from merges
    where ${isOwn(sql, scope)} and target_id = ${targetId} and undone_at is null and (created_at, id) > (${createdAt}, ${id})
      and (undo -> 'values' ?| ${[...fields]}::text[] or undo -> 'custom' ?| ${[...fields]}::text[])
    order by created_at, id
    limit 1`;
  return row?.id;
}

/** Follows merges from a record to the last one of the chain; undefined if the record was not merged. */
export async function findSurvivor(
  sql: Sql,
  scope: TenantScope,
  object: string,
  id: string,
): Promise<string | undefined> {
  const [row] = await sql<{ targetId: string }[]>`
    with recursive chain as (
      select target_id, 1 as depth from merges
      where ${isOwn(sql, scope)} and object = ${object} and source_id = ${id} and undone_at is null
      union all
      select m.target_id, chain.depth + 1
      from chain
      join merges m on m.company_id = ${scope.companyId} and m.test_mode = ${scope.testMode} and m.source_id = chain.target_id
        and m.undone_at is null
      where chain.depth < 1000
    )
    select target_id from chain order by depth desc limit 1`;
  return row?.targetId;
}

/**
 * Returns visible merges of some objects, newest first.
 * @param after time and ID of the last one of the page before
 */
export async function listMerges(
  sql: Sql,
  scope: Scope,
  {
    objects,
    sourceId,
    targetId,
  }: { objects: readonly string[]; sourceId?: string | undefined; targetId?: string | undefined },
  after: readonly [string, string] | undefined,
  limit: number,
): Promise<MergeRow[]> {
  const asked = sql`
    ${sourceId === undefined ? sql`` : sql`and source_id = ${sourceId}`}
    ${targetId === undefined ? sql`` : sql`and target_id = ${targetId}`}
    ${after ? sql`and (created_at, id) < (${after[0]}::timestamptz, ${after[1]}::uuid)` : sql``}
    order by created_at desc, id desc limit ${limit}`;
  const own = sql`select * from merges where ${isOwn(sql, scope)} and object = named.object`;
  const { reach, actor } = scope;
  // Of each object, and of each user whom the caller can see, only as many as a page needs.
  const visible =
    reach.kind === 'company'
      ? sql`cross join lateral (${own} ${asked}) m`
      : sql`
          cross join lateral (
            select m.* from (${selectVisibleUserIds(sql, scope.companyId, reach)}) member
            cross join lateral (${own} and created_by_user = member.id ${asked}) m
            ${
              actor.kind === 'api_key'
                ? sql`union all
                    (${own} and created_by_kind = 'api_key' and created_by_user is null and created_by_id = ${actor.id} ${asked})`
                : sql``
            }
          ) m`;
  return sql<MergeRow[]>`
    select ${sql(columns.map((column) => `m.${column}`))}
    from unnest(${[...objects]}::text[]) named (object) ${visible}
    order by m.created_at desc, m.id desc
    limit ${limit}`;
}
