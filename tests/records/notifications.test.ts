// Notifications: who gets them, who may see them, and which are read.
import { randomUUID } from 'node:crypto';
import { v7 as uuidv7 } from 'uuid';
import { beforeAll, describe, expect, test } from 'vitest';
import { newBearer } from '../support/access-tokens.ts';
import { newTeam } from '../support/arranged-ids.ts';
import { call, expectStatus, type Json } from '../support/client.ts';
import { audited, createRecord, patchRecord } from '../support/records.ts';
import { adminToken, tokenFor } from '../support/sessions.ts';
import { database, newTenant, newUser, type Tenant } from '../support/tenants.ts';

let tenant: Tenant;
let other: Tenant;

beforeAll(async () => {
  [tenant, other] = await Promise.all([newTenant(), newTenant()]);
});

/** Adds a notification of a user. @returns its id */
async function notify(of: Tenant, userId: string, more: object = {}): Promise<string> {
  const row = { kind: 'webhook_failing', title: 'It keeps failing.', created_at: new Date(), ...more };
  const id = uuidv7();
  await database()`insert into notifications ${database()({ company_id: of.companyId, id, user_id: userId, ...row })}`;
  return id;
}

const list = async (token: string, query: Record<string, string> = {}): Promise<Json> =>
  (await expectStatus(200, 'GET', '/v1/notifications', { token, query })).body.data;
const listIds = async (token: string, query: Record<string, string> = {}): Promise<string[]> =>
  (await list(token, query)).notifications.map(({ id }: Json) => id);
const mark = (status: number, token: string, body: object) =>
  expectStatus(status, 'POST', '/v1/notifications/read', { token, body });

describe('GET /v1/notifications', () => {
  test('returns the notifications of the user only, newest first, in pages', async () => {
    const [user, colleague] = [
      await newUser(tenant, { role: 'Company_Admin' }),
      await newUser(tenant, { role: 'Company_Admin' }),
    ];
    const token = await tokenFor(tenant, user);
    const subject = randomUUID();
    const created_at = new Date('2026-11-01T00:00:00.000Z');
    const ids = [
      await notify(tenant, user.id, { created_at }),
      await notify(tenant, user.id, { created_at }),
      await notify(tenant, user.id, { subject_id: subject }),
    ].toReversed();
    await notify(tenant, colleague.id);
    const { notifications, ...rest } = await list(token);
    expect(rest).toEqual({ unread_count: 3, next_cursor: null, has_more: false });
    expect(notifications.map(({ id }: Json) => id)).toEqual(ids);
    expect(notifications[0]).toEqual({
      id: ids[0],
      kind: 'webhook_failing',
      title: 'It keeps failing.',
      object: null,
      record_id: null,
      subject_id: subject,
      created_at: expect.any(String),
      read_at: null,
    });
    const seen: string[] = [];
    let cursor: string | null = null;
    do {
      const page: Json = await list(token, { limit: '1', ...(cursor ? { cursor } : {}) });
      seen.push(...page.notifications.map(({ id }: Json) => id));
      cursor = page.next_cursor;
      if (cursor)
        await expectStatus(400, 'GET', '/v1/notifications', {
          token: await tokenFor(tenant, colleague),
          query: { cursor },
        });
    } while (cursor);
    expect(seen).toEqual(ids);
  });

  test('returns a notification about a record only while the user can see the record', async () => {
    const team = await newTeam(tenant);
    const [rep, manager] = [await newUser(tenant), await newUser(tenant, { role: 'Sales_Manager' })];
    await expectStatus(200, 'PATCH', `/v1/users/${manager.id}`, { key: tenant.key, body: { team_id: team } });
    const lead = await createRecord(tenant.key, 'leads', {
      first_name: 'Ada',
      email: 'ada@x.example',
      assigned_to: rep.id,
    });
    const about = { kind: 'sla_escalation', title: 'Ada waits.', object: 'leads', record_id: lead.id };
    const ids = [await notify(tenant, rep.id, about), await notify(tenant, manager.id, about)];
    const tokens = [await tokenFor(tenant, rep), await tokenFor(tenant, manager)] as const;
    const readAll = (): Promise<string[][]> => Promise.all(tokens.map((token) => listIds(token)));
    expect(await readAll()).toEqual([[ids[0]], []]);
    await expectStatus(200, 'PATCH', `/v1/users/${rep.id}`, { key: tenant.key, body: { team_id: team } });
    expect(await readAll()).toEqual([[ids[0]], [ids[1]]]);
    await patchRecord(tenant.key, 'leads', lead.id, { assigned_to: tenant.admin.id });
    expect(await readAll()).toEqual([[], []]);
    expect((await list(tokens[0])).unread_count).toBe(0);
    await patchRecord(tenant.key, 'leads', lead.id, { assigned_to: rep.id });
    await expectStatus(200, 'DELETE', `/v1/objects/leads/records/${lead.id}`, { key: tenant.key });
    expect(await readAll()).toEqual([[], []]);
  });

  test('shows an app only what its scopes allow', async () => {
    const user = await newUser(tenant, { role: 'Company_Admin' });
    const lead = await createRecord(tenant.key, 'leads', { first_name: 'Ada', email: 'eva@x.example' });
    const about = { kind: 'sla_reminder', title: 'Ada waits.', object: 'leads', record_id: lead.id };
    const [onLead, onWebhook, onKey] = [
      await notify(tenant, user.id, about),
      await notify(tenant, user.id),
      await notify(tenant, user.id, { kind: 'key_expiring' }),
    ];
    const withScopes = async (...scopes: string[]): Promise<string[]> =>
      listIds(await newBearer(tenant, scopes, { userId: user.id }));
    expect(await withScopes('leads:view')).toEqual([onLead]);
    expect(await withScopes('webhooks:view')).toEqual([onWebhook]);
    expect(await withScopes('deals:view')).toEqual([]);
    expect(await listIds(await tokenFor(tenant, user))).toEqual([onKey, onWebhook, onLead]);
  });

  test('rejects API keys, and shows nothing to users of other companies', async () => {
    const answer = await call('GET', '/v1/notifications', { key: tenant.key });
    expect(answer.status).toBe(403);
    await notify(tenant, tenant.admin.id);
    expect(await listIds(await adminToken(other))).toEqual([]);
  });
});

