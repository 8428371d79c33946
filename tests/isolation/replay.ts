// Sends prepared requests to a copy of the data, and records what two runs can agree on.
import { setTimeout as sleep } from 'node:timers/promises';
import { type CallOptions, call, type Json } from '../support/client.ts';
import type { DeclaredOperation } from '../support/document.ts';
import type { Probe } from './probe.ts';

/** The status and every value of a response, by path. */
export type Observation = Map<string, string>;

/** The values of each response that differ between any two runs, such as new ids. */
export type Volatile = Set<string>[];

/**
 * Sends all requests in order.
 * @param settle runs before the first probe, before the first repeated one, before resetTestMode,
 * whose response counts rows that jobs may still be writing, before and after the probes of
 * createExport, whose job counts the rows of one moment, and after those of startImport, whose job
 * creates records that lists show in the order of their creation
 * @param each gets every response, and ends the run by returning false
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
    const before = probes[index - 1];
    const isBoundary =
      (before?.operation.id === 'createExport') !== (probe.operation.id === 'createExport') ||
      (before?.operation.id === 'startImport' && probe.operation.id !== 'startImport');
    if (index === 0 || index === counting || isBoundary || (probe.isAgain && !before?.isAgain)) await settle();
    const { observation, text } = await observe(baseUrl, probe);
    observations.push(observation);
    if (each(observation, index, text) === false) break;
    if (observation.get('status') === '503')
      throw new Error(`${probe.operation.id} ${probe.path} was unavailable: ${text}`);
  }
  return observations;
}

/**
 * Lists whose order and content depend on when jobs processed each item. Only their lengths are
 * compared. Texts of other tenants in them are found by their marks.
 */
const processedByJobs = new Set(['listAllWebhookDeliveries']);

async function observe(
  baseUrl: string,
  { operation, path, options }: Probe,
): Promise<{ observation: Observation; text: string }> {
  const observation: Observation = new Map();
  let texts = '';
  let query = options.query;
  // Reads a page and the next one.
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
  if (processedByJobs.has(operation.id))
    for (const path of [...observation.keys()]) if (/\.\d+\./.test(path)) observation.delete(path);
  return { observation, text: texts };
}

/**
 * Retries while a job is busy, and milliseconds between them. Next to other tests, a job may take
 * seconds.
 */
const retries = { count: 40, intervalMs: 500 };

/**
 * Retries while a job still processes the previous request, because their order differs between
 * runs. Each retry has a new Idempotency-Key, which has no stored rejection.
 */
async function ask(
  operation: DeclaredOperation,
  path: string,
  { idempotencyKey, ...options }: CallOptions,
): Promise<{ status: number; body: Json; text: string }> {
  for (let looks = 0; looks < retries.count; looks += 1) {
    const key = looks === 0 ? idempotencyKey : `${idempotencyKey}-${looks}`;
    const keyed = idempotencyKey === undefined ? options : { ...options, idempotencyKey: key };
    const answer = await call(operation.method, path, keyed).catch((error: Error) => ({
      status: 0,
      body: error.message.slice(0, 500),
      text: error.message,
    }));
    if (answer.body?.error?.details?.reason !== 'run_in_progress') return answer;
    await sleep(retries.intervalMs);
  }
  throw new Error(`what ${operation.id} waits for does not end`);
}

function flatten(value: unknown, path: string, into: Observation): void {
  if (isOfJobs(path)) return;
  if (typeof value === 'string' && flattenClaims(value, path, into)) {
    // The time in the token, and thus its signature, may or may not differ between two concurrent
    // runs.
    into.set(path, 'a token');
    return;
  }
  if (/\.(next|changes)_cursor$/.test(path)) into.set(path, String(value !== null));
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

/**
 * Adds the claims of a session or slot token.
 * @returns false for other texts
 */
function flattenClaims(text: string, path: string, into: Observation): boolean {
  const claims = /^(?:[\w-]+\.|st_)([\w-]+)\.[\w-]+$/.exec(text)?.[1];
  if (!claims || !/^(?:ey|W)/.test(claims)) return false;
  try {
    const said = Object.entries(JSON.parse(Buffer.from(claims, 'base64url').toString()) as object);
    // Numbers are times.
    for (const [name, value] of said) if (typeof value !== 'number') flatten(value, `${path}.claims.${name}`, into);
    return true;
  } catch {
    // An example of a token in the OpenAPI document.
    return false;
  }
}

/** Returns true for usage of keys, which is counted with a delay. That of the shadows is marked. */
function isOwnUse(path: string, value: unknown): boolean {
  return (
    /\.(total_requests|quota\.used|quota\.remaining)$/.test(path) ||
    (path.endsWith('.last_used_ip') && /^10\.[\d.]+$/.test(String(value)))
  );
}

/**
 * Returns true for the results of jobs, which differ between runs: failures of a receiver, the order
 * of two concurrent writes, counted calls, the speed of an import, the bytes of an export, whether jobs are
 * done with what a test clock made due, and how many events and deliveries resetTestMode deletes (a
 * due SLA clock may add one). The digests of foreign rows show that resetTestMode deletes none of
 * them.
 */
function isOfJobs(path: string): boolean {
  return /\.(consecutive_failures|duration_ms|rows_per_second)$|\.exports?\.(\d+\.)?(bytes|sha256)$|\.data\.changes\.\d+$|\.usage\.api_calls\.|\.data\.deleted\.(events|deliveries)$|\.data\.clock\.status$/.test(
    path,
  );
}

const started = Date.now();

/** Examples in the OpenAPI document contain times, and this run may happen at one of them. */
const isInExample = /\.examples?\./;

/** Returns true for times of this run. Those of the shadows are an hour older. */
function isRecent(value: unknown): boolean {
  if (typeof value !== 'string' || !/^\d{4}-\d\d-\d\dT/.test(value)) return false;
  const moment = Date.parse(value);
  return moment > started - 60_000 && moment < Date.now() + 60_000;
}

/**
 * Returns true for expiry times that began in this run. They may be equal in two concurrent runs by
 * chance.
 */
function isEnd(path: string, value: unknown): boolean {
  return (
    path.endsWith('.trial_ends_at') || (/(expires_at|hard_cap_at)$/.test(path) && Date.parse(String(value)) > started)
  );
}

/** Returns the paths whose values differ. */
export function differences(one: Observation, other: Observation): string[] {
  return [...new Set([...one.keys(), ...other.keys()])].filter((path) => one.get(path) !== other.get(path));
}

/**
 * Returns the values that differ between two runs.
 * @throws Error if statuses or lengths differ
 */
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
