// Calls that affect thousands of records emit an event or write an audit row for each.
import { createHash, randomUUID } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { expectStatus } from '../support/client.ts';
import { recordedEvents } from '../support/events.ts';
import { audited, createRecord, lead, recordsPath } from '../support/records.ts';
import { database, newTenant } from '../support/tenants.ts';

describe('deletion of a record with a long history', () => {
  test('deletes everything that belongs to a record, with events and counts', async () => {
    const { key, companyId } = await newTenant();
    const [going, staying] = [await history(key), await history(key)];
    await copy('activities', going.activity, 2600);
    await copy('tasks', going.task, 2600);
    await copy('tasks', going.taskOfActivity, 200);
    await copy('notes', going.note, 1500);

    const answer = await expectStatus(200, 'DELETE', recordsPath('leads', going.lead), { key });

    const [audit, ...more] = await audited(answer);
    expect(audit).toMatchObject({
      action: 'lead.delete',
      metadata: { activities: 2601, tasks: 2802, notes: 1501, attachments: 0 },
    });
    expect(more).toEqual([]);
    const sql = database();
    const emitted = await sql`
      select data ->> 'object' as object, count(distinct data ->> 'record_id')::int as records, count(*)::int as events
      from ${recordedEvents(sql)}
      where request_id = ${answer.headers.get('x-request-id')} and event = 'record.deleted' group by 1 order by 1`;
    expect([...emitted]).toEqual([
      { object: 'activities', records: 2601, events: 2601 },
      { object: 'leads', records: 1, events: 1 },
      { object: 'tasks', records: 2802, events: 2802 },
    ]);
    const [left] = await sql`
      select (select count(*)::int from activities where company_id = ${companyId}) as activities,
        (select count(*)::int from tasks where company_id = ${companyId}) as tasks,
        (select count(*)::int from notes where company_id = ${companyId}) as notes`;
    expect(left).toEqual({ activities: 1, tasks: 2, notes: 1 });
    await expectStatus(200, 'GET', recordsPath('leads', staying.lead), { key });
  });
});

describe('a batch', () => {
  test('writes an audit row with the Idempotency-Key for each record of a batch', async () => {
    const { key } = await newTenant();
    const idempotencyKey = randomUUID();
    const body = { records: [lead(), lead(), lead()] };
    const answer = await expectStatus(200, 'POST', `${recordsPath('leads')}:batch`, { key, body, idempotencyKey });
    const rows = await database()`
      select action, changes, metadata, encode(idempotency_key_hash, 'hex') as hash, key_name is not null as named
      from audit_logs where request_id = ${answer.headers.get('x-request-id')}`;
    const hash = createHash('sha256').update(idempotencyKey).digest('hex');
    const row = { action: 'lead.create', changes: null, metadata: null, hash, named: true };
    expect([...rows]).toEqual([row, row, row]);
  });
});

interface History {
  lead: string;
  activity: string;
  task: string;
  taskOfActivity: string;
  note: string;
}

/** Creates a lead with a task, and with an activity that has a task and a note. */
async function history(key: string): Promise<History> {
  const { id } = await createRecord(key, 'leads', lead());
  const logged = { activity_type: 'Call', entity_type: 'lead', entity_id: id, summary: 'Called' };
  const activity = await createRecord(key, 'activities', logged);
  const of = (object: string, record_id: string) => ({ title: 'T', scheduled_at: '2036-01-01', object, record_id });
  const task = await createRecord(key, 'tasks', of('leads', id));
  const taskOfActivity = await createRecord(key, 'tasks', of('activities', activity.id));
  const { body } = await expectStatus(201, 'POST', `${recordsPath('activities', activity.id)}/notes`, {
    key,
    body: { content: 'Said yes' },
    idempotencyKey: true,
  });
  return { lead: id, activity: activity.id, task: task.id, taskOfActivity: taskOfActivity.id, note: body.data.note.id };
}

async function copy(table: 'activities' | 'tasks' | 'notes', id: string, times: number): Promise<void> {
  const sql = database();
  await sql`
    insert into ${sql(table)}
    select (jsonb_populate_record(r, jsonb_build_object('id', gen_random_uuid()))).*
    from ${sql(table)} r, generate_series(1, ${times}::int) where r.id = ${id}`;
}
