// Sends the prepared requests to a copy of the data and notes what can be the same twice.
import { setTimeout as sleep } from 'node:timers/promises';
import { type CallOptions, call, type Json } from '../support/client.ts';
import type { DeclaredOperation } from '../support/document.ts';
import type { Probe } from './probe.ts';

/** What an answer says: its status and every value in it, by path. */
export type Observation = Map<string, string>;

/** Tells which values of an answer differ from one run to the next whatever happens, e.g. new ids. */
export type Volatile = Set<string>[];

/**
 * Sends all requests, one after the other.
 * @param settle is awaited before the first probe, before the first repeated one, and before
 *   resetTestMode, whose response counts rows that jobs may still be writing
 * @param each is told of every answer; false ends the run
 */
export async function replay(
  baseUrl: string,
  probes: readonly Probe[],
  settle: () => Promise<void>,
  each: (observation: Observation, index: number, text: string) => boolean | undefined = () => undefined,
): Promise<Observation[]> {
  const observations: Observation[] = [];
  const counting = probes.findIndex(({ operation }) => operation.id === 'resetTestMode');
  for (const [index, probe] of probes.entries()) {
    if (index === 0 || index === counting || (probe.isAgain && !probes[index - 1]?.isAgain)) await settle();
    const { observation, text } = await observe(baseUrl, probe);
    observations.push(observation);
    if (each(observation, index, text) === false) break;
    if (observation.get('status') === '503') throw new Error(`the machine is too busy: ${text}`);
  }
  return observations;
}

async function observe(
  baseUrl: string,
  { operation, path, options }: Probe,
): Promise<{ observation: Observation; text: string }> {
  const observation: Observation = new Map();
  let texts = '';
  let query = options.query;
  // A page and the one after it.
  for (const page of ['', 'next.']) {
    const { status, body, text } = await ask(operation, path, { ...options, ...(query ? { query } : {}), baseUrl });
    texts += text;
    observation.set(`${page}status`, String(status));
    const { meta: _, ...said } = body && typeof body === 'object' && !Array.isArray(body) ? body : { said: body };
    flatten(said, `${page}`, observation);
    const cursor = body?.data?.next_cursor ?? body?.next_cursor;
    if (typeof cursor !== 'string') break;
    query = { ...query, cursor };
  }
  return { observation, text: texts };
}

/** How often what a job is at is asked for again, and milliseconds between: beside other tests a job may stand for seconds. */
const patience = { looks: 40, between: 500 };

/**
 * Asks again while a job is still at what the request before it began: who is first is not the same twice. Each time with another idempotency key,
 * under which no refusal is kept.
 */
async function ask(
  operation: DeclaredOperation,
  path: string,
  { idempotencyKey, ...options }: CallOptions,
): Promise<{ status: number; body: Json; text: string }> {
  for (let looks = 0; looks < patience.looks; looks += 1) {
    const key = looks === 0 ? idempotencyKey : `${idempotencyKey}-${looks}`;
    const keyed = idempotencyKey === undefined ? options : { ...options, idempotencyKey: key };
    const answer = await call(operation.method, path, keyed).catch((error: Error) => ({
      status: 0,
      body: error.message.slice(0, 500),
      text: error.message,
    }));
    if (answer.body?.error?.details?.reason !== 'run_in_progress') return answer;
    await sleep(patience.between);
  }
  throw new Error(`what ${operation.id} waits for does not end`);
}

function flatten(value: unknown, path: string, into: Observation): void {
  if (isOfJobs(path)) return;
  if (typeof value === 'string' && flattenClaims(value, path, into)) {
    // When it was made, and so how it is signed, may be the same by chance in two runs side by side.
    into.set(path, 'a token');
    return;
  }
  if (path.endsWith('next_cursor')) into.set(path, String(value !== null));
  else if (value !== null && typeof value === 'object') {
    if (Array.isArray(value)) into.set(`${path}.length`, String(value.length));
    for (const [key, inner] of Object.entries(value)) flatten(inner, `${path}.${key}`, into);
  } else
    into.set(
      path,
      (isRecent(value) && !isInExample.test(path)) || isEnd(path, value)
        ? 'now'
        : isOwnUse(path, value)
          ? 'some use'
          : (JSON.stringify(value) ?? 'undefined'),
    );
}

/** What a token says, of a session or of a slot. @returns false for what is none */
function flattenClaims(text: string, path: string, into: Observation): boolean {
  const claims = /^(?:[\w-]+\.|st_)([\w-]+)\.[\w-]+$/.exec(text)?.[1];
  if (!claims || !/^(?:ey|W)/.test(claims)) return false;
  try {
    const said = Object.entries(JSON.parse(Buffer.from(claims, 'base64url').toString()) as object);
    // Numbers are moments.
    for (const [name, value] of said) if (typeof value !== 'number') flatten(value, `${path}.claims.${name}`, into);
    return true;
  } catch {
    // An example in the document that is no real token.
    return false;
  }
}

/** True for what a key's use left behind, which is counted a little later than it happens; that of the doubles is marked. */
function isOwnUse(path: string, value: unknown): boolean {
  return (
    /\.(total_requests|quota\.used|quota\.remaining)$/.test(path) ||
    (path.endsWith('.last_used_ip') && /^10\.[\d.]+$/.test(String(value)))
  );
}

/**
 * True for what jobs do beside the requests, whose progress is not the same twice: how often a receiver failed by now, which
 * of two writes at once was told first, how many calls are counted, and how many events and deliveries there are for
 * resetTestMode to delete (an SLA clock that is due may add one). That resetTestMode deletes nothing of others is seen in
 * the digests of their rows.
 */
function isOfJobs(path: string): boolean {
  return /\.(consecutive_failures|duration_ms)$|\.data\.changes\.\d+$|\.usage\.api_calls\.|\.data\.deleted\.(events|deliveries)$/.test(
    path,
  );
}

const started = Date.now();

/** What the document shows are moments too, and this run may take place at one of them. */
const isInExample = /\.examples?\./;

/** True for moments of this run, which are never the same twice; those of the doubles are an hour older. */
function isRecent(value: unknown): boolean {
  if (typeof value !== 'string' || !/^\d{4}-\d\d-\d\dT/.test(value)) return false;
  const moment = Date.parse(value);
  return moment > started - 60_000 && moment < Date.now() + 60_000;
}

/** True for the ends of what began in this run; those of two runs side by side may be the same by chance. */
function isEnd(path: string, value: unknown): boolean {
  return (
    path.endsWith('.trial_ends_at') || (/(expires_at|hard_cap_at)$/.test(path) && Date.parse(String(value)) > started)
  );
}

/** Paths whose values differ. */
export function differences(one: Observation, other: Observation): string[] {
  return [...new Set([...one.keys(), ...other.keys()])].filter((path) => one.get(path) !== other.get(path));
}

/** @throws Error when two runs under the same circumstances differ in more than single values */
export function volatileIn(
  first: readonly Observation[],
  second: readonly Observation[],
  probes: readonly Probe[],
): Volatile {
  return first.map((observation, index) => {
    const paths = differences(observation, second[index] ?? new Map());
    const shape = paths.find((path) => path.endsWith('length') || path.endsWith('status'));
    if (shape) {
      const { operation } = probes[index] as Probe;
      throw new Error(
        `${operation.id} answered differently twice: ${shape} ${observation.get(shape)}, then ${second[index]?.get(shape)}`,
      );
    }
    return new Set(paths);
  });
}
