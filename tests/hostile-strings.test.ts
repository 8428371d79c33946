// Texts made to keep a program busy, in every place of every operation that takes one: refused or stored, never a fault.
import { beforeAll, expect, test } from 'vitest';
import { call } from './support/client.ts';
import { operations } from './support/document.ts';
import { hostileTexts, textPlaces, withText } from './support/hostile-texts.ts';
import { goodRequest, newWideTenant } from './support/requests.ts';
import { bodySchema, queryParameters } from './support/schemas.ts';
import type { Tenant } from './support/tenants.ts';
import { openedByKey, openedBySession } from './support/walk.ts';

let tenant: Tenant;

beforeAll(async () => {
  tenant = await newWideTenant();
});

test.each(operations.filter((operation) => bodySchema(operation)))(
  '$id answers a hostile text in any field',
  async (operation) => {
    const places = textPlaces(operation, (await goodRequest(operation, tenant)).options.body);
    const faults: string[] = [];
    for (const place of places) {
      // A person may call an operation sixty times a minute.
      const person =
        openedBySession.includes(operation) && !openedByKey.includes(operation) ? await newWideTenant() : tenant;
      const { path, options } = await goodRequest(operation, person);
      for (const [name, text] of Object.entries(hostileTexts)) {
        const body = withText(options.body, place, text);
        const { status } = await call(operation.method, path, { ...options, body });
        if (status >= 500 || status === 429) faults.push(`${place.join('.')} ${name}: ${status}`);
      }
    }
    expect(faults).toEqual([]);
  },
  60_000,
);

test.each(operations.filter((operation) => queryParameters(operation).length > 0))(
  '$id answers a hostile text in any parameter',
  async (operation) => {
    const { path, options } = await goodRequest(operation, tenant);
    const faults: string[] = [];
    for (const { name: parameter } of queryParameters(operation))
      for (const [name, text] of Object.entries(hostileTexts)) {
        // A request line is 16 KB at most, whatever is in it.
        const query = { ...options.query, [parameter]: text.slice(0, 1000) };
        const { status } = await call(operation.method, path, { ...options, query });
        if (status >= 500) faults.push(`${parameter} ${name}: ${status}`);
      }
    expect(faults).toEqual([]);
  },
  60_000,
);

test('a filter with the longest list that fits into a request line is answered', async () => {
  const value = Array.from({ length: 2000 }, (_, index) => index);
  const filter = JSON.stringify({ field: 'priority', op: 'in', value });
  const { status } = await call('GET', '/v1/objects/leads/records', { key: tenant.key, query: { filter } });
  expect(status).toBe(400);
});
