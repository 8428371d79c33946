// Reads the records of a tag by the tag if they are few, else from the list, without statistics.
import type { Fragment } from 'postgres';
import type { Filter } from '../../domain/objects/filter.ts';
import type { Condition } from '../../domain/objects/filter-tree.ts';
import type { Sql } from '../client/pool.ts';
import type { TenantScope } from '../client/tenant.ts';
import type { Scope } from '../client/visibility.ts';
import { findFilterColumn, type RecordTable } from './columns.ts';
import { buildFilterCondition, hasTag } from './filter.ts';
import { belongsToTenant, type Source, selectById } from './reached.ts';

/** The tags of which a record must have one; undefined for any tag. */
type Tags = readonly string[] | undefined;

/** A filter that only records with tags pass. */
export interface TagFilter {
  tags: readonly [Tags, ...Tags[]];
  /** Those of the other conditions that an index serves for a value, so that few records may pass. */
  selective: readonly Filter[];
  /** The other conditions; undefined if there are none. */
  rest: Filter | undefined;
}

/** Splits a filter that only records with tags pass. @returns undefined for any other filter */
export function splitTagFilter(table: RecordTable, filter: Filter | undefined): TagFilter | undefined {
  const members = filter && 'and' in filter ? filter.and : filter ? [filter] : [];
  const [first, ...further] = members
    .filter(requiresTag)
    .map((condition) => ('values' in condition ? condition.values.map(String) : undefined));
  if (!members.some(requiresTag)) return undefined;
  const others = members.filter((member) => !requiresTag(member));
  const selective = others.filter((member) => isSelective(table, member));
  return { tags: [first, ...further], selective, rest: others.length > 0 ? { and: others } : undefined };
}

/** Returns true for a comparison of values that an index finds. */
function isSelective(table: RecordTable, filter: Filter): boolean {
  if (!('field' in filter) || (filter.op !== 'eq' && filter.op !== 'in')) return false;
  const column = findFilterColumn(table, filter.field);
  return filter.field === 'id' || column?.indexed === true || (column?.hashed === true && filter.op === 'eq');
}

const requiresTag = (filter: Filter): filter is Condition =>
  'field' in filter && filter.field === 'tags' && (filter.op === 'in' || (filter.op === 'is_null' && !filter.isNull));

/** Up to this many records of a condition are read one by one. */
const fewTags = 5000;
/** Up to this many records that pass the selective conditions are read one by one. */
const fewSelected = 100;
/** If more records have the tags of a condition, statistics of them exist, and a join is best. */
const manyTags = 50_000;
/** Conditions that are counted. The records are then tested for the others. */
const mostCounted = 3;

/**
 * Returns the records that pass all conditions on tags. If few records pass the selective
 * conditions or have the tags of a condition, they are read one by one; else the list is read, and
 * each record tested. The statement
 * counts them itself, because PostgreSQL cannot choose without statistics of the rows, as after an
 * import: it would compare each record with each tag of a record.
 * @param readAs `page` if an index has the records in the order of `asked`, so that the list soon
 *   ends; `whole` if all of its records may be read
 * @param joins what `asked` refers to
 * @param asked the other conditions, each with a leading `and`, with `order by` and `limit`
 */
