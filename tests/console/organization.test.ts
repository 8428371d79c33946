// The organization at the console: branches, teams, and moving people.
import { expect, test } from 'vitest';
import { expectStatus } from '../support/client.ts';
import { Visitor } from '../support/page-client.ts';
import { newPerson } from '../support/sessions.ts';
import { newTenant, newUser } from '../support/tenants.ts';

const home = '/console/organization';

const readToken = (text: string): string => /name="token" value="([^"]+)"/.exec(text)?.[1] ?? '';
const findPage = (text: string, name: string): string =>
  new RegExp(`href="(${home}/[^"]+)"[^>]*>(?:<bdi>)?${name}<`).exec(text)?.[1] ?? '';

test('adds a branch and a team, moves a person, and deletes what is empty', async () => {
  const tenant = await newTenant();
  const visitor = new Visitor();
  await visitor.signIn(tenant.admin.email);
  const token = readToken((await visitor.ask(home)).text);
  expect((await visitor.ask(home, { token, kind: 'branch', name: 'Leeds' })).to).toBe(`${home}?done=added`);
  const twin = await visitor.ask(home, { token, kind: 'branch', name: 'LEEDS' });
  expect([twin.status, twin.text.includes('value="LEEDS"')]).toEqual([409, true]);
  const branch = findPage((await visitor.ask(home)).text, 'Leeds');
  const branchId = branch.split('/').at(-1) ?? '';
  const added = await visitor.ask(home, { token, kind: 'team', team_name: 'Inbound', branch_id: branchId });
  expect(added.to).toBe(`${home}?done=added`);
  const team = findPage((await visitor.ask(home)).text, 'Inbound');
  const teamId = team.split('/').at(-1) ?? '';

  const user = await newUser(tenant);
  const person = `/console/people/${user.id}`;
  expect((await visitor.ask(person)).text).toContain('Leeds, Inbound');
  expect((await visitor.ask(person, { token, place: `team ${teamId}` })).to).toBe(`${person}?done=place`);
  const read = async () => (await expectStatus(200, 'GET', `/v1/users/${user.id}`, { key: tenant.key })).body.data.user;
  expect(await read()).toMatchObject({ branch: { id: branchId }, team: { id: teamId } });
  expect((await visitor.ask(team)).text).toContain(user.id);
  expect((await visitor.ask(team, { token, delete: 'yes', confirmed: 'yes' })).status).toBe(409);

  const details = { token, name: 'York', code: 'YRK', city: '', country: 'GB', timezone: 'Europe/London' };
  expect((await visitor.ask(branch, details)).to).toBe(`${branch}?done=saved`);
  expect((await visitor.ask(branch, { ...details, timezone: 'Nowhere' })).status).toBe(400);
  expect((await visitor.ask(person, { token, place: `branch ${tenant.branchId}` })).to).toBe(`${person}?done=place`);
  expect(await read()).toMatchObject({ branch: { id: tenant.branchId }, team: null });
  for (const page of [team, branch])
    expect((await visitor.send(page, { delete: 'yes' })).to).toBe(`${home}?done=deleted`);
  expect(findPage((await visitor.ask(home)).text, 'York')).toBe('');
});

test('names the invalid field of the form that was sent', async () => {
  const tenant = await newTenant();
  const visitor = new Visitor();
  await visitor.signIn(tenant.admin.email);
  const token = readToken((await visitor.ask(home)).text);
  const name = 'x'.repeat(101);
  for (const [form, id, label] of [
    [{ kind: 'team', team_name: name, branch_id: tenant.branchId }, 'team_name', 'Name of the team'],
    [{ kind: 'branch', name }, 'name', 'Name of the branch'],
  ] as const) {
    const { status, text } = await visitor.ask(home, { token, ...form });
    expect(status).toBe(400);
    expect(text).toContain(`<a href="#${id}">${label} must have at most 100 characters.</a>`);
    expect([...text.matchAll(/id="(\w+)" name="[^"]*"[^>]* aria-invalid="true"/g)].map(([, each]) => each)).toEqual([
      id,
    ]);
  }
});

test('shows people without permission no forms, and rejects theirs', async () => {
  const tenant = await newTenant();
  const { email } = await newPerson(tenant, 'Viewer');
  const visitor = new Visitor();
  await visitor.signIn(email);
  const shown = await visitor.ask(home);
  expect([shown.status, shown.text.includes('Add branch')]).toEqual([200, false]);
  const token = readToken(shown.text);
  expect((await visitor.ask(home, { token, kind: 'branch', name: 'Mine' })).status).toBe(403);
});
