// The test client: real HTTP requests, with each response checked against the OpenAPI document.
import { randomInt, randomUUID } from 'node:crypto';
import { Agent, request } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { inject } from 'vitest';
import { noteAnswer } from './coverage.ts';
import { checkAnswer, findOperation } from './document.ts';
import { signBody } from './inbound.ts';

export interface CallOptions {
  /** An API key. */
  key?: string | undefined;
  /** A bearer token. */
  token?: string | undefined;
  /** The secret that signs the body, as gateways do. */
  signedWith?: string | undefined;
  body?: unknown;
  /** Sent verbatim instead of body. */
  rawBody?: string | Buffer;
  headers?: Record<string, string>;
  /** true: a new random key. */
  idempotencyKey?: string | true | undefined;
  query?: Record<string, string | number> | undefined;
  /**
   * The client's address as the trusted proxy reports it. By default, each call has another one.
   */
  ip?: string;
  /** Another server than the common one. */
  baseUrl?: string | undefined;
  /** Milliseconds until the call gives up. */
  within?: number;
}

/** Bodies are read as the test expects them; the document's check guards the shape. */
// biome-ignore lint/suspicious/noExplicitAny: tests reach into answers freely.
export type Json = any;

export interface Answer {
  status: number;
  headers: Headers;
  body: Json;
  text: string;
}

/** Headers of every response. */
const everyAnswer: Record<string, RegExp> = {
  'x-request-id': /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/,
  'x-ratelimit-limit': /^[1-9]\d*$/,
  'x-ratelimit-remaining': /^\d+$/,
  'x-ratelimit-reset': /^\d{13}$/,
  'x-content-type-options': /^nosniff$/,
  'x-frame-options': /^DENY$/,
  'strict-transport-security': /^max-age=\d{8}; includeSubDomains$/,
};

/** Throws if a header that every response has is missing. */
export function checkHeaders(headers: Pick<Headers, 'get'>): void {
  for (const [name, pattern] of Object.entries(everyAnswer))
    if (!pattern.test(headers.get(name) ?? '')) throw new Error(`the answer's ${name} is ${headers.get(name)}`);
}

/** Returns another address each time, because only some tests look for limits per address. */
export function anyAddress(): string {
  return `10.${randomInt(256)}.${randomInt(256)}.${randomInt(256)}`;
}

let server: string | undefined;

/** Makes this test file call another server than the common one, until called with undefined. */
export function useServer(baseUrl: string | undefined): void {
  server = baseUrl;
}

/** Keeps connections open. Those of fetch take half as much processor time again. */
const agent = new Agent({ keepAlive: true });
/**
 * Milliseconds without calls after which idle connections are not used again. The server closes
 * them after 65 seconds, and this process does not notice during long tests without calls.
 */
const maxIdleMs = 30_000;
let lastSentAt = 0;

function closeIdleConnections(): void {
  const now = performance.now();
  if (now - lastSentAt > maxIdleMs)
    for (const socket of Object.values(agent.freeSockets).flatMap((sockets) => sockets ?? [])) socket.destroy();
  lastSentAt = now;
}

interface Sent {
  method: string;
  headers: Record<string, string>;
  body: string | Buffer | undefined;
  /** Milliseconds until the call gives up. */
  within: number | undefined;
}

/** Sends a request and reads the whole response. */
function send(url: string, { body, within, ...wanted }: Sent): Promise<Pick<Answer, 'status' | 'headers' | 'text'>> {
  closeIdleConnections();
  const signal = within === undefined ? {} : { signal: AbortSignal.timeout(within) };
  return new Promise((resolve, reject) => {
    const sent = request(url, { ...wanted, ...signal, agent }, (response) => {
      const chunks: Buffer[] = [];
      response.on('data', (chunk: Buffer) => chunks.push(chunk));
      response.on('error', reject);
      response.on('end', () => {
        const headers = new Headers();
        for (const [name, values = []] of Object.entries(response.headersDistinct))
          for (const value of values) headers.append(name, value);
        resolve({ status: response.statusCode ?? 0, headers, text: Buffer.concat(chunks).toString() });
      });
    });
    sent.on('error', reject);
    sent.end(body);
  });
}

/**
 * Calls the API. Fails if the response is not declared, or does not fit its schema. Retries if the
 * common server is overloaded: all test files share it, so it may run out of time through no fault
 * of the test. Servers of a test's own are often overloaded on purpose; see `expectStatus`.
 */
