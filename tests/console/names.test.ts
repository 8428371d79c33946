// Names given by users cannot reorder the text around them.
import { beforeAll, expect, test } from 'vitest';
import { type Furnished, furnishedTenant, listPages } from '../support/console.ts';
import { newDraft } from '../support/messaging.ts';
import { Visitor } from '../support/page-client.ts';
import { database } from '../support/tenants.ts';

/** Returns a name that would reverse the rest of the line without isolation. */
const hostile = (name: string): string => `${name}\u202E\u2066evil\u200F`;
const cleaned = (name: string): string => `${name}evil`;

let furnished: Furnished;
let visitor: Visitor;

beforeAll(async () => {
  furnished = await furnishedTenant();
  const { tenant, campaign } = furnished;
  const sql = database();
  // Rows from before names were cleaned.
  const of = tenant.companyId;
  await sql`update companies set name = ${hostile('Company')} where id = ${of}`;
  await sql`update users set full_name = ${hostile('Person')} where company_id = ${of}`;
  await sql`update api_keys set name = ${hostile('Key')}, description = ${hostile('Use')} where company_id = ${of}`;
  await sql`update oauth_grants set client_name = ${hostile('App')} where company_id = ${of}`;
  await sql`update campaigns set name = ${hostile('Campaign')} where company_id = ${of} and id = ${campaign}`;
  await sql`update webhook_subscriptions set description = ${hostile('Hook')} where company_id = ${of}`;
  await sql`update change_sets set title = ${hostile('Title')}, reason = ${hostile('Reason')}, created_by_name = ${hostile('Agent')} where company_id = ${of}`;
  const draft = { channel: 'email', to: 'sara@x.example', subject: hostile('Subject'), body: hostile('Body') };
  await newDraft(tenant.key, { ...draft, note: hostile('Note') });
  visitor = new Visitor();
  await visitor.signIn(tenant.admin.email);
});

test('shows no bidirectional control character on any page', async () => {
  for (const [name, path] of Object.entries(listPages(furnished))) {
    const { text } = await visitor.ask(path);
    expect([name, /\p{Bidi_Control}/u.test(text)]).toEqual([name, false]);
    if (text.includes('<header>'))
      expect([name, text.includes(`<bdi>${cleaned('Company')}</bdi>`)]).toEqual([name, true]);
  }
});

test.each([
  ['messages', ['Subject', 'Note', 'Campaign', 'Key']],
  ['run', ['Campaign']],
  ['change sets', ['Title', 'Agent']],
  ['a change set', ['Title', 'Reason', 'Agent']],
  ['API keys', ['Key']],
  ['an API key', ['Key', 'Use', 'Person']],
  ['apps', ['App', 'Person']],
  ['webhook', ['Hook']],
] as const)('isolates the names on the page %s', async (page, names) => {
  const { text } = await visitor.ask(listPages(furnished)[page] ?? '');
  for (const name of names) expect([name, text.includes(`<bdi>${cleaned(name)}</bdi>`)]).toEqual([name, true]);
});

test('shows a host as ASCII in a separate element', async () => {
  const { tenant, webhook } = furnished;
  // With a Cyrillic letter that looks like the Latin one.
  await database()`update webhook_subscriptions set url = 'https://\u0430pple.example/hook' where company_id = ${tenant.companyId} and id = ${webhook}`;
  const shown = await visitor.ask(`/console/webhooks/${webhook}`);
  expect(shown.text).toContain('<h1>Webhook endpoint <code>xn--pple-43d.example</code></h1>');
  expect(shown.text).toContain('<code>https://xn--pple-43d.example/hook</code>');
  expect(shown.text).not.toContain('\u0430pple');
  expect((await visitor.ask('/console/webhooks')).text).not.toContain('\u0430pple');
});
