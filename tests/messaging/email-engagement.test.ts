// Opens and clicks of sent emails: recorded once, with events and figures, from any source.
import { randomBytes, randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { Pool } from '../../db/client/pool.ts';
import { renderHtml } from '../../integrations/smtp/html-part.ts';
import { Secrets } from '../../runtime/credentials/secrets.ts';
import { SignedTokens } from '../../runtime/credentials/signed-tokens.ts';
import { approveDraft, findDraftsToApprove } from '../../services/messaging/draft-approvals.ts';
import { buildClickPath, createEngagementRoutes, openPath } from '../../web/recipients/engagement.ts';
import { openPeople } from '../support/approvals.ts';
import { expectStatus, type Json, useServer } from '../support/client.ts';
import { dropDatabase, newDatabase } from '../support/databases.ts';
import { recordedEvents } from '../support/events.ts';
import { brief, changesAfter, now } from '../support/feeds.ts';
import { inboundSecret } from '../support/inbound.ts';
import { newCampaign, newDraft } from '../support/messaging.ts';
import { listChildren } from '../support/record-children.ts';
import { createRecord } from '../support/records.ts';
import { newWideTenant } from '../support/requests.ts';
import { frequentJobs, startServer, type TestServer } from '../support/servers.ts';
import { testSettings } from '../support/setup.ts';
import { startSmtp, type TestSmtp } from '../support/smtp.ts';
import { database, type Tenant, useDatabase } from '../support/tenants.ts';

const secretKey = '5e'.repeat(32);
const tokens = new SignedTokens(new Secrets(secretKey));
const patience = { timeout: 60_000, interval: 50 };

// A separate database, because other servers would process these emails without a provider.
let databaseUrl: string;
let smtp: TestSmtp;
let server: TestServer;
let people: ReturnType<typeof openPeople>;
let tenant: Tenant;

beforeAll(async () => {
  databaseUrl = await newDatabase();
  await useDatabase(databaseUrl);
  smtp = await startSmtp();
  const own = { DATABASE_URL: databaseUrl, SMTP_URL: `smtp://127.0.0.1:${smtp.port}` };
  server = await startServer({ ...testSettings, ...frequentJobs(100), SECRET_KEY: secretKey, ...own });
  useServer(server.url);
  people = openPeople(databaseUrl);
  tenant = await newWideTenant();
  await noteEngagement(tenant, true);
});

afterAll(async () => {
  await people?.close();
  await server?.stop();
  await smtp?.stop();
  await useDatabase(undefined);
  useServer(undefined);
  await dropDatabase(databaseUrl);
});

const setting = '/v1/settings/email-engagement';
const noteEngagement = ({ key }: Tenant, enabled: boolean): Promise<unknown> =>
  expectStatus(200, 'PATCH', setting, { key, body: { enabled } });

interface Options {
  body?: string;
  /** The campaign that the email claims to belong to. */
  campaignId?: string;
  of?: Tenant;
  testMode?: boolean;
  /** True if it refers to no record. */
  isAboutNothing?: boolean;
}

/** Returns an email to a lead that a person approved. */
async function sent(options: Options = {}): Promise<{ draft: Json; lead: Json; raw: string }> {
  const { body = 'Hello Sara', campaignId, of = tenant, testMode = false } = options;
  const key = testMode ? of.testKey : of.key;
  const email = `${randomUUID()}@bluelake.example`;
  const lead = await createRecord(key, 'leads', { first_name: 'Sara', email });
  const about = options.isAboutNothing ? {} : { object: 'leads', record_id: lead.id };
  const made = await newDraft(key, { channel: 'email', to: email, subject: 'Your quote', body, ...about });
  if (campaignId) await database()`update message_drafts set campaign_id = ${campaignId} where id = ${made.id}`;
  await people.decide(
    of,
    async (call) => {
      const found = (await findDraftsToApprove(call, undefined, 50)).find(({ draft }) => draft.id === made.id);
      await approveDraft(call, made.id, found?.draft.hash ?? '');
    },
    { testMode },
  );
  const read = async (): Promise<Json> =>
    (await expectStatus(200, 'GET', `/v1/messages/drafts/${made.id}`, { key })).body.data.draft;
  await expect.poll(read, patience).toMatchObject({ status: 'sent' });
  const raw = smtp.received.find(({ recipients }) => recipients.includes(email))?.raw ?? '';
  return { draft: await read(), lead, raw };
}

/** Returns the decoded parts of an email by type. */
function decodeParts(raw: string): Record<string, string> {
  const boundary = /boundary="(.+)"/.exec(raw)?.[1];
  const parts = boundary === undefined ? [raw] : raw.split(`--${boundary}`).slice(1, -1);
  return Object.fromEntries(
    parts.map((part) => {
      const [head = '', ...rest] = part.split('\r\n\r\n');
      const written = rest.join('\r\n\r\n').replace(/\r\n$/, '');
      const coding = /^Content-Transfer-Encoding: (\S+)/m.exec(head)?.[1];
      const bytes =
        coding === 'base64'
          ? Buffer.from(written, 'base64')
          : Buffer.from(
              coding === 'quoted-printable'
                ? written
                    .replace(/=\r\n/g, '')
                    .replace(/=([0-9A-F]{2})/g, (_, code) => String.fromCharCode(Number.parseInt(code, 16)))
                : written,
              'latin1',
            );
      return [/^Content-Type: ([\w/]+)/m.exec(head)?.[1] ?? '', bytes.toString('utf8')];
    }),
  );
}

const htmlIn = (raw: string): string => decodeParts(raw)['text/html'] ?? '';
const pictureIn = (raw: string): string => /<img src="([^"]+)"/.exec(htmlIn(raw))?.[1] ?? '';
const linksIn = (raw: string): string[] =>
  [...htmlIn(raw).matchAll(/<a href="([^"]+)"/g)].map(([, href = '']) => href.replaceAll('&amp;', '&'));
