// Cached signing keys of an OAuth issuer, and the behavior when the issuer fails.
import type { ServerResponse } from 'node:http';
import type { JWSHeaderParameters } from 'jose';
import { pino } from 'pino';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { IssuerKeys, IssuerUnavailable } from '../../runtime/credentials/issuer-keys.ts';
import { type Issuer, startIssuer } from '../support/issuer.ts';

let issuer: Issuer;
let known: JWSHeaderParameters;
const unknown: JWSHeaderParameters = { alg: 'ES256', kid: 'unknown' };
const start = new Date('2026-11-20T12:00:00.000Z').getTime();
const at = (milliseconds: number) => new Date(start + milliseconds);
const minute = 60_000;

let keys: IssuerKeys;
let log: string[];
let asked: number;

beforeAll(async () => {
  issuer = await startIssuer();
});
afterAll(() => issuer?.stop());

beforeEach(async () => {
  issuer.breakKeys(undefined);
  const { keys: shown } = (await (await fetch(issuer.jwksUri)).json()) as { keys: { kid: string }[] };
  known = { alg: 'ES256', kid: shown[0]?.kid ?? '' };
  log = [];
  keys = new IssuerKeys(issuer.jwksUri, pino({}, { write: (line: string) => void log.push(line) }));
  asked = issuer.keyRequests();
});

/** Returns the requests to the issuer since the test started. */
const requests = (): number => issuer.keyRequests() - asked;

test('fetches the keys on first use, once for all concurrent callers', async () => {
  expect(requests()).toBe(0);
  const found = await Promise.all(Array.from({ length: 50 }, () => keys.keyFor(known, at(0))));
  expect(new Set(found).size).toBe(1);
  expect(requests()).toBe(1);
});

test('caches the keys for ten minutes', async () => {
  const key = await keys.keyFor(known, at(0));
  expect(await keys.keyFor(known, at(10 * minute - 1))).toBe(key);
  expect(requests()).toBe(1);
  await issuer.rotate('ES256');
  expect(await keys.keyFor(known, at(10 * minute))).toBeUndefined();
  expect(requests()).toBe(2);
});

test('fetches for unknown keys at most once a minute across all callers', async () => {
  await keys.keyFor(known, at(0));
  await Promise.all(Array.from({ length: 50 }, () => keys.keyFor(unknown, at(1000))));
  expect(requests()).toBe(2);
  expect(await keys.keyFor(unknown, at(1000 + minute - 1))).toBeUndefined();
  expect(requests()).toBe(2);
  expect(await keys.keyFor(unknown, at(1000 + minute))).toBeUndefined();
  expect(requests()).toBe(3);
  // Known keys need no request meanwhile.
  await keys.keyFor(known, at(2 * minute));
  expect(requests()).toBe(3);
});

test('keeps using the cached keys while the issuer fails, and retries every second until it succeeds', async () => {
  const key = await keys.keyFor(known, at(0));
  issuer.breakKeys((response) => response.writeHead(500).end());
  const later = 10 * minute;
  for (const more of [0, 1, 999]) expect(await keys.keyFor(known, at(later + more))).toBe(key);
  expect(requests()).toBe(2);
  expect(await keys.keyFor(known, at(later + 1000))).toBe(key);
  await expect.poll(requests).toBe(3);
  await expect(keys.keyFor(unknown, at(later + 1001))).rejects.toThrow(IssuerUnavailable);
  issuer.breakKeys(undefined);
  await issuer.rotate('ES256');
  await expect.poll(() => keys.keyFor(known, at(later + 3000)).then(Boolean, Boolean)).toBe(false);
  expect(log).toHaveLength(2);
  expect(JSON.parse(log[0] ?? '')).toMatchObject({
    level: 40,
    reason: 'the response status was 500',
    uri: issuer.jwksUri,
  });
  expect(JSON.parse(log[1] ?? '')).toMatchObject({ level: 30 });
});

const huge = JSON.stringify({ keys: [], padding: 'x'.repeat(300_000) });
test.each<[string, (response: ServerResponse) => void]>([
  ['an error', (response) => response.writeHead(503).end('{"keys": []}')],
  ['a redirect', (response) => response.writeHead(302, { location: '/elsewhere' }).end()],
  ['nothing', (response) => response.end()],
  ['a page', (response) => response.end('<html></html>')],
  ['an invalid key set', (response) => response.end('{"keys": {}}')],
  ['no end', (response) => response.write('{"keys": [')],
  ['no answer', () => undefined],
  ['too much', (response) => response.end(huge)],
  ['a broken connection', (response) => response.destroy()],
])('reports a verification as unavailable and logs it once if the issuer responds with %s', async (_what, answer) => {
  issuer.breakKeys(answer);
  const attempts = Array.from({ length: 3 }, (_, index) => keys.keyFor(known, at(index)));
  for (const attempt of await Promise.allSettled(attempts))
    expect(attempt).toMatchObject({ status: 'rejected', reason: expect.any(IssuerUnavailable) });
  expect(requests()).toBe(1);
  await expect(keys.keyFor(known, at(999))).rejects.toThrow(IssuerUnavailable);
  expect(requests()).toBe(1);
  await expect(keys.keyFor(known, at(1000))).rejects.toThrow(IssuerUnavailable);
  expect(requests()).toBe(2);
  expect(log).toHaveLength(1);
  issuer.breakKeys(undefined);
  expect(await keys.keyFor(known, at(2000))).toBeDefined();
});
