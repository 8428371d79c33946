// The blocks that texts of records lie in for the search: where changes wait, and putting them in.
// The first is asked under the platform role, everything else under the tenant's.
import { setImmediate as breathe } from 'node:timers/promises';
import type { Sql } from '../client/pool.ts';
import type { TenantScope } from '../client/tenant.ts';
import { recordTable } from '../records/columns.ts';
import { belongs } from '../records/reached.ts';
import { blocksOfSignature, emptySignature, markTexts, recordsOfBlock } from './signature.ts';

/** Changes that are put in at once. */
const batch = 16 * recordsOfBlock;
/** Of these, such as concern texts that a block may have: each may be in a block of its own, which is written anew. */
const mostChanged = 512;
/** Blocks that one statement looks through for these: a large company has thousands, and statements are limited in time. */
const blocksAtOnce = 2000;
/** Ids that are compared one by one with those of a block; more are hashed. */
const fewIds = 8;
/** Where changes wait. */
export interface WaitingChanges extends TenantScope {
  object: string;
  lastId: number;
}

/**
 * Looks for objects whose changes are enough to be put into a block, or must be; goes on where it ended the last time.
 * @param after what `end` was then
 * @param scanLimit changes that are looked at
 */
export async function findDueChanges(
  sql: Sql,
  after: WaitingChanges | undefined,
  scanLimit: number,
  now: Date,
): Promise<{ due: WaitingChanges[]; end: WaitingChanges | undefined }> {
  const position =
    after &&
    sql`
    where (company_id, test_mode, object, id) > (${after.companyId}, ${after.testMode}, ${after.object}, ${after.lastId})`;
  const found = await sql<(WaitingChanges & { changes: number; isDue: boolean })[]>`
    select company_id, test_mode, object, max(id) as last_id, count(*)::int as changes,
      coalesce(min(due_at) <= ${now}, false) as is_due
    from (
      select company_id, test_mode, object, id, due_at from search_changes ${position ?? sql``}
      order by company_id, test_mode, object, id
      limit ${scanLimit}
    ) waiting
    group by 1, 2, 3
    order by 1, 2, 3`;
  const looked = found.reduce((sum, { changes }) => sum + changes, 0);
  const due = found.filter(({ changes, isDue }) => isDue || changes >= recordsOfBlock);
  return { due, end: looked === scanLimit ? found.at(-1) : undefined };
}

/**
 * Puts changes of an object into its blocks, the oldest first. One at a time: what another does at this moment is left to it.
 * @returns true when it is worth being called again at once
 */
export async function putIntoBlocks(sql: Sql, scope: TenantScope, object: string): Promise<boolean> {
  const { companyId, testMode } = scope;
  const own = sql`company_id = ${companyId} and test_mode = ${testMode} and object = ${object}`;
  const table = recordTable(object);
  const [lock] = await sql<{ locked: boolean }[]>`
    select pg_try_advisory_xact_lock(hashtextextended(${`search ${companyId} ${testMode} ${object}`}, 0)) as locked
    from companies where id = ${companyId}`;
  if (lock && !lock.locked) return false;
  const taken = await sql<{ id: number; recordId: string; isNew: boolean }[]>`
    delete from search_changes
    where ${own} and id <= (
      select max(id) from (
        select id, count(due_at) over (order by id) as changed
        from (select id, due_at from search_changes where ${own} order by id limit ${batch}) oldest
      ) counted
      where changed <= ${mostChanged}
    )
    returning id, record_id, due_at is null as is_new`;
  const changed = taken.filter(({ isNew }) => !isNew).map(({ recordId }) => recordId);
  if (changed.length > 0) await removeTexts(sql, scope, object, changed);
  // A statement of its own: what it reads is not older than the changes that were taken.
  const texts = await sql<{ id: string; text: string }[]>`
    select r.id, searched_text(r) as text from ${sql(table.name)} r
    where ${belongs(sql, scope, table)} and r.id = any(${taken.map(({ recordId }) => recordId)}::uuid[])`;
  // In the order of the changes, so that what is newest is in the last blocks.
  const places = new Map(taken.map(({ id, recordId }) => [recordId, id]));
  const ordered = texts.toSorted((a, b) => (places.get(a.id) ?? 0) - (places.get(b.id) ?? 0));
  await appendTexts(sql, scope, object, ordered);
  await sign(sql, scope, object);
  return taken.length === batch || changed.length === mostChanged;
}

