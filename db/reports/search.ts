// Search across objects: the newest records one by one, older ones by the blocks of their texts.
import type { Fragment } from 'postgres';
import type { StoredRecord } from '../../domain/records/draft.ts';
import type { SearchedText } from '../../domain/reports/search.ts';
import type { Sql } from '../client/pool.ts';
import { inReach, type Scope } from '../client/visibility.ts';
import { type RecordTable, recordTable } from '../records/columns.ts';
import { ageOf, belongs, firstInReach } from '../records/reached.ts';
import { fromRow, restOfRow, selection } from '../records/rows.ts';
import { blocksOfSignature, blocksWith, placesOf, recordsOfBlock } from './signature.ts';

interface Hit {
  record: StoredRecord;
  matchedField: string;
}

export interface FoundRecords {
  hits: Hit[];
  /** Records that were seen to match. */
  total: number;
  /** True when there may be more than that. */
  isCapped: boolean;
}

/** How well a record matches: 0 where a text is the part, 1 where one begins with it, 2 where one has it. */
type Rank = number;
/** From which rank on nothing is asked for, where whole texts are, or beginnings too, or everything. */
const bounds = { whole: 1, begun: 2, all: 3 } as const;

/** What is looked for in one object. */
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
  /** Of the first text that matches so, among those that are searched. */
  place: number;
}

/** Records that were looked at, and what came of it. */
interface Look {
  best: Match[];
  looked: number;
  /** Of the records that were looked at: how many match, and how many of those at their beginning and as a whole. */
  total: number;
  begun: number;
  whole: number;
  /** The part in lower case, as the database has it. */
  part: string;
}

/** Blocks that are read, the newest first: what is in more of them is not rare. Fewer where enough was found that ranks lower. */
const mostBlocks = { all: 160, higher: 48 } as const;
/** Changes that wait for the job, of which a search looks at the newest. */
const mostWaiting = 5000;

/**
 * The best matches of an object within reach: whole fields first, then beginnings, then parts, each newest first. Sent at once.
 *
 * The newest 500 records in reach and 100 more for each asked for are looked at one by one. Where they hold enough, the rest is only asked for
 * what ranks higher and is rare: a part that many records have is found without reading them all. Where a bound cut something off,
 * `isCapped` is true and `total` is how many were seen.
 */
export async function searchRecords(
  sql: Sql,
  scope: Scope,
  object: string,
  part: string,
  texts: readonly SearchedText[],
  limit: number,
): Promise<FoundRecords> {
  const search: Search = { sql, scope, object, table: recordTable(object), part, texts, limit };
  const newestLooked = 500 + 100 * limit;
  const newest = await lookAtNewest(search, newestLooked);
  const isAll = newest.looked < newestLooked;
  if (isAll || newest.whole >= limit) return answer(search, newest.best, newest.total, !isAll);
  const [bound, framed] = whatRanksHigher(newest, limit);
  const higher = newest.best.filter(({ rank }) => rank < bound);
  const most = bound === bounds.all ? mostBlocks.all : mostBlocks.higher;
  const blocks = newest.blocks ?? (await findBlocks(search, framed, most));
  const older = await lookInBlocks(search, framed, bound, blocks, higher);
  const isCut = bound < bounds.all || blocks.areCut || older.isCut;
  return answer(search, [...newest.best, ...older.best], newest.total + older.total, isCut);
}

/** What of the older records is still asked for, and how it stands in their texts, each field between two of U+001F. */
function whatRanksHigher({ total, begun, part }: Look, limit: number): [bound: Rank, framed: string] {
  if (begun >= limit) return [bounds.whole, `\u001f${part}\u001f`];
  return total >= limit ? [bounds.begun, `\u001f${part}`] : [bounds.all, part];
}

