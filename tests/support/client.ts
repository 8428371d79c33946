// The test client: real HTTP to the server under test; every answer is held against the document.
import { randomInt, randomUUID } from 'node:crypto';
import { inject } from 'vitest';
import { noteAnswer } from './coverage.ts';
import { checkAnswer, operationOf } from './document.ts';

export interface CallOptions {
  /** An API key. */
  key?: string | undefined;
  /** A bearer token. */
  token?: string | undefined;
  body?: unknown;
  /** Sent as it is, in place of body. */
  rawBody?: string | Buffer;
  headers?: Record<string, string>;
  /** true: a fresh random key. */
  idempotencyKey?: string | true;
  query?: Record<string, string | number>;
  /** The client's address, as the trusted proxy reports it; another one for each call unless given. */
  ip?: string;
  /** Another server than the common one. */
  baseUrl?: string;
  /** Gives up when there is no answer by then. */
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

/** What every answer carries, whatever it says. */
const everyAnswer: Record<string, RegExp> = {
  'x-request-id': /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/,
  'x-ratelimit-limit': /^[1-9]\d*$/,
  'x-ratelimit-remaining': /^\d+$/,
  'x-ratelimit-reset': /^\d{13}$/,
  'x-content-type-options': /^nosniff$/,
  'x-frame-options': /^DENY$/,
  'strict-transport-security': /^max-age=\d{8}; includeSubDomains$/,
};

/** Throws when a header that every answer carries is missing. */
export function checkHeaders(headers: Pick<Headers, 'get'>): void {
  for (const [name, pattern] of Object.entries(everyAnswer))
    if (!pattern.test(headers.get(name) ?? '')) throw new Error(`the answer's ${name} is ${headers.get(name)}`);
}

/** Limits of an address are for the tests that look for them. */
export function anyAddress(): string {
  return `10.${randomInt(256)}.${randomInt(256)}.${randomInt(256)}`;
}

let server: string | undefined;

/** From now on this test file calls another server than the common one; undefined ends that. */
export function useServer(baseUrl: string | undefined): void {
  server = baseUrl;
}

/** Calls the API. Fails when the answer is not declared, or does not fit what is declared. */
export async function call(method: string, path: string, options: CallOptions = {}): Promise<Answer> {
  const headers: Record<string, string> = { ...options.headers };
  if (options.key !== undefined) headers['x-api-key'] = options.key;
  if (options.token !== undefined) headers.authorization = `Bearer ${options.token}`;
  headers['x-forwarded-for'] = options.ip ?? anyAddress();
  if (options.idempotencyKey !== undefined)
    headers['idempotency-key'] = options.idempotencyKey === true ? randomUUID() : options.idempotencyKey;
  let body: string | Buffer | undefined = options.rawBody;
  if (options.body !== undefined) body = JSON.stringify(options.body);
  if (body !== undefined && !headers['content-type']) headers['content-type'] = 'application/json';
  const query = options.query ? `?${new URLSearchParams(options.query as Record<string, string>)}` : '';
  const response = await fetch(`${options.baseUrl ?? server ?? inject('baseUrl')}${path}${query}`, {
    method,
    headers,
    body: body as string,
    redirect: 'manual',
    ...(options.within === undefined ? {} : { signal: AbortSignal.timeout(options.within) }),
  });
  const text = await response.text();
  checkHeaders(response.headers);
  const isJson = (response.headers.get('content-type') ?? '').startsWith('application/json');
  const answer: Answer = {
    status: response.status,
    headers: response.headers,
    body: isJson && text !== '' ? JSON.parse(text) : undefined,
    text,
  };
  const operation = operationOf(method, path.split('?')[0] ?? path);
  if (operation && method !== 'OPTIONS') {
    noteAnswer(inject('coverageFolder'), operation.id, answer.status);
    checkAnswer(operation, answer.status, answer.body);
  }
  if (
    answer.body?.meta &&
    answer.body.meta.request_id !== response.headers.get('x-request-id') &&
    response.headers.get('idempotent-replay') === null
  ) {
    throw new Error('meta.request_id and X-Request-Id differ');
  }
  if (answer.body?.success === true && response.headers.get('idempotent-replay') === null) {
    const { limit, remaining, reset } = answer.body.meta.rate_limit;
    if (
      [limit, remaining, reset].some((figure, index) => String(figure) !== response.headers.get(figures[index] ?? ''))
    )
      throw new Error('meta.rate_limit and the X-RateLimit headers differ');
  }
  return answer;
}

const figures = ['x-ratelimit-limit', 'x-ratelimit-remaining', 'x-ratelimit-reset'];

/** Calls and expects a status; the failure message carries the answer. */
export async function expectStatus(
  status: number,
  method: string,
  path: string,
  options: CallOptions = {},
): Promise<Answer> {
  const answer = await call(method, path, options);
  if (answer.status !== status)
    throw new Error(`${method} ${path} answered ${answer.status} instead of ${status}: ${answer.text.slice(0, 2000)}`);
  return answer;
}
