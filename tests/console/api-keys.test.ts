// API keys at the console: created and shown once, rotated, revoked; invalid forms keep their
// input.
import { beforeAll, describe, expect, test } from 'vitest';
import { call } from '../support/client.ts';
import { Visitor } from '../support/page-client.ts';
import { database, newTenant, type Tenant } from '../support/tenants.ts';

const home = '/console/api-keys';
const blank = { environment: 'live', ip_allowlist: '', expires_at: '', description: '' };
const limits = { rate_limit_per_minute: '60', rate_limit_per_hour: '1000' };

let tenant: Tenant;
let admin: Visitor;
beforeAll(async () => {
  tenant = await newTenant();
  admin = new Visitor();
  await admin.signIn(tenant.admin.email);
});

const mint = (fields: Record<string, string>) => admin.complete(`${home}/new`, { ...blank, ...limits, ...fields });
const keyIn = (text: string): string => /svc_(?:live|test)_[0-9a-f]{32}/.exec(text)?.[0] ?? '';
const findId = async (name: string): Promise<string> => {
  const [row] =
    await database()`select id from api_keys where company_id = ${tenant.companyId} and name = ${name} order by created_at limit 1`;
  return row?.id;
};
const statusWith = async (key: string): Promise<number> => (await call('GET', '/v1/me', { key })).status;

describe('a key', () => {
  test('creates an API key as requested, and shows it on one page only', async () => {
    const minted = await mint({
      name: 'Office',
      scopes: 'leads:view\nleads:create, tasks:*',
      ip_allowlist: '203.0.113.0/24\n198.51.100.7',
      environment: 'test',
      expires_at: '2099-01-01',
      description: 'For the front desk',
    });
    const key = keyIn(minted.text);
    expect([minted.status, key.startsWith('svc_test_')]).toEqual([200, true]);
    expect((await call('GET', '/v1/me', { key, ip: '198.51.100.7' })).body.data).toMatchObject({
      environment: 'test',
      scopes: ['leads:view', 'leads:create', 'tasks:*'],
      // The day begins in Berlin.
      expires_at: '2098-12-31T23:00:00.000Z',
    });
    for (const path of [home, `${home}/${await findId('Office')}`]) {
      const { text } = await admin.ask(path);
      expect([text.includes(key.slice(-4)), text.includes(key)]).toEqual([true, false]);
    }
    const [row] = await database()`
      select actor_kind, actor_id from audit_logs where company_id = ${tenant.companyId} and action = 'api_key.create'`;
    expect(row).toEqual({ actor_kind: 'user', actor_id: tenant.admin.id });
  });

  test('shows errors at each field of an invalid API key form, and keeps the input', async () => {
    const { status, text } = await mint({ name: 'Wrong <one>', scopes: 'leads:fly', expires_at: '2020-01-01' });
    expect(status).toBe(400);
    expect(text).toContain('value="Wrong &lt;one&gt;"');
    expect(text).toContain('leads:fly</textarea>');
    expect(text).toMatch(
      /<textarea id="scopes"[^>]*aria-describedby="scopes-hint scopes-problem"[^>]*aria-invalid="true"/,
    );
    expect(text).toMatch(/<input id="expires_at"[^>]*aria-invalid="true"[^>]*value="2020-01-01"/);
    expect(await findId('Wrong <one>')).toBeUndefined();
    expect((await mint({ name: '', scopes: '' })).text).toContain('href="#name"');
    expect((await mint({ name: 'Words', scopes: '*', rate_limit_per_minute: 'many' })).text).toContain(
      'href="#rate_limit_per_minute"',
    );
  });

  test('rotates an API key, and keeps the old one valid for the chosen time', async () => {
    const first = keyIn((await mint({ name: 'Rotated', scopes: '*' })).text);
    const path = `${home}/${await findId('Rotated')}`;
    const wrong = await admin.send(path, { overlap_hours: '1000' }, `${path}/rotate`);
    expect([wrong.status, wrong.text.includes('value="1000"')]).toEqual([400, true]);
    const rotated = await admin.complete(path, { overlap_hours: '0' }, `${path}/rotate`);
    const second = keyIn(rotated.text);
    expect([rotated.status, second === first]).toEqual([200, false]);
    expect([await statusWith(first), await statusWith(second)]).toEqual([401, 200]);
  });

  test('revokes an API key permanently with a reason', async () => {
    const key = keyIn((await mint({ name: 'Revoked', scopes: '*' })).text);
    const path = `${home}/${await findId('Revoked')}`;
    const answer = await admin.send(path, { reason: 'Laptop lost' }, `${path}/revoke`);
    expect([answer.status, answer.to]).toEqual([303, `${home}?done=revoked`]);
    expect(await statusWith(key)).toBe(401);
    const { text } = await admin.ask(path);
    expect([text.includes('Laptop lost'), text.includes('Rotate</button>'), text.includes('Revoke</button>')]).toEqual([
      true,
      false,
      false,
    ]);
  });
});

