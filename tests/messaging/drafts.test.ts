// Message drafts: creation, listing and withdrawal. No operation sends them.
import { beforeAll, describe, expect, test } from 'vitest';
import { newRecord, newTeam } from '../support/arranged-ids.ts';
import { call, expectStatus, type Json } from '../support/client.ts';
import { recordedEvents } from '../support/events.ts';
import { newDraft, newPhoneNumber, someNumber } from '../support/messaging.ts';
import { newWideTenant } from '../support/requests.ts';
import { database, newKey, newTenant, newUser, type Tenant } from '../support/tenants.ts';

let tenant: Tenant;
const path = '/v1/messages/drafts';

beforeAll(async () => {
  tenant = await newWideTenant();
  await database()`update companies set country = 'AE' where id = ${tenant.companyId}`;
});

const post = (body: object, key = tenant.key) => call('POST', path, { key, body });
const readProblems = (answer: Json): Json => answer.body.error.details.fields;
const nobody = '019a9f5e-7c1b-7cc3-8f3a-2f6f1c2b9e10';
const email = { channel: 'email', to: 'Sara@BlueLake.example', subject: ' Your quote ', body: 'Hello Sara' };

describe('a draft', () => {
  test('stores a draft as it will be sent, and does not send it', async () => {
    const { draft } = (await post({ ...email, note: 'Asked for on the phone' })).body.data;
    expect(draft).toMatchObject({
      status: 'draft',
      channel: 'email',
      to: 'sara@bluelake.example',
      subject: 'Your quote',
      body: 'Hello Sara',
      from: null,
      object: null,
      record_id: null,
      note: 'Asked for on the phone',
      warnings: [],
      error: null,
      approved_by: null,
      sent_at: null,
      provider_ref: null,
      test_mode: false,
      campaign_id: null,
      created_by: { kind: 'api_key' },
    });
    const read = await expectStatus(200, 'GET', `${path}/${draft.id}`, { key: tenant.key });
    expect(read.body.data.draft).toEqual(draft);
  });

  test.each([
    ['+971 50 123 4567', '+971501234567'],
    ['050 123 4567', '+971501234567'],
  ])('stores the recipient %s as %s', async (to, stored) => {
    expect((await post({ channel: 'whatsapp', to, body: 'Hello' })).body.data.draft.to).toBe(stored);
  });

  test.each([
    [{ channel: 'sms', to: '12', body: 'Hello' }, 400, 'to', 'INVALID_FORMAT'],
    [{ ...email, to: 'sara' }, 400, 'to', 'INVALID_FORMAT'],
    [{ channel: 'fax', to: '+971501234567', body: 'Hello' }, 400, 'channel', 'INVALID_OPTION'],
    [{ ...email, subject: undefined }, 400, 'subject', 'REQUIRED'],
    [{ channel: 'sms', to: '+971501234567', subject: 'Quote', body: 'Hello' }, 400, 'subject', 'CONFLICTING_FIELDS'],
    [{ channel: 'sms', to: '+971501234567', body: 'x'.repeat(1601) }, 400, 'body', 'TOO_LONG'],
    [{ channel: 'sms', to: '+971501234567', body: 'Hello', from: '+971501234568' }, 422, 'from', 'NOT_FOUND'],
    [{ ...email, from: 'nobody@bluelake.example' }, 422, 'from', 'NOT_FOUND'],
    [{ ...email, object: 'leads' }, 400, 'record_id', 'REQUIRED'],
    [{ ...email, record_id: nobody }, 400, 'object', 'REQUIRED'],
    [{ ...email, object: 'leads', record_id: nobody }, 422, 'record_id', 'NOT_FOUND'],
  ])('rejects the draft %j with %i for %s', async (body, status, field, code) => {
    const answer = await post(body as object);
    expect([answer.status, readProblems(answer)]).toMatchObject([status, [{ field, code }]]);
  });

  test('lists every problem of a draft, with 422 if one of them is a missing item', async () => {
    const values = await post({ channel: 'email', to: 'sara', from: 'omar', body: 'Hello', object: 'leads' });
    expect(values.status).toBe(400);
    expect(readProblems(values).map(({ field }: Json) => field)).toEqual(['to', 'subject', 'from', 'record_id']);
    const both = await post({ channel: 'email', to: 'sara', body: 'Hello', object: 'leads', record_id: nobody });
    expect(both.status).toBe(422);
    expect(readProblems(both).map(({ field }: Json) => field)).toEqual(['to', 'subject', 'record_id']);
  });

  test('accepts 1,600 characters of any kind for a text message', async () => {
    expect((await post({ channel: 'sms', to: someNumber(), body: '🙂'.repeat(1600) })).status).toBe(201);
  });

  test('requires an active number or user of the workspace as the sender', async () => {
    const number = await newPhoneNumber(tenant.key);
    expect((await newDraft(tenant.key, { from: number.phone_number })).from).toBe(number.phone_number);
    const { email: address } = await newUser(tenant);
    expect((await post({ ...email, from: address })).body.data.draft.from).toBe(address);
    await expectStatus(200, 'POST', `/v1/phone-numbers/${number.id}/release`, { key: tenant.key });
    const late = await post({ channel: 'sms', to: someNumber(), body: 'Hello', from: number.phone_number });
    expect([late.status, readProblems(late)]).toMatchObject([422, [{ field: 'from' }]]);
    const fax = await newPhoneNumber(tenant.key, { capabilities: { sms: false, voice: true, fax: true } });
    expect((await post({ channel: 'sms', to: someNumber(), body: 'Hello', from: fax.phone_number })).status).toBe(422);
  });

  test('warns about recipients who opted out, at creation and later', async () => {
    const [to, address] = [someNumber(), `${Date.now()}@bluelake.example`];
    const [text, mail] = [await newDraft(tenant.key, { to }), (await post({ ...email, to: address })).body.data.draft];
    await expectStatus(201, 'POST', '/v1/dnc-list', { key: tenant.key, body: { phone_number: to } });
    await expectStatus(201, 'POST', '/v1/email-suppression', { key: tenant.key, body: { email: address } });
    const warned = async (id: string) =>
      (await call('GET', `${path}/${id}`, { key: tenant.key })).body.data.draft.warnings.map((each: Json) => each.code);
    expect([await warned(text.id), await warned(mail.id)]).toEqual([['on_dnc_list'], ['suppressed_email']]);
    expect((await newDraft(tenant.key, { to })).warnings).toMatchObject([{ code: 'on_dnc_list' }]);
    // The lists belong to live mode.
    expect((await newDraft(tenant.testKey, { to })).warnings).toEqual([]);
  });
});

