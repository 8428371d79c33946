// The fixture tenant: related records, users, and credentials of every visibility.
import { randomUUID } from 'node:crypto';
import { v7 as uuidv7 } from 'uuid';
import { consentGroups, newBearer } from '../support/access-tokens.ts';
import type { PublishedField } from '../support/arbitraries.ts';
import { newProfile } from '../support/arranged-ids.ts';
import { billed, subscribed } from '../support/billing.ts';
import { expectStatus } from '../support/client.ts';
import { newSentForm } from '../support/sessions.ts';
import { database, newKey, newUser, type Tenant } from '../support/tenants.ts';
import { arrangePolicies } from './job-runs.ts';
import { arrangeLikeness, arrangeSpares, type Spares } from './other-records.ts';

/**
 * A tenant with records of every object, users in branches and teams, and keys with limited
 * visibility.
 */
export interface FixtureTenant {
  tenant: Tenant;
  /** Published fields by object. */
  fields: Map<string, PublishedField[]>;
  /** Some record ids by object. */
  records: Map<string, string[]>;
  /** Emails of some customers. */
  emails: string[];
  /** Keys of a branch and of a team. */
  narrowKeys: string[];
  /** Access tokens of apps, for a user who sees everything and for one who does not. */
  bearers: string[];
  /** A branch and a team. */
  groups: { kind: 'branch' | 'team'; id: string }[];
  assignees: string[];
  /** The email of another user who can be assigned. */
  assigneeEmail: string;
  spares: Spares;
}

/** Creates users and records that only the shadows keep. */
export async function arrangeAbsent(fixture: FixtureTenant): Promise<FixtureTenant> {
  const { tenant, fields, spares } = fixture;
  const sql = database();
  await sql`insert into field_overrides (company_id, object, name, label, updated_at) values (${tenant.companyId}, 'leads', 'website', 'Web page', now())`;
  await sql`insert into duplicate_checks (company_id, object, enabled, fields) values (${tenant.companyId}, 'deals', true, ${['name']})
    on conflict (company_id, object) do update set enabled = true, fields = excluded.fields`;
  const assignees = [(await newUser(tenant)).id, (await newUser(tenant)).id];
  const assigneeEmail = (await newUser(tenant)).email;
  const groups = await newGroups(tenant, 'South Branch', 'Third Team');
  const absent: FixtureTenant = {
    tenant,
    groups,
    fields,
    assignees,
    assigneeEmail,
    spares,
    records: new Map(),
    emails: [],
    narrowKeys: [],
    bearers: [],
  };
  await addRecords(absent);
  await arrangeLikeness(tenant, spares, absent.records.get('customers') ?? []);
  // Its deals differ in the shadows.
  await sql`update leads set converted_at = now() where company_id = ${tenant.companyId} and id = ${fixture.records.get('leads')?.[2] ?? ''}`;
  return absent;
}

