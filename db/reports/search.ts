// Search across objects: scans the newest records, finds older ones by the blocks of their texts.
import type { Fragment } from 'postgres';
import type { StoredRecord } from '../../domain/records/draft.ts';
import type { SearchedText } from '../../domain/reports/search.ts';
import type { Sql } from '../client/pool.ts';
import { isVisibleTo, type Scope } from '../client/visibility.ts';
import { getRecordTable, type RecordTable } from '../records/columns.ts';
import { belongsToTenant, findFirstVisible, getAgeColumn } from '../records/reached.ts';
import { readFurtherColumns, selectColumns, toRecord } from '../records/rows.ts';
import { blocksOfSignature, computePlaces, findBlocksWith, recordsOfBlock } from './signature.ts';

interface Hit {
  record: StoredRecord;
  matchedField: string;
}

export interface FoundRecords {
  hits: Hit[];
  /** The matches that were seen. */
  total: number;
  /** True if there may be more. */
  isCapped: boolean;
}

/**
 * How well a record matches: 0 if a text equals the part, 1 if one begins with it, 2 if one
 * contains it.
 */
type Rank = number;
/**
 * Records with this rank or a higher number are left out: only whole texts are searched, or also
 * beginnings, or everything.
 */
const bounds = { whole: 1, begun: 2, all: 3 } as const;

/** A search in one object. */
interface Search {
  sql: Sql;
  scope: Scope;
  object: string;
  table: RecordTable;
  part: string;
  /** In the order in which they are tried. */
  texts: readonly SearchedText[];
  limit: number;
}

interface Match {
  record: StoredRecord;
  rank: Rank;
  /** The index of the first text with this rank among the searched ones. */
  place: number;
}

/** The result of scanning records. */
interface Scan {
  best: Match[];
  looked: number;
  /**
   * Of the scanned records: how many match, how many of those at the beginning, and how many as a
   * whole.
   */
  total: number;
  begun: number;
  whole: number;
  /** The part in lower case, according to the database. */
  part: string;
}

/**
 * The newest blocks that are read at most; a part that more blocks contain is not rare. Fewer are
 * read if enough lower-ranking matches were found.
 */
const maxBlocks = { all: 160, higher: 48 } as const;
/** Waiting changes that a search scans, the newest first. */
const maxWaiting = 5000;

/**
 * Returns the best visible matches of an object: whole fields first, then beginnings, then parts,
 * each newest first. Sends its statement immediately.
 *
 * The search scans the newest 500 visible records, and 100 more for each requested one. If they
 * contain enough matches, it searches older records only for matches with a better rank, which are
 * rare. So it finds a frequent part without reading all records. If a limit cut something off,
 * `isCapped` is true and `total` is the number of matches seen.
 */
export async function searchRecords(
  sql: Sql,
  scope: Scope,
  object: string,
  part: string,
  texts: readonly SearchedText[],
  limit: number,
): Promise<FoundRecords> {
  const search: Search = { sql, scope, object, table: getRecordTable(object), part, texts, limit };
  const newestScanned = 500 + 100 * limit;
  const newest = await scanNewest(search, newestScanned);
  const isAll = newest.looked < newestScanned;
  if (isAll || newest.whole >= limit) return toFoundRecords(search, newest.best, newest.total, !isAll);
  const [bound, framed] = findHigherRanks(newest, limit);
  const higher = newest.best.filter(({ rank }) => rank < bound);
  const most = bound === bounds.all ? maxBlocks.all : maxBlocks.higher;
  const blocks = newest.blocks ?? (await findBlocks(search, framed, most));
  const older = await scanBlocks(search, framed, bound, blocks, higher);
  const isCut = bound < bounds.all || blocks.areCut || older.isCut;
  return toFoundRecords(search, [...newest.best, ...older.best], newest.total + older.total, isCut);
}

/**
 * Returns which ranks to search among the older records, and the text to search for in their texts,
 * where U+001F surrounds each field.
 */
function findHigherRanks({ total, begun, part }: Scan, limit: number): [bound: Rank, framed: string] {
  if (begun >= limit) return [bounds.whole, `\u001f${part}\u001f`];
  return total >= limit ? [bounds.begun, `\u001f${part}`] : [bounds.all, part];
}

function toFoundRecords(
  { texts, limit }: Search,
  best: readonly Match[],
  total: number,
  isCapped: boolean,
): FoundRecords {
  const order = best.toSorted(
    (a, b) =>
      a.rank - b.rank ||
      b.record.createdAt.getTime() - a.record.createdAt.getTime() ||
      (a.record.id < b.record.id ? 1 : -1),
  );
  const hits = order
    .slice(0, limit)
    .map(({ record, place }) => ({ record, matchedField: texts[place]?.name as string }));
  return { hits, total, isCapped };
}

