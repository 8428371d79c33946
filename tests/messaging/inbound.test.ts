// Inbound reports: signed, stored once, linked to their sender, with events and opt-outs.
import { randomUUID } from 'node:crypto';
import { beforeAll, describe, expect, inject, test } from 'vitest';
import { type Answer, anyAddress, call, expectStatus, type Json } from '../support/client.ts';
import { recordedEvents } from '../support/events.ts';
import { changesAfter, now } from '../support/feeds.ts';
import { inboundSecret, signBody } from '../support/inbound.ts';
import { listChildren } from '../support/record-children.ts';
import { createRecord } from '../support/records.ts';
import { newWideTenant } from '../support/requests.ts';
import { database, newTenant, newUser, type Tenant } from '../support/tenants.ts';

const path = '/v1/inbound/generic';
const seconds = (): number => Math.floor(Date.now() / 1000);

let tenant: Tenant;
let secret: string;

beforeAll(async () => {
  tenant = await newWideTenant();
  secret = await inboundSecret(tenant, 'live');
});

/** Returns a text from an unused number. */
function sms(more: object = {}): Record<string, unknown> {
  return { type: 'sms', external_id: randomUUID(), from: newNumber(), to: '+97145550100', body: 'Hello', ...more };
}

let numbers = 0;
/** Returns an unused mobile number. */
function newNumber(): string {
  numbers += 1;
  return `+97150${String(1_000_000 + numbers)}`;
}

function report(body: object, of: Tenant = tenant, mode: 'live' | 'test' = 'live'): Promise<Answer> {
  return inboundSecret(of, mode).then((signedWith) =>
    call('POST', path, { body, signedWith, query: { company_id: of.companyId, environment: mode } }),
  );
}

async function receive(body: object, of: Tenant = tenant, mode: 'live' | 'test' = 'live'): Promise<Json> {
  const answer = await report(body, of, mode);
  expect({ status: answer.status, text: answer.text }).toMatchObject({ status: 200 });
  return answer.body.data;
}

/** Returns the events of a report. */
async function listEvents(id: string): Promise<Json[]> {
  const sql = database();
  return sql`
    select event, actor, test_mode, data from ${recordedEvents(sql)}
    where ${id} in (data ->> 'message_id', data ->> 'fax_id', data ->> 'call_id', data ->> 'submission_id') and event <> 'message.email.engagement'`;
}

async function countReports({ companyId }: Tenant): Promise<number> {
  const [row] = await database()<{ count: number }[]>`
    select count(*)::int as count from received_reports where company_id = ${companyId}`;
  return row?.count ?? -1;
}