describe('POST /v1/notifications/read', () => {
  test('marks the named ones once, and all others on request', async () => {
    const user = await newUser(tenant, { role: 'Company_Admin' });
    const token = await tokenFor(tenant, user);
    const ids = [await notify(tenant, user.id), await notify(tenant, user.id), await notify(tenant, user.id)];
    const [first = ''] = ids;
    expect((await mark(200, token, { ids: [first.toUpperCase()] })).body.data).toEqual({ marked: 1 });
    const { notifications, unread_count: unread } = await list(token);
    const read = notifications.find(({ id }: Json) => id === first);
    expect([unread, read.read_at]).toEqual([2, expect.any(String)]);
    expect((await mark(200, token, { ids: [first] })).body.data).toEqual({ marked: 0 });
    expect((await list(token)).notifications.find(({ id }: Json) => id === first)).toEqual(read);
    expect(await listIds(token, { unread: 'true' })).toEqual(ids.slice(1).toReversed());
    const all = await mark(200, token, { all: true });
    expect(all.body.data).toEqual({ marked: 2 });
    expect(await audited(all)).toMatchObject([{ action: 'notification.read', metadata: { marked: 2 } }]);
    expect(await audited(await mark(200, token, { all: true }))).toEqual([]);
    expect(await listIds(token, { unread: 'true' })).toEqual([]);
  });

  test('marks none if one is unknown or of another user', async () => {
    const user = await newUser(tenant, { role: 'Company_Admin' });
    const token = await tokenFor(tenant, user);
    const own = await notify(tenant, user.id);
    for (const foreign of [randomUUID(), await notify(tenant, tenant.admin.id), await notify(other, other.admin.id)])
      await mark(404, token, { ids: [own, foreign] });
    expect(await listIds(token, { unread: 'true' })).toEqual([own]);
  });

  test('marks only notifications that the caller can see', async () => {
    const user = await newUser(tenant, { role: 'Company_Admin' });
    const lead = await createRecord(tenant.key, 'leads', { first_name: 'Ada', email: 'ida@x.example' });
    const about = { kind: 'sla_escalation', title: 'Ada waits.', object: 'leads', record_id: lead.id };
    const [onLead, onWebhook] = [await notify(tenant, user.id, about), await notify(tenant, user.id)];
    const [none, leads] = [
      await newBearer(tenant, ['deals:view'], { userId: user.id }),
      await newBearer(tenant, ['leads:view'], { userId: user.id }),
    ];
    expect((await mark(200, none, { all: true })).body.data).toEqual({ marked: 0 });
    await mark(404, none, { ids: [onLead] });
    await mark(404, leads, { ids: [onLead, onWebhook] });
    const token = await tokenFor(tenant, user);
    expect(await listIds(token, { unread: 'true' })).toEqual([onWebhook, onLead]);
    expect((await mark(200, leads, { all: true })).body.data).toEqual({ marked: 1 });
    expect(await listIds(token, { unread: 'true' })).toEqual([onWebhook]);
    // A record that the user can no longer see.
    await expectStatus(200, 'DELETE', `/v1/objects/leads/records/${lead.id}`, { key: tenant.key });
    await mark(404, token, { ids: [onLead] });
  });

  test('requires ids or all', async () => {
    const token = await adminToken(tenant);
    for (const body of [{}, { ids: [], all: true }, { ids: [] }, { all: false }, { ids: [randomUUID()], all: true }])
      await mark(400, token, body);
  });
});
