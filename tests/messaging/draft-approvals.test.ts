// Decisions about drafts and runs: permissions, exact content, once.
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { Pool } from '../../db/client/pool.ts';
import { runCampaigns } from '../../jobs/messaging/campaigns.ts';
import { applyRunDecisions } from '../../jobs/messaging/run-decisions.ts';
import type { JobPools } from '../../jobs/runner.ts';
import {
  approveDraft,
  approveRun,
  decideDrafts,
  findDraftsToApprove,
  rejectDraft,
  rejectRun,
} from '../../services/messaging/draft-approvals.ts';
import { openPeople, type PersonOptions } from '../support/approvals.ts';
import { expectStatus, type Json } from '../support/client.ts';
import { recordedEvents } from '../support/events.ts';
import { buildJobContext } from '../support/job-runs.ts';
import { newCampaign, newDraft, someNumber } from '../support/messaging.ts';
import { createRecords } from '../support/records.ts';
import { newWideTenant } from '../support/requests.ts';
import { database, type Tenant } from '../support/tenants.ts';

let people: ReturnType<typeof openPeople>;
let pools: JobPools;
let tenant: Tenant;

beforeAll(async () => {
  const url = inject('databaseUrl');
  people = openPeople(url);
  const shared = { url, prepare: true, spread: false, wait: 10_000, statementTimeout: 5000 };
  const platform = new Pool({ ...shared, role: 'crm_platform', lanes: 1 });
  const tenants = new Pool({ ...shared, role: 'crm_app', name: 'messages', lanes: 1 });
  pools = { platform, tenants };
  tenant = await newWideTenant();
});
afterAll(() => Promise.all([people.close(), pools.platform.close(1), pools.tenants.close(1)]));

const shownTo = (whose: Tenant, options?: PersonOptions) =>
  people.decide(whose, (call) => findDraftsToApprove(call, undefined, 50), options);

/** Returns the hash of a draft as shown to a person. */
async function findHash(draft: Json, whose = tenant, options?: PersonOptions): Promise<string> {
  const found = (await shownTo(whose, options)).find((each) => each.draft.id === draft.id);
  return found?.draft.hash ?? 'not shown';
}
const approve = (draft: Json, hash: string, options?: PersonOptions) =>
  people.decide(tenant, (call) => approveDraft(call, draft.id, hash), options);
const stored = async (id: string): Promise<Json> =>
  (await database()<Json[]>`select * from message_drafts where id = ${id}`)[0];
const recorded = (id: string) => database()<Json[]>`
  select data->>'from' as from, data->>'to' as to, actor->>'kind' as by from ${recordedEvents(database())}
  where event = 'message.draft.status_changed' and data->>'draft_id' = ${id} order by occurred_at, id`;

