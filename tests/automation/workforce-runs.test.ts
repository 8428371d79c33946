// Workforce runs: steps are performed once, and how runs end.
import { randomUUID } from 'node:crypto';
import { beforeAll, describe, expect, test } from 'vitest';
import { call, expectStatus, type Json } from '../support/client.ts';
import { recordedEvents } from '../support/events.ts';
import { listChildren } from '../support/record-children.ts';
import { createRecord } from '../support/records.ts';
import { newWideTenant } from '../support/requests.ts';
import { createSetting } from '../support/settings.ts';
import { database, newKey, type Tenant } from '../support/tenants.ts';
import { enroll, newWorkforce, passWait, readRun, runThatIs } from '../support/workforces.ts';

let tenant: Tenant;

beforeAll(async () => {
  tenant = await newWideTenant();
  const fields = [{ field: 'priority', operator: 'eq', value: 1 }];
  await createSetting(tenant, '/v1/settings/tags/leads', { name: 'Urgent', color: '#DC2626', priority: 1, fields });
});

const newLead = (more: object = {}): Promise<Json> =>
  createRecord(tenant.key, 'leads', { first_name: 'Sara', email: `${randomUUID()}@x.example`, ...more });
const readLead = async (id: string): Promise<Json> =>
  (await expectStatus(200, 'GET', `/v1/objects/leads/records/${id}`, { key: tenant.key })).body.data.record;
const readNotes = async (id: string): Promise<string[]> =>
  (await listChildren(tenant.key, 'leads', id, 'notes')).notes.map(({ content }: Json) => content);
const change = (workforce: Json, body: object) =>
  expectStatus(200, 'PATCH', `/v1/workforces/${workforce.id}`, { key: tenant.key, body });
const ended = /completed|stopped|failed|cancelled/;