export async function call(method: string, path: string, options: CallOptions = {}): Promise<Answer> {
  const isCommon = options.baseUrl === undefined && server === undefined && options.within === undefined;
  return isCommon ? callWithRetries(method, path, options) : callOnce(method, path, options);
}

/** Milliseconds. The server's shortest timeout, after which it answers 503, is longer. */
const shortestLimit = 900;

/**
 * Returns true if the server gave up because of a timeout and did nothing. Timeouts are 1 to 1.8
 * seconds, so an earlier 503 is a fault, and so is a provider's 503.
 */
function isOverload({ status, body }: Answer, milliseconds: number): boolean {
  if (status !== 503 || milliseconds < shortestLimit) return false;
  return [undefined, 'query_timeout'].includes(body?.error?.details?.reason);
}

/** Calls the API, and repeats the call if the server is overloaded. */
export async function callWithRetries(method: string, path: string, options: CallOptions): Promise<Answer> {
  for (let retriesLeft = 2; ; retriesLeft -= 1) {
    const startedAt = performance.now();
    const answer = await callOnce(method, path, options);
    if (retriesLeft === 0 || !isOverload(answer, performance.now() - startedAt)) return answer;
    process.stderr.write(`${method} ${path} was answered 503 for lack of time, and is sent again\n`);
    await sleep(1000);
  }
}

async function callOnce(method: string, path: string, options: CallOptions): Promise<Answer> {
  const headers: Record<string, string> = { ...options.headers };
  if (options.key !== undefined) headers['x-api-key'] = options.key;
  if (options.token !== undefined) headers.authorization = `Bearer ${options.token}`;
  headers['x-forwarded-for'] = options.ip ?? anyAddress();
  if (options.idempotencyKey !== undefined)
    headers['idempotency-key'] = options.idempotencyKey === true ? randomUUID() : options.idempotencyKey;
  let body: string | Buffer | undefined = options.rawBody;
  if (options.body !== undefined) body = JSON.stringify(options.body);
  if (options.signedWith !== undefined) headers['service-signature'] = signBody(options.signedWith, body ?? '');
  if (body !== undefined && !headers['content-type']) headers['content-type'] = 'application/json';
  const query = options.query ? `?${new URLSearchParams(options.query as Record<string, string>)}` : '';
  // Set for every body, because node:http omits it for methods that rarely have one.
  if (body !== undefined) headers['content-length'] = String(Buffer.byteLength(body));
  const url = `${options.baseUrl ?? server ?? inject('baseUrl')}${path}${query}`;
  const received = await send(url, { method, headers, body, within: options.within });
  checkHeaders(received.headers);
  const isJson = (received.headers.get('content-type') ?? '').startsWith('application/json');
  const answer: Answer = {
    ...received,
    body: isJson && received.text !== '' ? JSON.parse(received.text) : undefined,
  };
  const operation = findOperation(method, path.split('?')[0] ?? path);
  if (operation && method !== 'OPTIONS') {
    noteAnswer(inject('coverageFolder'), operation.id, answer.status);
    checkAnswer(operation, answer.status, answer.body);
  }
  if (
    answer.body?.meta &&
    answer.body.meta.request_id !== answer.headers.get('x-request-id') &&
    answer.headers.get('idempotent-replay') === null
  ) {
    throw new Error('meta.request_id and X-Request-Id differ');
  }
  if (answer.body?.success === true && answer.headers.get('idempotent-replay') === null) {
    const { limit, remaining, reset } = answer.body.meta.rate_limit;
    if ([limit, remaining, reset].some((figure, index) => String(figure) !== answer.headers.get(figures[index] ?? '')))
      throw new Error('meta.rate_limit and the X-RateLimit headers differ');
  }
  return answer;
}

const figures = ['x-ratelimit-limit', 'x-ratelimit-remaining', 'x-ratelimit-reset'];

/**
 * Calls and expects a status. The failure message contains the response. Retries if any server,
 * common or not, is overloaded, unless 503 is expected.
 * @param expected the status, or all accepted ones
 */
export async function expectStatus(
  expected: number | readonly number[],
  method: string,
  path: string,
  options: CallOptions = {},
): Promise<Answer> {
  const statuses = typeof expected === 'number' ? [expected] : expected;
  const send = statuses.includes(503) ? callOnce : callWithRetries;
  const answer = await send(method, path, options);
  if (!statuses.includes(answer.status))
    throw new Error(
      `${method} ${path} answered ${answer.status} instead of ${statuses.join(' or ')}: ${answer.text.slice(0, 2000)}`,
    );
  return answer;
}
