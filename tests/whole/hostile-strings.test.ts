// Texts that are expensive to process, in every place that accepts a text: never a 5xx.
import { beforeAll, expect, test } from 'vitest';
import { bodyLimits } from '../../domain/service/request-limits.ts';
import { call } from '../support/client.ts';
import { operations } from '../support/document.ts';
import { hostileTexts, textPlaces, withText } from '../support/hostile-texts.ts';
import { goodRequest, isForPlatform, newWideTenant } from '../support/requests.ts';
import { bodySchema, queryParameters } from '../support/schemas.ts';
import type { Tenant } from '../support/tenants.ts';
import { openedByKey, openedBySession } from '../support/walk.ts';

/**
 * Bytes of the texts in a body. The rest of the body has 8,000, so that its size never rejects it
 * before it is read.
 */
const bodyLimit = bodyLimits.bytes - 8000;
/** Characters. A request line has at most 16 KB, and each character may take nine bytes of it. */
const lineLimit = 1200;
/** Calls per minute of one user and of one platform key. */
const patience = { person: 60, operator: 10 };

const texts = Object.entries(hostileTexts);

let tenant: Tenant;

beforeAll(async () => {
  tenant = await newWideTenant();
});

/** Returns the beginning of a text within a number of bytes. */
const within = (text: string, bytes: number): string =>
  Buffer.from(text)
    .subarray(0, bytes)
    .toString()
    .replace(/\ufffd$/, '');

interface Try {
  name: string;
  text: string;
  /** Indexes of the places. */
  at: number[];
}

/** Puts each text into all places together, and one text into each place alone, in turn. */
function triesAt(places: number, room: number): Try[] {
  const all = Array.from({ length: places }, (_, place) => place);
  const together = texts.map(([name, text]) => ({ name, at: all, text: within(text, Math.floor(room / places)) }));
  const alone = all.map((place) => {
    const [name, text] = texts[place % texts.length] as [string, string];
    return { name, at: [place], text: within(text, room) };
  });
  return [...together, ...alone];
}

/** Leaves out createOnboardingAsPlatform, which runs the same code as createOnboarding. */
const tried = operations.filter((operation) => bodySchema(operation) && operation.id !== 'createOnboardingAsPlatform');

test.each(tried)('answers a hostile text in any body field of $id', async (operation) => {
  const isForPeople = openedBySession.includes(operation) && !openedByKey.includes(operation);
  const most = isForPlatform(operation) ? patience.operator : isForPeople ? patience.person : Number.POSITIVE_INFINITY;
  let { path, options } = await goodRequest(operation, tenant);
  const places = textPlaces(operation, options.body);
  const faults: string[] = [];
  for (const [count, { name, at, text }] of triesAt(places.length, bodyLimit).entries()) {
    if (count % most === 0)
      ({ path, options } = await goodRequest(operation, isForPeople ? await newWideTenant() : tenant));
    const body = at.reduce((whole, index) => withText(whole, places[index] ?? [], text), options.body);
    const answer = await call(operation.method, path, { ...options, body });
    const { status } = answer;
    const where = at.map((index) => places[index]?.join('.')).join(', ');
    const isTooLarge = answer.body?.error?.details?.reason === 'body_too_large';
    if (status >= 500 || status === 429 || isTooLarge) faults.push(`${name} in ${where}: ${status}`);
  }
  expect(faults).toEqual([]);
});

test.each(operations.filter((operation) => queryParameters(operation).length > 0))(
  'answers a hostile text in any query parameter of $id',
  async (operation) => {
    const { path, options } = await goodRequest(operation, tenant);
    const names = queryParameters(operation).map(({ name }) => name);
    const faults: string[] = [];
    for (const { name, at, text } of triesAt(names.length, lineLimit)) {
      const given = Object.fromEntries(at.map((index) => [names[index], text]));
      const { status } = await call(operation.method, path, { ...options, query: { ...options.query, ...given } });
      if (status >= 500) faults.push(`${name} in ${Object.keys(given).join(', ')}: ${status}`);
    }
    expect(faults).toEqual([]);
  },
);

test('answers a filter with the longest list that fits into a request line', async () => {
  const value = Array.from({ length: 2000 }, (_, index) => index);
  const filter = JSON.stringify({ field: 'priority', op: 'in', value });
  const { status } = await call('GET', '/v1/objects/leads/records', { key: tenant.key, query: { filter } });
  expect(status).toBe(400);
});