describe('a run', () => {
  test('performs every kind of step as the workforce, with the same result as the API', async () => {
    const steps = [
      { kind: 'create_task', title: 'Call {{first_name}}', task_type: 'call', due_in_minutes: 60 },
      { kind: 'add_note', content: '{{first_name}} of {{company_name}}, {{lead_status}}{{job_title}}.' },
      { kind: 'set_field', field: 'origin', value: 'workforce' },
      { kind: 'add_tag', tag: 'urgent' },
      { kind: 'stop_when', condition: { field: 'origin', op: 'neq', value: 'workforce' } },
      { kind: 'draft_message', channel: 'email', subject: 'For {{first_name}}', body: 'Hello {{first_name}}' },
    ];
    const workforce = await newWorkforce(tenant.key, { steps });
    const lead = await newLead({ company_name: 'Blue Lake' });
    const run = await runThatIs(ended, tenant.key, workforce, await enroll(tenant.key, workforce, lead.id));
    expect(run).toMatchObject({ status: 'completed', steps_done: 6, error: null, next_step_at: null });
    expect(run.steps.map(({ status, made }: Json) => [status, made?.object ?? null])).toEqual([
      ['done', 'tasks'],
      ['done', 'notes'],
      ['done', null],
      ['done', null],
      ['done', null],
      ['done', 'message_drafts'],
    ]);
    const { tasks } = await listChildren(tenant.key, 'leads', lead.id, 'tasks');
    expect(tasks).toMatchObject([{ id: run.steps[0].made.id, title: 'Call Sara', task_type: 'Call', status: 'open' }]);
    expect(Date.parse(tasks[0].scheduled_at) - Date.parse(run.steps[0].at)).toBeLessThanOrEqual(3_600_000);
    const { notes } = await listChildren(tenant.key, 'leads', lead.id, 'notes');
    expect(notes).toMatchObject([
      {
        content: `Sara of Blue Lake, ${lead.lead_status}.`,
        created_by: { kind: 'system', id: workforce.id, name: workforce.name },
      },
    ]);
    expect(await readLead(lead.id)).toMatchObject({ origin: 'workforce' });
    const { tags } = await listChildren(tenant.key, 'leads', lead.id, 'tags');
    expect(tags).toMatchObject([{ name: 'Urgent', is_manual: true }]);
    const drafts = await expectStatus(200, 'GET', `/v1/messages/drafts/${run.steps[5].made.id}`, { key: tenant.key });
    expect(drafts.body.data.draft).toMatchObject({
      status: 'draft',
      to: lead.email,
      subject: 'For Sara',
      body: 'Hello Sara',
      record_id: lead.id,
    });
    const audit = await database()`
      select actor_kind, actor_id, action, api_key_id from audit_logs
      where company_id = ${tenant.companyId} and actor_kind = 'system' and actor_id = ${workforce.id} order by seq`;
    expect(audit.map(({ action }) => action)).toEqual([
      'task.create',
      'note.create',
      'lead.update',
      'record.tag',
      'message_draft.create',
    ]);
    const recorded = await database()`
      select event, actor ->> 'id' as actor from ${recordedEvents(database())}
      where company_id = ${tenant.companyId} and data ->> 'record_id' = ${lead.id}`;
    expect(recorded).toContainEqual({ event: 'record.updated', actor: workforce.id });
  });

  test('waits as long as its step says, then uses the current record', async () => {
    const steps = [
      { kind: 'wait', minutes: 2880 },
      { kind: 'add_note', content: '{{first_name}}' },
      { kind: 'wait', minutes: 1 },
    ];
    const workforce = await newWorkforce(tenant.key, { steps });
    const lead = await newLead();
    const runId = await enroll(tenant.key, workforce, lead.id);
    const waiting = await runThatIs(/waiting/, tenant.key, workforce, runId);
    expect(Date.parse(waiting.next_step_at) - Date.parse(waiting.steps[0].at)).toBe(2880 * 60_000);
    expect(await readNotes(lead.id)).toEqual([]);
    const path = `/v1/objects/leads/records/${lead.id}`;
    await expectStatus(200, 'PATCH', path, { key: tenant.key, body: { first_name: 'Salma' } });
    // Changes apply only to records enrolled later.
    await change(workforce, { steps: [{ kind: 'add_note', content: 'Others' }] });
    await passWait(runId);
    await expect.poll(() => readNotes(lead.id)).toEqual(['Salma']);
    expect(await runThatIs(/waiting/, tenant.key, workforce, runId)).toMatchObject({ steps_done: 3, step_count: 3 });
    await passWait(runId);
    expect((await runThatIs(ended, tenant.key, workforce, runId)).status).toBe('completed');
  });

  test('skips a step without effect and continues', async () => {
    const steps = [
      { kind: 'draft_message', channel: 'sms', body: 'Hello' },
      { kind: 'add_note', content: '{{job_title}}' },
      { kind: 'add_note', content: 'Done' },
    ];
    const workforce = await newWorkforce(tenant.key, { steps });
    const lead = await newLead();
    const run = await runThatIs(ended, tenant.key, workforce, await enroll(tenant.key, workforce, lead.id));
    expect(run).toMatchObject({ status: 'completed' });
    expect(run.steps.map(({ status, reason }: Json) => [status, reason])).toEqual([
      ['skipped', 'the record has no phone number'],
      ['skipped', 'content is empty for this record'],
      ['done', null],
    ]);
  });

  test('fails a run with the reason if the API rejects a step', async () => {
    const steps = [
      { kind: 'set_field', field: 'email', value: null },
      { kind: 'add_note', content: 'Never' },
    ];
    const workforce = await newWorkforce(tenant.key, { steps });
    const lead = await newLead();
    const run = await runThatIs(ended, tenant.key, workforce, await enroll(tenant.key, workforce, lead.id));
    expect(run).toMatchObject({ status: 'failed', error: { code: 'VALIDATION_ERROR' }, next_step_at: null });
    expect(run.steps).toMatchObject([
      { status: 'failed', error: run.error },
      { status: 'pending', error: null },
    ]);
    expect(await readNotes(lead.id)).toEqual([]);
  });

  test('cancels a run when its record is deleted', async () => {
    const workforce = await newWorkforce(tenant.key, {
      steps: [
        { kind: 'wait', minutes: 1 },
        { kind: 'add_note', content: 'Never' },
      ],
    });
    const lead = await newLead();
    const runId = await enroll(tenant.key, workforce, lead.id);
    await runThatIs(/waiting/, tenant.key, workforce, runId);
    await expectStatus(200, 'DELETE', `/v1/objects/leads/records/${lead.id}`, { key: tenant.key });
    await passWait(runId);
    expect(await runThatIs(ended, tenant.key, workforce, runId)).toMatchObject({ status: 'cancelled', error: null });
  });

  test('stops a run if a condition of a step or the workforce holds, or the record has replied', async () => {
    const wait = { kind: 'wait', minutes: 1 };
    const note = { kind: 'add_note', content: 'Never' };
    const condition = { field: 'origin', op: 'eq', value: 'stop' };
    const plans = [
      { steps: [wait, { kind: 'stop_when', condition }, note] },
      { steps: [wait, note], stop_when: condition },
      { steps: [wait, note], stop_when_replied: true },
    ];
    for (const plan of plans) {
      const workforce = await newWorkforce(tenant.key, plan);
      const lead = await newLead();
      const runId = await enroll(tenant.key, workforce, lead.id);
      await runThatIs(/waiting/, tenant.key, workforce, runId);
      await expectStatus(200, 'PATCH', `/v1/objects/leads/records/${lead.id}`, {
        key: tenant.key,
        body: { origin: 'stop' },
      });
      await database()`
        insert into messages (company_id, test_mode, id, object, record_id, channel, direction, body, occurred_at, created_at)
        values (${tenant.companyId}, false, ${randomUUID()}, 'leads', ${lead.id}, 'email', 'inbound', 'Yes', now() + interval '1 second', now())`;
      await passWait(runId);
      expect((await runThatIs(ended, tenant.key, workforce, runId)).status).toBe('stopped');
      expect(await readNotes(lead.id)).toEqual([]);
    }
  });

  test('pauses a run with its workforce and resumes it there', async () => {
    const workforce = await newWorkforce(tenant.key, {
      steps: [
        { kind: 'wait', minutes: 1 },
        { kind: 'add_note', content: 'Later' },
      ],
    });
    const lead = await newLead();
    const runId = await enroll(tenant.key, workforce, lead.id);
    await runThatIs(/waiting/, tenant.key, workforce, runId);
    await change(workforce, { status: 'paused' });
    await passWait(runId);
    const isLookedAt = async () => (await database()`select due_at from workforce_runs where id = ${runId}`)[0]?.due_at;
    await expect.poll(isLookedAt).toBeNull();
    expect(await readRun(tenant.key, workforce, runId)).toMatchObject({ status: 'waiting', steps_done: 1 });
    await change(workforce, { status: 'active' });
    expect((await runThatIs(ended, tenant.key, workforce, runId)).status).toBe('completed');
    expect(await readNotes(lead.id)).toEqual(['Later']);
  });

  test('pauses runs while workforces are disabled in the workspace', async () => {
    const other = await newWideTenant();
    const workforce = await newWorkforce(other.key, { steps: [{ kind: 'wait', minutes: 1 }] });
    const lead = await createRecord(other.key, 'leads', { first_name: 'Sara', email: 's@x.example' });
    const runId = await enroll(other.key, workforce, lead.id);
    await runThatIs(/waiting/, other.key, workforce, runId);
    const switchModules = (disabled: string[]) =>
      database()`update companies set disabled_modules = ${disabled} where id = ${other.companyId}`;
    await switchModules(['workforces']);
    await passWait(runId);
    const wait = async () => {
      const [row] =
        await database()`select due_at > now() + interval '30 minutes' as later from workforce_runs where id = ${runId}`;
      return row?.later;
    };
    await expect.poll(wait).toBe(true);
    await switchModules([]);
    await passWait(runId);
    expect((await runThatIs(ended, other.key, workforce, runId)).status).toBe('completed');
  });

  test('is not limited by rate limits or quotas', async () => {
    const other = await newWideTenant();
    const note = { kind: 'add_note', content: 'Hello' };
    const workforce = await newWorkforce(other.key, { steps: [{ kind: 'wait', minutes: 1 }, note, note, note] });
    const lead = await createRecord(other.key, 'leads', { first_name: 'Sara', email: 's@x.example' });
    const runId = await enroll(other.key, workforce, lead.id);
    await runThatIs(/waiting/, other.key, workforce, runId);
    await database()`update subscriptions set api_rate_limit_per_minute = 1 where company_id = ${other.companyId}`;
    await passWait(runId);
    const status = async () => (await database()`select status from workforce_runs where id = ${runId}`)[0]?.status;
    await expect.poll(status).toBe('completed');
  });
});

