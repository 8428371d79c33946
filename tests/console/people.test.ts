// People at the console: invitations, roles, and taking access away.
import { expect, test } from 'vitest';
import { Visitor } from '../support/page-client.ts';
import { newPerson } from '../support/sessions.ts';
import { adminPassword, newTenant, type Tenant } from '../support/tenants.ts';
import { newEmail } from '../support/users.ts';

const home = '/console/people';

async function newVisitor({ admin }: Pick<Tenant, 'admin'>): Promise<Visitor> {
  const visitor = new Visitor();
  await visitor.signIn(admin.email);
  return visitor;
}

const readField = (text: string, name: string): string =>
  new RegExp(`name="${name}" value="([^"]+)"`).exec(text)?.[1] ?? '';

test('invites a person, and shows their password once', async () => {
  const visitor = await newVisitor(await newTenant());
  const { text } = await visitor.ask(`${home}/new`);
  const email = newEmail();
  const given = { token: readField(text, 'token'), once: readField(text, 'once'), full_name: 'Omar', email };
  const refused = await visitor.ask(`${home}/new`, { ...given, email: 'omar', role: 'Sales_Rep' });
  expect([refused.status, refused.text.includes('href="#email"'), refused.text.includes('value="Omar"')]).toEqual([
    400,
    true,
    true,
  ]);
  const invited = await visitor.ask(`${home}/new`, { ...given, role: 'Sales_Rep' });
  const shown = await visitor.ask(invited.to ?? '');
  const password = /<code class="secret"[^>]*>([^<]+)</.exec(shown.text)?.[1] ?? '';
  expect(password).toHaveLength(16);
  expect((await visitor.ask(invited.to ?? '')).status).toBe(410);
  // The same form invites nobody again.
  expect((await visitor.ask(`${home}/new`, { ...given, role: 'Sales_Rep' })).to).toBe(invited.to);
  expect((await visitor.ask(`${home}?q=${encodeURIComponent(email)}`)).text).toContain('Sales Rep');
  const person = new Visitor();
  await person.signIn(email, password);
  expect((await person.ask('/console')).to).toBe('/console/password');
});

test('changes the role of a person, takes the access away and gives it back', async () => {
  const tenant = await newTenant();
  const visitor = await newVisitor(tenant);
  const { id, email } = await newPerson(tenant, 'Viewer');
  const colleague = new Visitor();
  await colleague.signIn(email);
  const page = `${home}/${id}`;
  const token = readField((await visitor.ask(page)).text, 'token');
  expect((await visitor.ask(page, { token, role: 'Sales_Manager' })).to).toBe(`${page}?done=role`);
  expect((await visitor.ask(page)).text).toContain('<dd>Sales Manager</dd>');
  expect((await visitor.ask(page, { token, role: 'No_Such_Role' })).status).toBe(400);

  expect((await visitor.ask(page, { token, status: 'inactive', confirmed: 'yes' })).to).toBe(`${page}?done=inactive`);
  expect((await colleague.ask('/console/sessions')).to).toContain('/console/sign-in');
  expect((await visitor.ask(`${home}?status=inactive`)).text).toContain(email);
  expect((await visitor.ask(page, { token, status: 'active' })).to).toBe(`${page}?done=active`);
  expect((await new Visitor().signIn(email, adminPassword)).to).toBe('/console');
});

test('keeps the last administrator, and rejects people without permission', async () => {
  const tenant = await newTenant();
  const visitor = await newVisitor(tenant);
  const own = /href="(\/console\/people\/[0-9a-f-]{36})"/.exec((await visitor.ask(home)).text)?.[1] ?? '';
  const token = readField((await visitor.ask(own)).text, 'token');
  const refused = await visitor.ask(own, { token, status: 'inactive', confirmed: 'yes' });
  expect([refused.status, refused.text.includes('role="alert"')]).toEqual([409, true]);

  const { email } = await newPerson(tenant, 'Viewer');
  const viewer = new Visitor();
  await viewer.signIn(email);
  const viewerToken = readField((await viewer.ask('/console/sessions')).text, 'token');
  expect((await viewer.ask(own, { token: viewerToken, status: 'inactive', confirmed: 'yes' })).status).toBe(403);
  const [other] = [await newVisitor(await newTenant())];
  expect((await other.ask(own)).status).toBe(404);
});
