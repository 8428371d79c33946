// Spare leads for requests about records that only shadows have, with everything on a lead.
import { v7 as uuidv7 } from 'uuid';
import { newListItem, newProfile, newRecord } from '../support/arranged-ids.ts';
import { expectStatus } from '../support/client.ts';
import { database, newUser, type Tenant } from '../support/tenants.ts';
import { fileForm } from '../support/uploads.ts';

/** One rule of each kind that a status may require. */
const rules = {
  Called: { kind: 'activity', min_count: 1 },
  Signed: { kind: 'attachment', min_count: 1 },
  Idle: { kind: 'tasks_completed' },
};

/** The statuses with preconditions. */
export const askingStatuses = Object.keys(rules);

export interface Spares {
  /** Leads of the tenant: one with nothing, and one that no customer resembles. */
  bare: string;
  unlike: string;
  /** A custom profile that permits less than in the shadows. */
  profile: string;
  /** An activity of the second lead with a follow-up. The shadows have others, too. */
  followed: string;
}

export async function arrangeSpares(tenant: Tenant): Promise<Spares> {
  const sql = database();
  for (const [index, [name, rule]] of Object.entries(rules).entries()) {
    const more = { object: 'leads', order_position: 90 + index, name, pre_condition_rules: sql.json([rule]) };
    await newListItem(tenant, 'statuses', more as never);
  }
  // The tag applies to every lead with an email, so that leads from intake have a tag.
  const condition = { field: 'email', operator: 'contains', value: '@' };
  const tag = { key: tenant.key, body: { name: 'Reachable', fields: [condition] } };
  await expectStatus(201, 'POST', '/v1/settings/tags/leads', tag);
  const unlike = await newRecord(tenant, 'live', 'leads');
  const { body } = await expectStatus(201, 'POST', '/v1/activities', {
    key: tenant.key,
    idempotencyKey: true,
    body: {
      entity_type: 'lead',
      entity_id: unlike,
      activity_type: 'Call',
      summary: 'Called',
      followup_at: '2040-01-01T00:00:00Z',
    },
  });
  return {
    bare: await newRecord(tenant, 'live', 'leads'),
    unlike,
    profile: await newProfile(tenant),
    followed: body.data.activity.id,
  };
}

/**
 * Creates what only the shadows have about the spare leads.
 * @param customers one of which resembles the second lead there
 */
export async function arrangeLikeness(
  tenant: Tenant,
  { bare, unlike, profile }: Spares,
  customers: readonly string[],
): Promise<void> {
  const { key, companyId } = tenant;
  const made = { key, idempotencyKey: true as const };
  await expectStatus(201, 'POST', '/v1/activities', {
    ...made,
    body: { entity_type: 'lead', entity_id: bare, activity_type: 'Call', summary: 'Called' },
  });
  await expectStatus(201, 'POST', '/v1/activities', {
    ...made,
    body: {
      entity_type: 'lead',
      entity_id: unlike,
      activity_type: 'Call',
      summary: 'Called',
      followup_at: '2041-01-01T00:00:00Z',
    },
  });
  await expectStatus(201, 'POST', `/v1/objects/leads/records/${bare}/attachments`, { ...made, ...fileForm() });
  await database()`
    insert into tasks (company_id, test_mode, id, object, record_id, title, created_by_kind, created_by_id, created_at, updated_at)
    values (${companyId}, false, ${uuidv7()}, 'leads', ${bare}, 'Call', 'system', 'test', now(), now())`;
  await expectStatus(201, 'POST', `/v1/objects/leads/records/${bare}/notes`, { ...made, body: { content: 'Called' } });
  await database()`
    insert into messages (company_id, test_mode, id, object, record_id, channel, direction, body, occurred_at)
    values (${companyId}, false, ${uuidv7()}, 'leads', ${bare}, 'sms', 'inbound', 'Hello', now())`;
  // A role without a profile is visible if a user has it.
  await database()`insert into roles (id, name) values (${uuidv7()}, 'Agent')`;
  await newUser(tenant, { role: 'Agent' });
  await database()`
    insert into profile_permissions (company_id, profile_id, module, actions) values (${companyId}, ${profile}, 'deals', ${['view']})`;
  await database()`
    update leads set email = (select email from customers where company_id = ${companyId} and id = ${customers[0] ?? ''})
    where company_id = ${companyId} and id = ${unlike}`;
}