describe('a signature', () => {
  const send = (header: string | undefined, body: object, query: Record<string, string> = {}) =>
    call('POST', path, {
      rawBody: JSON.stringify(body),
      headers: header === undefined ? {} : { 'service-signature': header },
      query: { company_id: tenant.companyId, ...query },
    });

  test('verifies a signature over the time and the exact bytes of the body', async () => {
    const body = sms({ body: 'Grüße 👋' });
    expect((await send(signBody(secret, JSON.stringify(body)), body)).status).toBe(200);
  });

  test('rejects a wrong signature and stores nothing', async () => {
    const body = sms();
    const text = JSON.stringify(body);
    const good = signBody(secret, text);
    const before = await countReports(tenant);
    const other = await newTenant();
    const headers = {
      'another secret': signBody(await inboundSecret(other, 'live'), text),
      'the secret of the other mode': signBody(await inboundSecret(tenant, 'test'), text),
      'another body': signBody(secret, `${text} `),
      'another time': good.replace(/t=(\d+)/, (_, time) => `t=${Number(time) - 1}`),
      'no time': good.replace(/t=\d+,/, ''),
      'a time that is none': good.replace(/t=\d+/, 't=soon'),
      'no digest': good.replace(/,v1=.*/, ''),
      'half a digest': good.slice(0, -32),
      nonsense: 'nonsense',
      nothing: '',
    };
    for (const [what, header] of Object.entries(headers)) {
      const { status, body: answer } = await send(header, body);
      expect({ what, status, code: answer.error.code, details: answer.error.details }).toEqual({
        what,
        status: 401,
        code: 'AUTH_INVALID_KEY',
        details: { reason: 'invalid_signature' },
      });
    }
    expect(await countReports(tenant)).toBe(before);
  });

  test.each([-301, 310, -86_400])('rejects a signature made %i seconds from now', async (away) => {
    const body = sms();
    const { status, body: answer } = await send(signBody(secret, JSON.stringify(body), seconds() + away), body);
    expect([status, answer.error.code, answer.error.details]).toEqual([
      401,
      'AUTH_INVALID_KEY',
      { reason: 'signature_expired' },
    ]);
  });

  test.each([-290, 290])('accepts a signature made %i seconds from now', async (away) => {
    const body = sms();
    expect((await send(signBody(secret, JSON.stringify(body), seconds() + away), body)).status).toBe(200);
  });

  test('accepts one of several signatures of a provider with two secrets', async () => {
    const body = sms();
    const good = signBody(secret, JSON.stringify(body));
    expect((await send(`${good.replace(/v1=.*/, `v1=${'0'.repeat(64)}`)},${good.split(',')[1]}`, body)).status).toBe(
      200,
    );
  });

  test('responds alike for an unknown workspace and one without a secret', async () => {
    const body = sms();
    const header = signBody(secret, JSON.stringify(body));
    const silent = await newTenant();
    const answers = await Promise.all(
      [randomUUID(), silent.companyId, 'nonsense', ''].map((company_id) => send(header, body, { company_id })),
    );
    for (const { status, body: answer } of answers)
      expect([status, answer.error.code, answer.error.details]).toEqual([
        401,
        'AUTH_INVALID_KEY',
        { reason: 'invalid_signature' },
      ]);
  });

  test('checks the signature first, and accepts no key instead', async () => {
    const missing = await call('POST', path, { rawBody: '{' });
    expect([missing.status, missing.body.error.code]).toEqual([401, 'MISSING_API_KEY']);
    const unsigned = await send(`t=${seconds()},v1=${'0'.repeat(64)}`, { type: 'nonsense' });
    expect(unsigned.status).toBe(401);
    const keyed = await call('POST', path, { key: tenant.key, body: sms(), query: { company_id: tenant.companyId } });
    expect([keyed.status, keyed.body.error.details.reason]).toEqual([403, 'signature_required']);
  });

  test('blocks an address after too many wrong signatures', async () => {
    const ip = anyAddress();
    const headers = { 'service-signature': `t=${seconds()},v1=${'0'.repeat(64)}` };
    const statuses: number[] = [];
    for (let tries = 0; tries < 32; tries += 1)
      statuses.push(
        (await call('POST', path, { ip, headers, body: sms(), query: { company_id: tenant.companyId } })).status,
      );
    expect([statuses[0], statuses.at(-1)]).toEqual([401, 429]);
  });
});

describe('the secret', () => {
  test('shows a new secret once, and keeps the old one valid for the requested time', async () => {
    const of = await newTenant();
    const rotate = async (body?: object): Promise<Json> =>
      (
        await expectStatus(200, 'POST', '/v1/settings/inbound/rotate-secret', {
          key: of.key,
          ...(body ? { body } : {}),
        })
      ).body.data;
    const statuses = (secrets: string[]) =>
      Promise.all(
        secrets.map(
          async (signedWith) =>
            (await call('POST', path, { body: sms(), signedWith, query: { company_id: of.companyId } })).status,
        ),
      );
    const [first, second] = [await rotate(), await rotate()];
    expect(first.inbound.previous_secret_expires_at).toBeNull();
    expect(second.inbound.secret_last4).toBe(second.secret.slice(-4));
    expect(Date.parse(second.inbound.previous_secret_expires_at) - Date.parse(second.inbound.created_at)).toBe(
      86_400_000,
    );
    expect(await statuses([first.secret, second.secret])).toEqual([200, 200]);
    await database()`
      update inbound_secrets set previous_secret_expires_at = now() - interval '1 second' where company_id = ${of.companyId}`;
    expect(await statuses([first.secret, second.secret])).toEqual([401, 200]);
    const third = await rotate({ overlap_hours: 0 });
    expect(await statuses([second.secret, third.secret])).toEqual([401, 200]);
    const { body } = await expectStatus(200, 'GET', '/v1/settings/inbound', { key: of.testKey });
    expect(body.data.inbound).toEqual({
      live: {
        secret_last4: third.secret.slice(-4),
        created_at: third.inbound.created_at,
        previous_secret_expires_at: null,
        urls: {
          generic: `${inject('baseUrl')}${path}?company_id=${of.companyId}&environment=live`,
          twilio: null,
        },
      },
      test: {
        secret_last4: null,
        created_at: null,
        previous_secret_expires_at: null,
        urls: { generic: `${inject('baseUrl')}${path}?company_id=${of.companyId}&environment=test`, twilio: null },
      },
    });
    expect(JSON.stringify(body)).not.toContain(third.secret);
    const [stored] = await database()`select * from inbound_secrets where company_id = ${of.companyId}`;
    expect(JSON.stringify(stored)).not.toContain(third.secret);
  });

  test('creates only test data with a secret of test mode', async () => {
    const body = sms();
    const from = body.from as string;
    const live = await createRecord(tenant.key, 'leads', { first_name: 'A', mobile: from });
    const tried = await createRecord(tenant.testKey, 'leads', { first_name: 'A', mobile: from });
    const { id, record_id } = await receive(body, tenant, 'test');
    expect(record_id).toBe(tried.id);
    expect(await listEvents(id)).toMatchObject([{ test_mode: true }]);
    expect((await listChildren(tenant.key, 'leads', live.id, 'messages')).messages).toEqual([]);
    expect((await listChildren(tenant.testKey, 'leads', tried.id, 'messages')).messages).toMatchObject([{ id }]);
    // Report ids are separate per mode.
    expect((await receive(body)).record_id).toBe(live.id);
  });
});