function answer({ texts, limit }: Search, best: readonly Match[], total: number, isCapped: boolean): FoundRecords {
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
 * Looks at the newest records, but for those whose text in the last blocks does not have the part and waits for no change.
 * @returns with the blocks that can have the part, where these records do not have it often enough; undefined: they are to be asked for
 */
async function lookAtNewest(search: Search, most: number): Promise<Look & { blocks: Blocks | undefined }> {
  const { sql, scope, table, part, limit } = search;
  // As the database will have it, but for a few letters.
  const lower = part.toLowerCase();
  const places = placesOf(lower);
  const own = ownOf(search);
  const last = Math.ceil(most / recordsOfBlock) + 1;
  const age = scope.reach.kind === 'company' ? 'created_at' : ageOf(table);
  const order = sql`order by r.${sql(age)} desc, r.id desc limit ${most}`;
  const source = await firstInReach(sql, scope, table, order);
  const rows = await look(search, {
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
    // Always by a hash: for a join PostgreSQL compares each with each, where it does not know how many there are.
    ids: sql`select id from newest where id not in (select record_id from without)`,
    looked: sql`(select count(*)::int from newest)`,
    further: sql`case when counted.total < ${limit} then (${wordsAt(search, places)}) end`,
  });
  const seen = toLook(search, rows);
  const words = ((rows[0] ?? []).at(-1) as Buffer | null) ?? noWords;
  const isTold = seen.total < limit && seen.part === lower;
  return { ...seen, blocks: isTold ? toBlocks(words, places.length, mostBlocks.all) : undefined };
}

interface Blocks {
  numbers: readonly number[];
  /** From this one on they have no signature yet, and are all read. */
  unsigned: number;
  areCut: boolean;
}

/** The blocks that can have a part, by their signatures. */
async function findBlocks(search: Search, framed: string, most: number): Promise<Blocks> {
  const places = placesOf(framed);
  const [row] = await search.sql<{ words: Buffer | null }[]>`select (${wordsAt(search, places)}) as words`;
  return toBlocks(row?.words ?? noWords, places.length, most);
}

/** Numbers and words of all signatures, the newest first, one behind the other; null where there are none. */
function wordsAt(search: Search, places: readonly number[]): Fragment {
  const { sql } = search;
  const words = places.map((place) => sql`substr(words, ${place * 4 + 1}::int, 4)`);
  const entry = words.reduce((before, word) => sql`${before} || ${word}`, sql`int4send(number)`);
  return sql`select string_agg(${entry}, '' order by number desc) from search_signatures where ${ownOf(search)}`;
}

const noWords = Buffer.alloc(0);

function toBlocks(words: Buffer, places: number, most: number): Blocks {
  const size = 4 + places * 4;
  const signatures = words.length / size;
  const numbers = Array.from({ length: signatures }, (_, index) => index * size).flatMap((start) =>
    blocksWith(
      Array.from({ length: places }, (_, place) => words.readInt32LE(start + 4 + place * 4)),
      words.readInt32BE(start),
    ).toReversed(),
  );
  return { numbers: numbers.slice(0, most), unsigned: signatures * blocksOfSignature, areCut: numbers.length > most };
}

/** Looks at the records whose texts have the part in one of the blocks, and at those that wait to be put into one. */
async function lookInBlocks(
  search: Search,
  framed: string,
  bound: Rank,
  blocks: Blocks,
  besides: readonly Match[],
): Promise<Look & { isCut: boolean }> {
  const { sql, limit } = search;
  const most = 1000 + 250 * limit;
  const own = ownOf(search);
  const rows = await look(search, {
    bound,
    before: sql`waiting as (
      select record_id from search_changes where ${own} order by id desc limit ${mostWaiting}
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
      where record_id <> all(${besides.map(({ record }) => record.id)}::uuid[])`,
    looked: sql`(select count(*)::int from looked)`,
    further: sql`(select count(*) from waiting) = ${mostWaiting} or (select count(*) from stored) = ${most}`,
  });
  return { ...toLook(search, rows), isCut: (rows[0] ?? []).at(-1) as boolean };
}

/** The rows that the search keeps of the object. */
function ownOf({ sql, scope, object }: Search): Fragment {
  return sql`company_id = ${scope.companyId} and test_mode = ${scope.testMode} and object = ${object}`;
}

interface Asked {
  bound: Rank;
  /** Queries of the `with` that come first. */
  before: Fragment;
  /** The ids of the records to be looked at. */
  ids: Fragment;
  /** How many that counts for. */
  looked: Fragment;
  /** What else is asked: the last value of each row. */
  further: Fragment;
}

/**
 * Looks at records one by one.
 * @returns the best of them, each with what was seen of all; a row without a record where none matches
 */
function look({ sql, scope, table, part, texts, limit }: Search, asked: Asked): Promise<unknown[][]> {
  return sql`
    with asked as materialized (
      select lower(${part}::text) as part
    ), ${asked.before} looked as materialized (
      select r.id, r.created_at, case when ${inReach(sql, scope, table.assigned)} then ${rankOf(sql, sql`given.texts`)} end as rank
      from asked, ${sql(table.name)} r, lateral (select ${framed(sql, listOf(sql, table, texts))} as texts offset 0) given
      where ${belongs(sql, scope, table)} and r.id = any(array(${asked.ids}))
    ), best as (
      select id, created_at, rank from looked where rank < ${asked.bound}
      order by rank, created_at desc, id desc
      limit ${limit}
    ), counted as (
      select ${asked.looked} as looked, (count(*) filter (where rank < ${asked.bound}))::int as total,
        (count(*) filter (where rank < ${bounds.begun}))::int as begun, (count(*) filter (where rank < ${bounds.whole}))::int as whole
      from looked
    )
    select ${selection(sql, table)}, best.rank, (
      select place - 1 from unnest(array[${listOf(sql, table, texts)}]) with ordinality given (text, place)
      where ${rankOf(sql, framed(sql, sql`given.text`))} = best.rank
      order by place
      limit 1
    )::int, counted.looked, counted.total, counted.begun, counted.whole, asked.part, ${asked.further}
    from asked, counted
    left join best on true
    left join ${sql(table.name)} r on ${belongs(sql, scope, table)} and r.id = best.id`
    .values()
    .execute();
}

/** The texts of a row `r` that are searched. */
function listOf(sql: Sql, table: RecordTable, texts: readonly SearchedText[]): Fragment {
  return texts
    .map((text) => sql`left(${textOf(sql, table, text)}, 1000)`)
    .reduce((before, text) => sql`${before}, ${text}`);
}

function textOf(sql: Sql, table: RecordTable, { name, custom, parts }: SearchedText): Fragment {
  // As searched_text() joins them.
  if (parts) return sql`(r.${sql(parts[0])} || ' ' || r.${sql(parts[1])})`;
  const column = custom ? undefined : table.columns.get(name);
  return column ? sql`r.${sql(column.name)}` : sql`r.custom ->> ${name}::text`;
}

/** Texts as blocks have them: in lower case, each between two of U+001F. */
function framed(sql: Sql, texts: Fragment): Fragment {
  return sql`chr(31) || lower(concat_ws(chr(31), ${texts})) || chr(31)`;
}

/** How well the part that is asked for matches the best of framed texts; null where none has it. */
function rankOf(sql: Sql, texts: Fragment): Fragment {
  return sql`case
    when strpos(${texts}, asked.part) = 0 then null
    when strpos(${texts}, chr(31) || asked.part) = 0 then 2
    when strpos(${texts}, chr(31) || asked.part || chr(31)) = 0 then 1
    else 0 end`;
}

function toLook({ table }: Search, rows: readonly unknown[][]): Look {
  const [, , looked, total, begun, whole, part] = restOfRow(table, rows[0] ?? []) as [
    ...[unknown, unknown],
    ...[number, number, number, number, string],
  ];
  const best = rows.flatMap((row) => {
    const [rank, place] = restOfRow(table, row) as [Rank | null, number | null];
    return rank === null || place === null ? [] : [{ record: fromRow(table, row), rank, place }];
  });
  return { best, looked, total, begun, whole, part };
}
