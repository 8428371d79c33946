// Requests of one tenant for every operation of the document, prepared once, so that they can be sent again to copies of the same data.
import { randomUUID } from 'node:crypto';
import { v7 as uuidv7 } from 'uuid';
import { consentGroups, newBearer } from '../support/access-tokens.ts';
import type { PublishedField } from '../support/arbitraries.ts';
import { arrangedPaths } from '../support/arranged-ids.ts';
import { anyAddress, type CallOptions, expectStatus } from '../support/client.ts';
import { type DeclaredOperation, operations } from '../support/document.ts';
import { alternativesOf, goodRequest, pathParameters } from '../support/requests.ts';
import { bodyExamples, bodySchema, queryParameters } from '../support/schemas.ts';
import { database, newKey, newUser, type Tenant } from '../support/tenants.ts';

export interface Probe {
  operation: DeclaredOperation;
  path: string;
  options: CallOptions;
}

/** A tenant with records of every object, people in branches and teams, and keys that reach only some of them. */
export interface Ground {
  tenant: Tenant;
  /** Published fields by object. */
  fields: Map<string, PublishedField[]>;
  /** Some records by object. */
  records: Map<string, string[]>;
  /** Addresses of some customers. */
  emails: string[];
  /** Keys of a branch and of a team. */
  narrowKeys: string[];
  /** Access tokens of apps, in the name of somebody who sees everything and of somebody who does not. */
  bearers: string[];
  assignees: string[];
  /** The address of somebody else who can be assigned. */
  assigneeEmail: string;
}

/** Users and records that the tenant will not have, while its doubles have them. */
export async function arrangeAbsent(ground: Ground): Promise<Ground> {
  const { tenant, fields } = ground;
  const sql = database();
  await sql`insert into field_overrides (company_id, object, name, label, updated_at) values (${tenant.companyId}, 'leads', 'website', 'Web page', now())`;
  await sql`insert into duplicate_checks (company_id, object, enabled, fields) values (${tenant.companyId}, 'deals', true, ${['name']})
    on conflict (company_id, object) do update set enabled = true, fields = excluded.fields`;
  const assignees = [(await newUser(tenant)).id, (await newUser(tenant)).id];
  const assigneeEmail = (await newUser(tenant)).email;
  const absent = {
    tenant,
    fields,
    assignees,
    assigneeEmail,
    records: new Map(),
    emails: [],
    narrowKeys: [],
    bearers: [],
  };
  await addRecords(absent);
  return absent;
}

export const isAboutRecords = (operation: DeclaredOperation): boolean =>
  operation.path.startsWith('/v1/objects/{object}/records');

/** Arranges the ground; what an operation makes is made by calling it. */
export async function arrangeGround(tenant: Tenant): Promise<Ground> {
  const sql = database();
  const { companyId } = tenant;
  const [branch, team] = [uuidv7(), uuidv7()];
  await sql`insert into branches (company_id, id, name, created_at) values (${companyId}, ${branch}, 'North Branch', now())`;
  await sql`insert into teams (company_id, id, branch_id, name, created_at)
    values (${companyId}, ${uuidv7()}, ${tenant.branchId}, 'First Team', now()), (${companyId}, ${team}, ${branch}, 'Second Team', now())`;
  const near = await newUser(tenant);
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
  const narrowKeys = [
    await newKey(tenant, { reach: { kind: 'branch', id: branch } }),
    await newKey(tenant, { reach: { kind: 'team', id: team } }),
    // Its calls are refused here, and given back to the quota.
    await newKey(tenant, { ipAllowlist: ['192.0.2.1'] }),
  ];
  const ground: Ground = {
    tenant,
    fields: new Map(),
    records: new Map(),
    emails: [],
    narrowKeys,
    bearers: await newBearers(tenant, near.id),
    assignees: [near.id, far.id],
    assigneeEmail: (await newUser(tenant)).email,
  };
  const listed = await expectStatus(200, 'GET', '/v1/objects', { key: tenant.key });
  for (const { object } of listed.body.data.objects) {
    const { body } = await expectStatus(200, 'GET', `/v1/objects/${object}/schema`, { key: tenant.key });
    ground.fields.set(object, body.data.schema.fields);
  }
  await addRecords(ground);
  await addTags(ground);
  const customers = await sql<{ email: string }[]>`
    select email from customers where company_id = ${companyId} and email is not null order by id`;
  ground.emails.push(...customers.map(({ email }) => email));
  return ground;
}

