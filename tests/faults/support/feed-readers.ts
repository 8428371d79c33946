// Readers that follow a feed page by page, and retry every failure.

import { Agent } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Sql } from 'postgres';
import { send } from './writers.ts';

export interface FeedEntry {
  id: string;
  event: string;
  record_id: string;
}

/** Follows a feed until `end` is called and the end is reached. */
export class FeedReader {
  readonly read: FeedEntry[] = [];
  /** Responses that no reader may ever get. */
  readonly violations: string[] = [];
  readonly #servers: readonly string[];
  readonly #apiKey: string;
  readonly #agent = new Agent({ keepAlive: true, maxSockets: 1 });
  readonly #following: Promise<void>;
  #ending = false;

  /** @param wait seconds that its calls wait, different for each reader */
  constructor(servers: readonly string[], apiKey: string, wait: number) {
    this.#servers = servers;
    this.#apiKey = apiKey;
    this.#following = this.#follow(wait);
  }

  /** Reads to the end and stops. Call it only when the outbox is empty. */
  async end(): Promise<void> {
    this.#ending = true;
    await this.#following;
    this.#agent.destroy();
  }

  async #follow(wait: number): Promise<void> {
    let cursor: string | undefined;
    for (let turn = 0; ; turn += 1) {
      // Read before the request: later changes need not be on the page.
      const isLast = this.#ending;
      const query = new URLSearchParams({
        limit: String(1 + (turn % 50)),
        wait: String(isLast ? 0 : wait),
        ...(cursor === undefined ? {} : { cursor }),
      });
      const path = `/v1/changes?${query}`;
      const server = this.#servers[turn % this.#servers.length] as string;
      const asked = { method: 'GET', path, key: undefined, body: undefined };
      const answer = await send(this.#agent, server, this.#apiKey, asked).catch(() => undefined);
      if (!answer || answer.status === 503) {
        await sleep(20);
        continue;
      }
      if (answer.status !== 200) {
        this.violations.push(`the feed answered ${answer.status}: ${answer.text}`);
        return;
      }
      const { changes, next_cursor, has_more } = JSON.parse(answer.text).data;
      this.read.push(...changes);
      cursor = next_cursor;
      if (isLast && !has_more && changes.length === 0) return;
    }
  }
}

/**
 * Writers that each start after another's change was acknowledged, so the feed must have their
 * changes in that order.
 */
export class Chain {
  /** Pairs of records. The first existed before the second was requested. */
  readonly pairs: [string, string][] = [];
  readonly #servers: readonly string[];
  readonly #apiKey: string;
  readonly #working: Promise<void>[];
  #last: string | undefined;
  #finished = false;

  constructor(servers: readonly string[], apiKey: string, count: number) {
    this.#servers = servers;
    this.#apiKey = apiKey;
    this.#working = Array.from({ length: count }, (_, index) => this.#work(index));
  }

  async end(): Promise<void> {
    this.#finished = true;
    await Promise.all(this.#working);
  }

  async #work(index: number): Promise<void> {
    for (let turn = 0; !this.#finished; turn += 1) {
      const before = this.#last;
      const id = await this.#create(`chain-${index}-${turn}-${crypto.randomUUID()}`, index);
      if (before !== undefined) this.pairs.push([before, id]);
      this.#last = id;
    }
  }

  /** Creates a deal once, repeating the call with its key. */
  async #create(key: string, index: number): Promise<string> {
    const call = { method: 'POST', path: '/v1/objects/deals/records', key, body: { name: key } };
    for (let attempt = index; ; attempt += 1) {
      const server = this.#servers[attempt % this.#servers.length] as string;
      const answer = await send(undefined, server, this.#apiKey, call).catch(() => undefined);
      if (answer?.status === 201) return JSON.parse(answer.text).data.record.id;
      await sleep(20);
    }
  }
}

export interface StoredEvent {
  id: string;
  event: string;
  object: string | null;
  position: string;
  record_id: string;
  request_id: string;
}

