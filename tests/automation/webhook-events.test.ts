// The event catalog matches the bodies that are sent.
import { Ajv2020 } from 'ajv/dist/2020.js';
import formats from 'ajv-formats';
import { beforeAll, expect, test } from 'vitest';
import { eventCatalogue } from '../../domain/automation/event-catalogue.ts';
import { composeBody, composeTestBody } from '../../domain/automation/webhook-bodies.ts';
import { expectStatus, type Json } from '../support/client.ts';
import { newKey, newTenant, type Tenant } from '../support/tenants.ts';

let tenant: Tenant;
let events: Json[];

beforeAll(async () => {
  tenant = await newTenant();
  events = (await expectStatus(200, 'GET', '/v1/webhook-events', { key: tenant.key })).body.data.events;
});

test('lists every event once, with the same list for live and test keys', async () => {
  expect(events.map((event) => event.name)).toEqual([...new Set(eventCatalogue.map(({ name }) => name))]);
  const inTest = await expectStatus(200, 'GET', '/v1/webhook-events', { key: tenant.testKey });
  expect(inTest.body.data.events).toEqual(events);
  const first = await expectStatus(200, 'GET', '/v1/webhook-events', { key: tenant.key, query: { limit: 2 } });
  expect(first.body.data).toMatchObject({ events: events.slice(0, 2), has_more: true });
});

test.each(['webhooks:view', 'settings:view'])('lists the events with the scope %s', async (scope) => {
  const key = await newKey(tenant, { scopes: [scope] });
  await expectStatus(200, 'GET', '/v1/webhook-events', { key });
});

test.each(eventCatalogue)(
  'describes $name with a schema that fits its example and its body',
  ({ name, schema, example, fields }) => {
    const ajv = new Ajv2020({ strict: false });
    formats.default(ajv);
    const fits = ajv.compile(schema);
    expect(fits(example), ajv.errorsText(fits.errors)).toBe(true);
    const { data, actor } = example as Json;
    const sent = composeBody(
      {
        id: '019a9f2e-7c41-7b20-9c4d-3e7d6f5c2b18',
        event: name,
        position: 1,
        occurredAt: new Date(0),
        actor,
        requestId: null,
        data: { ...data, internal: 'x' },
        changes: null,
      },
      false,
      [],
    );
    expect(fits(JSON.parse(sent)), ajv.errorsText(fits.errors)).toBe(true);
    // Fields outside the catalog are not sent.
    expect(Object.keys(JSON.parse(sent).data).every((field) => fields.some((each) => each.name === field))).toBe(true);
    const tried = JSON.parse(composeTestBody(name, '019a9f2e-7c41-7b20-9c4d-3e7d6f5c2b18', true, new Date(0)));
    expect(fits(tried), ajv.errorsText(fits.errors)).toBe(true);
    expect(tried).toMatchObject({ test: true, test_mode: true, event: name });
  },
);
