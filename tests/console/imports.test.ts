// Imports at the console: the list, the rows that failed, and undoing what was written.
import { expect, test } from 'vitest';
import { call, expectStatus } from '../support/client.ts';
import { hiddenFields, Visitor } from '../support/page-client.ts';
import { walk } from '../support/records.ts';
import { newPerson } from '../support/sessions.ts';
import { database, newTenant, type Tenant } from '../support/tenants.ts';
import { form } from '../support/uploads.ts';

const home = '/console/imports';

async function importFile(key: string, content: string, options: object = {}): Promise<string> {
  const sent = form([
    { name: 'options', fileName: null, content: JSON.stringify({ object: 'accounts', ...options }) },
    { name: 'file', fileName: 'accounts.csv', type: 'text/csv', content },
  ]);
  const { id } = (await expectStatus(201, 'POST', '/v1/imports', { key, ...sent })).body.data.import;
  await expect
    .poll(async () => (await call('GET', `/v1/imports/${id}`, { key })).body.data.import.status, { timeout: 30_000 })
    .toMatch(/^(completed|failed)$/);
  return id;
}

async function newVisitor({ admin }: Pick<Tenant, 'admin'>): Promise<Visitor> {
  const visitor = new Visitor();
  await visitor.signIn(admin.email);
  return visitor;
}

const readToken = (text: string): string => /name="token" value="([^"]+)"/.exec(text)?.[1] ?? '';

test('shows an import with its failed rows, and undoes what it wrote', async () => {
  const tenant = await newTenant();
  const id = await importFile(tenant.key, 'name,website\nAcme,https://acme.example\n,https://none.example\n');
  const visitor = await newVisitor(tenant);
  const list = await visitor.ask(home);
  for (const part of [`${home}/${id}`, 'accounts.csv', 'Completed']) expect(list.text).toContain(part);
  expect((await visitor.ask(`${home}?mode=test`)).text).toContain('No imports.');
  const page = await visitor.ask(`${home}/${id}`);
  for (const part of ['Failed rows', 'https://none.example', 'Undo the import']) expect(page.text).toContain(part);

  const undone = await visitor.ask(`${home}/${id}/undo`, { token: readToken(page.text) });
  expect(undone.to).toBe(`${home}/${id}?done=undo`);
  await expect.poll(async () => (await visitor.ask(`${home}/${id}`)).text, { timeout: 30_000 }).toContain('>Undone<');
  expect(await walk(tenant.key, 'accounts')).toEqual([]);
  const again = await visitor.ask(`${home}/${id}/undo`, { token: readToken(page.text) });
  expect([again.status, again.text.includes('role="alert"')]).toEqual([409, true]);
});

test('discards a file after a confirmation, and says that nothing was written', async () => {
  const tenant = await newTenant();
  const visitor = await newVisitor(tenant);
  const body = { object: 'accounts' };
  const { id } = (await expectStatus(201, 'POST', '/v1/imports', { key: tenant.key, body })).body.data.import;
  const part = { key: tenant.key, rawBody: 'name\nAcme\n', headers: { 'content-type': 'text/csv' } };
  await expectStatus(200, 'POST', `/v1/imports/${id}/parts?number=1`, part);
  const action = `${home}/${id}/cancel`;
  const readStatus = async () =>
    (await expectStatus(200, 'GET', `/v1/imports/${id}`, { key: tenant.key })).body.data.import.status;
  const asked = await visitor.ask(action, await visitor.readForm(`${home}/${id}`, action));
  expect([asked.status, asked.text.includes('<h1>Discard this file?</h1>'), await readStatus()]).toEqual([
    200,
    true,
    'awaiting_file',
  ]);
  const form = hiddenFields(asked.text, action);
  // Meanwhile, the import starts: the answer is about something else.
  await database()`update imports set status = 'running' where id = ${id}`;
  const changed = await visitor.ask(action, form);
  expect([changed.text.includes('<h1>Cancel this import?</h1>'), await readStatus()]).toEqual([true, 'running']);
  await database()`update imports set status = 'awaiting_file' where id = ${id}`;
  const done = await visitor.ask(action, form);
  expect([done.to, await readStatus()]).toEqual([`${home}/${id}?done=discard`, 'cancelled']);
  const { text } = await visitor.ask(done.to ?? '');
  expect(text).toContain('Discarded. Nothing was written, and no file is kept.');
  expect((await visitor.ask(`${home}/${id}?done=cancel`)).text).toContain(
    'The import is cancelled. Nothing was written.',
  );
  expect((await visitor.ask(action, form)).status).toBe(409);
  await database()`update imports set created = 3 where id = ${id}`;
  expect((await visitor.ask(`${home}/${id}?done=cancel`)).text).toContain(
    'What it had written stays, and can be undone.',
  );
});

test('announces failed imports on the home page', async () => {
  const tenant = await newTenant();
  const id = await importFile(tenant.key, 'name\n""\n', { max_errors: 0 });
  const visitor = await newVisitor(tenant);
  const countFailed = async (): Promise<boolean> =>
    (await visitor.ask('/console?mode=live')).text.includes(
      `<span class="number">1</span><a href="${home}?status=failed">Failed imports`,
    );
  expect((await visitor.ask(`${home}/${id}`)).text).toContain('>Failed<');
  expect(await countFailed()).toBe(true);
  await database()`update imports set completed_at = completed_at - interval '8 days' where id = ${id}`;
  expect(await countFailed()).toBe(false);
});

test('shows nothing of another workspace, and no undo to people who may not import', async () => {
  const [tenant, other] = [await newTenant(), await newTenant()];
  const id = await importFile(tenant.key, 'name\nAcme\n');
  const foreign = await newVisitor(other);
  expect((await foreign.ask(`${home}/${id}`)).status).toBe(404);
  expect((await foreign.ask(`${home}/${id}/undo`, { token: readToken((await foreign.ask(home)).text) })).status).toBe(
    404,
  );
  const { email, id: userId } = await newPerson(tenant, 'Viewer');
  const visitor = new Visitor();
  await visitor.signIn(email);
  const seen = await visitor.ask(`${home}/${id}`);
  expect([seen.status, seen.text.includes('accounts.csv'), seen.text.includes('Undo')]).toEqual([200, true, false]);
  expect((await visitor.ask(`${home}/${id}/undo`, { token: readToken(seen.text) })).status).toBe(403);
  await database()`delete from user_roles where user_id = ${userId}`;
  expect((await visitor.ask(home)).status).toBe(403);
});