/** Apps enough for all requests: each may ask sixty times a minute. */
async function newBearers(tenant: Tenant, seller: string): Promise<string[]> {
  const bearers: string[] = [];
  for (let app = 0; app < 10; app += 1)
    bearers.push(
      await newBearer(tenant),
      await newBearer(tenant, undefined, { userId: seller, role: 'Sales_Rep', groups: consentGroups }),
    );
  return bearers;
}

async function addTags({ tenant: { companyId }, records }: Ground): Promise<void> {
  for (const object of ['leads', 'customers'])
    await database()`
      with tag as (
        insert into tags (company_id, id, object, name, created_at, updated_at) values (${companyId}, ${uuidv7()}, ${object}, 'Warm', now(), now())
        returning company_id, id
      )
      insert into record_tags (company_id, test_mode, object, record_id, tag_id, is_manual)
      select company_id, false, ${object}, record_id, id, true from tag, unnest(${records.get(object) ?? []}::uuid[]) as record (record_id)`;
}

/** Forgets the addresses of leads that examples of the document made, so that these examples are no duplicates of them. */
export async function forgetExamples({ tenant }: Ground): Promise<void> {
  await database()`update leads set email = null where company_id = ${tenant.companyId} and email not like 'walk-%'`;
}

/** Objects in an order in which each refers only to earlier ones. */
const objectOrder = ['accounts', 'leads', 'customers', 'deals'];

async function addRecords(ground: Ground): Promise<void> {
  const rank = (object: string): number => (objectOrder.indexOf(object) + 10) % 10;
  const objects = [...ground.fields.keys()].sort((a, b) => rank(a) - rank(b));
  const sql = database();
  for (const object of objects) {
    for (let index = 0; index < 4; index += 1) {
      const answer = await expectStatus(201, 'POST', `/v1/objects/${object}/records`, {
        key: ground.tenant.key,
        body: recordBody(ground, object, index),
        idempotencyKey: true,
      });
      const known = ground.records.get(object) ?? [];
      ground.records.set(object, [...known, answer.body.data.record.id]);
    }
    // The last ones were made by people.
    const table = object.startsWith('object:') ? 'custom_records' : object;
    for (const [index, user] of ground.assignees.entries())
      await sql`update ${sql(table)} set created_by_kind = 'user', created_by_id = ${user}
        where company_id = ${ground.tenant.companyId} and id = ${ground.records.get(object)?.[index + 2] ?? ''}`;
  }
  await relate(ground);
}

/** What records refer to when they were not made by a call: leads that became customers, and what was done about deals. */
async function relate({ tenant: { companyId }, records }: Ground): Promise<void> {
  const sql = database();
  const some = (object: string): string[] => records.get(object) ?? [];
  for (const [index, lead] of some('leads').entries())
    await sql`update leads set converted_customer_id = ${some('customers')[index % 2] ?? null} where company_id = ${companyId} and id = ${lead}`;
  for (const [index, activity] of some('activities').slice(2).entries())
    await sql`update activities set entity_type = 'deal', entity_id = ${some('deals')[index] ?? null} where company_id = ${companyId} and id = ${activity}`;
}

/** A record of an object with a value in every field that has no value of its own. */
function recordBody(ground: Ground, object: string, index: number): Record<string, unknown> {
  const body: Record<string, unknown> = {};
  for (const field of ground.fields.get(object) ?? []) {
    const value = field.read_only ? undefined : fieldValue(ground, field, index);
    if (value !== undefined) body[field.name] = value;
  }
  return body;
}