/** Takes records out of the blocks that have them; all blocks are looked through. */
async function removeTexts(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  object: string,
  ids: readonly string[],
): Promise<void> {
  const own = sql`company_id = ${companyId} and test_mode = ${testMode} and object = ${object}`;
  const removed = sql`${[...ids]}::uuid[]`;
  // No join, so that PostgreSQL hashes the ids, however many it thinks they are.
  const isRemoved = sql`(line.record_id in (select unnest(${removed}))) is true`;
  const hasRemoved =
    ids.length <= fewIds
      ? sql`b.record_ids && ${removed}`
      : sql`exists (select from unnest(b.record_ids) line (record_id) where ${isRemoved})`;
  const [last] = await sql<{ block: number | null }[]>`select max(block) as block from search_blocks where ${own}`;
  for (let first = 0; first <= (last?.block ?? -1); first += blocksAtOnce)
    await sql`
      update search_blocks b
      set (record_ids, texts) = (
        select coalesce(array_agg(line.record_id), '{}'), coalesce(array_agg(line.text), '{}')
        from unnest(b.record_ids, b.texts) line (record_id, text)
        where not ${isRemoved}
      )
      where ${own} and block >= ${first} and block < ${first + blocksAtOnce} and ${hasRemoved}`;
}

async function appendTexts(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  object: string,
  added: readonly { id: string; text: string }[],
): Promise<void> {
  if (added.length === 0) return;
  const [last] = await sql<{ block: number; ids: string[]; texts: string[] }[]>`
    select block, record_ids as ids, texts from search_blocks
    where company_id = ${companyId} and test_mode = ${testMode} and object = ${object}
    order by block desc limit 1`;
  const open = last && last.ids.length < recordsOfBlock ? last : undefined;
  const lines = [...(open?.ids.map((id, index) => ({ id, text: open.texts[index] as string })) ?? []), ...added];
  const first = open?.block ?? (last ? last.block + 1 : 0);
  for (let at = 0; at * recordsOfBlock < lines.length; at += 1) {
    const own = lines.slice(at * recordsOfBlock, (at + 1) * recordsOfBlock);
    await sql`
      insert into search_blocks (company_id, test_mode, object, block, record_ids, texts)
      values (${companyId}, ${testMode}, ${object}, ${first + at}, ${own.map(({ id }) => id)}::uuid[], ${own.map(({ text }) => text)}::text[])
      on conflict (company_id, test_mode, object, block) do update set record_ids = excluded.record_ids, texts = excluded.texts`;
  }
}

/** Signs the blocks that have none yet and grow no more, when there are enough for a signature. */
async function sign(sql: Sql, { companyId, testMode }: TenantScope, object: string): Promise<void> {
  const own = sql`company_id = ${companyId} and test_mode = ${testMode} and object = ${object}`;
  const [signed] = await sql<{ number: number; block: number | null }[]>`
    select (select count(*)::int from search_signatures where ${own}) as number,
      (select max(block) from search_blocks where ${own}) as block`;
  const number = signed?.number ?? 0;
  const first = number * blocksOfSignature;
  if ((signed?.block ?? 0) < first + blocksOfSignature) return;
  const words = emptySignature();
  for (let at = 0; at < blocksOfSignature; at += 1) {
    const [block] = await sql<{ texts: string[] }[]>`
      select texts from search_blocks where ${own} and block = ${first + at}`;
    markTexts(words, at, block?.texts ?? []);
    // Some milliseconds each: requests are answered in between.
    await breathe();
  }
  await sql`
    insert into search_signatures (company_id, test_mode, object, number, words)
    values (${companyId}, ${testMode}, ${object}, ${number}, ${Buffer.from(words.buffer)})`;
}
