// The sessions of a person: list, and ending one or all others.
import { expect, test } from 'vitest';
import { expectStatus } from '../support/client.ts';
import { Visitor } from '../support/page-client.ts';
import { newPerson } from '../support/sessions.ts';
import { database, newTenant } from '../support/tenants.ts';

const home = '/console/sessions';

/** Returns the session ids on the page. */
const idsIn = (text: string): string[] =>
  [...text.matchAll(/sessions\/([0-9a-f-]{36})\/end/g)].map((match) => match[1] ?? '');

test('lists sessions with address and browser, and ends one or all others', async () => {
  const tenant = await newTenant();
  const visitors = [new Visitor(), new Visitor(), new Visitor()] as const;
  const [here, second, third] = visitors;
  for (const visitor of visitors)
    await visitor.ask(
      '/console/sign-in',
      { email: tenant.admin.email, password: 'correct horse battery staple' },
      { 'user-agent': 'Netscape 4' },
    );
  const shown = await here.ask(home);
  expect([idsIn(shown.text).length, shown.text.includes('This session'), shown.text.includes('Netscape 4')]).toEqual([
    2,
    true,
    true,
  ]);
  expect(shown.text).toMatch(/<td data-label="IP address">10\.\d+\.\d+\.\d+<\/td>/);
  // Newest first: the third visitor's session.
  const [newest = ''] = idsIn(shown.text);
  expect((await here.send(home, {}, `${home}/${newest}/end`)).to).toBe(`${home}?done=ended`);
  expect((await third.ask(home)).to).toContain('/console/sign-in');
  expect((await second.ask(home)).status).toBe(200);
  const form = await here.readForm(home, '/console/sign-out');
  expect((await here.ask(`${home}/${newest}/end`, { ...form, confirmed: 'yes' })).status).toBe(404);
  expect((await here.send(home, {}, `${home}/end-others`)).to).toBe(`${home}?done=others`);
  expect((await second.ask(home)).to).toContain('/console/sign-in');
  expect(idsIn((await here.ask(home)).text)).toEqual([]);
  const rows = await database()`
    select action from audit_logs where company_id = ${tenant.companyId} and action like 'session.end%' order by occurred_at`;
  expect(rows.map(({ action }) => action)).toEqual(['session.end', 'session.end_others']);
});

test('hides sessions of colleagues', async () => {
  const tenant = await newTenant();
  const colleague = await newPerson(tenant);
  const [admin, other] = [new Visitor(), new Visitor()];
  await admin.signIn(tenant.admin.email);
  await other.signIn(colleague.email);
  const [row] =
    await database()`select id from sessions where company_id = ${tenant.companyId} and user_id = ${colleague.id}`;
  const form = await admin.readForm(home, '/console/sign-out');
  expect((await admin.ask(`${home}/${row?.id}/end`, { ...form, confirmed: 'yes' })).status).toBe(404);
  expect((await other.ask('/console')).status).toBe(200);
});

test('ends the previous session of a browser that signs in again', async () => {
  const tenant = await newTenant();
  const visitor = new Visitor();
  await visitor.signIn(tenant.admin.email);
  const before = visitor.cookie;
  await visitor.signIn(tenant.admin.email);
  expect(idsIn((await visitor.ask(home)).text)).toEqual([]);
  visitor.cookie = before;
  expect((await visitor.ask(home)).to).toContain('/console/sign-in');
});

test('keeps sessions on the real time if the clock of test mode is ahead', async () => {
  const tenant = await newTenant();
  const [here, other] = [new Visitor(), new Visitor()];
  for (const visitor of [here, other]) await visitor.signIn(tenant.admin.email);
  const body = { advance_seconds: 30 * 86_400 };
  await expectStatus(200, 'POST', '/v1/test-mode/clock', { key: tenant.testKey, body });
  const shown = await here.ask(`${home}?mode=test`);
  const [session = ''] = idsIn(shown.text);
  expect([shown.text.includes('This session'), session === '']).toEqual([true, false]);
  const ended = await here.send(`${home}?mode=test`, { mode: 'test' }, `${home}/${session}/end`);
  expect(ended.to).toBe(`${home}?mode=test&done=ended`);
  const [row] = await database()`select ended_at > now() as late from sessions where id = ${session}`;
  expect(row).toEqual({ late: false });
});
