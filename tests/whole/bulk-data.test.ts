// Bulk data as a whole: a workspace copied to another, contacts in few calls, one query for them.
import { randomUUID } from 'node:crypto';
import { rmSync } from 'node:fs';
import { resolve } from 'node:path';
import { afterAll, beforeAll, describe, expect, inject, test, vi } from 'vitest';
import { type AnswerOf, type Client, createClient } from '../../sdk/src/index.ts';
import { anyAddress, expectStatus, type Json } from '../support/client.ts';
import { newCustomField, recordsPath } from '../support/records.ts';
import { startServer, type TestServer } from '../support/servers.ts';
import { createSetting } from '../support/settings.ts';
import { database, newKey, newTenant, newUser, type Tenant } from '../support/tenants.ts';

/** Returns a client of the common server that counts its calls. */
async function createCountedClient(tenant: Tenant): Promise<{ crm: Client; calls: () => number }> {
  let calls = 0;
  const crm = createClient({
    baseUrl: inject('baseUrl'),
    apiKey: await newKey(tenant, { perMinute: 1_000_000, perHour: 10_000_000 }),
    headers: { 'x-forwarded-for': anyAddress() },
    fetch: (request) => {
      calls += 1;
      return fetch(request);
    },
  });
  return { crm, calls: () => calls };
}

