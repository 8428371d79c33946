// Well-behaved clients: each repeats a call with its key until it has a final response.
import { Agent, type IncomingHttpHeaders, request } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Random } from './random.ts';

export interface Answered {
  status: number;
  text: string;
  headers: IncomingHttpHeaders;
}

type Kind = 'lead' | 'create' | 'update' | 'delete' | 'batch' | 'invalid';

/** A call that changes something, with its final response. */
export interface Write {
  kind: Kind;
  method: string;
  path: string;
  key: string;
  body: unknown;
  /** The first final response. */
  answer: Answered | undefined;
}

/** Returns true if repeating the call returns the same outcome. */
export const isFinal = (status: number): boolean => status < 300 || [400, 404, 422].includes(status);

/** What the writers met since the last tally. */
export interface Tally {
  /** The number of responses by status. */
  statuses: Map<number, number>;
  /** Bodies of the 503 responses. */
  refusals: string[];
  /** The number of calls without a response, by reason. */
  broken: Map<string, number>;
  /** Milliseconds of each call with a response. */
  latencies: number[];
  acknowledged: number;
}

const newTally = (): Tally => ({
  statuses: new Map(),
  refusals: [],
  broken: new Map(),
  latencies: [],
  acknowledged: 0,
});

/** A client with its connection and current server. */
interface Client {
  agent: Agent;
  server: number;
}

const accounts = '/v1/objects/accounts/records';
/** Milliseconds that a client waits for a response. */
const responseTimeoutMs = 20_000;
/** Milliseconds after which a client gives up a call without a final response. */
const giveUpMs = 90_000;

export interface WriterOptions {
  /** The servers. A writer moves to the next one if its call is not accepted. */
  servers: readonly string[];
  apiKey: string;
  random: Random;
  count: number;
}

/** Concurrent writers. */
export class Writers {
  readonly writes: Write[] = [];
  /** Responses that no client may ever get. */
  readonly violations: string[] = [];
  readonly #options: WriterOptions;
  readonly #working: Promise<void>[];
  readonly #clients: Client[] = [];
  #tally = newTally();
  #finished = false;
  #acknowledged = 0;
  #wake = new Set<() => void>();

  constructor(options: WriterOptions) {
    this.#options = options;
    this.#working = Array.from({ length: options.count }, (_, index) => this.#work(index));
  }

  /** The number of calls with a final response. */
  get acknowledged(): number {
    return this.#acknowledged;
  }

  takeTally(): Tally {
    const tally = this.#tally;
    this.#tally = newTally();
    return tally;
  }

  /**
   * Waits for a number of further final responses.
   * @throws Error on timeout
   */
  async progress(calls: number, milliseconds = 60_000): Promise<void> {
    const goal = this.#acknowledged + calls;
    const tooLate = AbortSignal.timeout(milliseconds);
    while (this.#acknowledged < goal) {
      if (tooLate.aborted) throw new Error(`the writers came no further than ${this.#acknowledged} of ${goal} calls`);
      await new Promise<void>((resolve) => {
        this.#wake.add(resolve);
        tooLate.addEventListener('abort', () => resolve(), { once: true });
      });
    }
  }

  /** Starts no more calls, and waits for the final responses of those in progress. */
  async settle(): Promise<void> {
    this.#finished = true;
    await Promise.all(this.#working);
  }

  /**
   * Repeats every call. A response that is not equal to the first one, byte for byte, is a
   * violation.
   */
  async replayAll(): Promise<void> {
    const rest = this.writes.values();
    await Promise.all(
      Array.from({ length: this.#options.count }, async () => {
        const client = this.#newClient();
        for (const write of rest) if (write.answer) this.#compare(write, await this.#untilFinal(client, write));
      }),
    );
    this.close();
  }

  /** Closes all connections. */
  close(): void {
    for (const { agent } of this.#clients.splice(0)) agent.destroy();
  }

  #newClient(): Client {
    const client = { agent: new Agent({ keepAlive: true, maxSockets: 1 }), server: 0 };
    this.#clients.push(client);
    return client;
  }

  async #work(index: number): Promise<void> {
    const { random } = this.#options;
    const client = this.#newClient();
    /** Accounts that only this writer changes. */
    const mine: string[] = [];
    for (let turn = 0; !this.#finished; turn += 1) {
      const write = this.#next(mine, `${index}-${turn}`);
      this.writes.push(write);
      write.answer = await this.#untilFinal(client, write);
      this.#note(write, mine);
      if (random.chance(0.1)) this.#compare(write, await this.#untilFinal(client, write));
    }
  }

