// Confirmations at the console: what cannot be undone needs a second form.
import { expect, test } from 'vitest';
import { newGrant } from '../support/access-tokens.ts';
import { type Furnished, furnishedTenant, listPages } from '../support/console.ts';
import { hiddenFields, Visitor } from '../support/page-client.ts';
import { database } from '../support/tenants.ts';

interface Case {
  page: string;
  action: string;
  fields?: Record<string, string>;
  /** Returns how many rows show that the action has happened. */
  count: () => Promise<number>;
}

async function listCases({ tenant, apiKey, webhook, person, branch, team }: Furnished): Promise<Record<string, Case>> {
  const sql = database();
  const of = tenant.companyId;
  const { id: grant } = await newGrant(tenant, {});
  const other = new Visitor();
  await other.signIn(tenant.admin.email);
  const [session] = await sql`
    select id from sessions where company_id = ${of} and user_id = ${tenant.admin.id} and ended_at is null
    order by created_at desc limit 1`;
  const ended = async (): Promise<number> =>
    (await sql`select from sessions where company_id = ${of} and id = ${session?.id} and ended_at is not null`).length;
  return {
    'revoking an API key': {
      page: `/console/api-keys/${apiKey}`,
      action: `/console/api-keys/${apiKey}/revoke`,
      fields: { reason: 'Laptop "lost"' },
      count: async () =>
        (
          await sql`select from api_keys where company_id = ${of} and id = ${apiKey} and revoke_reason = 'Laptop "lost"'`
        ).length,
    },
    'revoking an app': {
      page: '/console/apps',
      action: `/console/apps/${grant}`,
      count: async () =>
        (await sql`select from oauth_grants where company_id = ${of} and id = ${grant} and revoked_at is not null`)
          .length,
    },
    'deleting a webhook endpoint': {
      page: `/console/webhooks/${webhook}`,
      action: `/console/webhooks/${webhook}/delete`,
      count: async () =>
        1 - (await sql`select from webhook_subscriptions where company_id = ${of} and id = ${webhook}`).length,
    },
    'removing the access of a person': {
      page: `/console/people/${person}`,
      action: `/console/people/${person}`,
      fields: { status: 'inactive' },
      count: async () =>
        (await sql`select from users where company_id = ${of} and id = ${person} and status = 'inactive'`).length,
    },
    'deleting a branch': {
      page: `/console/organization/branches/${branch}`,
      action: `/console/organization/branches/${branch}`,
      fields: { delete: 'yes' },
      count: async () => 1 - (await sql`select from branches where company_id = ${of} and id = ${branch}`).length,
    },
    'deleting a team': {
      page: `/console/organization/teams/${team}`,
      action: `/console/organization/teams/${team}`,
      fields: { delete: 'yes' },
      count: async () => 1 - (await sql`select from teams where company_id = ${of} and id = ${team}`).length,
    },
    'ending a session': { page: '/console/sessions', action: `/console/sessions/${session?.id}/end`, count: ended },
  };
}

/** Decisions that the person has read the content for, and may give a reason for. */
const decisions = new Set(['Reject', 'Reject selected']);
const dangerous = /^(Cancel|Delete|Discard|End|Remove|Revoke|Undo)\b/;

/** Returns the forms with a dangerous button of all pages, by page, action and button. */
async function findDangerousForms(visitor: Visitor, furnished: Furnished): Promise<Map<string, URLSearchParams>> {
  const found = new Map<string, URLSearchParams>();
  for (const page of Object.values(listPages(furnished))) {
    const { text } = await visitor.ask(page);
    // The page itself is the confirmation.
    if (/<h1>[^\n]*\?<\/h1>/.test(text)) continue;
    for (const [, action = '', body = ''] of text.matchAll(
      /<form method="post" action="([^"]*)"[^>]*>(.*?)<\/form>/gs,
    )) {
      const fields = [...body.matchAll(/type="hidden" name="(\w+)" value="([^"]*)"/g)];
      for (const [, attributes = '', label = ''] of body.matchAll(/<button([^>]*)>([^<]*)<\/button>/g)) {
        if (decisions.has(label) || !(attributes.includes('danger') || dangerous.test(label))) continue;
        const [, name, value = ''] = /name="(\w+)" value="(\w*)"/.exec(attributes) ?? [];
        const form = new URLSearchParams(Object.fromEntries(fields.map(([, key, given]) => [key, given])));
        if (name !== undefined) form.append(name, value);
        found.set(`${page} ${action} ${label}`, form);
      }
    }
  }
  return found;
}

