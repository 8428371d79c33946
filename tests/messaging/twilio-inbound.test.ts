// Inbound requests of Twilio: signed, and stored like all inbound reports.
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { computeTwilioSignature } from '../../integrations/twilio/inbound.ts';
import { anyAddress, expectStatus, type Json } from '../support/client.ts';
import { besideCommon } from '../support/databases.ts';
import { recordedEvents } from '../support/events.ts';
import { listChildren } from '../support/record-children.ts';
import { createRecord } from '../support/records.ts';
import { newWideTenant } from '../support/requests.ts';
import { startServer, type TestServer } from '../support/servers.ts';
import { testSettings } from '../support/setup.ts';
import { database, newTenant, type Tenant } from '../support/tenants.ts';

const token = 'a token with % and @';
const ours = '+14155550100';

let server: TestServer;
let tenant: Tenant;
let url: string;

beforeAll(async () => {
  server = await startServer({
    ...testSettings,
    ...besideCommon(),
    MESSAGING_URL: `twilio://AC0123:${encodeURIComponent(token)}@api.twilio.com`,
  });
  tenant = await newWideTenant();
  await registerNumber(tenant.key);
  const { body } = await expectStatus(200, 'GET', '/v1/settings/inbound', { key: tenant.key, baseUrl: server.url });
  url = body.data.inbound.live.urls.twilio;
});
afterAll(() => server?.stop());

async function registerNumber(key: string): Promise<void> {
  const body = { phone_number: ours, capabilities: { sms: true, voice: true, fax: true } };
  await expectStatus(201, 'POST', '/v1/phone-numbers', { key, body });
}

type Form = Record<string, string>;

/** @param signature computed from the form and the address by default */
async function postReport(
  form: Form,
  to = url,
  signature?: string,
): Promise<{ status: number; type: string | null; text: string }> {
  const answer = await fetch(to, {
    method: 'POST',
    headers: {
      'x-twilio-signature': signature ?? computeTwilioSignature(token, to, new Map(Object.entries(form))),
      'x-forwarded-for': anyAddress(),
    },
    body: new URLSearchParams(form),
  });
  return { status: answer.status, type: answer.headers.get('content-type'), text: await answer.text() };
}

let people = 0;
async function newLead(): Promise<Json> {
  people += 1;
  return createRecord(tenant.key, 'leads', { first_name: 'A', mobile: `+1415556${String(1000 + people)}` });
}

const text = (more: Form = {}): Form => ({
  MessageSid: `SM${randomUUID()}`,
  AccountSid: 'AC0123',
  From: '+14155567777',
  To: ours,
  Body: 'Hello',
  NumMedia: '0',
  SmsStatus: 'received',
  ...more,
});
const aCall = (more: Form = {}): Form => ({
  CallSid: `CA${randomUUID()}`,
  From: '+14155567777',
  To: ours,
  Direction: 'inbound',
  CallStatus: 'completed',
  CallDuration: '61',
  ...more,
});

async function reports(of = tenant): Promise<Json[]> {
  return database()`
    select r.id, r.kind, r.object, r.record_id, r.details, m.body, m.sender, m.recipient, m.channel
    from received_reports r left join messages m on m.company_id = r.company_id and m.test_mode = r.test_mode and m.id = r.id
    where r.company_id = ${of.companyId} and r.provider = 'twilio' order by r.id desc` as never;
}

test.each([
  ['+14158675309', 'RSOYDt4T1cUTdK1PDd93/VVr8B8='],
  ['+14158675310', 'GvWf1cFY/Q7PnoempGyD5oXAezc='],
])('computes the signature of Twilio’s own example, from %s', (number, expected) => {
  const form = { Digits: '1234', To: '+18005551212', From: number, Caller: number, CallSid: 'CA1234567890ABCDE' };
  const address = 'https://mycompany.com/myapp.php?foo=1&bar=2';
  expect(computeTwilioSignature('12345', address, new Map(Object.entries(form)))).toBe(expected);
});

