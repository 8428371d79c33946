// Records with everything that can hang on them, for merges and their undo.
import { randomUUID } from 'node:crypto';
import { expectStatus } from './client.ts';
import { addNote } from './record-children.ts';
import { createRecord, recordsPath } from './records.ts';
import { database, newUser, type Tenant } from './tenants.ts';
import { fileForm } from './uploads.ts';

/** The tables whose rows a merge moves or changes. */
const mergedTables = [
  ...['leads', 'deals', 'customers', 'accounts', 'custom_records', 'custom_value_hashes', 'notes', 'tasks'],
  ...['activities', 'attachments', 'record_tags', 'links', 'deleted_records', 'deleted_items', 'messages'],
  ...['received_reports', 'bookings', 'message_drafts', 'scheduling_assignments', 'workforce_runs', 'notifications'],
  'sla_clocks',
];

/**
 * Returns every row of a tenant's records, except for versions and times of change, which only grow,
 * and for the times at which a job looks at an SLA clock.
 */
export async function snapshotRecords({ companyId }: Pick<Tenant, 'companyId'>): Promise<Record<string, string[]>> {
  const rows = await Promise.all(
    mergedTables.map(async (table) => {
      const found = await database()<{ row: string }[]>`
        select (to_jsonb(r) - '{version,updated_at,next_at,handled_at}'::text[])::text as row from ${database()(table)} r
        where company_id = ${companyId} order by 1`;
      return [table, found.map(({ row }) => row)] as const;
    }),
  );
  return Object.fromEntries(rows);
}

/** Creates what the records of `fillLead` need once for each tenant: an SLA policy and a link type. */
export async function prepareFilling({ key }: Pick<Tenant, 'key'>): Promise<void> {
  await expectStatus(201, 'POST', '/v1/settings/sla-policies', {
    key,
    body: { name: 'First', entity_type: 'lead', first_response_time: 60, mode: '24/7', timezone: 'UTC' },
  });
  await expectStatus(201, 'POST', '/v1/link-types', {
    key,
    body: {
      ...{ name: 'related', inverse_name: 'related_to', label: 'R', inverse_label: 'R' },
      ...{ from_object: 'accounts', to_object: 'leads', cardinality: 'many_to_many' },
    },
  });
}

/** Puts one of everything on a lead of a prepared tenant. */
export async function fillLead(of: Tenant, id: string): Promise<void> {
  const { companyId, key } = of;
  const sql = database();
  await addNote(key, 'leads', id, 'A note');
  await createRecord(key, 'tasks', {
    ...{ title: 'Call back', scheduled_at: '2036-01-01T09:00:00Z', object: 'leads', record_id: id },
  });
  await createRecord(key, 'activities', {
    ...{ entity_type: 'lead', entity_id: id, activity_type: 'Note', summary: 'Noted' },
    performed_at: '2026-11-01T09:00:00Z',
  });
  await createRecord(key, 'deals', { name: 'A deal', lead_id: id });
  await expectStatus(201, 'POST', `${recordsPath('leads', id)}/attachments`, { key, ...fileForm() });
  const { id: account } = await createRecord(key, 'accounts', { name: 'Linked' });
  await expectStatus(201, 'POST', `${recordsPath('accounts', account)}/links`, {
    key,
    body: { link_type: 'related', record_id: id },
  });
  const user = await newUser(of);
  await sql`
    insert into messages (company_id, test_mode, id, object, record_id, channel, direction, body, occurred_at)
    values (${companyId}, false, gen_random_uuid(), 'leads', ${id}, 'sms', 'inbound', 'Hello', now())`;
  await sql`
    insert into received_reports (company_id, test_mode, id, provider, external_id, kind, object, record_id, details, occurred_at, received_at)
    values (${companyId}, false, gen_random_uuid(), 'generic', ${randomUUID()}, 'sms', 'leads', ${id}, '{}', now(), now())`;
  const booking = randomUUID();
  await sql`
    insert into bookings (company_id, test_mode, id, status, user_id, policy_id, start_at, end_at, timezone, attendee_name, meeting_title, location_kind,
      provider, object, record_id, invitation_id, invitation_sequence, created_by_kind, created_by_id, created_at, updated_at)
    values (${companyId}, false, ${booking}, 'cancelled', ${user.id}, gen_random_uuid(), now() + interval '1 year', now() + interval '367 days',
      'UTC', 'Sara', 'Call', 'phone', 'internal', 'leads', ${id}, ${booking}, 0, 'api_key', 'x', now(), now())`;
  await sql`
    insert into message_drafts (company_id, test_mode, id, channel, status, recipient, body, object, record_id, created_by_kind, created_by_id,
      created_at, updated_at)
    values (${companyId}, false, gen_random_uuid(), 'email', 'draft', 'sara@x.example', 'Hello', 'leads', ${id}, 'system', 'tests', now(), now())`;
  await sql`
    insert into scheduling_assignments (company_id, test_mode, id, pool_id, policy_id, user_id, strategy, rotation_index, object, record_id, assigned_at)
    values (${companyId}, false, gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), ${user.id}, 'round_robin', 0, 'leads', ${id}, now())`;
  await sql`
    insert into notifications (company_id, id, user_id, kind, title, object, record_id, created_at)
    values (${companyId}, gen_random_uuid(), ${user.id}, 'sla_reminder', 'Soon', 'leads', ${id}, now())`;
  const workforce = randomUUID();
  await sql`
    insert into workforces (company_id, id, name, kind, status, subject_types, steps, stop_when_replied, created_at, updated_at)
    values (${companyId}, ${workforce}, ${workforce}, 'sequence', 'active', '{lead}', '[]', false, now(), now())`;
  for (const ended of [true, false])
    await sql`
      insert into workforce_runs (company_id, test_mode, id, workforce_id, status, object, record_id, context, steps, stop_when_replied, position,
        attempts, created_by_kind, created_by_id, enrolled_at, ended_at)
      values (${companyId}, false, gen_random_uuid(), ${workforce}, ${ended ? 'completed' : 'waiting'}, 'leads', ${id}, '{}', '[]', false, 0, 0,
        'system', 'tests', now(), ${ended ? new Date() : null})`;
}

/** Adds so much to a lead that its merge takes a job: notes, and deals that refer to it, as copies of one that does. */
export async function addManyItems(
  { companyId }: Pick<Tenant, 'companyId'>,
  id: string,
  { notes, deals }: { notes: number; deals: number },
  testMode = false,
): Promise<void> {
  const sql = database();
  await sql`
    insert into notes (company_id, test_mode, id, object, record_id, content, created_by_kind, created_by_id, created_at, updated_at)
    select ${companyId}, ${testMode}, gen_random_uuid(), 'leads', ${id}, 'A note', 'system', 'test', now(), now()
    from generate_series(1, ${notes}::int)`;
  await sql`
    insert into deals (company_id, test_mode, id, name, pipeline_id, stage_id, lead_id, created_by_kind, created_by_id, updated_by_id, created_at, updated_at)
    select company_id, test_mode, gen_random_uuid(), name, pipeline_id, stage_id, lead_id, created_by_kind, created_by_id, created_by_id,
      created_at, updated_at
    from deals r, generate_series(1, ${deals}::int)
    where r.company_id = ${companyId} and r.test_mode = ${testMode} and r.lead_id = ${id}`;
}