/**
 * Scans the newest records, except those whose text in the last blocks does not contain the part
 * and that have no waiting change.
 * @returns also the blocks that may contain the part, if these records have too few matches;
 * undefined: they must still be looked up
 */
async function scanNewest(search: Search, most: number): Promise<Scan & { blocks: Blocks | undefined }> {
  const { sql, scope, table, part, limit } = search;
  // The database converts a few letters in another way.
  const lower = part.toLowerCase();
  const places = computePlaces(lower);
  const own = selectOwnRows(search);
  const last = Math.ceil(most / recordsOfBlock) + 1;
  const age = scope.reach.kind === 'company' ? 'created_at' : getAgeColumn(table);
  const order = sql`order by r.${sql(age)} desc, r.id desc limit ${most}`;
  const source = await findFirstVisible(sql, scope, table, order);
  const rows = await scanRecords(search, {
    bound: bounds.all,
    before: sql`newest as materialized (
      select r.id from ${source.rows} where ${source.where} ${order}
    ), without as (
      select record_id
      from (
        select unnest(record_ids) as record_id, unnest(texts) as text
        from search_blocks
        where ${own} and block > (select max(block) from search_blocks where ${own}) - ${last}::int
      ) lines
      where strpos(text, (select part from asked)) = 0
        and record_id not in (select record_id from search_changes where ${own})
    ),`,
    // `not in` always uses a hash. With a join, PostgreSQL compares each with each if it does not
    // know how many there are.
    ids: sql`select id from newest where id not in (select record_id from without)`,
    looked: sql`(select count(*)::int from newest)`,
    further: sql`case when counted.total < ${limit} then (${selectWords(search, places)}) end`,
  });
  const seen = toScan(search, rows);
  const words = ((rows[0] ?? []).at(-1) as Buffer | null) ?? noWords;
  const hasBlocks = seen.total < limit && seen.part === lower;
  return { ...seen, blocks: hasBlocks ? toBlocks(words, places.length, maxBlocks.all) : undefined };
}

interface Blocks {
  numbers: readonly number[];
  /** Blocks from this one on have no signature yet. All of them are read. */
  unsigned: number;
  areCut: boolean;
}

/** Finds the blocks that may contain a part, by their signatures. */
async function findBlocks(search: Search, framed: string, most: number): Promise<Blocks> {
  const places = computePlaces(framed);
  const [row] = await search.sql<{ words: Buffer | null }[]>`select (${selectWords(search, places)}) as words`;
  return toBlocks(row?.words ?? noWords, places.length, most);
}

/**
 * Returns a query for the numbers and words of all signatures, concatenated, the newest first; null
 * if there are none.
 */
function selectWords(search: Search, places: readonly number[]): Fragment {
  const { sql } = search;
  const words = places.map((place) => sql`substr(words, ${place * 4 + 1}::int, 4)`);
  const entry = words.reduce((before, word) => sql`${before} || ${word}`, sql`int4send(number)`);
  return sql`select string_agg(${entry}, '' order by number desc) from search_signatures where ${selectOwnRows(search)}`;
}

const noWords = Buffer.alloc(0);

function toBlocks(words: Buffer, places: number, most: number): Blocks {
  const size = 4 + places * 4;
  const signatures = words.length / size;
  const numbers = Array.from({ length: signatures }, (_, index) => index * size).flatMap((start) =>
    findBlocksWith(
      Array.from({ length: places }, (_, place) => words.readInt32LE(start + 4 + place * 4)),
      words.readInt32BE(start),
    ).toReversed(),
  );
  return { numbers: numbers.slice(0, most), unsigned: signatures * blocksOfSignature, areCut: numbers.length > most };
}

/**
 * Scans the records whose texts in one of the blocks contain the part, and those with waiting
 * changes.
 */
async function scanBlocks(
  search: Search,
  framed: string,
  bound: Rank,
  blocks: Blocks,
  known: readonly Match[],
): Promise<Scan & { isCut: boolean }> {
  const { sql, limit } = search;
  const most = 1000 + 250 * limit;
  const own = selectOwnRows(search);
  const rows = await scanRecords(search, {
    bound,
    before: sql`waiting as (
      select record_id from search_changes where ${own} order by id desc limit ${maxWaiting}
    ), stored as (
      select record_id
      from (
        select unnest(record_ids) as record_id, unnest(texts) as text
        from search_blocks
        where ${own} and (block >= ${blocks.unsigned} or block = any(${[...blocks.numbers]}::int[]))
      ) lines
      where strpos(text, ${framed}) > 0
      limit ${most}
    ),`,
    ids: sql`
      select record_id from (select record_id from waiting union select record_id from stored) known
      where record_id <> all(${known.map(({ record }) => record.id)}::uuid[])`,
    looked: sql`(select count(*)::int from looked)`,
    further: sql`(select count(*) from waiting) = ${maxWaiting} or (select count(*) from stored) = ${most}`,
  });
  return { ...toScan(search, rows), isCut: (rows[0] ?? []).at(-1) as boolean };
}

