// Links between records.
import type { Fragment } from 'postgres';
import type { LinkType } from '../../domain/objects/configuration.ts';
import type { Relation } from '../../domain/objects/relations.ts';
import { type Actor, type CreatedByRow, toCreatedColumns } from '../client/created-by.ts';
import type { Sql } from '../client/pool.ts';
import { isVisibleTo, type Scope } from '../client/visibility.ts';
import { getRecordTable } from './columns.ts';
import { belongsToTenant } from './reached.ts';

/** A link as one of its two records sees it. */
export interface LinkRow {
  /** Null for a reference. */
  id: string | null;
  linkTypeId: string;
  side: Relation['side'];
  otherObject: string;
  otherId: string;
  createdByKind: Actor['kind'] | null;
  createdById: string | null;
  createdByName: string | null;
  createdAt: Date;
  /** Orders links of the same time. */
  tie: string;
}

/** A link as it is stored. */
export interface StoredLink extends CreatedByRow {
  id: string;
  linkTypeId: string;
  fromObject: string;
  fromId: string;
  toObject: string;
  toId: string;
  createdAt: Date;
}

/**
 * Returns the links of a record to visible records, newest first. References that the record itself
 * has are left out, because they are in its fields.
 * @param relations only these; every `otherObject` is an object that the caller can view
 * @param after time and tie of the last link of the previous page
 */
export async function listLinks(
  sql: Sql,
  scope: Scope,
  record: { object: string; id: string },
  relations: readonly Relation[],
  after: readonly [string, string] | undefined,
  limit: number,
): Promise<LinkRow[]> {
  const stored = Map.groupBy(
    relations.filter(({ type }) => !('field' in type)),
    ({ side, otherObject }) => `${side} ${otherObject}`,
  );
  const parts = [
    ...[...stored.values()].map((group) => storedLinks(sql, scope, record.id, group, after, limit)),
    ...relations.flatMap((relation) => referringRecords(sql, scope, record, relation, after, limit) ?? []),
  ];
  if (parts.length === 0) return [];
  return sql<LinkRow[]>`
    select * from (${parts.map((part, index) => (index === 0 ? sql`(${part})` : sql`union all (${part})`))}) links
    order by created_at desc, tie desc
    limit ${limit}`;
}

/**
 * Returns links of types with the same side and the same other object: of each type only as many as
 * a page needs.
 */
function storedLinks(
  sql: Sql,
  scope: Scope,
  id: string,
  group: readonly Relation[],
  after: readonly [string, string] | undefined,
  limit: number,
): Fragment {
  const [{ side = 'from', otherObject = null } = {}] = group;
  const other = side === 'from' ? 'to' : 'from';
  const table = getRecordTable(otherObject ?? '');
  // Callers that see the whole workspace need not look at the other record.
  const isVisible =
    scope.reach.kind === 'company'
      ? sql``
      : sql`and exists (
          select from ${sql(table.name)} r
          where ${belongsToTenant(sql, scope, table)} and r.id = l.${sql(`${other}_id`)} and ${isVisibleTo(sql, scope, table.assigned)}
        )`;
  return sql`
    select link.id, type.id as link_type_id, ${side}::text as side, ${otherObject}::text as other_object, link.other_id,
      link.created_by_kind, link.created_by_id, link.created_by_name, link.created_at, link.id as tie
    from unnest(${group.map(({ type }) => type.id)}::uuid[]) type (id)
    cross join lateral (
      select l.id, l.${sql(`${other}_id`)} as other_id, l.created_by_kind, l.created_by_id, l.created_by_name, l.created_at
      from links l
      where l.company_id = ${scope.companyId} and l.test_mode = ${scope.testMode} and l.${sql(`${side}_id`)} = ${id}
        and l.link_type_id = type.id
        ${after ? sql`and (l.created_at, l.id) < (${after[0]}::timestamptz, ${after[1]}::uuid)` : sql``}
        ${isVisible}
      order by l.created_at desc, l.id desc
      limit ${limit}
    ) link`;
}