describe('a text', () => {
  test('responds with empty TwiML to a text, and links, shows and emits it', async () => {
    const lead = await newLead();
    const answer = await postReport(text({ From: lead.mobile, Body: 'Grüße + 100 % 👋' }));
    expect(answer).toEqual({
      status: 200,
      type: 'text/xml; charset=utf-8',
      text: '<?xml version="1.0" encoding="UTF-8"?><Response/>',
    });
    const { messages } = await listChildren(tenant.key, 'leads', lead.id, 'messages');
    expect(messages).toMatchObject([
      { channel: 'sms', direction: 'inbound', from: lead.mobile, to: ours, preview: 'Grüße + 100 % 👋' },
    ]);
    const recorded = await database()`
      select event, actor, request_id from ${recordedEvents(database())} where data ->> 'message_id' = ${messages[0].id}`;
    expect(recorded).toEqual([
      { event: 'message.sms.received', actor: { kind: 'system', id: 'inbound', name: null }, request_id: null },
    ]);
    const noted = await database()`select action, metadata from audit_logs where record_id = ${messages[0].id}`;
    expect(noted).toEqual([{ action: 'report.receive', metadata: { type: 'sms', provider: 'twilio' } }]);
  });

  test('reads a WhatsApp message from the number behind its prefix', async () => {
    const lead = await newLead();
    await postReport(text({ From: `whatsapp:${lead.mobile}`, To: `whatsapp:${ours}` }));
    expect((await reports())[0]).toMatchObject({
      kind: 'whatsapp',
      record_id: lead.id,
      channel: 'whatsapp',
      sender: lead.mobile,
      recipient: ours,
    });
  });

  test('applies an opt-out by text', async () => {
    const lead = await newLead();
    await postReport(text({ From: lead.mobile, Body: 'Stop' }));
    const listed = await database()`
      select source from do_not_call where company_id = ${tenant.companyId} and phone_number = ${lead.mobile}`;
    expect(listed).toEqual([{ source: 'opt_out' }]);
  });

  test('stores a repeated text once', async () => {
    const form = text();
    const before = (await reports()).length;
    await Promise.all(Array.from({ length: 4 }, () => postReport(form)));
    expect((await reports()).length).toBe(before + 1);
  });

  test('removes characters from a text that the database cannot store', async () => {
    expect((await postReport(text({ Body: 'a\0b' }))).status).toBe(200);
    expect((await reports())[0]).toMatchObject({ body: 'ab' });
  });

  test('ignores status callbacks of sent texts', async () => {
    const before = (await reports()).length;
    const answer = await postReport({
      MessageSid: 'SM1',
      MessageStatus: 'delivered',
      SmsStatus: 'delivered',
      From: ours,
      To: '+14155567777',
    });
    expect(answer.status).toBe(200);
    expect((await reports()).length).toBe(before);
  });
});

describe('a call', () => {
  test.each([
    [{}, { direction: 'inbound', outcome: 'answered', duration_seconds: 61 }],
    [
      { CallStatus: 'no-answer', CallDuration: '0' },
      { outcome: 'no_answer', duration_seconds: 0 },
    ],
    [{ CallStatus: 'canceled' }, { outcome: 'no_answer' }],
    [{ CallStatus: 'busy' }, { outcome: 'busy' }],
    [{ CallStatus: 'failed' }, { outcome: 'failed' }],
    [{ AnsweredBy: 'machine_end_beep' }, { outcome: 'voicemail' }],
    [
      { Direction: 'outbound-api', From: ours, To: '+14155567777' },
      { direction: 'outbound', outcome: 'answered' },
    ],
  ])('emits a call that ended as %j as %j', async (more, expected) => {
    expect((await postReport(aCall(more as Form))).status).toBe(200);
    const [row] = await reports();
    expect(row).toMatchObject({ kind: 'call', details: expected });
    const recorded =
      await database()`select data from ${recordedEvents(database())} where data ->> 'call_id' = ${row.id}`;
    expect(recorded).toMatchObject([{ data: expected }]);
  });

  test.each(['queued', 'ringing', 'in-progress'])('ignores a call that is %s', async (CallStatus) => {
    const before = (await reports()).length;
    expect((await postReport(aCall({ CallStatus }))).status).toBe(200);
    expect((await reports()).length).toBe(before);
  });
});