describe('the demo workspace', () => {
  const folder = resolve(process.env.TEST_DATA_DIR ?? '.test-data', `copied-${process.pid}`);
  let server: TestServer;
  let source: Client;
  beforeAll(async () => {
    server = await startServer({ DATA_DIR: folder, DEMO: '1' });
    const [, apiKey = ''] = await vi.waitUntil(() => /Demo key: +(\S+)/.exec(server.output()));
    source = createClient({ baseUrl: server.url, apiKey });
  });
  afterAll(async () => {
    await server?.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  /** In an order in which references exist. */
  const objects = ['accounts', 'leads', 'customers', 'deals', 'object:visits'];
  const references = ['account_id', 'customer_id', 'lead_id'];
  /** The ID of a record in the workspace that it came from. */
  const sourceId = 'source_id_text';

  const readExport = async (crm: Client, object: string): Promise<Json[]> => {
    const { stream } = await crm.exports.download({ body: { object } });
    const text = await new Response(stream).text();
    return text
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => JSON.parse(line));
  };

  const listCustomFields = ({ fields }: AnswerOf<'getObjectSchema'>['schema']) =>
    fields
      .filter(({ custom }) => custom)
      .map(({ name, label, type, required, options }) => ({
        name,
        label,
        type,
        required,
        ...(options ? { options: options.map(({ label: shown, value }) => ({ label: shown, value })) } : {}),
      }));

  /** Creates what a workspace configures and records refer to by name. */
  async function configure(target: Client): Promise<void> {
    const named = new Set<string>();
    for await (const each of target.listSources.all()) named.add(each.name);
    for await (const { name } of source.listSources.all())
      if (!named.has(name)) await target.createSource({ body: { name } });
    const pipelines = new Map<string, string>();
    for await (const { name, id } of target.listDealPipelines.all()) pipelines.set(name, id);
    const pipelineNames = new Map<string, string>();
    for await (const { name, id } of source.listDealPipelines.all()) {
      pipelineNames.set(id, name);
      if (!pipelines.has(name)) pipelines.set(name, (await target.createDealPipeline({ body: { name } })).pipeline.id);
    }
    for (const object of ['leads', 'deals'] as const) {
      const buildKey = (pipeline: string | null | undefined, name: string) => `${pipeline ?? ''} ${name.toLowerCase()}`;
      const present = new Set<string>();
      for await (const { name, pipeline_id } of target.listStatuses.all({ path: { object } }))
        present.add(buildKey(pipeline_id, name));
      for await (const { name, pipeline_id, outcome } of source.listStatuses.all({ path: { object } })) {
        const pipeline = pipeline_id ? pipelines.get(pipelineNames.get(pipeline_id) ?? '') : undefined;
        if (present.has(buildKey(pipeline, name))) continue;
        await target.createStatus({
          path: { object },
          body: { name, outcome, ...(pipeline ? { pipeline_id: pipeline } : {}) },
        });
      }
    }
    for (const object of objects) {
      const { schema } = await source.getObjectSchema({ path: { object } });
      if (object.startsWith('object:')) {
        const [, slug = ''] = object.split(':');
        await target.createObject({
          body: { slug, label: schema.label, plural: schema.plural, fields: listCustomFields(schema) as never },
        });
      } else
        for (const body of listCustomFields(schema))
          await target.createField({ path: { object }, body: body as never });
      const body = { name: sourceId, label: 'Source ID', type: 'text', unique: true } as const;
      await target.createField({ path: { object }, body });
    }
  }

  test('arrives in another workspace as it was, by exports and imports', { timeout: 120_000 }, async () => {
    const { crm: target } = await createCountedClient(await newTenant());
    await configure(target);
    /** The IDs of the copies, by the IDs of the originals. */
    const copies = new Map<string, string>();
    for (const object of objects) {
      const { fields } = (await source.getObjectSchema({ path: { object } })).schema;
      const writable = fields
        .filter(({ name, read_only }) => !read_only && name !== 'assigned_to')
        .map(({ name }) => name);
      const leftOut = fields.filter(({ name }) => !writable.includes(name)).map(({ name }) => name);
      const translate = (record: Json): Json => {
        const translated = { ...record };
        for (const name of references) if (record[name]) translated[name] = copies.get(record[name]);
        return translated;
      };
      const originals = (await readExport(source, object)).map(translate);
      expect(originals.length).toBeGreaterThan(20);
      const done = await target.imports.run(new Blob(originals.map((record) => `${JSON.stringify(record)}\n`)), {
        body: {
          object,
          format: 'ndjson',
          check_duplicates: false,
          mapping: {
            id: sourceId,
            created_at: null,
            updated_at: null,
            ...Object.fromEntries(leftOut.map((name) => [name, null])),
          },
        },
      });
      const { errors } = await target.listImportErrors({ path: { id: done.id } });
      expect(errors.slice(0, 3), object).toEqual([]);
      expect(done.counts).toMatchObject({ created: originals.length, failed: 0 });
      const copied = new Map<string, Json>();
      for (const record of await readExport(target, object)) {
        copied.set(record[sourceId], record);
        copies.set(record[sourceId], record.id);
      }
      const pickValues = (record: Json | undefined) =>
        Object.fromEntries(writable.map((name) => [name, record?.[name]]));
      for (const record of originals) expect(pickValues(copied.get(record.id)), object).toEqual(pickValues(record));
    }
  });
});

test('5,000 contacts with tags, owners and external IDs arrive in at most 60 calls', { timeout: 120_000 }, async () => {
  const tenant = await newTenant();
  await newCustomField(tenant, 'customers', 'external_id', { unique: true });
  for (const name of ['VIP', 'Fair']) await createSetting(tenant, '/v1/settings/tags/customers', { name, fields: [] });
  const owners = [await newUser(tenant), await newUser(tenant)];
  const mark = randomUUID().slice(0, 8);
  const lines = Array.from({ length: 5000 }, (_, row) => {
    const tags = row % 2 === 0 ? '"VIP, Fair"' : 'Fair';
    return `X-${row},C${row},${mark}-${row}@contacts.example,${tags},${owners[row % 2]?.email}\n`;
  });
  const { crm, calls } = await createCountedClient(tenant);
  const done = await crm.imports.run(
    new Blob([`external_id,First name,email,tags,assigned_to_email\n${lines.join('')}`]),
    { body: { object: 'customers', mode: 'upsert', match_on: ['external_id'] } },
  );
  expect(done.counts).toMatchObject({ created: 5000, failed: 0 });
  expect(calls()).toBeLessThanOrEqual(60);
  const { companyId } = tenant;
  const [stored] = await database()`
    select count(*)::int as contacts, count(distinct custom->>'external_id')::int as external_ids,
      count(*) filter (where assigned_to = ${owners[0]?.id ?? ''})::int as of_first_owner
    from customers where company_id = ${companyId}`;
  expect(stored).toEqual({ contacts: 5000, external_ids: 5000, of_first_owner: 2500 });
  const tagged = await database()`
    select t.name, count(*)::int as contacts from record_tags r join tags t on t.company_id = r.company_id and t.id = r.tag_id
    where r.company_id = ${companyId} group by t.name order by t.name`;
  expect(tagged).toEqual([
    { name: 'Fair', contacts: 5000 },
    { name: 'VIP', contacts: 2500 },
  ]);
  const filter = JSON.stringify({ field: 'tags', op: 'in', value: ['VIP'] });
  const { records } = await crm.listRecords({ path: { object: 'customers' }, query: { filter, limit: 25 } });
  expect(records).toHaveLength(25);
});

test('one call finds VIP contacts at accounts in retail with an open deal over 10,000', async () => {
  const tenant = await newTenant();
  const { key } = tenant;
  await createSetting(tenant, '/v1/settings/tags/customers', { name: 'VIP', fields: [] });
  const create = async (object: string, body: object): Promise<string> =>
    (await expectStatus(201, 'POST', recordsPath(object), { key, body, idempotencyKey: true })).body.data.record.id;
  const retail = await create('accounts', { name: 'Shop', industry: 'Retail' });
  const energy = await create('accounts', { name: 'Grid', industry: 'Energy' });
  const contact = (first_name: string, account_id: string, tags: string[] = ['VIP']): Promise<string> =>
    create('customers', { first_name, account_id, tags });
  const deal = (customer_id: string, amount_minor: number, more: object = {}): Promise<string> =>
    create('deals', { name: 'Deal', customer_id, amount_minor, ...more });
  const wanted = await contact('Wanted', retail);
  await deal(wanted, 1_000_001);
  await deal(wanted, 2_000_000);
  await deal(await contact('No tag', retail, []), 2_000_000);
  await deal(await contact('Other industry', energy), 2_000_000);
  await deal(await contact('Too small', retail), 1_000_000);
  const won = await contact('Won', retail);
  await deal(won, 2_000_000, { stage: 'Won' });
  await deal(won, 5);
  await contact('No deal', retail);
  const isOver = { field: 'amount_minor', op: 'gt', value: 1_000_000 };
  const isOpen = ['won_at', 'lost_at'].map((field) => ({ field, op: 'is_null', value: true }));
  const filter = {
    and: [
      { field: 'tags', op: 'in', value: ['VIP'] },
      { field: 'account.industry', op: 'eq', value: 'Retail' },
      { link: 'deals', any: { and: [isOver, ...isOpen] } },
    ],
  };
  const query = { filter: JSON.stringify(filter), expand: 'account_id,tags', count: 'true' };
  const { data } = (await expectStatus(200, 'GET', recordsPath('customers'), { key, query })).body;
  expect(data.records.map(({ first_name: name }: Json) => name)).toEqual(['Wanted']);
  expect(data.total).toBe(1);
});
