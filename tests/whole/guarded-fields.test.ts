// Read-only and unknown fields: every way to write rejects each by name.

import { beforeAll, expect, test } from 'vitest';
import { expectStatus, type Json } from '../support/client.ts';
import { recordedEvents } from '../support/events.ts';
import { createRecord, newCustomField, newCustomObject, recordsPath } from '../support/records.ts';
import { database, newTenant, type Tenant } from '../support/tenants.ts';

let tenant: Tenant;
let key: string;

beforeAll(async () => {
  tenant = await newTenant();
  key = tenant.key;
  await newCustomField(tenant, 'leads', 'retired', { enabled: false });
  await newCustomObject(tenant, 'visits');
});

const objects = ['leads', 'deals', 'customers', 'accounts', 'tasks', 'activities', 'object:visits'];

/**
 * Names that no object has: columns, fields of other operations, and names that confuse programs.
 */
const unknown = [
  'company_id',
  'test_mode',
  'version',
  'custom',
  'custom_fields',
  'tags',
  'metadata',
  'expanded',
  'etag',
  'created_by_id',
  'created_by_user',
  'updated_by',
  '_outcome',
  '_duration_seconds',
  'retired',
  'assigned_to_name',
  'constructor',
  'toString',
  'Name',
  ' name',
  '',
];

async function least(object: string): Promise<Json> {
  const at = '2026-05-05T10:00:00.000Z';
  const bodies: Record<string, object> = {
    leads: { first_name: 'A', email: 'a@x.example' },
    customers: { first_name: 'A', email: 'a@x.example' },
    tasks: { title: 'T', scheduled_at: at },
  };
  if (object !== 'activities') return bodies[object] ?? { name: 'A' };
  const { id } = await createRecord(key, 'leads', { first_name: 'A', email: 'a@x.example' });
  return { activity_type: 'Call', entity_type: 'lead', entity_id: id, summary: 'x', performed_at: at };
}

interface Write {
  status: number;
  method?: string;
  path: string;
  body: (more: object) => object;
  /** Returns the problems of a response, if they are not those of the whole call. */
  problems?: (answer: Json) => Json[];
  /** The prefix of the fields in problems. */
  inside?: string;
  /** True if the fields contain the id. */
  namesId?: boolean;
}

const isTags = (name: string, object: string): boolean =>
  name === 'tags' && (object === 'leads' || object === 'customers');

/** Returns every way to write records of the object, and this record. */
function buildWrites(object: string, body: Json, id: string): Record<string, Write> {
  const path = recordsPath(object);
  const [match] = Object.keys(body).filter((name) => name !== 'activity_type' && name !== 'entity_type');
  const failed = (answer: Json) => answer.data.failed[0].details.fields;
  const failedAll = (answer: Json) => answer.error.details.failed[0].details.fields;
  const upsert = (record: object, matchOn = match) => ({ match_on: [matchOn], record });
  const writes: Record<string, Write> = {
    create: { status: 422, path, body: (more) => ({ ...body, ...more }) },
    change: { status: 422, method: 'PATCH', path: `${path}/${id}`, body: (more) => more },
    batch: { status: 200, path: `${path}:batch`, body: (more) => [{ ...body, ...more }], problems: failed },
    'atomic batch': {
      status: 422,
      path: `${path}:batch`,
      body: (more) => ({ records: [body, { ...body, ...more }], atomic: true }),
      problems: failedAll,
    },
    'batch of changes': {
      status: 200,
      path: `${path}:batch-update`,
      body: (more) => [{ ...more, id }],
      problems: failed,
      namesId: true,
    },
    'upsert that would change': {
      status: 422,
      path: `${path}:upsert`,
      body: (more) => upsert({ ...more, id }, 'id'),
      inside: 'record.',
      namesId: true,
    },
    'upsert that would create': {
      status: 422,
      path: `${path}:upsert`,
      body: (more) => upsert({ ...body, ...(object === 'tasks' ? { title: 'other' } : {}), ...more }),
      inside: 'record.',
    },
  };
  writes['batch of upserts that would change'] = {
    status: 200,
    path: `${path}:batch-upsert`,
    body: (more) => ({ match_on: ['id'], records: [{ ...more, id }] }),
    problems: failed,
    namesId: true,
  };
  writes['batch of upserts that would create'] = {
    status: 200,
    path: `${path}:batch-upsert`,
    body: (more) => ({ match_on: ['id'], records: [{ ...body, ...more }] }),
    problems: failed,
    namesId: true,
  };
  if (object === 'deals') {
    const move = (more: object) => ({ stage: 'Won', fields: more });
    writes.move = { status: 422, path: `/v1/deals/${id}/stage`, body: move, inside: 'fields.' };
  }
  if (object === 'leads') {
    const move = (more: object) => ({ lead_status: 'Qualified', fields: more });
    writes.move = { status: 422, path: `/v1/leads/${id}/status`, body: move, inside: 'fields.' };
  }
  return writes;
}