describe('the list of drafts', () => {
  test('filters the list of drafts by status, channel and record, newest first', async () => {
    const own = await newWideTenant();
    const about = { object: 'leads', record_id: await newRecord(own, 'live', 'leads') };
    const first = await newDraft(own.key);
    const second = (await post({ ...email, ...about }, own.key)).body.data.draft;
    const third = await newDraft(own.key);
    await expectStatus(200, 'POST', `${path}/${first.id}/withdraw`, { key: own.key });
    const ids = async (query: Record<string, string>) =>
      (await expectStatus(200, 'GET', path, { key: own.key, query })).body.data.drafts.map((each: Json) => each.id);
    expect(await ids({})).toEqual([third.id, second.id, first.id]);
    expect(await ids({ status: 'withdrawn' })).toEqual([first.id]);
    expect(await ids({ channel: 'email' })).toEqual([second.id]);
    expect(await ids({ object: 'leads' })).toEqual([second.id]);
    expect(await ids(about)).toEqual([second.id]);
    expect(await ids({ ...about, object: 'deals' })).toEqual([]);
    const page = (await call('GET', path, { key: own.key, query: { limit: '2' } })).body.data;
    expect(await ids({ limit: '2', cursor: page.next_cursor })).toEqual([first.id]);
    expect(await ids({ record_id: about.record_id })).toEqual([second.id]);
  });

  test('shows a key of a team only its own drafts', async () => {
    const own = await newWideTenant();
    const narrow = await newKey(own, { reach: { kind: 'team', id: await newTeam(own) } });
    const [theirs, mine] = [await newDraft(own.key), await newDraft(narrow)];
    const listed = (await expectStatus(200, 'GET', path, { key: narrow })).body.data.drafts;
    expect(listed.map((each: Json) => each.id)).toEqual([mine.id]);
    expect((await call('GET', `${path}/${theirs.id}`, { key: narrow })).status).toBe(404);
    expect((await call('POST', `${path}/${theirs.id}/withdraw`, { key: narrow })).status).toBe(404);
  });
});

describe('a withdrawal', () => {
  test('withdraws a draft once, with event and audit row', async () => {
    const own = await newWideTenant();
    const draft = await newDraft(own.key);
    const withdraw = () =>
      call('POST', `${path}/${draft.id}/withdraw`, { key: own.key, body: { reason: 'Sent by post' } });
    const all = await Promise.all(Array.from({ length: 8 }, withdraw));
    expect(all.map(({ status }) => status).toSorted()).toEqual([200, ...Array(7).fill(409)]);
    const done = all.find(({ status }) => status === 200)?.body.data.draft;
    expect(done).toMatchObject({ status: 'withdrawn', withdrawal_reason: 'Sent by post' });
    const again = (await withdraw()).body.error;
    expect(again).toMatchObject({ code: 'CONFLICT', details: { reason: 'not_a_draft', status: 'withdrawn' } });
    const recorded = await database()`
      select event, data from ${recordedEvents(database())} where company_id = ${own.companyId}`;
    expect(recorded).toMatchObject([
      {
        event: 'message.draft.status_changed',
        data: { draft_id: draft.id, channel: 'sms', from: 'draft', to: 'withdrawn' },
      },
    ]);
  });
});

test('rejects drafts on a plan without the inbox', async () => {
  const plain = await newTenant();
  await database()`update subscriptions set package_code = 'starter', status = 'active' where company_id = ${plain.companyId}`;
  const refused = await call('GET', path, { key: plain.key });
  expect([refused.status, refused.body.error.code]).toEqual([403, 'MODULE_DISABLED']);
});