describe('a report', () => {
  test('returns the first response for a repeated report, and stores and applies it once', async () => {
    const body = sms({ body: 'STOP' });
    const first = await receive(body);
    const before = await countReports(tenant);
    await createRecord(tenant.key, 'leads', { first_name: 'Late', mobile: body.from });
    const answers = await Promise.all(Array.from({ length: 5 }, () => receive({ ...body, body: 'Something else' })));
    expect(answers).toEqual(Array(5).fill(first));
    expect(await countReports(tenant)).toBe(before);
    expect(await listEvents(first.id)).toHaveLength(1);
    const kept = await database()`select body, record_id from messages where id = ${first.id}`;
    expect(kept).toEqual([{ body: 'STOP', record_id: null }]);
  });

  test('stores a report once if it arrives several times concurrently', async () => {
    const body = sms();
    const answers = await Promise.all(Array.from({ length: 8 }, () => receive(body)));
    expect(new Set(answers.map(({ id }) => id)).size).toBe(1);
    expect(await listEvents(answers[0].id)).toHaveLength(1);
  });

  test('treats the same report id in another workspace as another report', async () => {
    const body = sms();
    const other = await newTenant();
    const [mine, theirs] = [await receive(body), await receive(body, other)];
    expect(mine.id).not.toBe(theirs.id);
  });

  test('emits a report in the feed of its record, with the system as the actor', async () => {
    const lead = await createRecord(tenant.key, 'leads', { first_name: 'A', mobile: newNumber() });
    const cursor = await now(tenant.key);
    const { id } = await receive(sms({ from: lead.mobile, occurred_at: '2026-01-02T03:04:05.000Z' }));
    expect(await changesAfter(tenant.key, cursor)).toMatchObject([
      {
        event: 'message.sms.received',
        object: 'leads',
        record_id: lead.id,
        actor: { kind: 'system', id: 'inbound', name: null },
      },
    ]);
    expect((await listEvents(id))[0].data).toEqual({
      message_id: id,
      channel: 'sms',
      from: lead.mobile,
      to: '+97145550100',
      preview: 'Hello',
      object: 'leads',
      record_id: lead.id,
      timestamp: '2026-01-02T03:04:05.000Z',
      occurred_at: expect.stringMatching(/Z$/),
    });
  });

  test('treats a report from the future as happening now', async () => {
    const { id } = await receive(sms({ occurred_at: '2999-01-01T00:00:00.000Z' }));
    const [row] = await database()`select occurred_at <= now() as past from messages where id = ${id}`;
    expect(row).toEqual({ past: true });
  });

  test('writes an audit row without the content of the report', async () => {
    const { id } = await receive(sms({ body: 'My secret' }));
    const rows =
      await database()`select actor_kind, actor_id, action, metadata, changes from audit_logs where record_id = ${id}`;
    expect(rows).toEqual([
      {
        actor_kind: 'system',
        actor_id: 'inbound',
        action: 'report.receive',
        changes: null,
        metadata: { type: 'sms', provider: 'generic' },
      },
    ]);
  });

  test.each([
    ['sms', ['from', 'to', 'body']],
    ['whatsapp', ['from', 'to', 'body']],
    ['email', ['from', 'to', 'body']],
    ['email_engagement', ['to', 'engagement']],
    ['fax', ['from', 'to', 'pages']],
    ['call', ['from', 'to', 'direction', 'outcome', 'duration_seconds']],
    ['form', ['form']],
  ])('rejects a report of type %s without %s', async (type, needed) => {
    const { status, body } = await report({ type, external_id: randomUUID() });
    expect(status).toBe(400);
    expect(body.error.details.fields).toEqual(
      needed.map((field) => ({ field, code: 'REQUIRED', message: `${field} is required if type is ${type}.` })),
    );
  });

  test('rejects fields of another report type by name', async () => {
    const { status, body } = await report(sms({ pages: 3, subject: 'Hello' }));
    expect([status, body.error.details.fields]).toEqual([
      400,
      [
        { field: 'subject', code: 'CONFLICTING_FIELDS', message: 'subject is only allowed if type is email.' },
        { field: 'pages', code: 'CONFLICTING_FIELDS', message: 'pages is only allowed if type is fax.' },
      ],
    ]);
  });

  test('rejects invalid addresses in a report', async () => {
    const email = { type: 'email', external_id: randomUUID(), from: 'Sara', to: 'sales@example.com', body: 'x' };
    const { status, body } = await report(email);
    expect([status, body.error.details.fields]).toMatchObject([400, [{ field: 'from', code: 'INVALID_FORMAT' }]]);
  });

  test('accepts reports up to the documented lengths', async () => {
    const { id } = await receive(sms({ body: '😀'.repeat(20_000) }));
    expect((await listEvents(id))[0].data.preview).toBe('😀'.repeat(500));
    expect((await report(sms({ body: 'x'.repeat(50_001) }))).body.error.details.fields).toMatchObject([
      { field: 'body', code: 'TOO_LONG' },
    ]);
    const large = await report(sms({ body: 'x'.repeat(110_000) }));
    expect([large.status, large.body.error.details]).toEqual([400, { reason: 'body_too_large' }]);
    const answers = Object.fromEntries(Array.from({ length: 101 }, (_, index) => [`q${index}`, 'x']));
    const form = { type: 'form', external_id: randomUUID(), form: { id: 'f', name: 'F' }, answers };
    expect((await report(form)).status).toBe(400);
  });

  test('stores a withheld or short number unchanged and unlinked', async () => {
    for (const from of ['72345', 'Amazon', 'anonymous', '+1']) {
      const { id, record_id } = await receive(sms({ from, body: 'STOP' }));
      const [row] = await database()`select sender, object from messages where id = ${id}`;
      expect([record_id, row]).toEqual([null, { sender: from, object: null }]);
    }
  });
});

