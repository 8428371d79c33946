// Webhooks at the console: adding, testing, disabling, enabling, and replaying deliveries.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { call, expectStatus, type Json } from '../support/client.ts';
import { Visitor } from '../support/page-client.ts';
import { answering, Receiver } from '../support/receivers.ts';
import { newWideTenant } from '../support/requests.ts';
import { newPerson } from '../support/sessions.ts';
import type { Tenant } from '../support/tenants.ts';
import { newDelivery, newWebhook, withoutDeliveries } from '../support/webhooks.ts';

const home = '/console/webhooks';
const modeOf = { mode: 'test' };

let tenant: Tenant;
let admin: Visitor;
let receiver: Receiver;
beforeAll(async () => {
  [tenant, receiver] = await Promise.all([newWideTenant(), Receiver.start()]);
  admin = new Visitor();
  await admin.signIn(tenant.admin.email);
});
afterAll(() => receiver.stop());

const shown = async (id: string, key = tenant.testKey): Promise<Json> =>
  (await expectStatus(200, 'GET', `/v1/webhooks/${id}`, { key })).body.data.subscription;
const listDeliveries = async (id: string, key = tenant.key): Promise<Json[]> =>
  (await expectStatus(200, 'GET', `/v1/webhooks/${id}/deliveries`, { key })).body.data.deliveries;

test('adds, tests, rotates, disables, enables and deletes a webhook in its mode', async () => {
  const wrong = await admin.send(
    `${home}/new?mode=test`,
    { url: 'https://x.example:22/', events: 'record.made' },
    `${home}/new`,
  );
  expect(wrong.status).toBe(422);
  expect(wrong.text).toContain('record.made</textarea>');
  expect(wrong.text).toMatch(/<textarea id="events"[^>]*aria-invalid="true"/);
  const fields = { url: receiver.url, events: 'webhook.disabled', description: 'The shop', changes: 'yes' };
  const added = await admin.complete(`${home}/new?mode=test`, fields, `${home}/new`);
  expect([added.status, /whsec_[\w+/]{43}=/.test(added.text)]).toEqual([200, true]);
  const id = /webhooks\/([0-9a-f-]{36})/.exec(added.text)?.[1] ?? '';
  const path = `${home}/${id}`;
  expect(await shown(id)).toMatchObject({
    url: receiver.url,
    events: ['webhook.disabled'],
    include: ['changes'],
    description: 'The shop',
    created_by: { kind: 'user', id: tenant.admin.id },
  });
  expect((await admin.ask(path)).status).toBe(404);
  const press = (action: string) => admin.send(`${path}?mode=test`, modeOf, `${path}/${action}`);
  const land = (action: string) => admin.complete(`${path}?mode=test`, modeOf, `${path}/${action}`);
  expect((await land('test')).text).toContain('The endpoint responded with status 200.');
  receiver.behave = answering(503);
  expect((await land('test')).text).toContain('the endpoint responded with status 503');
  const secret = /whsec_[\w+/]{43}=/.exec((await land('rotate')).text)?.[0] ?? '';
  expect((await shown(id)).secret_last4).toBe(secret.slice(-4));
  expect((await press('disable')).to).toBe(`${path}?mode=test&done=disabled`);
  expect((await shown(id)).status).toBe('disabled');
  await press('enable');
  expect((await shown(id)).status).toBe('active');
  expect((await press('delete')).to).toBe(`${home}?mode=test&done=deleted`);
  expect((await call('GET', `/v1/webhooks/${id}`, { key: tenant.testKey })).status).toBe(404);
});

describe('failed deliveries', () => {
  test('shows a failed delivery with request and response, and replays it as a copy', async () => {
    const { id } = await newWebhook(tenant, 'live', withoutDeliveries);
    const delivery = await newDelivery(tenant, 'live', id, { last_response_snippet: '<b>no</b>' });
    const path = `${home}/${id}/deliveries/${delivery}`;
    const { text } = await admin.ask(path);
    for (const part of [
      'Failed',
      '10 of 10',
      '500',
      '&lt;b&gt;no&lt;/b&gt;',
      '&quot;event&quot;:&quot;record.created&quot;',
    ])
      expect(text).toContain(part);
    const replayed = await admin.send(path, {}, `${path}/replay`);
    const copies = (await listDeliveries(id)).filter(({ replay_of }) => replay_of === delivery);
    expect(replayed.to).toBe(`${home}/${id}/deliveries/${copies[0]?.id}?done=replayed`);
    expect((await admin.ask(replayed.to ?? '')).text).toContain(`href="${path}"`);
  });

  test('recovers and replays deliveries by days', async () => {
    const { id } = await newWebhook(tenant, 'live', withoutDeliveries);
    await newDelivery(tenant, 'live', id);
    const path = `${home}/${id}`;
    expect((await admin.ask(`${path}?status=failed`)).text).toContain('Failed</td>');
    expect((await admin.ask(`${path}?status=succeeded`)).text).toContain('No deliveries.');
    const days = { from: '2026-02-02', to: '2026-02-01' };
    const wrong = await admin.send(path, days, `${path}/replay`);
    expect([wrong.status, wrong.text.includes('value="2026-02-02"')]).toEqual([400, true]);
    expect((await admin.send(path, { since: '2020-01-01' }, `${path}/recover`)).to).toBe(`${path}?done=queued`);
    expect((await admin.send(path, { since: '2098-01-01' }, `${path}/recover`)).to).toBe(`${path}?done=none`);
    const all = { from: '2020-01-01', to: '2098-01-01' };
    expect((await admin.send(path, all, `${path}/replay`)).to).toBe(`${path}?done=queued`);
    expect(await listDeliveries(id)).toHaveLength(2);
  });
});

test('shows no buttons without permission, and rejects forms', async () => {
  const { id } = await newWebhook(tenant, 'live', withoutDeliveries);
  const { email } = await newPerson(tenant, 'Viewer');
  const viewer = new Visitor();
  await viewer.signIn(email);
  const path = `${home}/${id}`;
  const { status, text } = await viewer.ask(path);
  expect([status, text.includes('Disable</button>'), text.includes('Recover</button>')]).toEqual([200, false, false]);
  const form = await viewer.readForm(path, '/console/sign-out');
  const refused = await viewer.ask(`${path}/disable`, form);
  expect([refused.status, refused.text.includes('webhooks:configure or settings:configure')]).toEqual([403, true]);
  expect((await shown(id, tenant.key)).status).toBe('active');
});

test('shows the share of the last deliveries that succeeded', async () => {
  const { id } = await newWebhook(tenant, 'live', withoutDeliveries);
  const shows = async (text: string): Promise<boolean[]> =>
    Promise.all([home, `${home}/${id}`].map(async (path) => (await admin.ask(path)).text.includes(text)));
  expect(await shows('no deliveries yet')).toEqual([true, true]);
  for (const status of ['succeeded', 'failed', 'succeeded', 'cancelled'])
    await newDelivery(tenant, 'live', id, { status, last_error: null });
  expect(await shows('66 % of the last 3')).toEqual([true, true]);
});
