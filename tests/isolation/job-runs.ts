// Work for jobs of every kind, which belongs to the fixture tenant only.
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import type { Sql } from 'postgres';
import { v7 as uuidv7 } from 'uuid';
import { database, type Tenant } from '../support/tenants.ts';
import type { TenantTable } from './schema.ts';
import { foreignRows, type Whose } from './shadow-rows.ts';

/**
 * Creates policies under which every record has clocks of every kind. A user is notified about the
 * first.
 */
export async function arrangePolicies({ companyId }: Tenant, recipient: string): Promise<void> {
  const sql = database();
  const escalation = {
    level: 1,
    type: 'first_response',
    minutes_after: 0,
    recipient_user_ids: [recipient],
    message_template: '{{record_name}} waits for {{assigned_to}}',
  };
  for (const entity of ['lead', 'customer', 'deal'])
    await sql`
      insert into sla_policies (company_id, id, name, entity_type, is_active, first_response_time, every_response_time, resolution_time,
        mode, timezone, escalations, created_at, updated_at)
      values (${companyId}, ${uuidv7()}, ${`Every ${entity}`}, ${entity}, true, 1000, 1000, 1000, '24/7', 'UTC', ${sql.json([escalation])}, now(), now())`;
}

/**
 * Leaves work for the jobs of the tenant's servers.
 * @param dataDir the folder of their files
 */
export async function addJobWork(sql: Sql, companyId: string, dataDir: string): Promise<void> {
  await sql`
    update sla_clocks
    set started_at = now() - interval '1 hour', handled_at = now() - interval '1 hour', due_at = now() - interval '1 minute',
      next_at = now() - interval '1 minute'
    where company_id = ${companyId} and not test_mode and ended_at is null and kind = 'first_response'`;
  // For customers with a priority, of which there are none, as for newSlaPolicy.
  const revised = uuidv7();
  await sql`
    insert into sla_policies (company_id, id, name, entity_type, priority, is_active, first_response_time, mode, timezone, revised_at, created_at, updated_at)
    values (${companyId}, ${revised}, 'Revised', 'customer', 4, true, 60, '24/7', 'UTC', now(), now(), now())`;
  await addClock(sql, companyId, revised, null);
  await addClock(sql, companyId, revised, '500 days');
  await sql`
    insert into notifications (company_id, id, user_id, kind, title, created_at)
    select company_id, gen_random_uuid(), id, 'sla_reminder', 'Long ago', now() - interval '500 days'
    from users where company_id = ${companyId} limit 1`;
  for (const template of ['welcome', 'of another version'])
    await sql`
      insert into mails (company_id, id, recipient, template, data, next_attempt_at, created_at)
      values (${companyId}, ${uuidv7()}, 'walk@example.com', ${template}, ${sql.json({ full_name: 'Walk', company_name: 'Walk' })}, now(), now())`;
  await sql`
    insert into mails (company_id, id, recipient, template, data, status, next_attempt_at, created_at)
    values (${companyId}, ${uuidv7()}, 'walk@example.com', 'welcome', '{}', 'sent', now(), now() - interval '500 days')`;
  await sql`
    insert into outbox_events (company_id, id, test_mode, event, occurred_at, actor, data, changes, created_by_kind, created_by_id)
    values (${companyId}, ${uuidv7()}, false, 'record.updated', now(), '{"name": "Walk"}', '{"name": "Walk"}', '{"name": "Walk"}', 'user', 'x')`;
  await sql`
    update api_keys set expires_at = now() + interval '1 day'
    where company_id = ${companyId} and id = (
      select id from api_keys
      where company_id = ${companyId} and expires_at is null and revoked_at is null and scopes = '{leads:view}' limit 1
    )`;
  const [unused, stuck] = [uuidv7(), uuidv7()];
  for (const id of [unused, stuck])
    await sql`
      insert into stored_files (company_id, test_mode, id, remove_after)
      values (${companyId}, false, ${id}, now() - interval '1 minute')`;
  await leaveOldRows(sql, companyId);
  // It is never delivered, because this walk has no mail server.
  await sql`
    insert into message_drafts (company_id, test_mode, id, channel, status, recipient, subject, body, due_at, created_by_kind, created_by_id,
      created_at, updated_at)
    values (${companyId}, false, ${uuidv7()}, 'email', 'approved', 'walk@example.com', 'Walk', 'Walk', now(), 'user', 'x', now(), now())`;
  await sql`update calendar_orders set due_at = now() where company_id = ${companyId}`;
  // A folder cannot be removed as a file, so the next sweep retries.
  for (const mode of ['live', 'test'])
    mkdirSync(join(dataDir, 'attachments', companyId, mode, stuck), { recursive: true });
}

