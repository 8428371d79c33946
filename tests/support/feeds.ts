// Feeds as readers follow them: page by page with cursors.
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

/** Reads one page. */
export async function readFeed(key: string, query: FeedQuery = {}, baseUrl?: string): Promise<Json> {
  const options = { key, query: { ...query }, ...(baseUrl === undefined ? {} : { baseUrl }) };
  return (await expectStatus(200, 'GET', '/v1/changes', options)).body.data;
}

/** Returns the cursor after all current events. */
export async function now(key: string): Promise<string> {
  await untilTaken(key);
  return (await readFeed(key, { cursor: 'now' })).next_cursor;
}

/** Returns all changes after a cursor, once every pending event has its position. */
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

/** Waits until no event of a key's workspace is pending. */
export async function untilTaken(key: string): Promise<void> {
  const waiting = () => database()`
    select from outbox_events
    where company_id = (select company_id from api_key_places where key_hash = ${sha256(key)})`;
  await vi.waitUntil(async () => (await waiting()).length === 0);
}

/** Emits events of leads and deals, so that calls with a wait time respond immediately. */
export async function recordSomeChange(key: string): Promise<void> {
  await createRecord(key, 'leads', lead());
  await createRecord(key, 'deals', { name: 'Told' });
  await untilTaken(key);
}

/** Returns a short text of a change for comparisons. */
export const brief = ({ event, object, record_id }: Json): string => `${event} ${object} ${record_id}`;
