// Feeds as readers follow them: page by page, with the cursor of the page before.
import { vi } from 'vitest';
import { sha256 } from '../../runtime/credentials/secrets.ts';
import { expectStatus, type Json } from './client.ts';
import { createRecord, lead } from './records.ts';
import { database } from './tenants.ts';

export interface FeedQuery {
  cursor?: string;
  objects?: string;
  limit?: number;
  wait?: number;
  skip_own?: 'true' | 'false';
  include?: 'changes';
}

/** One page. */
export async function readFeed(key: string, query: FeedQuery = {}, baseUrl?: string): Promise<Json> {
  const options = { key, query: { ...query }, ...(baseUrl === undefined ? {} : { baseUrl }) };
  return (await expectStatus(200, 'GET', '/v1/changes', options)).body.data;
}

/** The cursor behind everything that was told until now. */
export async function now(key: string): Promise<string> {
  await untilTaken(key);
  return (await readFeed(key, { cursor: 'now' })).next_cursor;
}

/** All changes behind a cursor, and the cursor behind them; once everything that was told has its position. */
export async function changesAfter(key: string, cursor: string, query: FeedQuery = {}): Promise<Json[]> {
  await untilTaken(key);
  const changes: Json[] = [];
  let at = cursor;
  for (;;) {
    const page = await readFeed(key, { ...query, cursor: at });
    changes.push(...page.changes);
    at = page.next_cursor;
    if (!page.has_more) return changes;
  }
}

/** Waits until no event of a key's workspace waits for its position. */
export async function untilTaken(key: string): Promise<void> {
  const waiting = () => database()`
    select from outbox_events
    where company_id = (select company_id from api_key_places where key_hash = ${sha256(key)})`;
  await vi.waitUntil(async () => (await waiting()).length === 0);
}

/** Has something told of leads and deals, so that calls which may wait are answered at once. */
export async function tellSomething(key: string): Promise<void> {
  await createRecord(key, 'leads', lead());
  await createRecord(key, 'deals', { name: 'Told' });
  await untilTaken(key);
}

/** What a reader of a test looks at. */
export const brief = ({ event, object, record_id }: Json): string => `${event} ${object} ${record_id}`;