describe('linking', () => {
  test('links a report to the most recently changed lead with the number, before any customer', async () => {
    const mobile = newNumber();
    await createRecord(tenant.key, 'customers', { first_name: 'C', mobile });
    const older = await createRecord(tenant.key, 'leads', { first_name: 'A', mobile });
    const newer = await createRecord(tenant.key, 'leads', { first_name: 'B', mobile });
    expect(await receive(sms({ from: mobile }))).toMatchObject({ object: 'leads', record_id: newer.id });
    const changed = { key: tenant.key, body: { first_name: 'A2' } };
    await expectStatus(200, 'PATCH', `/v1/objects/leads/records/${older.id}`, changed);
    expect(await receive(sms({ from: mobile }))).toMatchObject({ object: 'leads', record_id: older.id });
  });

  test.each(['mobile', 'phone'])('links a report to the customer with this %s if no lead has it', async (field) => {
    const number = newNumber();
    const { id } = await createRecord(tenant.key, 'customers', { first_name: 'C', [field]: number });
    expect(await receive(sms({ from: number }))).toMatchObject({ object: 'customers', record_id: id });
  });

  test('links a report by the whole number or address, in any notation', async () => {
    const german = await newTenant();
    await database()`update companies set country = 'DE', config_version = config_version + 1 where id = ${german.companyId}`;
    const lead = await createRecord(german.key, 'leads', {
      first_name: 'A',
      mobile: '+4915112345678',
      email: 'sara@x.example',
    });
    for (const from of ['+4915112345678', '+49 151 1234 5678', '0151 12345678'])
      expect((await receive(sms({ from }), german)).record_id).toBe(lead.id);
    expect((await receive(sms({ from: '+49151123456789' }), german)).record_id).toBeNull();
    const email = (from: string) => ({ type: 'email', external_id: randomUUID(), from, to: 's@x.example', body: 'x' });
    expect((await receive(email('Sara@X.example'), german)).record_id).toBe(lead.id);
    expect((await receive(email('xsara@x.example'), german)).record_id).toBeNull();
  });

  test('links a report to no record of another workspace', async () => {
    const other = await newTenant();
    const lead = await createRecord(other.key, 'leads', { first_name: 'A', mobile: newNumber() });
    expect(await receive(sms({ from: lead.mobile }))).toMatchObject({ object: null, record_id: null });
  });

  test('shows inbound messages in the timeline of their record, newest first', async () => {
    const lead = await createRecord(tenant.key, 'leads', {
      first_name: 'A',
      mobile: newNumber(),
      email: `${randomUUID()}@x.example`,
    });
    const text = await receive(sms({ from: lead.mobile, occurred_at: '2026-01-01T00:00:00.000Z' }));
    const whatsapp = await receive(
      sms({ type: 'whatsapp', from: lead.mobile, occurred_at: '2026-01-03T00:00:00.000Z' }),
    );
    const email = await receive({
      type: 'email',
      external_id: randomUUID(),
      from: lead.email,
      to: 'sales@x.example',
      subject: 'Re: You',
      body: 'Yes',
      has_attachments: true,
      occurred_at: '2026-01-02T00:00:00.000Z',
    });
    const { messages } = await listChildren(tenant.key, 'leads', lead.id, 'messages');
    expect(messages.map((each: Json) => [each.id, each.channel])).toEqual([
      [whatsapp.id, 'whatsapp'],
      [email.id, 'email'],
      [text.id, 'sms'],
    ]);
    expect(messages[1]).toEqual({
      id: email.id,
      channel: 'email',
      direction: 'inbound',
      source: null,
      from: lead.email,
      to: 'sales@x.example',
      subject: 'Re: You',
      preview: 'Yes',
      status: 'received',
      record_id: lead.id,
      campaign_id: null,
      draft_id: null,
      occurred_at: '2026-01-02T00:00:00.000Z',
    });
    expect((await listEvents(whatsapp.id))[0]).toMatchObject({
      event: 'message.sms.received',
      data: { channel: 'whatsapp' },
    });
    expect((await listEvents(email.id))[0]).toMatchObject({
      event: 'message.email.received',
      data: { to: ['sales@x.example'], subject: 'Re: You', preview: 'Yes', has_attachments: true },
    });
  });

  test('deletes inbound messages with their record', async () => {
    const lead = await createRecord(tenant.key, 'leads', { first_name: 'A', mobile: newNumber() });
    const text = await receive(sms({ from: lead.mobile }));
    const call = await receive(aCall({ from: lead.mobile }));
    await expectStatus(200, 'DELETE', `/v1/objects/leads/records/${lead.id}`, { key: tenant.key });
    const left = await database()`
      select id from received_reports where id in (${text.id}, ${call.id}) union all select id from messages where id = ${text.id}`;
    expect(left).toEqual([]);
  });
});