test('asks before the action of every dangerous button of every page', async () => {
  const furnished = await furnishedTenant();
  const [admin, other] = [new Visitor(), new Visitor()];
  await admin.signIn(furnished.tenant.admin.email);
  await other.signIn(furnished.tenant.admin.email);
  const forms = await findDangerousForms(admin, furnished);
  const asked: [string, number, boolean][] = [];
  for (const [name, form] of forms) {
    const { status, text } = await admin.ask(name.split(' ')[1] ?? '', form);
    asked.push([name, status, /<h1>[^\n]*\?<\/h1>/.test(text) && text.includes('name="confirmed" value="yes"')]);
  }
  expect(asked).toEqual([...forms.keys()].map((name) => [name, 200, true]));
  expect(asked.length).toBeGreaterThan(8);
  expect([...(await findDangerousForms(admin, furnished)).keys()]).toEqual([...forms.keys()]);
});

test('asks before everything that cannot be undone, and does it after the answer', async () => {
  const furnished = await furnishedTenant();
  const admin = new Visitor();
  await admin.signIn(furnished.tenant.admin.email);
  for (const [name, { page, action, fields = {}, count }] of Object.entries(await listCases(furnished))) {
    const asked = await admin.ask(action, { ...(await admin.readForm(page, action)), ...fields });
    expect([name, asked.status, await count()]).toEqual([name, 200, 0]);
    expect([name, /<h1>[^<]+\?<\/h1>/.test(asked.text)]).toEqual([name, true]);
    expect([name, asked.text.includes(`<a href="${page}">Cancel</a>`)]).toEqual([name, true]);
    const answer = Object.fromEntries(
      Object.entries(hiddenFields(asked.text, action)).map(([field, value]) => [
        field,
        value.replaceAll('&quot;', '"'),
      ]),
    );
    const done = await admin.ask(action, answer);
    expect([name, done.status, await count()]).toEqual([name, 303, 1]);
  }
});

test('asks before it ends all other sessions', async () => {
  const { tenant } = await furnishedTenant();
  const [admin, other] = [new Visitor(), new Visitor()];
  await admin.signIn(tenant.admin.email);
  await other.signIn(tenant.admin.email);
  const action = '/console/sessions/end-others';
  const asked = await admin.ask(action, await admin.readForm('/console/sessions', action));
  expect([asked.status, asked.text.includes('End all other sessions?')]).toEqual([200, true]);
  expect((await other.ask('/console/sessions')).status).toBe(200);
  await admin.ask(action, hiddenFields(asked.text, action));
  expect((await other.ask('/console/sessions')).status).toBe(303);
});

test('lists apps with access and revoked ones apart, page by page', async () => {
  const { tenant } = await furnishedTenant();
  const admin = new Visitor();
  await admin.signIn(tenant.admin.email);
  await database()`
    insert into oauth_grants (company_id, id, user_id, client_id, client_name, audience, groups, extra_scopes, write_mode, created_at, revoked_at)
    select company_id, gen_random_uuid(), user_id, 'client-' || n, 'Former app ' || n, audience, groups, extra_scopes, write_mode,
      now() + n * interval '1 second', now() + interval '1 hour'
    from oauth_grants, generate_series(1, 60) n where company_id = ${tenant.companyId}`;
  const first = await admin.ask('/console/apps?state=revoked');
  expect([first.text.includes('Former app 60'), first.text.includes('Former app 5<')]).toEqual([true, false]);
  const older = /href="([^"]*cursor=[^"]*)"/.exec(first.text)?.[1]?.replaceAll('&amp;', '&') ?? '';
  expect(older.startsWith('/console/apps?state=revoked&cursor=')).toBe(true);
  const second = await admin.ask(older);
  expect([second.text.includes('Former app 5<'), second.text.includes('Revoke</button>')]).toEqual([true, false]);
  const active = await admin.ask('/console/apps');
  expect(active.text).toContain('No apps have access so far. There are older entries.');
});