  #note({ kind, path, key, answer }: Write, mine: string[]): void {
    if (!answer) return;
    const expected = { lead: 201, create: 201, update: 200, delete: 200, batch: 200, invalid: 422 }[kind];
    if (answer.status !== expected)
      this.violations.push(`${kind} ${key} ended as ${answer.status} ${answer.text.slice(0, 300)}`);
    else if (kind === 'create') mine.push(JSON.parse(answer.text).data.record.id);
    else if (kind === 'delete') mine.splice(mine.indexOf(path.slice(accounts.length + 1)), 1);
    this.#acknowledged += 1;
    this.#tally.acknowledged += 1;
    for (const wake of this.#wake) wake();
    this.#wake.clear();
  }

  #compare({ kind, key, answer }: Write, again: Answered | undefined): void {
    if (!again) return;
    if (again.status !== answer?.status || again.text !== answer.text)
      this.violations.push(
        `${kind} ${key} was answered ${answer?.status} ${answer?.text}, and then ${again.status} ${again.text}`,
      );
    if (again.headers['idempotent-replay'] !== 'true') this.violations.push(`${kind} ${key} ran again`);
  }

  #next(mine: readonly string[], turn: string): Write {
    const { random } = this.#options;
    const key = `torture-${random.seed}-${turn}-${random.whole(0, 999_999_999)}`;
    const drawn = random.next();
    const write = (kind: Kind, method: string, path: string, body: unknown): Write => ({
      kind,
      method,
      path,
      key,
      body,
      answer: undefined,
    });
    if (mine.length > 0 && drawn < 0.25)
      return write('update', 'PATCH', `${accounts}/${random.pick(mine)}`, { description: key });
    if (mine.length > 3 && drawn < 0.3) return write('delete', 'DELETE', `${accounts}/${random.pick(mine)}`, undefined);
    if (drawn < 0.5) return write('lead', 'POST', '/v1/leads', { first_name: key, email: `${key}@example.com` });
    if (drawn < 0.55) return write('invalid', 'POST', accounts, { name: key, colour: 'red' });
    if (drawn < 0.7) return write('batch', 'POST', `${accounts}:batch`, buildBatch(key, random.whole(2, 20)));
    return write('create', 'POST', accounts, { name: key });
  }

  async #untilFinal(client: Client, write: Write): Promise<Answered | undefined> {
    const tooLate = performance.now() + giveUpMs;
    let answered: Answered | undefined;
    while (performance.now() < tooLate) {
      answered = await this.#attempt(client, write);
      if (answered && isFinal(answered.status)) return answered;
      if (!answered) client.server += 1;
      else if (![409, 503].includes(answered.status))
        this.violations.push(`${write.kind} ${write.key} met ${answered.status} ${answered.text.slice(0, 500)}`);
      await sleep(this.#options.random.whole(5, 40));
    }
    this.violations.push(`${write.kind} ${write.key} has no final answer, but ${answered?.status} ${answered?.text}`);
    return undefined;
  }

  async #attempt({ agent, server }: Client, write: Write): Promise<Answered | undefined> {
    const { servers, apiKey } = this.#options;
    const started = performance.now();
    try {
      const answered = await send(agent, servers[server % servers.length] as string, apiKey, write);
      this.#tally.latencies.push(performance.now() - started);
      this.#tally.statuses.set(answered.status, (this.#tally.statuses.get(answered.status) ?? 0) + 1);
      if (answered.status === 503)
        this.#tally.refusals.push(`${write.kind} at ${server % servers.length}: ${answered.text}`);
      return answered;
    } catch (error) {
      const { code = String(error) } = error as NodeJS.ErrnoException;
      this.#tally.broken.set(code, (this.#tally.broken.get(code) ?? 0) + 1);
      return undefined;
    }
  }
}

/** Returns a batch in which every fifth item fails. */
export function buildBatch(key: string, items: number): unknown {
  return Array.from({ length: items }, (_, index) =>
    index % 5 === 4 ? { name: `${key} ${index}`, colour: 'red' } : { name: `${key} ${index}` },
  );
}

/**
 * Sends a call once.
 * @throws Error without a complete response
 */
export function send(
  agent: Agent | undefined,
  server: string,
  apiKey: string,
  { method, path, key, body }: { method: string; path: string; key: string | undefined; body: unknown },
): Promise<Answered> {
  return new Promise((resolve, reject) => {
    const text = body === undefined ? undefined : JSON.stringify(body);
    const headers = {
      'x-api-key': apiKey,
      ...(key === undefined ? {} : { 'idempotency-key': key }),
      ...(text === undefined ? {} : { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) }),
    };
    const sent = request(`${server}${path}`, { agent, method, headers, timeout: responseTimeoutMs }, (response) => {
      const chunks: Buffer[] = [];
      response.on('data', (chunk: Buffer) => chunks.push(chunk));
      response.on('error', reject);
      response.on('end', () =>
        resolve({
          status: response.statusCode as number,
          text: Buffer.concat(chunks).toString(),
          headers: response.headers,
        }),
      );
    });
    sent.on('timeout', () => sent.destroy(Object.assign(new Error('no answer'), { code: 'NO_ANSWER' })));
    sent.on('error', reject);
    sent.end(text);
  });
}