test('lists API keys of one status, page by page', async () => {
  const own = await newTenant();
  await database()`
    insert into api_keys (company_id, id, key_hash, name, environment, prefix, last4, scopes, rate_limit_per_minute, rate_limit_per_hour,
      ip_allowlist, reach_kind, created_by_id, created_at, updated_at, is_legacy)
    select company_id, gen_random_uuid(), sha256(n::text::bytea || id::text::bytea), 'Key ' || n, environment, prefix, last4, scopes, 60, 1000,
      '{}', 'company', 'test', now() - n * interval '1 minute', now(), false
    from api_keys, generate_series(1, 60) n where company_id = ${own.companyId} and environment = 'live'`;
  const visitor = new Visitor();
  await visitor.signIn(own.admin.email);
  const first = await visitor.ask(`${home}?status=active`);
  const older = /href="([^"]*cursor=[^"]*)"/.exec(first.text)?.[1]?.replaceAll('&amp;', '&') ?? '';
  expect([older.startsWith(`${home}?status=active&cursor=`), first.text.includes('Key 60<')]).toEqual([true, false]);
  expect((await visitor.ask(older)).text).toContain('Key 60<');
  expect((await visitor.ask(`${home}?status=revoked`)).text).toContain('No API keys.');
});

test('offers scopes as check boxes with presets, and keeps the choice of a form with errors', async () => {
  const own = await newTenant();
  const visitor = new Visitor();
  await visitor.signIn(own.admin.email);
  const listChecked = (text: string): string[] =>
    [...text.matchAll(/<input type="checkbox" name="scopes" value="([^"]+)" checked>/g)].map((match) => match[1] ?? '');
  expect(listChecked((await visitor.ask(`${home}/new`)).text)).toEqual([]);
  const readOnly = listChecked((await visitor.ask(`${home}/new?preset=read`)).text);
  expect([readOnly.includes('leads:view'), readOnly.every((scope) => scope.endsWith(':view'))]).toEqual([true, true]);
  expect(listChecked((await visitor.ask(`${home}/new?preset=form`)).text)).toEqual(['leads:create']);
  expect((await visitor.ask(`${home}/new?preset=all`)).text).toMatch(/<textarea id="scopes"[^>]*>\*</);
  expect(listChecked((await visitor.ask(`${home}/new?preset=constructor`)).text)).toEqual([]);

  const page = await visitor.ask(`${home}/new`);
  const once = /name="once" value="([^"]+)"/.exec(page.text)?.[1] ?? '';
  const token = /name="token" value="([^"]+)"/.exec(page.text)?.[1] ?? '';
  const form = new URLSearchParams({ token, once, name: '', environment: 'live' });
  for (const scopes of ['leads:view', 'deals:edit', 'object:visits:view\nleads:view']) form.append('scopes', scopes);
  const refused = await visitor.ask(`${home}/new`, form);
  expect([refused.status, listChecked(refused.text)]).toEqual([422, ['leads:view', 'deals:edit']]);
  expect(refused.text).toMatch(/<textarea id="scopes"[^>]*>object:visits:view</);
  form.set('name', 'By boxes');
  form.delete('scopes');
  for (const scopes of ['leads:view', 'deals:edit', '']) form.append('scopes', scopes);
  const made = await visitor.ask(`${home}/new`, form);
  expect((await visitor.ask(made.to ?? '')).text).toContain('<code>leads:view deals:edit</code>');
});