const visit = (url: string, method = 'GET'): Promise<Response> => fetch(url, { method, redirect: 'manual' });

/** Returns the only message in the timeline of a lead. */
async function readMessage(lead: Json): Promise<Json> {
  const { messages } = await listChildren(tenant.key, 'leads', lead.id, 'messages');
  expect(messages).toHaveLength(1);
  return messages[0];
}

const listEvents = (draft: Json): Promise<Json[]> =>
  database()`
    select data, actor, test_mode from ${recordedEvents(database())}
    where event = 'message.email.engagement' and data ->> 'message_id' = ${draft.id}
    order by occurred_at, id` as never;

async function readFigures(campaign: Json): Promise<Json> {
  const { body } = await expectStatus(200, 'GET', `/v1/campaigns/${campaign.id}`, { key: tenant.key });
  return body.data.stats[0].by_status;
}

describe('a provider report', () => {
  async function report(more: object): Promise<void> {
    const body = { type: 'email_engagement', external_id: randomUUID(), to: 'sara@bluelake.example', ...more };
    const signedWith = await inboundSecret(tenant, 'live');
    const query = { company_id: tenant.companyId };
    await expectStatus(200, 'POST', '/v1/inbound/generic', { body, signedWith, query });
  }

  test('shows a reported engagement in the timeline and in the campaign figures, once per email', async () => {
    const campaign = await newCampaign(tenant.key);
    const [first, second] = [await sent({ campaignId: campaign.id }), await sent({ campaignId: campaign.id })];
    expect(await readFigures(campaign)).toMatchObject({ sent: 2, opened: 0, clicked: 0 });
    await report({ engagement: 'open', message_id: first.draft.id });
    await report({ engagement: 'click', message_id: second.draft.id });
    expect(await readMessage(first.lead)).toMatchObject({ id: first.draft.id, status: 'opened' });
    // A click implies an open, and a later open does not reset it.
    for (const _ of [1, 2]) await report({ engagement: 'open', message_id: second.draft.id });
    expect((await readMessage(second.lead)).status).toBe('clicked');
    expect(await readFigures(campaign)).toMatchObject({ sent: 2, opened: 2, clicked: 1 });
    expect((await listEvents(first.draft))[0]?.data).toMatchObject({
      campaign_id: campaign.id,
      record_id: first.lead.id,
    });
  });

  test('ignores engagement reports about received emails', async () => {
    const lead = await createRecord(tenant.key, 'leads', { first_name: 'A', email: `${randomUUID()}@x.example` });
    await report({
      type: 'email',
      from: lead.email,
      to: 'sales@x.example',
      body: 'Hello',
    });
    const { id } = await readMessage(lead);
    await report({ engagement: 'open', message_id: id });
    expect((await readMessage(lead)).status).toBe('received');
  });
});