/** Adds rows past their retention, copied from existing ones. */
async function leaveOldRows(sql: Sql, companyId: string): Promise<void> {
  await sql`
    insert into received_reports (company_id, test_mode, id, provider, external_id, kind, details, occurred_at, received_at)
    values (${companyId}, false, ${uuidv7()}, 'generic', 'long ago', 'form', '{}', now(), now() - interval '500 days')`;
  await sql`
    insert into taken_times (company_id, test_mode, id, user_id, start_at, end_at, during, expires_at)
    values (${companyId}, false, ${uuidv7()}, ${uuidv7()}, now() - interval '1 day', now(), '[1,2)', now() - interval '1 hour')`;
  const long = sql`now() - interval '500 days'`;
  const others: [table: string, changes: ReturnType<typeof sql>][] = [
    ['slot_reservations', sql`status = 'expired', created_at = ${long}`],
    [
      'bookings',
      sql`status = 'confirmed', start_at = ${long}, end_at = ${long}, rescheduled_from = null, rescheduled_to = null`,
    ],
    ['workforce_runs', sql`status = 'completed', next_step_at = null, due_at = null, ended_at = ${long}`],
    ['webhook_deliveries', sql`status = 'succeeded', next_attempt_at = null, created_at = ${long}`],
  ];
  for (const [table, changes] of others) {
    await sql`create temporary table old as select * from ${sql(table)} where company_id = ${companyId} and not test_mode limit 1`;
    await sql`update old set id = gen_random_uuid(), ${changes}`;
    await sql`insert into ${sql(table)} select * from old`;
    await sql`drop table old`;
  }
}

function addClock(sql: Sql, companyId: string, policyId: string, endedBefore: string | null) {
  return sql`
    insert into sla_clocks (company_id, test_mode, id, policy_id, object, record_id, kind, started_at, due_at, next_at, handled_at, ended_at)
    values (${companyId}, false, ${uuidv7()}, ${policyId}, 'customers', ${uuidv7()}, 'first_response', now(), now() + interval '1 day',
      now() + interval '1 day', now(), now() - ${endedBefore}::interval)`;
}

/** Removes the jobs' work of other tenants, so that a job that touches foreign rows is detected. */
export async function removeForeignWork(sql: Sql, tables: readonly TenantTable[], whose: Whose): Promise<void> {
  const others = (name: string): string => {
    const table = tables.find((each) => each.name === name);
    if (!table) throw new Error(`there is no table ${name}`);
    return foreignRows(table, whose);
  };
  await sql.unsafe(
    `update sla_clocks t set ended_at = now() where ${others('sla_clocks')} and ended_at < now() - interval '1 day'`,
  );
  for (const name of ['notifications', 'mails', 'webhook_deliveries'])
    await sql.unsafe(`update ${name} t set created_at = now() where ${others(name)}`);
  await sql.unsafe(
    `update stored_files t set remove_after = now() + interval '1 day' where ${others('stored_files')} and remove_after is not null`,
  );
  await sql.unsafe(
    `update exports t set expires_at = now() + interval '1 year', claimed_until = now() + interval '1 year', created_at = now() where ${others('exports')}`,
  );
  await sql.unsafe(`update reverts t set due_at = null, items_until = null where ${others('reverts')}`);
  await sql.unsafe(`update api_keys t set expiry_notified_for = expires_at where ${others('api_keys')}`);
  // Ids of shadows are random, and those of requests contain their time.
  await sql.unsafe(
    `update request_log t set id = ('f' || substr(id::text, 2))::uuid where ${others('request_log')} and id < first_request_id(current_date)`,
  );
  for (const name of ['subscriptions', 'test_subscriptions'])
    await sql.unsafe(`update ${name} t set due_at = null where ${others(name)}`);
  await sql.unsafe(
    `update billing_operations t set leased_until = now() + interval '1 year' where ${others('billing_operations')}`,
  );
  await sql.unsafe(
    `update taken_times t set expires_at = now() + interval '1 year' where ${others('taken_times')} and expires_at is not null`,
  );
  await sql.unsafe(
    `update workforce_runs t set ended_at = now() where ${others('workforce_runs')} and ended_at is not null`,
  );
  await sql.unsafe(`update received_reports t set received_at = now() where ${others('received_reports')}`);
  await sql.unsafe(`update slot_reservations t set created_at = now() where ${others('slot_reservations')}`);
  await sql.unsafe(`update bookings t set end_at = now() + interval '1 year' where ${others('bookings')}`);
  await sql.unsafe(`update user_calendars t set due_at = now() + interval '1 year' where ${others('user_calendars')}`);
  for (const name of ['calendar_orders', 'message_drafts', 'campaigns', 'workforce_runs'])
    await sql.unsafe(`update ${name} t set due_at = null where ${others(name)}`);
  await sql.unsafe(`update campaign_runs t set decision_due_at = null where ${others('campaign_runs')}`);
  // The search job processes all companies. Pending work is not part of this walk, and searches
  // find the rows anyway.
  await sql`delete from search_changes`;
  // Clocks follow a changed policy in both modes.
  await sql.unsafe(`
    update sla_clocks t set ended_at = now()
    from sla_policies p
    where ${others('sla_clocks')} and t.company_id = '${whose.companyId}' and p.company_id = t.company_id and p.id = t.policy_id
      and p.revised_at is not null and t.ended_at is null`);
  await sql.unsafe(`update sla_policies t set revised_at = null where ${others('sla_policies')}`);
  // A policy that the tenant can delete is in use by other tenants.
  await sql.unsafe(`
    insert into sla_clocks (company_id, test_mode, id, policy_id, object, record_id, kind, started_at, due_at, handled_at)
    select t.company_id, false, gen_random_uuid(), t.id, 'leads', gen_random_uuid(), 'first_response', now(), now(), now()
    from sla_policies t where ${others('sla_policies')}`);
}