function aCall(more: object = {}): Record<string, unknown> {
  return {
    type: 'call',
    external_id: randomUUID(),
    from: newNumber(),
    to: '+97145550100',
    direction: 'inbound',
    outcome: 'answered',
    duration_seconds: 61,
    ...more,
  };
}

describe('calls, faxes and forms', () => {
  test('emits a call with its outcome, linked by the external number', async () => {
    const lead = await createRecord(tenant.key, 'leads', { first_name: 'A', mobile: newNumber() });
    const user = await newUser(tenant);
    const inbound = await receive(aCall({ from: lead.mobile, user_id: user.id }));
    const outbound = await receive(
      aCall({ direction: 'outbound', from: '+97145550100', to: lead.mobile, outcome: 'busy' }),
    );
    expect([inbound.record_id, outbound.record_id]).toEqual([lead.id, lead.id]);
    expect((await listEvents(inbound.id))[0]).toMatchObject({
      event: 'call.completed',
      data: { direction: 'inbound', outcome: 'answered', duration_seconds: 61, user_id: user.id, record_id: lead.id },
    });
    const left = await newUser(tenant, { status: 'inactive' });
    const other = await newUser(await newTenant());
    for (const user_id of [left.id, other.id, randomUUID()]) {
      const { id } = await receive(aCall({ user_id }));
      expect((await listEvents(id))[0].data).not.toHaveProperty('user_id');
    }
  });

  test('emits a fax with its pages', async () => {
    const { id } = await receive({
      type: 'fax',
      external_id: randomUUID(),
      from: '+97143330100',
      to: '+97145550100',
      pages: 3,
    });
    expect((await listEvents(id))[0]).toMatchObject({
      event: 'fax.received',
      data: { pages: 3, from: '+97143330100' },
    });
  });

  test('links a form by its address or else its number, and creates no record', async () => {
    const mobile = newNumber();
    const email = `${randomUUID()}@x.example`;
    const [byMobile, byEmail] = [
      await createRecord(tenant.key, 'leads', { first_name: 'M', mobile }),
      await createRecord(tenant.key, 'leads', { first_name: 'E', email }),
    ];
    const submission = (more: object) => ({
      type: 'form',
      external_id: randomUUID(),
      form: { id: 'contact', name: 'Contact us' },
      ...more,
    });
    const records = async () => database()`select id from leads where company_id = ${tenant.companyId}`;
    const before = (await records()).length;
    const submit = async (more: object) => (await receive(submission(more))).record_id;
    expect(await submit({ email, phone: mobile })).toBe(byEmail.id);
    expect(await submit({ email: `${randomUUID()}@x.example`, phone: mobile })).toBe(byMobile.id);
    expect(await submit({})).toBeNull();
    expect((await records()).length).toBe(before);
    const { id } = await receive(submission({ email, answers: { wish: 'Red' } }));
    const [recorded] = await listEvents(id);
    expect(recorded).toMatchObject({ event: 'form.submitted', data: { form: { id: 'contact', name: 'Contact us' } } });
    expect(JSON.stringify(recorded)).not.toContain('Red');
    const [kept] = await database()`select details from received_reports where id = ${id}`;
    expect(kept?.details).toMatchObject({ answers: { wish: 'Red' } });
  });
});