describe('the tracking setting', () => {
  test('tracks only if the setting is enabled, and audits its changes', async () => {
    const other = await newWideTenant();
    const read = async () => (await expectStatus(200, 'GET', setting, { key: other.testKey })).body.data;
    expect(await read()).toEqual({ email_engagement: { enabled: false } });
    const plain = await sent({ of: other, body: 'See https://bluelake.example/offer' });
    expect(Object.keys(decodeParts(plain.raw))).toEqual(['text/plain']);
    expect(plain.raw).not.toMatch(/opened|clicked/);
    await noteEngagement(other, true);
    expect(await read()).toEqual({ email_engagement: { enabled: true } });
    expect(Object.keys(decodeParts((await sent({ of: other })).raw))).toEqual(['text/plain', 'text/html']);
    await noteEngagement(other, false);
    expect(Object.keys(decodeParts((await sent({ of: other })).raw))).toEqual(['text/plain']);
    const rows = await database()`
      select changes from audit_logs
      where company_id = ${other.companyId} and action = 'settings.email_engagement.update' order by occurred_at, id`;
    expect(rows.map(({ changes }) => changes)).toEqual([
      { enabled: { from: false, to: true } },
      { enabled: { from: true, to: false } },
    ]);
  });

  test('tracks nothing in test mode, which sends nothing', async () => {
    const { draft, raw } = await sent({ testMode: true, body: 'See https://bluelake.example/offer' });
    expect([draft.provider_ref, raw]).toEqual(['dry_run', '']);
    const picture = server.url + openPath(tokens, tenant.companyId, draft.id);
    expect((await visit(picture)).status).toBe(404);
  });
});

describe('an email', () => {
  const body =
    'Grüße Sara,\n\nsee https://bluelake.example/offer?a=1&b=2, or write to mailto:sales@bluelake.example.\n  Ada';

  test('sends the unchanged text and an HTML part with the same words', async () => {
    const { raw } = await sent({ body });
    const { 'text/plain': text, 'text/html': page } = decodeParts(raw);
    expect(text?.replaceAll('\r\n', '\n').trim()).toBe(body);
    const words = page
      ?.replaceAll('<br>', '\n')
      .replace(/<[^>]+>/g, '')
      .replaceAll('&amp;', '&');
    expect(words?.trim()).toBe(body);
    expect(linksIn(raw)).toEqual([expect.stringContaining(`${server.url}/clicked/`)]);
    expect(page).toMatch(/<img src="[^"]+\/opened\/[^"]+" width="1" height="1" alt="">\s*<\/body>/);
    expect(raw).toMatch(/^List-Unsubscribe-Post: List-Unsubscribe=One-Click\r$/m);
  });

  test('adds an untracked unsubscribe link to campaign emails', async () => {
    const { raw } = await sent({ campaignId: randomUUID() });
    const link = /^List-Unsubscribe: <(\S+)>\r$/m.exec(raw)?.[1];
    expect(linksIn(raw)).toEqual([link]);
    expect(decodeParts(raw)['text/plain']?.trim().split('\r\n').at(-1)).toBe(`Unsubscribe: ${link}`);
  });

  test.each([
    ['A link (https://x.example/a_(b)).', ['https://x.example/a_(b)']],
    [
      'https://x.example, HTTP://ÜBER.example/ü “http://y.example/”',
      ['https://x.example/', 'http://xn--ber-goa.example/%C3%BC', 'http://y.example/'],
    ],
    ['mailto:a@x.example tel:+971501234567 #top ftp://x.example //x.example www.x.example a@x.example', []],
    ['javascript:alert(1) data:text/html,x file:///etc/passwd vbscript:x', []],
    ['https://', []],
  ])('tracks only links with http and https: %s', (text, expected) => {
    const led: string[] = [];
    const click = (url: string): string => `https://crm.example/clicked/${led.push(url)}`;
    const message = { body: text, isOfCampaign: false, unsubscribeUrl: 'https://crm.example/unsubscribe/x' };
    renderHtml(message, { open: 'https://crm.example/opened/x', click });
    expect(led).toEqual(expected);
  });

  test.each([
    ['another email’s page to unsubscribe', 'https://crm.example/unsubscribe/of-another-mail'],
    ['an address with a password', 'https://sara:hush@x.example/'],
    ['an address longer than events can contain', `https://x.example/${'a'.repeat(2040)}`],
    ['an address as long as a body', `https://x.example/${'a'.repeat(19_900)}`],
  ])('does not track %s', (_what, url) => {
    const message = {
      body: `See ${url} now`,
      isOfCampaign: false,
      unsubscribeUrl: 'https://crm.example/unsubscribe/x',
    };
    const page = renderHtml(message, {
      open: 'https://crm.example/opened/x',
      click: () => 'https://crm.example/clicked/x',
    });
    expect(page).toContain(`See <a href="${url}">${url}</a> now`);
  });

  test('shows markup in a body as text', () => {
    const message = {
      body: '<script>alert("1")</script> & "https://x.example/\'"',
      isOfCampaign: false,
      unsubscribeUrl: 'x',
    };
    const page = renderHtml(message, { open: 'https://crm.example/"><b>', click: (url) => url });
    expect(page).toContain('&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt; &amp; ');
    expect(page).not.toMatch(/<script|<b>/);
  });
});