/** Returns a condition for the search rows of the object. */
function selectOwnRows({ sql, scope, object }: Search): Fragment {
  return sql`company_id = ${scope.companyId} and test_mode = ${scope.testMode} and object = ${object}`;
}

interface Asked {
  bound: Rank;
  /** Queries of the `with` that come first. */
  before: Fragment;
  /** The ids of the records to scan. */
  ids: Fragment;
  /** How many scanned records these count as. */
  looked: Fragment;
  /** Another expression; it becomes the last value of each row. */
  further: Fragment;
}

/**
 * Scans records one by one.
 * @returns the best matches, each with the counts of all; one row without a record if none matches
 */
function scanRecords({ sql, scope, table, part, texts, limit }: Search, asked: Asked): Promise<unknown[][]> {
  return sql`
    with asked as materialized (
      select lower(${part}::text) as part
    ), ${asked.before} looked as materialized (
      select r.id, r.created_at, case when ${isVisibleTo(sql, scope, table.assigned)} then ${computeRank(sql, sql`given.texts`)} end as rank
      from asked, ${sql(table.name)} r, lateral (select ${frameTexts(sql, listTexts(sql, table, texts))} as texts offset 0) given
      where ${belongsToTenant(sql, scope, table)} and r.id = any(array(${asked.ids}))
    ), best as (
      select id, created_at, rank from looked where rank < ${asked.bound}
      order by rank, created_at desc, id desc
      limit ${limit}
    ), counted as (
      select ${asked.looked} as looked, (count(*) filter (where rank < ${asked.bound}))::int as total,
        (count(*) filter (where rank < ${bounds.begun}))::int as begun, (count(*) filter (where rank < ${bounds.whole}))::int as whole
      from looked
    )
    select ${selectColumns(sql, table)}, best.rank, (
      select place - 1 from unnest(array[${listTexts(sql, table, texts)}]) with ordinality given (text, place)
      where ${computeRank(sql, frameTexts(sql, sql`given.text`))} = best.rank
      order by place
      limit 1
    )::int, counted.looked, counted.total, counted.begun, counted.whole, asked.part, ${asked.further}
    from asked, counted
    left join best on true
    left join ${sql(table.name)} r on ${belongsToTenant(sql, scope, table)} and r.id = best.id`
    .values()
    .execute();
}

/** Returns the searched texts of a row `r`. */
function listTexts(sql: Sql, table: RecordTable, texts: readonly SearchedText[]): Fragment {
  return texts
    .map((text) => sql`left(${selectText(sql, table, text)}, 1000)`)
    .reduce((before, text) => sql`${before}, ${text}`);
}

function selectText(sql: Sql, table: RecordTable, { name, custom, parts }: SearchedText): Fragment {
  // As searched_text() joins them.
  if (parts) return sql`(r.${sql(parts[0])} || ' ' || r.${sql(parts[1])})`;
  const column = custom ? undefined : table.columns.get(name);
  return column ? sql`r.${sql(column.name)}` : sql`r.custom ->> ${name}::text`;
}

/** Returns texts in the format of blocks: in lower case, each surrounded by U+001F. */
function frameTexts(sql: Sql, texts: Fragment): Fragment {
  return sql`chr(31) || lower(concat_ws(chr(31), ${texts})) || chr(31)`;
}

/** Returns the rank of the best match among framed texts; null if none contains the part. */
function computeRank(sql: Sql, texts: Fragment): Fragment {
  return sql`case
    when strpos(${texts}, asked.part) = 0 then null
    when strpos(${texts}, chr(31) || asked.part) = 0 then 2
    when strpos(${texts}, chr(31) || asked.part || chr(31)) = 0 then 1
    else 0 end`;
}

function toScan({ table }: Search, rows: readonly unknown[][]): Scan {
  const [, , looked, total, begun, whole, part] = readFurtherColumns(table, rows[0] ?? []) as [
    ...[unknown, unknown],
    ...[number, number, number, number, string],
  ];
  const best = rows.flatMap((row) => {
    const [rank, place] = readFurtherColumns(table, row) as [Rank | null, number | null];
    return rank === null || place === null ? [] : [{ record: toRecord(table, row), rank, place }];
  });
  return { best, looked, total, begun, whole, part };
}