describe('engagement with a sent email', () => {
  const engaged = (more: object) => ({
    type: 'email_engagement',
    external_id: randomUUID(),
    to: `${randomUUID()}@x.example`,
    engagement: 'open',
    ...more,
  });
  const listReports = (recipient: string): Promise<Json[]> =>
    database()`select event, data from ${recordedEvents(database())} where data ->> 'recipient' = ${recipient}` as never;

  test('emits an engagement with the opened message and its record', async () => {
    const lead = await createRecord(tenant.key, 'leads', { first_name: 'A', email: `${randomUUID()}@x.example` });
    const sent = await receive({
      type: 'email',
      external_id: randomUUID(),
      from: lead.email,
      to: 'sales@x.example',
      body: 'x',
    });
    const to = `${randomUUID()}@x.example`;
    const link_url = 'https://bluelake.example/offer';
    const click = await receive(engaged({ to, engagement: 'click', link_url, message_id: sent.id }));
    expect(click.record_id).toBe(lead.id);
    expect(await listReports(to)).toMatchObject([
      {
        event: 'message.email.engagement',
        data: { message_id: sent.id, engagement: 'click', link_url, recipient: to, record_id: lead.id },
      },
    ]);
    expect((await receive(engaged({ to: lead.email, message_id: randomUUID() }))).record_id).toBe(lead.id);
    expect((await listReports(lead.email))[0].data).not.toHaveProperty('message_id');
    const { body } = await report(engaged({ link_url }));
    expect(body.error.details.fields).toMatchObject([{ field: 'link_url', code: 'CONFLICTING_FIELDS' }]);
  });

  test.each(['bounced', 'complained'])(
    'suppresses the address of an email that %s, without an event',
    async (engagement) => {
      const to = `${randomUUID()}@X.example`;
      await receive(engaged({ to, engagement }));
      expect(await suppressed(to)).toEqual([{ reason: engagement, source: 'provider' }]);
      expect(await listReports(to.toLowerCase())).toEqual([]);
    },
  );
});