const nextYear = new Date(Date.now() + 300 * 86_400_000);

function fieldValue(ground: Ground, { name, type, options, required }: PublishedField, index: number): unknown {
  // The first is assigned near, the second far, the third by an address, the others to nobody.
  if (name === 'assigned_to') return ground.assignees[index];
  if (name === 'assigned_email') return index === 2 ? ground.assigneeEmail : undefined;
  if (name === 'entity_id' || name === 'record_id') return ground.records.get('leads')?.[index % 2];
  if (name === 'object') return 'leads';
  if (name.endsWith('_id')) return ground.records.get(`${name.slice(0, -3)}s`)?.[index % 2];
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

/** Where an operation can be called: an object of each kind, or whatever else its path names. */
async function placesOf(operation: DeclaredOperation, ground: Ground): Promise<(Record<string, string> | undefined)[]> {
  if (!isAboutRecords(operation)) {
    const [name, ...others] = pathParameters(operation.path);
    const builtin = operation.method === 'GET' && name === 'object' && others.length === 0 ? ground.records.keys() : [];
    const arranged = arrangedPaths[operation.path];
    const made = await arranged?.exists(ground.tenant, 'live');
    const records = operation.method === 'GET' ? (ground.records.get(arranged?.recordsOf ?? '') ?? []) : [];
    return [made, ...[...builtin].map((object) => ({ object })), ...records.map((id) => ({ id }))];
  }
  if (!pathParameters(operation.path).includes('id')) return [...ground.records.keys()].map((object) => ({ object }));
  const count = { GET: 4, DELETE: 1 }[operation.method] ?? 2;
  return [...ground.records].flatMap(([object, ids]) => ids.slice(0, count).map((id) => ({ object, id })));
}

/** Prepares one request for each example of an operation, at something made for it. */
export async function examplesOf(
  operation: DeclaredOperation,
  ground: Ground,
  values?: Record<string, string>,
): Promise<Probe[]> {
  const count = Math.max(1, bodyExamples(operation).length);
  const indexes = Array.from({ length: count }, (_, example) => example);
  return Promise.all(
    indexes.map(async (example) => {
      const { path, options } = await goodRequest(operation, ground.tenant, { example, ...(values ? { values } : {}) });
      return { operation, path, options: { ...options, ...fixedParts(options) } };
    }),
  );
}

/** Prepares requests for an operation: every example of it at every place, every query that it declares, and keys that see less. */
export async function probesOf(operation: DeclaredOperation, ground: Ground): Promise<Probe[]> {
  const probes: Probe[] = [];
  const opensByApp = alternativesOf(operation).some(({ scheme }) => scheme === 'oauth');
  for (const [index, values] of (await placesOf(operation, ground)).entries()) {
    const examples = await examplesOf(operation, ground, values);
    const [first] = examples as [Probe];
    if (!isAboutRecords(operation)) probes.push(...examples);
    else {
      const body = recordsBody(operation, ground, values?.object ?? '', index);
      const whole = { ...first, options: { ...first.options, ...(body ? { body } : {}) } };
      probes.push(whole);
      if (operation.method === 'GET' || ['leads', 'deals'].includes(values?.object ?? ''))
        probes.push(...ground.narrowKeys.map((key) => varied(whole, { key })));
    }
    const whole = probes.at(-1) ?? first;
    // Both people at the first place, then one after the other.
    for (const token of opensByApp ? ground.bearers.splice(0, index === 0 ? 2 : 1) : []) {
      ground.bearers.push(token);
      probes.push(varied(whole, { key: undefined, token }));
    }
    for (const query of queriesOf(operation, ground, values?.object))
      probes.push(varied(first, { query: { ...first.options.query, ...query } }));
  }
  return probes;
}

function varied(probe: Probe, options: CallOptions): Probe {
  return { ...probe, options: { ...probe.options, ...fixedParts(probe.options), ...options } };
}

/** What the client would else choose anew on each call. */
function fixedParts(options: CallOptions): Pick<CallOptions, 'ip' | 'idempotencyKey'> {
  return { ip: anyAddress(), ...(options.idempotencyKey ? { idempotencyKey: randomUUID() } : {}) };
}

function recordsBody(operation: DeclaredOperation, ground: Ground, object: string, index: number): unknown {
  if (!bodySchema(operation)) return undefined;
  if (operation.path.endsWith(':batch')) return [0, 1, 2].map((each) => recordBody(ground, object, each));
  if (operation.method === 'POST') return recordBody(ground, object, 0);
  const immutable = new Set(['entity_type', 'entity_id']);
  const whole = Object.entries(recordBody(ground, object, index % 4)).filter(([name]) => !immutable.has(name));
  // An activity without its follow-up has the next one of its record looked for.
  return { ...Object.fromEntries(whole), ...(object === 'activities' ? { followup_at: null } : {}) };
}

/** One query for each value that a parameter may have. */
function queriesOf(operation: DeclaredOperation, ground: Ground, object: string | undefined): Record<string, string>[] {
  const fields = (object === undefined ? undefined : ground.fields.get(object)) ?? [];
  return queryParameters(operation).flatMap(({ name, schema, example }) => {
    if (name === 'cursor') return [];
    if (name === 'limit') return [{ limit: '1' }];
    if (name === 'email') return ground.emails.map((email) => ({ email }));
    if (name === 'include') return [{ include: includedIn(operation) }];
    if (name === 'sort' && fields.length > 0)
      return chunks(
        fields.map((field) => field.name),
        3,
      ).map((names) => ({ sort: names.join(',') }));
    if (name === 'filter' && fields.length > 0)
      return chunks(fields, 4).map((some) => ({
        filter: JSON.stringify({ or: some.map((field) => ({ field: field.name, op: 'is_null', value: false })) }),
      }));
    const values = schema.enum ?? (schema.type === 'boolean' ? [true, false] : example === undefined ? [] : [example]);
    return values.map((value) => ({ [name]: String(value) }));
  });
}

/** All groups that the description of the parameter lists. */
function includedIn(operation: DeclaredOperation): string {
  const [include] = queryParameters(operation).filter(({ name }) => name === 'include');
  const listed = [...(include?.description ?? '').matchAll(/^\| `(\w+)` \|/gm)];
  return listed.map((match) => match[1]).join(',');
}

function chunks<Item>(items: readonly Item[], size: number): Item[][] {
  return Array.from({ length: Math.ceil(items.length / size) }, (_, index) =>
    items.slice(index * size, (index + 1) * size),
  );
}

/** Operations that make something new, wherever that is. */
export const creates = (operation: DeclaredOperation): boolean =>
  operation.method === 'POST' && pathParameters(operation.path).every((name) => name === 'object');

/** All operations: first those that read, then those that change, last those that remove. */
export const inOrder: readonly DeclaredOperation[] = [...operations].sort((a, b) => rankOf(a) - rankOf(b));

function rankOf(operation: DeclaredOperation): number {
  if (operation.method === 'GET') return 0;
  if (operation.method === 'DELETE' || operation.id === 'endSession') return 2;
  return 1;
}

/** The same requests with something wrong: bodies of all sorts, and words in every parameter that others' texts begin with. */
export function junkOf(probes: readonly Probe[]): Probe[] {
  return operations.flatMap((operation) => {
    const probe = probes.find((each) => each.operation === operation);
    if (!probe) return [];
    const bodies = bodySchema(operation) ? [{ zzz: 1 }, [], 'QX7', null, { first_name: { a: 'QX7' } }] : [];
    const queries = [...queryParameters(operation).map(({ name }) => name), 'zzz'].flatMap((name) => [
      { [name]: 'QX7' },
      { [name]: '{"field":"email","op":"contains","value":"QX7"}' },
    ]);
    return [...bodies.map((body) => varied(probe, { body })), ...queries.map((query) => varied(probe, { query }))];
  });
}
