// Texts made to keep a program busy, in every place that takes one: never a fault.
import { beforeAll, expect, test } from 'vitest';
import { bodyLimits } from '../../domain/service/request-limits.ts';
import { call } from '../support/client.ts';
import { operations } from '../support/document.ts';
import { hostileTexts, textPlaces, withText } from '../support/hostile-texts.ts';
import { goodRequest, isForPlatform, newWideTenant } from '../support/requests.ts';
import { bodySchema, queryParameters } from '../support/schemas.ts';
import type { Tenant } from '../support/tenants.ts';
import { openedByKey, openedBySession } from '../support/walk.ts';

/** Bytes of the texts in a body; what is beside them in it has the rest, so that nothing is refused for its size before it is read. */
const bodyLimit = bodyLimits.bytes - 8000;
/** A request line is 16 KB at most, and each character may take nine of it. */
const lineLimit = 1200;
/** Calls within a minute of one person, and of one key of the operator's. */
const patience = { person: 60, operator: 10 };

const texts = Object.entries(hostileTexts);

let tenant: Tenant;

beforeAll(async () => {
  tenant = await newWideTenant();
});

/** The beginning of a text, of at most so many bytes. */
const within = (text: string, bytes: number): string =>
  Buffer.from(text)
    .subarray(0, bytes)
    .toString()
    .replace(/\ufffd$/, '');

interface Try {
  name: string;
  text: string;
  /** Which of the places. */
  at: number[];
}

/** Each text in all places at once, and each place alone with one of the texts, another than the place before it. */
function triesAt(places: number, room: number): Try[] {
  const all = Array.from({ length: places }, (_, place) => place);
  const together = texts.map(([name, text]) => ({ name, at: all, text: within(text, Math.floor(room / places)) }));
  const alone = all.map((place) => {
    const [name, text] = texts[place % texts.length] as [string, string];
    return { name, at: [place], text: within(text, room) };
  });
  return [...together, ...alone];
}

/** The operator's way into the same code, which createOnboarding tries. */
const tried = operations.filter((operation) => bodySchema(operation) && operation.id !== 'createOnboardingAsPlatform');

test.each(tried)('$id answers a hostile text in any field', async (operation) => {
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
  '$id answers a hostile text in any parameter',
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

test('a filter with the longest list that fits into a request line is answered', async () => {
  const value = Array.from({ length: 2000 }, (_, index) => index);
  const filter = JSON.stringify({ field: 'priority', op: 'in', value });
  const { status } = await call('GET', '/v1/objects/leads/records', { key: tenant.key, query: { filter } });
  expect(status).toBe(400);
});