/** Counts everything that a write could leave. */
async function leftBy({ companyId }: Tenant): Promise<Json> {
  const [row] = await database()`
    select (select count(*) from audit_logs where company_id = ${companyId}) as audit,
      (select count(*) from ${recordedEvents(database())} where company_id = ${companyId}) as events,
      (select count(*) from leads where company_id = ${companyId}) as leads,
      (select count(*) from deals where company_id = ${companyId}) as deals,
      (select count(*) from custom_records where company_id = ${companyId}) as custom`;
  return row;
}

let refused = 0;

test.each(objects)('rejects every read-only and unknown field of %s in every write without effect', async (object) => {
  const body = await least(object);
  const record = await createRecord(key, object, body);
  const schemaPath = `/v1/objects/${encodeURIComponent(object)}/schema`;
  const { fields } = (await expectStatus(200, 'GET', schemaPath, { key })).body.data.schema;
  const readOnly = fields.flatMap((field: Json) => (field.read_only ? [field.name] : []));
  const names = ['id', 'created_at', 'updated_at', ...readOnly];
  const published = new Set(fields.map((field: Json) => field.name));
  const codes = new Map<string, string>([
    ...unknown
      .filter((name) => !published.has(name) && !isTags(name, object))
      .map((name) => [name, 'UNKNOWN_FIELD'] as const),
    ...names.map((name) => [name, 'READ_ONLY'] as const),
  ]);
  const before = await leftBy(tenant);
  for (const [what, write] of Object.entries(buildWrites(object, body, record.id))) {
    for (const [name, code] of codes) {
      if (write.namesId && name === 'id') continue;
      const { status, method = 'POST', path, inside = '' } = write;
      const sent = write.body({ [name]: (Object.hasOwn(record, name) && record[name]) || 'x' });
      const answer = await expectStatus(status, method, path, { key, body: sent, idempotencyKey: true });
      const problems = (write.problems ?? ((each: Json) => each.error.details.fields))(answer.body);
      expect({ what, problems }).toMatchObject({ what, problems: [{ field: `${inside}${name}`, code }] });
      refused += 1;
    }
  }
  expect(await leftBy(tenant)).toEqual(before);
  const after = await expectStatus(200, 'GET', recordsPath(object, record.id), { key });
  expect(after.body.data.record).toEqual(record);
});

test('rejects read-only and unknown fields in the deal of a conversion', async () => {
  const lead = await createRecord(key, 'leads', { first_name: 'C', email: 'c@x.example' });
  const before = await leftBy(tenant);
  for (const name of ['id', 'created_at', 'updated_at', 'stage_id', 'source_id', 'won_at', 'lost_at', ...unknown]) {
    const code = unknown.includes(name) ? 'UNKNOWN_FIELD' : 'READ_ONLY';
    const body = { deal: { [name]: 'x' } };
    const answer = await expectStatus(422, 'POST', `/v1/leads/${lead.id}/convert`, { key, body });
    expect(answer.body.error.details.fields).toMatchObject([{ field: `deal.${name}`, code }]);
    refused += 1;
  }
  expect(await leftBy(tenant)).toEqual(before);
  process.stdout.write(`F10: ${refused} writes of a read-only or unknown field of records, each refused by name\n`);
  expect(refused).toBeGreaterThan(1700);
});