/** Prepares the tenant. Calls operations for everything that they can create. */
export async function prepareFixture(tenant: Tenant): Promise<FixtureTenant> {
  const sql = database();
  const { companyId } = tenant;
  await sql`insert into teams (company_id, id, branch_id, name, created_at)
    values (${companyId}, ${uuidv7()}, ${tenant.branchId}, 'First Team', now())`;
  const groups = await newGroups(tenant, 'North Branch', 'Second Team');
  const [branch, team] = groups.map(({ id }) => id) as [string, string];
  // The maximum of a tenant would be exceeded if those of the shadows counted.
  for (let count = 0; count < 25; count += 1) await newKey(tenant, { scopes: ['leads:view'] });
  // The same for seats.
  for (let count = 0; count < 40; count += 1) await newUser(tenant);
  // Not expired, so that no sweep touches the shadows' rows.
  await newSentForm(tenant);
  const near = await newUser(tenant);
  await sql`update users set profile_id = ${await newProfile(tenant)} where company_id = ${companyId} and id = ${(await newUser(tenant)).id}`;
  const far = await newUser(tenant, { branchId: branch });
  await sql`update users set team_id = ${team} where company_id = ${companyId} and id = ${far.id}`;
  await sql`update users set team_id = (select id from teams where company_id = ${companyId} and id <> ${team}) where company_id = ${companyId} and id = ${near.id}`;
  for (const name of ['Website', 'Referral'])
    await sql`insert into sources (company_id, id, name, created_at, updated_at) values (${companyId}, ${uuidv7()}, ${name}, now(), now())`;
  await sql`insert into custom_objects (company_id, slug, label, plural, created_at, updated_at)
    values (${companyId}, 'visits', 'Visit', 'Visits', now(), now())`;
  for (const object of ['leads', 'object:visits'])
    await sql`insert into custom_fields (company_id, object, name, label, type, created_at, updated_at)
      values (${companyId}, ${object}, 'remark', 'Remark', 'text', now(), now())`;
  await sql`insert into field_overrides (company_id, object, name, label, updated_at) values (${companyId}, 'leads', 'notes', 'Remarks', now())`;
  await sql`insert into duplicate_checks (company_id, object, enabled, fields) values (${companyId}, 'leads', true, ${['email']})
    on conflict (company_id, object) do update set enabled = true, fields = excluded.fields`;
  await sql`delete from duplicate_checks where company_id = ${companyId} and object = 'deals'`;
  await sql`update companies set notes_email_engagement = true where id = ${companyId}`;
  const narrowKeys = [
    await newKey(tenant, { reach: { kind: 'branch', id: branch } }),
    await newKey(tenant, { reach: { kind: 'team', id: team } }),
    // Its calls are rejected here, and returned to the quota.
    await newKey(tenant, { ipAllowlist: ['192.0.2.1'] }),
  ];
  const fixture: FixtureTenant = {
    tenant,
    fields: new Map(),
    records: new Map(),
    groups,
    emails: [],
    narrowKeys,
    bearers: await newBearers(tenant, near.id),
    assignees: [near.id, far.id],
    assigneeEmail: (await newUser(tenant)).email,
    spares: await arrangeSpares(tenant),
  };
  const listed = await expectStatus(200, 'GET', '/v1/objects', { key: tenant.key });
  for (const { object } of listed.body.data.objects) {
    const { body } = await expectStatus(200, 'GET', `/v1/objects/${object}/schema`, { key: tenant.key });
    fixture.fields.set(object, body.data.schema.fields);
  }
  await arrangePolicies(tenant, near.id);
  await billed(tenant);
  await arrangeSubscriptions(tenant);
  await addRecords(fixture);
  await addTags(fixture);
  await addLinks(fixture);
  const customers = await sql<{ email: string }[]>`
    select email from customers where company_id = ${companyId} and email is not null order by id`;
  fixture.emails.push(...customers.map(({ email }) => email));
  return fixture;
}

/**
 * Creates subscriptions of both modes on which every change can be tried in turn, with all modules
 * that requests need.
 */
export async function arrangeSubscriptions(tenant: Tenant): Promise<void> {
  const scheduled = database().json([{ action: 'remove_module', module_key: 'campaigns' }]);
  const add_ons = ['scheduling', 'inbox', 'campaigns', 'workforces'];
  // So long that elapsed time makes no difference to any amount.
  const period = { period_start: new Date(), period_end: new Date('9000-01-01'), due_at: new Date('9000-01-01') };
  for (const mode of ['live', 'test'] as const)
    await subscribed(tenant, mode, { seats: 1000, add_ons, scheduled, ...period });
}

/** Creates a branch with a team. */
async function newGroups(
  { companyId }: Tenant,
  branchName: string,
  teamName: string,
): Promise<FixtureTenant['groups']> {
  const sql = database();
  const [branch, team] = [uuidv7(), uuidv7()];
  await sql`insert into branches (company_id, id, name, created_at) values (${companyId}, ${branch}, ${branchName}, now())`;
  await sql`insert into teams (company_id, id, branch_id, name, created_at) values (${companyId}, ${team}, ${branch}, ${teamName}, now())`;
  return [
    { kind: 'branch', id: branch },
    { kind: 'team', id: team },
  ];
}

/** Creates enough apps for all requests, because each may make sixty calls a minute. */
async function newBearers(tenant: Tenant, seller: string): Promise<string[]> {
  const bearers: string[] = [];
  for (let app = 0; app < 10; app += 1)
    bearers.push(
      await newBearer(tenant),
      await newBearer(tenant, undefined, { userId: seller, role: 'Sales_Rep', groups: consentGroups }),
    );
  return bearers;
}

async function addTags({ tenant: { companyId }, records }: FixtureTenant): Promise<void> {
  for (const object of ['leads', 'customers'])
    await database()`
      with tag as (
        insert into tags (company_id, id, object, name, created_at, updated_at) values (${companyId}, ${uuidv7()}, ${object}, 'Warm', now(), now())
        returning company_id, id
      )
      insert into record_tags (company_id, test_mode, object, record_id, tag_id, is_manual)
      select company_id, false, ${object}, record_id, id, true from tag, unnest(${records.get(object) ?? []}::uuid[]) as record (record_id)`;
}

