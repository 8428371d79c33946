// The mode in which the console opens.
import { expect, test } from 'vitest';
import { newObject } from '../support/arranged-ids.ts';
import { Visitor } from '../support/page-client.ts';
import { createRecords } from '../support/records.ts';
import { newTenant } from '../support/tenants.ts';

const lead = [{ first_name: 'Ada', email: 'ada@x.example' }];

test('opens in the mode that has data, and keeps a chosen mode in links', async () => {
  const tenant = await newTenant();
  const admin = new Visitor();
  // No data at all: live mode.
  const signedIn = await admin.signIn(tenant.admin.email);
  expect(signedIn.to).toBe('/console');
  const empty = await admin.ask('/console');
  expect([empty.status, empty.text.includes('Live mode')]).toEqual([200, true]);

  await createRecords(tenant.testKey, 'leads', lead);
  expect((await admin.ask('/console')).to).toBe('/console?mode=test');
  const test = await admin.ask('/console?mode=test');
  expect([test.status, test.text.includes('Test mode')]).toEqual([200, true]);
  // A person who chooses live mode stays there.
  expect(test.text).toContain('href="/console?mode=live">Switch to live mode');
  const live = await admin.ask('/console?mode=live');
  expect([live.status, live.text.includes('Live mode')]).toEqual([200, true]);
  const messages = await admin.ask('/console/messages');
  expect(messages.text).toContain('<a href="/console?mode=live">CRM console</a>');

  await createRecords(tenant.key, 'leads', lead);
  const both = await admin.ask('/console');
  expect([both.status, both.text.includes('Live mode')]).toEqual([200, true]);
});

test('counts records of a custom object as data, but not those of another workspace', async () => {
  const tenant = await newTenant();
  const other = await newTenant();
  await createRecords(other.testKey, 'leads', lead);
  const admin = new Visitor();
  await admin.signIn(tenant.admin.email);
  expect((await admin.ask('/console')).status).toBe(200);
  const object = await newObject(tenant);
  await createRecords(tenant.testKey, object, [{ name: 'Pump 17' }]);
  expect((await admin.ask('/console')).to).toBe('/console?mode=test');
});