describe('an open', () => {
  test('records an open once through an invisible, uncached image, however often it is loaded', async () => {
    const campaign = await newCampaign(tenant.key);
    const { draft, lead, raw } = await sent({ campaignId: campaign.id });
    const picture = pictureIn(raw);
    const answers = await Promise.all(Array.from({ length: 20 }, () => visit(picture)));
    for (const answer of answers) {
      const { headers } = answer;
      expect([answer.status, headers.get('content-type'), headers.get('cache-control')]).toEqual([
        200,
        'image/gif',
        'no-store',
      ]);
      expect(Buffer.from(await answer.arrayBuffer()).toString('latin1', 0, 10)).toBe('GIF89a\x01\0\x01\0');
    }
    await expect.poll(() => listEvents(draft), patience).toHaveLength(1);
    const [{ data, actor, test_mode }] = (await listEvents(draft)) as [Json];
    expect(data).toMatchObject({
      message_id: draft.id,
      engagement: 'open',
      recipient: draft.to,
      campaign_id: campaign.id,
      object: 'leads',
      record_id: lead.id,
      timestamp: expect.any(String),
    });
    expect(data).not.toHaveProperty('link_url');
    expect([actor.kind, test_mode]).toEqual(['system', false]);
    expect((await readMessage(lead)).status).toBe('opened');
    expect(await readFigures(campaign)).toMatchObject({ sent: 1, opened: 1, clicked: 0 });
    const audit = await database()`
      select metadata from audit_logs where company_id = ${tenant.companyId} and action = 'report.receive'
        and record_id in (select id::text from received_reports where external_id = ${`${draft.id} open`})`;
    expect(audit).toEqual([{ metadata: { type: 'email_engagement', provider: 'own' } }]);
  });

  test('records an open of an email without a record by its message', async () => {
    const { draft, lead, raw } = await sent({ isAboutNothing: true });
    await visit(pictureIn(raw));
    await expect.poll(() => listEvents(draft), patience).toHaveLength(1);
    // Linked by its address.
    expect((await listEvents(draft))[0]?.data).toMatchObject({ message_id: draft.id, record_id: lead.id });
  });
});

describe('a click', () => {
  const [offer, terms] = ['https://bluelake.example/offer?a=1&b=2', 'http://bluelake.example/terms'];

  test('redirects a click, and records it once per address', async () => {
    const campaign = await newCampaign(tenant.key);
    const { draft, lead, raw } = await sent({ campaignId: campaign.id, body: `${offer} ${terms} ${offer}` });
    const [first = '', second = '', third] = linksIn(raw);
    expect(third).toBe(first);
    const answers = await Promise.all(Array.from({ length: 20 }, (_, index) => visit(index % 2 ? first : second)));
    const places = answers.map(({ status, headers }) => [status, headers.get('location')]);
    expect(places).toEqual(answers.map((_, index) => [303, index % 2 ? offer : terms]));
    await expect.poll(() => listEvents(draft), patience).toHaveLength(2);
    const told = (await listEvents(draft)).map(({ data }) => [data.engagement, data.link_url, data.campaign_id]);
    expect(told).toEqual(
      expect.arrayContaining([
        ['click', offer, campaign.id],
        ['click', terms, campaign.id],
      ]),
    );
    expect((await readMessage(lead)).status).toBe('clicked');
    expect(await readFigures(campaign)).toMatchObject({ sent: 1, opened: 1, clicked: 1 });
  });

  test('tracks URLs up to the length that events can contain', async () => {
    // Random text, which the database cannot compress.
    const start = 'https://bluelake.example/';
    const url = start + randomBytes(1024).toString('hex').slice(start.length);
    const { draft, raw } = await sent({ body: url });
    expect((await visit(linksIn(raw)[0] ?? '')).headers.get('location')).toBe(url);
    await expect.poll(() => listEvents(draft), patience).toMatchObject([{ data: { link_url: url } }]);
    expect(url).toHaveLength(2048);
  });

  test('sends engagement events to subscribers through the feed', async () => {
    const { lead, raw } = await sent({ body: offer });
    const since = await now(tenant.key);
    await visit(linksIn(raw)[0] ?? '');
    const changes = await changesAfter(tenant.key, since);
    expect(changes.map(brief)).toEqual([`message.email.engagement leads ${lead.id}`]);
  });
});