/**
 * Returns the feed of a company by position, once its outbox is empty.
 * @throws Error if that takes more than a minute
 */
export async function storedFeed(sql: Sql, companyId: string): Promise<StoredEvent[]> {
  const tooLate = performance.now() + 60_000;
  const waiting = async () => (await sql`select from outbox_events where company_id = ${companyId}`).length;
  for (let left = await waiting(); left > 0; left = await waiting()) {
    if (performance.now() > tooLate) throw new Error(`${left} events got no positions in time`);
    await sleep(20);
  }
  return sql<StoredEvent[]>`
    select id, event, object, position::text, record_id, request_id from feed_events where company_id = ${companyId} order by feed_events.position`;
}

/**
 * Compares a reader with the feed. @param stored the feed of the company by position
 * @returns the problems, one line each
 */
export function compare(reader: FeedReader, stored: readonly StoredEvent[]): string[] {
  const [read, there] = [reader.read.map(({ id }) => id), stored.map(({ id }) => `evt_${id}`)];
  const wrong = read.findIndex((id, place) => id !== there[place]);
  return [
    ...reader.violations,
    ...(read.length === there.length ? [] : [`${read.length} changes were read of ${there.length}`]),
    ...(wrong === -1 ? [] : [`the ${wrong + 1}th change that was read is not the ${wrong + 1}th of the feed`]),
  ];
}

/**
 * Checks causality.
 * @returns pairs in the wrong order, and records whose changes are in another order than in the
 * audit log
 */
export function disorder(
  stored: readonly StoredEvent[],
  pairs: readonly (readonly [string, string])[],
  ordered: ReadonlyMap<string, readonly string[]>,
): string[] {
  const places = new Map(stored.map(({ record_id }, place) => [record_id, place]));
  const inverted = pairs.filter(([before, after]) => (places.get(before) ?? -1) >= (places.get(after) ?? -2));
  const ofRecord = Map.groupBy(stored, ({ record_id }) => record_id);
  const shuffled = [...ordered].filter(([id, requests]) => {
    const order = (ofRecord.get(id) ?? []).map(({ request_id }) => request_id);
    return JSON.stringify(order) !== JSON.stringify(requests);
  });
  return [
    ...inverted.map(([before, after]) => `${after} precedes ${before}, which existed before it began`),
    ...shuffled.map(([id]) => `the changes of ${id} are not in their order`),
  ];
}

/**
 * Checks positions and ids. @param stored a feed from its beginning
 * @returns the problems, one line each
 */
export function gaps(stored: readonly StoredEvent[]): string[] {
  const wrong = stored.findIndex(({ position }, index) => Number(position) !== index + 1);
  const ids = new Set(stored.map(({ id }) => id));
  return [
    ...(wrong === -1 ? [] : [`position ${wrong + 1} of the feed is ${stored[wrong]?.position}`]),
    ...(ids.size === stored.length ? [] : [`${stored.length - ids.size} events are in the feed more than once`]),
  ];
}

/** Returns the requests that changed each record, in order. */
export async function orderOfChanges(sql: Sql, companyId: string): Promise<Map<string, string[]>> {
  const rows = await sql<{ record_id: string; request_id: string }[]>`
    select record_id, request_id from audit_logs where company_id = ${companyId} and record_id is not null order by seq`;
  const groups = Map.groupBy(rows, ({ record_id }) => record_id);
  return new Map([...groups].map(([id, changes]) => [id, changes.map(({ request_id }) => request_id)]));
}

/**
 * Returns a filter for the oracle's lines that removes records of a chain, which it does not know.
 */
export function isNotOfChain({ pairs }: Chain): (line: string) => boolean {
  const ids = new Set(pairs.flat());
  return (line) =>
    !line.includes('chain-') &&
    ![...line.matchAll(/[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/g)].some(([id]) => ids.has(id));
}