export function selectTagged(
  sql: Sql,
  scope: Scope,
  table: RecordTable,
  { tags, selective }: TagFilter,
  readAs: 'page' | 'whole',
  joins: Fragment,
  asked: Fragment,
): Source {
  const counted = tags.slice(0, mostCounted);
  const join = (parts: readonly Fragment[]): Fragment => parts.reduce((all, part) => sql`${all} ${part}`, sql``);
  // The first list with few records is read.
  const short = [
    ...(selective.length > 0
      ? [{ name: 'selected', few: fewSelected, others: tags, ids: selectIds(sql, scope, table, selective) }]
      : []),
    ...counted.map((ids, index) => ({
      name: `tagged_${index}`,
      few: fewTags,
      others: tags.filter((_, other) => other !== index),
      ids: selectTags(sql, scope, table, ids, fewTags + 1),
    })),
  ];
  const lists = short.map(({ name, few, others, ids }, index) => ({
    name: sql(name),
    list: sql`${index > 0 ? sql`,` : sql``} ${sql(name)} as materialized (${ids})`,
    isFew: sql`(select count(*) from ${sql(name)}) <= ${few}`,
    isMany: sql`and (select count(*) from ${sql(name)}) > ${few}`,
    hasOthers: join(others.map((tag) => sql`and ${hasTag(sql, table, sql`r`, tag)}`)),
  }));
  const areMany = (count: number): Fragment => join(lists.slice(0, count).map(({ isMany }) => isMany));
  const pass = (test: (ids: Tags) => Fragment): Fragment => join(tags.map((ids) => sql`and ${test(ids)}`));
  const readList = (tests: Fragment): Fragment => sql`(
    select r.* from ${sql(table.name)} r ${joins}
    where ${belongsToTenant(sql, scope, table)} ${areMany(lists.length)} ${tests} ${asked}
  )`;
  const ofFew = lists.map(
    ({ name, isFew, hasOthers }, index) => sql`
      select r.* from (select distinct record_id from ${name} where true ${areMany(index)} and ${isFew}) t
      cross join lateral (${selectById(sql, scope, table, sql`t.record_id`)}) r
      where true ${hasOthers}
      union all`,
  );
  const counts = counted.map((ids, index) => {
    const many = selectTags(sql, scope, table, ids, manyTags + 1);
    return sql`${index > 0 ? sql`,` : sql``} (select count(*) from (${many}) t)`;
  });
  const isJoined = sql`(select most from counted) > ${manyTags}`;
  const rows = sql`(
    with ${join(lists.map(({ list }) => list))}
      ${readAs === 'whole' ? sql`, counted as materialized (select greatest(${join(counts)}) as most)` : sql``}
    ${join(ofFew)} ${
      readAs === 'page'
        ? readList(pass((ids) => hasTag(sql, table, sql`r`, ids)))
        : sql`
          ${readList(sql`and not ${isJoined} ${pass((ids) => hasTagOfAll(sql, scope, table, ids, 'looked up'))}`)}
          union all
          ${readList(sql`and ${isJoined} ${pass((ids) => hasTagOfAll(sql, scope, table, ids, 'joined'))}`)}`
    }
  ) r`;
  return { rows, where: sql`true`, isOfEach: false };
}

/** Returns the ids of records that pass the conditions, up to one more than are few. */
function selectIds(sql: Sql, scope: Scope, table: RecordTable, conditions: readonly Filter[]): Fragment {
  return sql`
    select r.id as record_id from ${sql(table.name)} r
    where ${belongsToTenant(sql, scope, table)} and ${buildFilterCondition(sql, scope, table, { and: conditions })}
    limit ${fewSelected + 1}`;
}

/**
 * Returns the records with one of the tags, by the tags alone: for a count without other conditions.
 * @param limit the maximum of records
 */
export function selectAllTagged(sql: Sql, scope: TenantScope, table: RecordTable, ids: Tags, limit: number): Source {
  // A record has up to all of the tags.
  const tags = selectTags(sql, scope, table, ids, limit * (ids?.length ?? 1));
  const rows = sql`(
    select r.id from (select distinct record_id from (${tags}) t) t
    cross join lateral (${selectById(sql, scope, table, sql`t.record_id`)}) r
  ) r`;
  return { rows, where: sql`true`, isOfEach: false };
}

/**
 * Returns a condition for a record `r` with one of the tags, or with any, for statements that test
 * many records. PostgreSQL looks up each record, or reads all of the tags once if this costs less.
 * `is true` leaves it this choice and no join, whose cost it underestimates without statistics.
 * It does not read so many tags at once that they exceed its memory for hashes: these are joined.
 */
function hasTagOfAll(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  table: RecordTable,
  ids: Tags,
  how: 'looked up' | 'joined',
): Fragment {
  return sql`(exists (
    select from record_tags t
    where t.company_id = ${companyId} and t.test_mode = ${testMode} and t.object = ${table.name} and t.record_id = r.id
      ${ids ? sql`and t.tag_id = any(${[...ids]}::uuid[])` : sql``}
  )) ${how === 'joined' ? sql`` : sql`is true`}`;
}

/** Returns the ids of records with the tags, once for each tag. */
function selectTags(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  table: RecordTable,
  ids: Tags,
  limit: number,
): Fragment {
  const own = sql`t.company_id = ${companyId} and t.test_mode = ${testMode}`;
  if (!ids)
    return sql`select distinct t.record_id from record_tags t where ${own} and t.object = ${table.name} limit ${limit}`;
  // A range in the order of the index of tags, which leaves no other. The tags are those of one
  // object, so the index alone answers.
  return sql`
    select t.record_id
    from unnest(${[...ids]}::uuid[]) wanted (tag_id)
    cross join lateral (
      select t.record_id from record_tags t
      where ${own} and t.tag_id >= wanted.tag_id and t.tag_id <= wanted.tag_id
      order by t.tag_id limit ${limit}
    ) t
    limit ${limit}`;
}