test('emits a fax with its pages', async () => {
  await postReport({ FaxSid: 'FX1', From: '+14155567777', To: ours, NumPages: '3', FaxStatus: 'received' });
  expect((await reports())[0]).toMatchObject({ kind: 'fax', details: { pages: 3 } });
});

describe('rejected requests', () => {
  test('rejects a signature of another form, another address or another token', async () => {
    const form = text();
    const good = (of: Form, to = url, by = token) => computeTwilioSignature(by, to, new Map(Object.entries(of)));
    const before = (await reports()).length;
    const other = await newTenant();
    for (const signature of [
      '',
      'nonsense',
      good({ ...form, Body: 'Other' }),
      good(form, url, 'another token'),
      good(form, url.replace(tenant.companyId, other.companyId)),
      good(form, url.replace('environment=live', 'environment=test')),
    ]) {
      const { status, text: body } = await postReport(form, url, signature);
      expect([status, JSON.parse(body).error]).toMatchObject([
        401,
        { code: 'AUTH_INVALID_KEY', details: { reason: 'invalid_signature' } },
      ]);
    }
    expect((await reports()).length).toBe(before);
  });

  test('rejects texts to a number that the workspace does not have or has released', async () => {
    expect((await postReport(text({ To: '+14155550199' }))).status).toBe(404);
    const other = await newTenant();
    const theirs = url.replace(tenant.companyId, other.companyId);
    expect((await postReport(text(), theirs)).status).toBe(404);
    expect(await reports(other)).toEqual([]);
    // In test mode the workspace has no number.
    const inTest = url.replace('environment=live', 'environment=test');
    expect((await postReport(text(), inTest)).status).toBe(404);
    await registerNumber(tenant.testKey);
    expect((await postReport(text(), inTest)).status).toBe(200);
    expect(await database()`select from messages where company_id = ${tenant.companyId} and test_mode`).toHaveLength(1);
  });

  test.each(['?company_id=nonsense', '', `?company_id=${randomUUID()}&environment=both`])(
    'rejects an address with “%s”',
    async (query) => {
      expect((await postReport(text(), url.replace(/\?.*/, query))).status).toBe(404);
    },
  );

  test('rejects bodies beyond the limit', async () => {
    const { status, text: body } = await postReport(text({ Body: 'x'.repeat(110_000) }));
    expect([status, JSON.parse(body).error.details]).toEqual([400, { reason: 'body_too_large' }]);
  });

  test('rejects every request on a server without a connected account', async () => {
    const to = url.replace(server.url, inject('baseUrl'));
    expect((await postReport(text(), to)).status).toBe(404);
  });

  test('rejects a request that is not a form', async () => {
    const headers = { 'x-twilio-signature': computeTwilioSignature(token, url, new Map()) };
    expect((await fetch(url, { headers })).status).toBe(404);
  });

  test('rejects an unknown provider', async () => {
    expect((await postReport(text(), url.replace('/twilio', '/carrier-pigeon'))).status).toBe(404);
  });
});

test.each([
  'twilio://api.twilio.com',
  'twilio://SID@api.twilio.com',
  'https://SID:secret-token@api.twilio.com',
  'twilio://SID:secret-token@api.twilio.com/v1',
  'twilio://SID:secret-token@api.twilio.com?insecure=2',
])('a server does not start with MESSAGING_URL=%s, and does not repeat it', async (MESSAGING_URL) => {
  const started = startServer({ ...besideCommon(), MESSAGING_URL });
  await expect(started).rejects.toThrow(/MESSAGING_URL must be/);
  await expect(started).rejects.not.toThrow(/secret-token/);
});