/** Creates the link types that examples name, and a link of each. */
async function addLinks({ tenant: { companyId }, records }: FixtureTenant): Promise<void> {
  for (const [name, inverse, from, to] of [
    ['contacts', 'employer', 'accounts', 'customers'],
    ['site', 'site_of', 'accounts', 'leads'],
  ] as const)
    await database()`
      with type as (
        insert into link_types (company_id, id, name, inverse_name, label, inverse_label, from_object, to_object, cardinality, created_at, updated_at)
        values (${companyId}, ${uuidv7()}, ${name}, ${inverse}, ${name}, ${inverse}, ${from}, ${to}, 'one_to_many', now(), now())
        returning company_id, id, cardinality
      )
      insert into links (company_id, test_mode, id, link_type_id, from_object, from_id, to_object, to_id, cardinality,
        created_by_kind, created_by_id, created_at)
      select company_id, false, ${uuidv7()}::uuid, id, ${from}::text, ${records.get(from)?.[0] ?? ''}::uuid, ${to}::text, ${records.get(to)?.[0] ?? ''}::uuid, cardinality,
        'system', 'test', now()
      from type`;
}

/** Clears the emails of leads from examples, so that repeated examples are no duplicates. */
export async function forgetExamples({ tenant }: FixtureTenant): Promise<void> {
  await database()`update leads set email = null where company_id = ${tenant.companyId} and email not like 'walk-%'`;
}

/** Objects in an order in which each refers only to earlier ones. */
const objectOrder = ['accounts', 'leads', 'customers', 'deals'];

async function addRecords(fixture: FixtureTenant): Promise<void> {
  const rank = (object: string): number => (objectOrder.indexOf(object) + 10) % 10;
  const objects = [...fixture.fields.keys()].sort((a, b) => rank(a) - rank(b));
  const sql = database();
  for (const object of objects) {
    for (let index = 0; index < 4; index += 1) {
      const answer = await expectStatus(201, 'POST', `/v1/objects/${object}/records`, {
        key: fixture.tenant.key,
        body: recordBody(fixture, object, index),
        idempotencyKey: true,
      });
      const known = fixture.records.get(object) ?? [];
      fixture.records.set(object, [...known, answer.body.data.record.id]);
    }
    // The last records were created by users.
    const table = object.startsWith('object:') ? 'custom_records' : object;
    for (const [index, user] of fixture.assignees.entries())
      await sql`update ${sql(table)} set created_by_kind = 'user', created_by_id = ${user}, created_by_user = ${user}
        where company_id = ${fixture.tenant.companyId} and id = ${fixture.records.get(object)?.[index + 2] ?? ''}`;
  }
  await relate(fixture);
}

/** Adds references that no call created: converted leads, and activities of deals. */
async function relate({ tenant: { companyId }, records }: FixtureTenant): Promise<void> {
  const sql = database();
  const some = (object: string): string[] => records.get(object) ?? [];
  for (const [index, lead] of some('leads').entries())
    await sql`update leads set converted_customer_id = ${some('customers')[index % 2] ?? null} where company_id = ${companyId} and id = ${lead}`;
  for (const [index, activity] of some('activities').slice(2).entries())
    await sql`update activities set entity_type = 'deal', entity_id = ${some('deals')[index] ?? null} where company_id = ${companyId} and id = ${activity}`;
}

/** Returns a record of an object with a value in every writable field. */
export function recordBody(fixture: FixtureTenant, object: string, index: number): Record<string, unknown> {
  const body: Record<string, unknown> = {};
  for (const field of fixture.fields.get(object) ?? []) {
    const value = field.read_only ? undefined : fieldValue(fixture, field, index);
    if (value !== undefined) body[field.name] = value;
    if (field.name === 'assigned_to' && index === 2) body.assigned_to_email = fixture.assigneeEmail;
  }
  return body;
}

const nextYear = new Date(Date.now() + 300 * 86_400_000);

function fieldValue(fixture: FixtureTenant, { name, type, options, required }: PublishedField, index: number): unknown {
  // The first is assigned to a near user, the second to a distant one, the third by email, and the
  // others to none.
  if (name === 'assigned_to') return fixture.assignees[index];
  if (name === 'entity_id' || name === 'record_id') return fixture.records.get('leads')?.[index % 2];
  if (name === 'object') return 'leads';
  if (name.endsWith('_id')) return fixture.records.get(`${name.slice(0, -3)}s`)?.[index % 2];
  if (name === 'currency_code') return 'EUR';
  if (options?.length) return options[index % (required ? 1 : options.length)]?.value ?? options[0]?.value;
  switch (type) {
    case 'email':
      return `walk-${index}-${randomUUID().slice(0, 8)}@example.com`;
    case 'phone':
      return `+4930123456${10 + index}`;
    case 'url':
      return 'https://example.com/Walk';
    case 'number':
    case 'currency':
      return 1 + (index % 4);
    case 'boolean':
      return true;
    case 'date':
      return nextYear.toISOString().slice(0, 10);
    case 'datetime':
      return name === 'performed_at' ? undefined : new Date(nextYear.getTime() + index * 86_400_000).toISOString();
    case 'select':
      return undefined;
    default:
      return `Walk ${randomUUID().slice(0, 8)}`;
  }
}