/**
 * Returns records that refer to this one by a field; undefined if the relation is not that side of
 * a reference.
 */
function referringRecords(
  sql: Sql,
  scope: Scope,
  record: { object: string; id: string },
  { type, side, otherObject }: Relation,
  after: readonly [string, string] | undefined,
  limit: number,
): Fragment | undefined {
  if (!('field' in type) || side !== 'from' || otherObject === null) return undefined;
  const table = getRecordTable(otherObject);
  return sql`
    select null::uuid as id, ${type.id}::uuid as link_type_id, ${side}::text as side, ${otherObject}::text as other_object, r.id as other_id,
      null::text as created_by_kind, null::text as created_by_id, null::text as created_by_name, r.created_at, r.id as tie
    from ${sql(table.name)} r
    where ${belongsToTenant(sql, scope, table)} and r.${sql(type.field)} = ${record.id}
      ${type.fromObject === null ? sql`and r.object = ${record.object}` : sql``} and ${isVisibleTo(sql, scope, table.assigned)}
      ${after ? sql`and (r.created_at, r.id) < (${after[0]}::timestamptz, ${after[1]}::uuid)` : sql``}
    order by r.created_at desc, r.id desc
    limit ${limit}`;
}

/** A link to be created, from the `from` side. */
export interface NewLink {
  id: string;
  type: LinkType;
  fromId: string;
  toId: string;
}

const columns = [
  'id',
  'link_type_id',
  'from_object',
  'from_id',
  'to_object',
  'to_id',
  'created_by_kind',
  'created_by_id',
  'created_by_name',
  'created_at',
] as const;

/**
 * Inserts links whose records the caller has locked. Unique indexes reject pairs that are already
 * linked, and links beyond the cardinality.
 * @returns the inserted links, in no order
 */
export async function insertLinks(sql: Sql, scope: Scope, links: readonly NewLink[], now: Date): Promise<StoredLink[]> {
  if (links.length === 0) return [];
  const { companyId, testMode } = scope;
  const rows = links.map(({ id, type, fromId, toId }) => ({
    companyId,
    testMode,
    id,
    linkTypeId: type.id,
    fromObject: type.fromObject,
    fromId,
    toObject: type.toObject,
    toId,
    cardinality: type.cardinality,
    ...toCreatedColumns(scope),
    createdAt: now,
  }));
  return sql<StoredLink[]>`
    insert into links ${sql(rows)} on conflict do nothing returning ${sql(columns)}`;
}

/** Returns the links that link the same pairs by the same types, in no order. */
export async function findSamePairs(
  sql: Sql,
  { companyId, testMode }: Scope,
  links: readonly NewLink[],
): Promise<StoredLink[]> {
  if (links.length === 0) return [];
  return sql<StoredLink[]>`
    select ${sql(columns)}
    from links
    where company_id = ${companyId} and test_mode = ${testMode} and (link_type_id, from_id, to_id) in (
      select * from unnest(${links.map(({ type }) => type.id)}::uuid[], ${links.map(({ fromId }) => fromId)}::uuid[],
        ${links.map(({ toId }) => toId)}::uuid[])
    )`;
}

/** Returns links by their ids, in no order, regardless of the caller's visibility. */
export async function findLinks(
  sql: Sql,
  { companyId, testMode }: Scope,
  ids: readonly string[],
): Promise<StoredLink[]> {
  if (ids.length === 0) return [];
  return sql<StoredLink[]>`
    select ${sql(columns)} from links
    where company_id = ${companyId} and test_mode = ${testMode} and id = any(${[...ids]}::uuid[])`;
}

/** Deletes links. @returns the ids of those that still existed */
export async function deleteLinks(sql: Sql, { companyId, testMode }: Scope, ids: readonly string[]): Promise<string[]> {
  if (ids.length === 0) return [];
  const rows = await sql<{ id: string }[]>`
    delete from links
    where company_id = ${companyId} and test_mode = ${testMode} and id = any(${[...ids]}::uuid[])
    returning id`;
  return rows.map(({ id }) => id);
}
