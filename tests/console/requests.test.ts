// The request log at the console: the list, its filters, and the story of one request.
import { expect, test } from 'vitest';
import { call } from '../support/client.ts';
import { Visitor } from '../support/page-client.ts';
import { newPerson } from '../support/sessions.ts';
import { database, newTenant, type Tenant } from '../support/tenants.ts';

const home = '/console/requests';

async function newVisitor(tenant: Tenant): Promise<Visitor> {
  const visitor = new Visitor();
  await visitor.signIn(tenant.admin.email);
  return visitor;
}

const createLead = async (key: string, body: object): Promise<string> => {
  const { body: answer } = await call('POST', '/v1/leads', { key, body });
  return answer.meta.request_id;
};

test('lists requests, filters them by status and text, and keeps modes separate', async () => {
  const tenant = await newTenant();
  const rejected = await createLead(tenant.key, { first_name: 'Sara', email: 'sara' });
  const created = await createLead(tenant.key, { first_name: 'Ada', email: 'ada@x.example' });
  const ofTest = await createLead(tenant.testKey, { first_name: 'Ben', email: 'ben@x.example' });
  const visitor = await newVisitor(tenant);
  const listed = async (query: string): Promise<boolean[]> => {
    const { text } = await visitor.ask(`${home}${query}`);
    return [rejected, created, ofTest].map((id) => text.includes(`${home}/${id}`));
  };
  await expect.poll(() => listed('')).toEqual([true, true, false]);
  expect(await listed('?status=4xx')).toEqual([true, false, false]);
  expect(await listed('?status=&operation=createLead&error_code=INVALID_FIELD_FORMAT')).toEqual([true, false, false]);
  expect(await listed('?path=/v1/objects')).toEqual([false, false, false]);
  await expect.poll(() => listed('?mode=test')).toEqual([false, false, true]);
  const wrong = await visitor.ask(`${home}?from=yesterday`);
  expect([wrong.status, wrong.text.includes('href="#from"')]).toEqual([400, true]);
});

test('tells the story of one request: its error, body and effects', async () => {
  const tenant = await newTenant();
  const rejected = await createLead(tenant.key, { first_name: 'Sara <b>', email: 'sara' });
  const created = await createLead(tenant.key, { first_name: 'Ada', email: 'ada@x.example' });
  const visitor = await newVisitor(tenant);
  const read = async (id: string): Promise<string> => (await visitor.ask(`${home}/${id}`)).text;
  await expect.poll(() => read(rejected)).toContain('INVALID_FIELD_FORMAT');
  const story = await read(rejected);
  for (const part of ['POST <bdi>/v1/leads', 'createLead', 'Sara &lt;b&gt;', 'email', 'The request changed nothing.'])
    expect(story).toContain(part);
  await expect.poll(() => read(created)).toContain('1 entry');
  expect(await read(created)).toContain(`/console/audit-log?request_id=${created}`);
});

test('is shown only with settings:view, and never for another workspace', async () => {
  const [tenant, other] = [await newTenant(), await newTenant()];
  const foreign = await createLead(other.key, { first_name: 'Ada', email: 'ada@x.example' });
  const [own, visitor] = [await newVisitor(other), await newVisitor(tenant)];
  await expect.poll(async () => (await own.ask(`${home}/${foreign}`)).status).toBe(200);
  expect((await visitor.ask(`${home}/${foreign}`)).status).toBe(404);
  const { email, id } = await newPerson(tenant, 'Viewer');
  await database()`delete from user_roles where user_id = ${id}`;
  const nobody = new Visitor();
  await nobody.signIn(email);
  expect((await nobody.ask(home)).status).toBe(403);
});