describe('a cancelled run', () => {
  const cancel = (key: string, workforce: Json, runId: string) =>
    call('POST', `/v1/workforces/${workforce.id}/runs/${runId}/cancel`, { key });
  const steps = [
    { kind: 'add_note', content: 'First' },
    { kind: 'wait', minutes: 60 },
    { kind: 'add_note', content: 'Second' },
  ];

  async function enrollTwo(workforce: Json) {
    const [lead, other] = [await newLead(), await newLead()];
    const runId = await enroll(tenant.key, workforce, lead.id);
    return { lead, other, runId, otherId: await enroll(tenant.key, workforce, other.id) };
  }

  test('performs no step after a run is cancelled, keeps its results, and permits another enrollment', async () => {
    const workforce = await newWorkforce(tenant.key, { steps });
    const { lead, other, runId, otherId } = await enrollTwo(workforce);
    for (const id of [runId, otherId]) await runThatIs(/waiting/, tenant.key, workforce, id);
    const { status, body } = await cancel(tenant.key, workforce, runId);
    expect([status, body.data.run]).toEqual([200, await readRun(tenant.key, workforce, runId)]);
    expect(body.data.run).toMatchObject({ status: 'cancelled', steps_done: 2, next_step_at: null, error: null });
    expect(body.data.run.ended_at).not.toBeNull();
    expect(body.data.run.steps.map((step: Json) => step.status)).toEqual(['done', 'done', 'pending']);
    const again = await cancel(tenant.key, workforce, runId);
    expect([again.status, again.body.data]).toEqual([200, body.data]);
    for (const id of [runId, otherId]) await passWait(id);
    expect(await runThatIs(/completed/, tenant.key, workforce, otherId)).toMatchObject({ steps_done: 3 });
    expect([await readNotes(lead.id), (await readNotes(other.id)).toSorted()]).toEqual([
      ['First'],
      ['First', 'Second'],
    ]);
    const audit = await database()`
      select metadata from audit_logs where record_id = ${lead.id} and action = 'workforce.cancel'`;
    expect(audit).toEqual([{ metadata: { workforce_id: workforce.id, run_id: runId } }]);
    expect(await enroll(tenant.key, workforce, lead.id)).not.toBe(runId);
  });

  test('does not resume a cancelled run when its workforce resumes after a pause', async () => {
    const workforce = await newWorkforce(tenant.key, { steps });
    const { runId, otherId } = await enrollTwo(workforce);
    await change(workforce, { status: 'paused' });
    expect((await cancel(tenant.key, workforce, runId)).status).toBe(200);
    await change(workforce, { status: 'active' });
    await runThatIs(/waiting/, tenant.key, workforce, otherId);
    expect(await readRun(tenant.key, workforce, runId)).toMatchObject({ status: 'cancelled' });
  });

  test('cancels only a running run of this workforce for callers with full visibility', async () => {
    const workforce = await newWorkforce(tenant.key);
    const runId = await enroll(tenant.key, workforce, (await newLead()).id);
    await runThatIs(/completed/, tenant.key, workforce, runId);
    const { code, details } = (await cancel(tenant.key, workforce, runId)).body.error;
    expect([code, details]).toEqual(['CONFLICT', { reason: 'run_ended', status: 'completed' }]);
    expect((await cancel(tenant.key, await newWorkforce(tenant.key), runId)).status).toBe(404);
    const narrow = await newKey(tenant, { reach: { kind: 'branch', id: tenant.branchId } });
    expect((await cancel(narrow, workforce, runId)).body.error.details.reason).toBe('company_reach_required');
  });
});