describe('unrecorded requests', () => {
  const body = 'https://bluelake.example/offer';
  const countReports = async (draft: Json): Promise<number> => {
    const rows = await database()`select from received_reports where external_id like ${`${draft.id}%`}`;
    return rows.length;
  };

  test('does not record HEAD requests', async () => {
    const { draft, raw } = await sent({ body });
    const answers = await Promise.all([visit(pictureIn(raw), 'HEAD'), visit(linksIn(raw)[0] ?? '', 'HEAD')]);
    expect(answers.map(({ status }) => status)).toEqual([200, 303]);
    expect(await countReports(draft)).toBe(0);
  });

  test('does not record requests before the mail server has accepted the email', async () => {
    const { draft, raw } = await sent({ body });
    await database()`update message_drafts set status = 'approved' where id = ${draft.id}`;
    const answers = await Promise.all([visit(pictureIn(raw)), visit(linksIn(raw)[0] ?? '')]);
    expect(answers.map(({ status }) => status)).toEqual([200, 303]);
    expect(await countReports(draft)).toBe(0);
  });

  test('records nothing for an address that was changed or signed for another purpose, and redirects nowhere', async () => {
    const { draft, raw } = await sent({ body });
    const [picture, link] = [pictureIn(raw), linksIn(raw)[0] ?? ''];
    const getToken = (url: string): string => url.slice(url.lastIndexOf('/') + 1);
    const elsewhere = Buffer.from(JSON.stringify([tenant.companyId, draft.id, 'https://evil.example/'])).toString(
      'base64url',
    );
    const unsubscribe = /^List-Unsubscribe: <(\S+)>\r$/m.exec(raw)?.[1] ?? '';
    const at = link.length - 5;
    for (const url of [
      `${link.slice(0, at)}${link[at] === 'A' ? 'B' : 'A'}${link.slice(at + 1)}`,
      `${server.url}/clicked/${elsewhere}.${getToken(link).split('.')[1]}`,
      `${server.url}/clicked/${elsewhere}.`,
      `${server.url}/clicked/${getToken(picture)}`,
      `${server.url}/clicked/${getToken(unsubscribe)}`,
      `${server.url}/opened/${getToken(link)}`,
      `${server.url}/opened/x`,
      `${server.url}/clicked/${encodeURIComponent('https://evil.example/')}`,
    ]) {
      const answer = await visit(url);
      expect({ url, status: answer.status, to: answer.headers.get('location') }).toEqual({
        url,
        status: 404,
        to: null,
      });
    }
    expect((await visit(link, 'POST')).status).toBe(404);
    expect(await countReports(draft)).toBe(0);
    expect(server.output()).not.toContain(getToken(link));
  });

  test('records nothing for an email of another company, of none, or of an inactive company', async () => {
    const other = await newWideTenant();
    await noteEngagement(other, true);
    const { draft, raw } = await sent({ of: other, body });
    const open = (companyId: string, draftId: string) => visit(server.url + openPath(tokens, companyId, draftId));
    expect((await open(other.companyId, draft.id)).status).toBe(200);
    expect(await countReports(draft)).toBe(1);
    const foreign = buildClickPath(tokens, tenant.companyId, draft.id, body);
    expect((await visit(server.url + foreign)).status).toBe(404);
    expect((await open(other.companyId, randomUUID())).status).toBe(404);
    expect((await open(randomUUID(), draft.id)).status).toBe(404);
    await database()`update companies set status = 'suspended' where id = ${other.companyId}`;
    expect((await visit(linksIn(raw)[0] ?? '')).status).toBe(404);
    expect(await countReports(draft)).toBe(1);
  });

  test('redirects people even if the click cannot be recorded', () => {
    const tenants = new Pool({
      url: databaseUrl,
      role: 'crm_app',
      name: 'unused',
      lanes: 1,
      prepare: true,
      spread: false,
      wait: 1,
      statementTimeout: 1,
    });
    const [opened, clicked] = createEngagementRoutes({ tenants, tokens, onEvents: () => undefined });
    const token = (path: string) => ({ token: path.slice(path.lastIndexOf('/') + 1) });
    const link = token(buildClickPath(tokens, randomUUID(), randomUUID(), body));
    for (const status of [429, 503]) {
      expect(clicked?.refuse?.(status, link)).toEqual({ redirect: body });
      expect(clicked?.refuse?.(status, { token: 'x' })).toMatchObject({ status: 404 });
      expect(opened?.refuse?.(status, token(openPath(tokens, randomUUID(), randomUUID())))).toMatchObject({
        status: 200,
      });
    }
  });
});
