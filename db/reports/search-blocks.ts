// Blocks of record texts for the search: finds waiting changes, and adds them to blocks.
// The first statement runs under the platform role, all others under the tenant's.
import { setImmediate as breathe } from 'node:timers/promises';
import type { Sql } from '../client/pool.ts';
import type { TenantScope } from '../client/tenant.ts';
import { getRecordTable } from '../records/columns.ts';
import { belongsToTenant } from '../records/reached.ts';
import { blocksOfSignature, createSignature, markTexts, recordsOfBlock } from './signature.ts';

/** Changes that are added in one transaction. */
const batch = 16 * recordsOfBlock;
/**
 * The maximum of these that change texts which a block may have. Each may be in another block,
 * which must then be rewritten.
 */
const maxChanged = 512;
/**
 * Blocks that one statement searches for these. A large company has thousands of blocks, and
 * statements have a timeout.
 */
const blocksPerStatement = 2000;
/** Up to this many ids are compared one by one with those of a block; more are hashed. */
const maxComparedIds = 8;
/** A tenant and object with waiting changes. */
export interface WaitingChanges extends TenantScope {
  object: string;
  lastId: number;
}

/**
 * Finds objects that have enough changes for a block, or changes that have waited long enough. Each
 * scan continues after the last one.
 * @param after `end` of the last scan
 * @param scanLimit the maximum of changes to scan
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
 * Adds changes of an object to its blocks, the oldest first. Runs once at a time for each object;
 * if another process is doing it, this returns immediately.
 * @returns true if it should be called again immediately
 */
export async function putIntoBlocks(sql: Sql, scope: TenantScope, object: string): Promise<boolean> {
  const { companyId, testMode } = scope;
  const own = sql`company_id = ${companyId} and test_mode = ${testMode} and object = ${object}`;
  const table = getRecordTable(object);
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
      where changed <= ${maxChanged}
    )
    returning id, record_id, due_at is null as is_new`;
  const changed = taken.filter(({ isNew }) => !isNew).map(({ recordId }) => recordId);
  if (changed.length > 0) await removeTexts(sql, scope, object, changed);
  // A separate statement, so that it reads texts that are at least as new as the taken changes.
  const texts = await sql<{ id: string; text: string }[]>`
    select r.id, searched_text(r) as text from ${sql(table.name)} r
    where ${belongsToTenant(sql, scope, table)} and r.id = any(${taken.map(({ recordId }) => recordId)}::uuid[])`;
  // In the order of the changes, so that the newest texts are in the last blocks.
  const places = new Map(taken.map(({ id, recordId }) => [recordId, id]));
  const ordered = texts.toSorted((a, b) => (places.get(a.id) ?? 0) - (places.get(b.id) ?? 0));
  await appendTexts(sql, scope, object, ordered);
  await sign(sql, scope, object);
  return taken.length === batch || changed.length === maxChanged;
}

/** Removes records from their blocks. Searches all blocks. */
async function removeTexts(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  object: string,
  ids: readonly string[],
): Promise<void> {
  const own = sql`company_id = ${companyId} and test_mode = ${testMode} and object = ${object}`;
  const removed = sql`${[...ids]}::uuid[]`;
  // Without a join, PostgreSQL hashes the ids, no matter how many it expects.
  const isRemoved = sql`(line.record_id in (select unnest(${removed}))) is true`;
  const hasRemoved =
    ids.length <= maxComparedIds
      ? sql`b.record_ids && ${removed}`
      : sql`exists (select from unnest(b.record_ids) line (record_id) where ${isRemoved})`;
  const [last] = await sql<{ block: number | null }[]>`select max(block) as block from search_blocks where ${own}`;
  for (let first = 0; first <= (last?.block ?? -1); first += blocksPerStatement)
    await sql`
      update search_blocks b
      set (record_ids, texts) = (
        select coalesce(array_agg(line.record_id), '{}'), coalesce(array_agg(line.text), '{}')
        from unnest(b.record_ids, b.texts) line (record_id, text)
        where not ${isRemoved}
      )
      where ${own} and block >= ${first} and block < ${first + blocksPerStatement} and ${hasRemoved}`;
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

/** Creates signatures for full blocks that have none, if there are enough for a signature. */
async function sign(sql: Sql, { companyId, testMode }: TenantScope, object: string): Promise<void> {
  const own = sql`company_id = ${companyId} and test_mode = ${testMode} and object = ${object}`;
  const [signed] = await sql<{ number: number; block: number | null }[]>`
    select (select count(*)::int from search_signatures where ${own}) as number,
      (select max(block) from search_blocks where ${own}) as block`;
  const number = signed?.number ?? 0;
  const first = number * blocksOfSignature;
  if ((signed?.block ?? 0) < first + blocksOfSignature) return;
  const words = createSignature();
  for (let at = 0; at < blocksOfSignature; at += 1) {
    const [block] = await sql<{ texts: string[] }[]>`
      select texts from search_blocks where ${own} and block = ${first + at}`;
    markTexts(words, at, block?.texts ?? []);
    // Each takes some milliseconds; in between, requests are answered.
    await breathe();
  }
  await sql`
    insert into search_signatures (company_id, test_mode, object, number, words)
    values (${companyId}, ${testMode}, ${object}, ${number}, ${Buffer.from(words.buffer)})`;
}