const suppressed = (email: string) => database()`
  select reason, source from email_suppressions where company_id = ${tenant.companyId} and email = ${email.toLowerCase()}`;

describe('an opt-out', () => {
  const listed = (number: unknown) => database()`
    select reason, source, created_by_kind, created_by_id, test_mode from do_not_call
    where company_id = ${tenant.companyId} and phone_number = ${String(number)}`;

  test.each(['STOP', 'stop', ' Stop\n', 'STOPALL', 'Unsubscribe', 'CANCEL', 'end', 'QUIT'])(
    'adds the sender of “%s” to the do-not-call list',
    async (body) => {
      const text = sms({ body, type: body === 'end' ? 'whatsapp' : 'sms' });
      await receive(text);
      expect(await listed(text.from)).toEqual([
        {
          reason: body.trim().toUpperCase(),
          source: 'opt_out',
          test_mode: false,
          created_by_kind: 'system',
          created_by_id: 'inbound',
        },
      ]);
      const { body: answer } = await expectStatus(200, 'GET', '/v1/dnc-list', {
        key: tenant.key,
        query: { search: String(text.from) },
      });
      expect(answer.data.entries).toMatchObject([{ source: 'opt_out' }]);
    },
  );

  test.each(['Please stop', 'STOP it', 'stopp', 'START', 'UNSTOP', ''])(
    'does not treat “%s” as an opt-out',
    async (body) => {
      const text = sms({ body });
      await receive(text);
      expect(await listed(text.from)).toEqual([]);
    },
  );

  test('keeps an opt-out, regardless of later messages', async () => {
    const text = sms({ body: 'STOP' });
    await receive(text);
    const before = await listed(text.from);
    for (const body of ['START', 'UNSTOP', 'STOP']) await receive(sms({ from: text.from, body }));
    expect(await listed(text.from)).toEqual(before);
  });

  test.each([
    ['the subject', { subject: 'Unsubscribe', body: 'Sent from my phone' }, true],
    ['the body', { subject: 'Re: Offer', body: ' STOP ' }, true],
    ['other words', { subject: 'Please stop', body: 'Stop this' }, false],
  ])('reads opt-outs in emails only from stop words: %s', async (_, said, isStop) => {
    const from = `${randomUUID()}@x.example`;
    await receive({ type: 'email', external_id: randomUUID(), from, to: 'sales@x.example', ...said });
    expect(await suppressed(from)).toEqual(isStop ? [{ reason: 'unsubscribed', source: 'opt_out' }] : []);
  });

  test('warns about drafts to a person who opted out', async () => {
    const text = sms({ body: 'STOP' });
    await receive(text);
    const { body } = await expectStatus(201, 'POST', '/v1/messages/drafts', {
      key: tenant.key,
      body: { channel: 'sms', to: text.from, body: 'Hello' },
    });
    expect(body.data.draft.warnings).toMatchObject([{ code: 'on_dnc_list' }]);
  });
});

test('accepts reports without a subscription and without counting them', async () => {
  const unpaid = await newTenant();
  await database()`update subscriptions set status = 'canceled', ended_at = now() where company_id = ${unpaid.companyId}`;
  await receive(sms(), unpaid);
});

test('deletes inbound test data when test mode is emptied, and keeps live data', async () => {
  const of = await newTenant();
  for (const mode of ['live', 'test'] as const) {
    const lead = await createRecord(mode === 'live' ? of.key : of.testKey, 'leads', {
      first_name: 'A',
      mobile: newNumber(),
    });
    await receive(sms({ from: lead.mobile }), of, mode);
    await receive(sms(), of, mode);
    await receive(aCall(), of, mode);
  }
  await expectStatus(200, 'POST', '/v1/test-mode/reset', { key: of.testKey });
  const left = await database()`
    select test_mode, count(*)::int as count from received_reports where company_id = ${of.companyId} group by 1
    union all
    select test_mode, count(*)::int from messages where company_id = ${of.companyId} group by 1`;
  expect(left).toEqual([
    { test_mode: false, count: 3 },
    { test_mode: false, count: 2 },
  ]);
});