describe('enrolling', () => {
  const post = (key: string, workforce: Json, body: object, idempotencyKey?: string) =>
    call('POST', `/v1/workforces/${workforce.id}/enroll`, { key, body, ...(idempotencyKey ? { idempotencyKey } : {}) });

  test('enrolls a record once at a time under concurrent calls', async () => {
    const workforce = await newWorkforce(tenant.key, { steps: [{ kind: 'wait', minutes: 1 }] });
    const lead = await newLead();
    const body = { subject_type: 'lead', subject_id: lead.id };
    const answers = await Promise.all(Array.from({ length: 6 }, () => post(tenant.key, workforce, body)));
    expect(answers.map(({ status }) => status).sort()).toEqual([202, 409, 409, 409, 409, 409]);
    const [first] = answers.filter(({ status }) => status === 202);
    const refused = await post(tenant.key, workforce, body);
    expect(refused.body.error.details).toEqual({ reason: 'already_enrolled', run_id: first?.body.data.run_id });
    await passWait(first?.body.data.run_id);
    await runThatIs(/waiting/, tenant.key, workforce, first?.body.data.run_id);
    await passWait(first?.body.data.run_id);
    await runThatIs(ended, tenant.key, workforce, first?.body.data.run_id);
    expect((await post(tenant.key, workforce, body)).status).toBe(202);
    const { runs } = (await expectStatus(200, 'GET', `/v1/workforces/${workforce.id}/runs`, { key: tenant.key })).body
      .data;
    expect(runs.map(({ subject_id }: Json) => subject_id)).toEqual([lead.id, lead.id]);
  });

  test('returns the existing run for a retry', async () => {
    const workforce = await newWorkforce(tenant.key, { steps: [{ kind: 'wait', minutes: 1 }] });
    const body = { subject_type: 'lead', subject_id: (await newLead()).id, context: { source: 'landing page' } };
    const key = randomUUID();
    const [first, second] = [
      await post(tenant.key, workforce, body, key),
      await post(tenant.key, workforce, body, key),
    ];
    expect(second.body.data).toEqual(first.body.data);
    expect(await readRun(tenant.key, workforce, first.body.data.run_id)).toMatchObject({ context: body.context });
  });

  test('only counts the records in test mode', async () => {
    const workforce = await newWorkforce(tenant.key);
    const lead = await createRecord(tenant.testKey, 'leads', { first_name: 'Test', email: 't@x.example' });
    const body = { subject_type: 'lead', subject_id: lead.id };
    const answer = await post(tenant.testKey, workforce, body);
    expect(answer.status).toBe(200);
    expect(answer.body.data).toMatchObject({
      enrolled: false,
      simulated: true,
      test_mode: true,
      kind: 'workforce_run',
      reason: 'test_mode',
      run_id: null,
      detail: { would_run_steps: 1 },
    });
    expect((await post(tenant.testKey, workforce, { ...body, subject_id: (await newLead()).id })).status).toBe(404);
    expect(await database()`select from workforce_runs where workforce_id = ${workforce.id}`).toHaveLength(0);
  });

  test('rejects records of other types, unknown or invisible records, and inactive workforces', async () => {
    const lead = await newLead();
    const workforce = await newWorkforce(tenant.key, { status: 'draft' });
    const reason = async (body: object, key = tenant.key) => {
      const { status, body: answer } = await post(key, workforce, {
        subject_type: 'lead',
        subject_id: lead.id,
        ...body,
      });
      return `${status} ${answer.error?.details?.reason ?? ''}`.trim();
    };
    expect(await reason({})).toBe('409 workforce_not_active');
    const account = await createRecord(tenant.key, 'accounts', { name: 'Blue Lake' });
    expect(await reason({ subject_type: 'account', subject_id: account.id })).toBe('409 subject_type_not_allowed');
    expect(await reason({ subject_type: 'deal' })).toBe('404');
    expect(await reason({}, await newKey(tenant, { scopes: ['workforces:create'] }))).toBe('404');
  });
});