describe('a draft', () => {
  test('approves a draft as shown, for a person, with event and audit row', async () => {
    const draft = await newDraft(tenant.key, { note: 'For the fair' });
    await approve(draft, await findHash(draft));
    const row = await stored(draft.id);
    expect(row).toMatchObject({ approved_by: tenant.admin.id, approved_by_name: 'Ada Admin' });
    expect(row.approved_at).toBeInstanceOf(Date);
    expect((await recorded(draft.id))[0]).toEqual({ from: 'draft', to: 'approved', by: 'user' });
    const audit = await database()`
      select actor_id, changes from audit_logs where record_id = ${draft.id} and action = 'message_draft.approve'`;
    expect(audit).toEqual([{ actor_id: tenant.admin.id, changes: { status: { from: 'draft', to: 'approved' } } }]);
    expect(await findHash(draft)).toBe('not shown');
  });

  test('approves a draft once under concurrent approvals', async () => {
    const draft = await newDraft(tenant.key);
    const hash = await findHash(draft);
    const all = await Promise.allSettled(Array.from({ length: 8 }, () => approve(draft, hash)));
    expect(all.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
    for (const each of all)
      if (each.status === 'rejected')
        expect(each.reason).toMatchObject({ code: 'CONFLICT', details: { reason: 'not_a_draft' } });
  });

  test.each(['channel', 'sender', 'recipient', 'subject', 'body'])(
    'rejects the approval of a draft whose %s has changed',
    async (column) => {
      const draft = await newDraft(tenant.key);
      const hash = await findHash(draft);
      const changed = column === 'channel' ? 'whatsapp' : someNumber();
      await database()`update message_drafts set ${database()({ [column]: changed })} where id = ${draft.id}`;
      await expect(approve(draft, hash)).rejects.toMatchObject({
        code: 'CONFLICT',
        details: { reason: 'draft_changed' },
      });
      expect((await stored(draft.id)).status).toBe('draft');
      await approve(draft, await findHash(draft));
    },
  );

  test('decides about several drafts as shown, and returns why the others are left', async () => {
    const [approved, changed, decided] = [
      await newDraft(tenant.key),
      await newDraft(tenant.key),
      await newDraft(tenant.key),
    ];
    const shown = await Promise.all(
      [approved, changed, decided].map(async (draft) => ({ id: draft.id, hash: await findHash(draft) })),
    );
    await database()`update message_drafts set body = 'Changed' where id = ${changed.id}`;
    await people.decide(tenant, (call) => rejectDraft(call, decided.id));
    const missing = { id: randomUUID(), hash: 'x' };
    const outcome = await people.decide(tenant, (call) => decideDrafts(call, [...shown, missing], 'approved'));
    expect(outcome.decided).toEqual([approved.id]);
    expect(Object.fromEntries(outcome.left.map(({ id, reason }) => [id, reason]))).toEqual({
      [changed.id]: 'draft_changed',
      [decided.id]: 'not_a_draft',
      [missing.id]: 'not_found',
    });
    expect((await recorded(approved.id))[0]).toEqual({ from: 'draft', to: 'approved', by: 'user' });
  });

  test('hashes a draft differently if words move between its fields', async () => {
    const email = { channel: 'email', to: 'sara@bluelake.example' };
    const one = await newDraft(tenant.key, { ...email, subject: 'A', body: 'BC' });
    const two = await newDraft(tenant.key, { ...email, subject: 'AB', body: 'C' });
    expect(await findHash(one)).not.toBe(await findHash(two));
  });

  test('rejects the approval of a draft for a recipient who opted out, and keeps the draft', async () => {
    const number = someNumber();
    const draft = await newDraft(tenant.key, { to: number });
    await expectStatus(201, 'POST', '/v1/dnc-list', { key: tenant.key, body: { phone_number: number } });
    expect((await shownTo(tenant)).find((each) => each.draft.id === draft.id)).toMatchObject({ isOptedOut: true });
    await expect(approve(draft, await findHash(draft))).rejects.toMatchObject({ details: { reason: 'on_dnc_list' } });
    expect(await stored(draft.id)).toMatchObject({ status: 'draft', due_at: null });
  });

  test.each([
    ['a key', { caller: { kind: 'api_key', actor: { kind: 'api_key', id: randomUUID(), name: null } } }],
    [
      'an app in their name',
      { caller: { kind: 'oauth_client', actor: { kind: 'oauth_client', id: 'app', name: null } } },
    ],
    ['a person without permission', { scopes: ['inbox:view'] }],
  ] as const)('permits no decision about a draft by %s', async (_, options) => {
    const draft = await newDraft(tenant.key);
    const hash = await findHash(draft);
    const refused = { code: 'FORBIDDEN_SCOPE' };
    await expect(approve(draft, hash, options)).rejects.toMatchObject(refused);
    await expect(people.decide(tenant, (call) => rejectDraft(call, draft.id), options)).rejects.toMatchObject(refused);
    const decideMany = people.decide(
      tenant,
      (call) => decideDrafts(call, [{ id: draft.id, hash }], 'approved'),
      options,
    );
    await expect(decideMany).rejects.toMatchObject(refused);
    await expect(shownTo(tenant, options)).rejects.toMatchObject(refused);
    expect((await stored(draft.id)).status).toBe('draft');
  });

  test('rejects an approval without the module', async () => {
    const draft = await newDraft(tenant.key);
    const hash = await findHash(draft);
    await expect(approve(draft, hash, { packageCode: 'starter' })).rejects.toMatchObject({ code: 'MODULE_DISABLED' });
  });

  test('returns 404 for drafts of another company or mode', async () => {
    const draft = await newDraft(tenant.key);
    const hash = await findHash(draft);
    const elsewhere = { code: 'NOT_FOUND' };
    await expect(approve(draft, hash, { testMode: true })).rejects.toMatchObject(elsewhere);
    const other = await newWideTenant();
    await expect(people.decide(other, (call) => approveDraft(call, draft.id, hash))).rejects.toMatchObject(elsewhere);
  });

  test('rejects a draft permanently with a reason', async () => {
    const draft = await newDraft(tenant.key);
    const hash = await findHash(draft);
    await people.decide(tenant, (call) => rejectDraft(call, draft.id, 'Too early'));
    const read = await expectStatus(200, 'GET', `/v1/messages/drafts/${draft.id}`, { key: tenant.key });
    expect(read.body.data.draft).toMatchObject({
      status: 'rejected',
      rejection_reason: 'Too early',
      rejected_by: { kind: 'user', id: tenant.admin.id, name: 'Ada Admin' },
    });
    expect(await recorded(draft.id)).toEqual([{ from: 'draft', to: 'rejected', by: 'user' }]);
    await expect(approve(draft, hash)).rejects.toMatchObject({
      details: { reason: 'not_a_draft', status: 'rejected' },
    });
  });

  test('sends nothing after an approval in test mode', async () => {
    const draft = await newDraft(tenant.testKey);
    await database()`
      insert into phone_numbers (company_id, test_mode, id, phone_number, number_type, can_sms, can_voice, can_fax, status, monthly_cost_minor,
        currency, is_default, is_default_fax, created_at, updated_at)
      values (${tenant.companyId}, true, ${randomUUID()}, ${someNumber()}, 'local', true, false, false, 'active', 0, 'EUR', true, false, now(), now())`;
    await approve(draft, await findHash(draft, tenant, { testMode: true }), { testMode: true });
    await expect
      .poll(async () => stored(draft.id))
      .toMatchObject({ status: 'sent', provider_ref: 'dry_run', attempts: 1 });
    expect(await recorded(draft.id)).toEqual([
      { from: 'draft', to: 'approved', by: 'user' },
      { from: 'approved', to: 'sent', by: 'system' },
    ]);
  });
});

describe('a run', () => {
  /** Returns a campaign with a run that prepared an email for each of the leads. */
  async function prepared(leads: number): Promise<{ campaignId: string; runId: string; hash: string }> {
    const city = randomUUID();
    const rows = Array.from({ length: leads }, (_, index) => ({
      first_name: `L${index}`,
      city,
      email: `l${index}-${city}@x.example`,
    }));
    for (let from = 0; from < leads; from += 100)
      await createRecords(tenant.key, 'leads', rows.slice(from, from + 100));
    const campaign = await newCampaign(tenant.key, { filter: { field: 'city', op: 'eq', value: city } });
    const begun = await expectStatus(202, 'POST', `/v1/campaigns/${campaign.id}/runs`, {
      key: tenant.key,
      idempotencyKey: true,
    });
    await runCampaigns(buildJobContext('campaigns', pools));
    const { id: runId } = begun.body.data.run;
    const found = async () =>
      (await database()`select status, encode(content_hash, 'hex') as hash from campaign_runs where id = ${runId}`)[0];
    await expect.poll(async () => (await found())?.status).toBe('completed');
    return { campaignId: campaign.id, runId, hash: (await found())?.hash };
  }
  const counted = async (runId: string): Promise<Record<string, number>> =>
    Object.fromEntries(
      (
        await database()`
        select status, count(*)::int as count from message_drafts where run_id = ${runId} group by status order by status`
      ).map(({ status, count }) => [status, count]),
    );
  /** Applies the decision on two additional servers. */
  const carriedOut = async (runId: string): Promise<void> => {
    const decide = () => applyRunDecisions(buildJobContext('run-decisions', pools));
    await Promise.all([decide(), decide()]);
    await expect
      .poll(async () => (await database()`select decision_due_at from campaign_runs where id = ${runId}`)[0])
      .toEqual({ decision_due_at: null });
  };

  test('approves a run as a whole in steps, each draft once', async () => {
    const { campaignId, runId, hash } = await prepared(1100);
    await people.decide(tenant, (call) => approveRun(call, campaignId, runId, hash));
    await carriedOut(runId);
    await expect.poll(async () => (await counted(runId)).draft).toBeUndefined();
    const events = await database()`
      select data->>'draft_id' as id, count(*)::int as count from ${recordedEvents(database())}
      where data->>'campaign_id' = ${campaignId} and data->>'to' = 'approved' and actor->>'id' = ${tenant.admin.id} group by 1`;
    expect([events.length, new Set(events.map(({ count }) => count))]).toEqual([1100, new Set([1])]);
    const [by] = await database()`
      select count(*)::int as count from message_drafts where run_id = ${runId} and approved_by = ${tenant.admin.id} and approved_at is not null`;
    expect(by?.count).toBe(1100);
  });

  test('decides about a run once, and only as it was shown', async () => {
    const { campaignId, runId, hash } = await prepared(2);
    const other = hash.replace(/^./, (first) => (first === '0' ? '1' : '0'));
    const decideWith = (shown: string) => people.decide(tenant, (call) => approveRun(call, campaignId, runId, shown));
    await expect(decideWith(other)).rejects.toMatchObject({ details: { reason: 'run_changed' } });
    const all = await Promise.allSettled(Array.from({ length: 4 }, () => decideWith(hash)));
    expect(all.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
    await expect(people.decide(tenant, (call) => rejectRun(call, campaignId, runId))).rejects.toMatchObject({
      details: { reason: 'run_decided', decision: 'approved' },
    });
  });

  test('rejects all undecided drafts of a run', async () => {
    const { campaignId, runId } = await prepared(3);
    const [one] = await database()`select id from message_drafts where run_id = ${runId} limit 1`;
    await database()`update message_drafts set status = 'withdrawn' where id = ${one?.id}`;
    await people.decide(tenant, (call) => rejectRun(call, campaignId, runId, 'Wrong season'));
    await carriedOut(runId);
    expect(await counted(runId)).toEqual({ rejected: 2, withdrawn: 1 });
    const reasons = await database()`
      select distinct rejection_reason, rejected_by from message_drafts where run_id = ${runId} and status = 'rejected'`;
    expect(reasons).toEqual([{ rejection_reason: 'Wrong season', rejected_by: tenant.admin.id }]);
  });

  test('rejects decisions about a run without campaigns:create, and after its campaign is cancelled', async () => {
    const { campaignId, runId, hash } = await prepared(1);
    const decide = (options?: PersonOptions) =>
      people.decide(tenant, (call) => approveRun(call, campaignId, runId, hash), options);
    await expect(decide({ scopes: ['inbox:create'] })).rejects.toMatchObject({ code: 'FORBIDDEN_SCOPE' });
    await database()`update campaigns set status = 'cancelled' where id = ${campaignId}`;
    await expect(decide()).rejects.toMatchObject({ details: { reason: 'campaign_cancelled' } });
    expect(await counted(runId)).toEqual({ draft: 1 });
  });

  test('sends nothing more if the campaign is cancelled right after the approval of its run', async () => {
    const { campaignId, runId, hash } = await prepared(1);
    // Keeps the job of the running server from being first.
    await database().begin(async (sql) => {
      await sql`update campaigns set status = 'cancelled', due_at = null where id = ${campaignId}`;
      await sql`
        update campaign_runs set decision = 'approved', decided_by = ${tenant.admin.id}, decided_at = now(), decision_due_at = now()
        where id = ${runId} and encode(content_hash, 'hex') = ${hash}`;
    });
    await carriedOut(runId);
    expect(await counted(runId)).toEqual({ draft: 1 });
  });
});
