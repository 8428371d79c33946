// Pipelines of deals: names, order, the default one, stages, moves between them, and deletion.
import { describe, expect, test } from 'vitest';
import { call, expectStatus, type Json } from '../support/client.ts';
import { createRecord, leftBehind, patchRecord, readRecord, refusedFields } from '../support/records.ts';
import { changeSetting, createSetting, listSettings } from '../support/settings.ts';
import { statusId } from '../support/statuses.ts';
import { database, newTenant, type Tenant } from '../support/tenants.ts';

const path = (id?: string): string => `/v1/settings/pipelines${id ? `/${id}` : ''}`;
const stagesPath = '/v1/settings/statuses/deals';
const dealPath = (id: string): string => `/v1/objects/deals/records/${id}`;

const list = (tenant: Tenant): Promise<Json[]> => listSettings(tenant.key, path());
const create = (tenant: Tenant, body: object): Promise<Json> => createSetting(tenant, path(), body);
const patch = (tenant: Tenant, id: string, body: object): Promise<Json> => changeSetting(tenant, path(id), body);
const describeAll = async (tenant: Tenant): Promise<string[]> =>
  (await list(tenant)).map(({ order_position, name, is_default }) => `${order_position} ${name} ${is_default}`);
const listStages = async (tenant: Tenant, pipelineId: string): Promise<Json[]> =>
  (await listSettings(tenant.key, stagesPath)).filter(({ pipeline_id }) => pipeline_id === pipelineId);
const refuse = (status: number, tenant: Tenant, method: string, to: string, body?: object) =>
  expectStatus(status, method, to, { key: tenant.key, ...(body ? { body } : {}) });
const findDeals = async ({ key }: Tenant, query: Record<string, string>): Promise<string[]> =>
  (await expectStatus(200, 'GET', '/v1/objects/deals/records', { key, query })).body.data.records.map(
    ({ name }: Json) => name,
  );

/** Creates the pipeline Partners with the stages Introduced, Signed (won) and New, besides the default ones. */
async function newTenantWithPartners(): Promise<{ tenant: Tenant; partners: Json; sales: Json }> {
  const tenant = await newTenant();
  const partners = await create(tenant, { name: 'Partners' });
  const stage = { pipeline_id: partners.id };
  await createSetting(tenant, stagesPath, { ...stage, name: 'Introduced', order_position: 1 });
  await createSetting(tenant, stagesPath, { ...stage, name: 'Signed', outcome: 'won' });
  const [sales] = await list(tenant);
  return { tenant, partners, sales };
}

describe('a pipeline', () => {
  test('a new workspace has one, the default, with all stages', async () => {
    const tenant = await newTenant();
    expect(await describeAll(tenant)).toEqual(['1 Sales true']);
    const [sales] = await list(tenant);
    expect(await listStages(tenant, sales.id)).toHaveLength(6);
    const leads = await listSettings(tenant.key, '/v1/settings/statuses/leads');
    expect(new Set(leads.map(({ pipeline_id }) => pipeline_id))).toEqual(new Set([null]));
  });

  test('is created with six stages at the end, audited, and shown to live and test keys', async () => {
    const tenant = await newTenant();
    const pipeline = await create(tenant, { name: '  Renewals ' });
    expect(pipeline).toMatchObject({ name: 'Renewals', is_default: false, order_position: 2 });
    const { body } = await expectStatus(200, 'GET', path(pipeline.id.toUpperCase()), { key: tenant.testKey });
    expect(body.data.pipeline).toEqual(pipeline);
    const stages = await listStages(tenant, pipeline.id);
    expect(stages.map(({ order_position, name, outcome }) => `${order_position} ${name} ${outcome}`)).toEqual([
      '1 New open',
      '2 Contacted open',
      '3 Qualified open',
      '4 Proposal open',
      '5 Won won',
      '6 Lost lost',
    ]);
    const { audit } = await leftBehind(pipeline.id);
    expect(audit).toMatchObject([{ action: 'settings.pipeline.create' }]);
    await refuse(404, await newTenant(), 'GET', path(pipeline.id));
    await expectStatus(403, 'POST', path(), { key: tenant.testKey, body: { name: 'X' } });
  });

  test('keeps positions without gaps, and lists stages in the order of their pipelines', async () => {
    const { tenant, partners } = await newTenantWithPartners();
    await create(tenant, { name: 'First', order_position: 1 });
    await patch(tenant, partners.id, { order_position: 1 });
    expect(await describeAll(tenant)).toEqual(['1 Partners false', '2 First false', '3 Sales true']);
    const stages = await listSettings(tenant.key, stagesPath);
    expect(stages[0]).toMatchObject({ name: 'Introduced', order_position: 1 });
    expect(stages.at(-1)).toMatchObject({ name: 'Lost', order_position: 6 });
    await expectStatus(200, 'DELETE', path(partners.id), { key: tenant.key });
    expect(await describeAll(tenant)).toEqual(['1 First false', '2 Sales true']);
  });

  test('has a unique name, ignoring case, and can be renamed', async () => {
    const { tenant, partners, sales } = await newTenantWithPartners();
    const twin = await refuse(409, tenant, 'POST', path(), { name: 'PARTNERS' });
    expect(twin.body.error).toMatchObject({ code: 'ALREADY_EXISTS', details: { existing_id: partners.id } });
    const taken = await refuse(409, tenant, 'PATCH', path(partners.id), { name: ' sales' });
    expect(taken.body.error).toMatchObject({ code: 'ALREADY_EXISTS', details: { existing_id: sales.id } });
    expect(await patch(tenant, partners.id, { name: 'Resellers' })).toMatchObject({ name: 'Resellers' });
    expect(await createRecord(tenant.key, 'deals', { name: 'D', pipeline: 'resellers' })).toMatchObject({
      pipeline: 'Resellers',
    });
  });

  test('rejects a 21st pipeline', async () => {
    const tenant = await newTenant();
    for (let number = 2; number <= 20; number += 1) await create(tenant, { name: `Pipeline ${number}` });
    const { body } = await refuse(409, tenant, 'POST', path(), { name: 'One more' });
    expect(body.error).toMatchObject({
      code: 'CONFLICT',
      details: { reason: 'pipeline_limit_reached', limit: 20 },
    });
  });
});

describe('the default pipeline', () => {
  test('is replaced by another one, and existing deals stay', async () => {
    const { tenant, partners, sales } = await newTenantWithPartners();
    const before = await createRecord(tenant.key, 'deals', { name: 'Before' });
    expect(before).toMatchObject({ pipeline: 'Sales', pipeline_id: sales.id, stage: 'New' });
    await patch(tenant, partners.id, { is_default: true });
    expect(await describeAll(tenant)).toEqual(['1 Sales false', '2 Partners true']);
    expect(await readRecord(tenant.key, 'deals', before.id)).toEqual(before);
    expect(await createRecord(tenant.key, 'deals', { name: 'After' })).toMatchObject({
      pipeline: 'Partners',
      pipeline_id: partners.id,
      stage: 'Introduced',
    });
    const stage = await createSetting(tenant, stagesPath, { name: 'Legal' });
    expect(stage).toMatchObject({ pipeline_id: partners.id, order_position: 9 });
    const { audit } = await leftBehind(sales.id);
    expect(audit).toMatchObject([
      { action: 'settings.pipeline.update', changes: { is_default: { from: true, to: false } } },
    ]);
    await create(tenant, { name: 'Third', is_default: true });
    expect(await describeAll(tenant)).toEqual(['1 Sales false', '2 Partners false', '3 Third true']);
  });

  test('cannot be switched off or deleted', async () => {
    const { tenant, partners, sales } = await newTenantWithPartners();
    const off = await refuse(409, tenant, 'PATCH', path(sales.id), { is_default: false });
    const gone = await refuse(409, tenant, 'DELETE', path(sales.id));
    for (const { body } of [off, gone])
      expect(body.error).toMatchObject({ code: 'CONFLICT', details: { reason: 'default_pipeline' } });
    expect(await patch(tenant, partners.id, { is_default: false })).toEqual(partners);
  });

  test('is exactly one after concurrent changes of the default', async () => {
    const tenant = await newTenant();
    const pipelines = await Promise.all(['A', 'B', 'C', 'D'].map((name) => create(tenant, { name })));
    await Promise.all([...pipelines, ...pipelines].map(({ id }) => patch(tenant, id, { is_default: true })));
    expect((await list(tenant)).filter(({ is_default }) => is_default)).toHaveLength(1);
  });
});

describe('stages of several pipelines', () => {
  test('have names, positions and a last active one of their own', async () => {
    const { tenant, partners } = await newTenantWithPartners();
    const [introduced] = await listStages(tenant, partners.id);
    const twin = await refuse(409, tenant, 'POST', stagesPath, { name: 'INTRODUCED', pipeline_id: partners.id });
    expect(twin.body.error).toMatchObject({ details: { existing_id: introduced.id } });
    expect(await createSetting(tenant, stagesPath, { name: 'Introduced' })).toMatchObject({ order_position: 7 });
    for (const { id, name } of await listStages(tenant, partners.id))
      if (name !== 'Signed') await expectStatus(200, 'DELETE', `${stagesPath}/${id}`, { key: tenant.key });
    const [signed] = await listStages(tenant, partners.id);
    expect(signed).toMatchObject({ name: 'Signed', order_position: 1 });
    const last = await refuse(409, tenant, 'DELETE', `${stagesPath}/${signed.id}`);
    expect(last.body.error.details.reason).toBe('last_active');
    await refuse(422, tenant, 'PATCH', `${stagesPath}/${signed.id}`, { pipeline_id: partners.id });
  });

  test('reject the pipeline of another workspace, and statuses of leads have none', async () => {
    const [tenant, other] = [await newTenant(), await newTenantWithPartners()];
    const given = { key: tenant.key, body: { name: 'X', pipeline_id: other.partners.id } };
    expect(await refusedFields(422, 'POST', stagesPath, given)).toEqual(['pipeline_id NOT_FOUND']);
    const ofLeads = { key: tenant.key, body: { name: 'X', pipeline_id: (await list(tenant))[0]?.id } };
    expect(await refusedFields(400, 'POST', '/v1/settings/statuses/leads', ofLeads)).toEqual([
      'pipeline_id CONFLICTING_FIELDS',
    ]);
  });
});

describe('a deal', () => {
  test('is created in the pipeline that it names, in its first active stage or a stage of it', async () => {
    const { tenant, partners } = await newTenantWithPartners();
    const { key } = tenant;
    expect(await createRecord(key, 'deals', { name: 'A', pipeline: 'partners' })).toMatchObject({
      pipeline: 'Partners',
      stage: 'Introduced',
    });
    const own = { stage: 'New', pipeline: 'Partners', name: 'B' };
    expect(await createRecord(key, 'deals', own)).toMatchObject({
      stage_id: (await listStages(tenant, partners.id)).find(({ name }) => name === 'New')?.id,
    });
    const post = (body: object) =>
      refusedFields(422, 'POST', '/v1/objects/deals/records', {
        key,
        idempotencyKey: true,
        body: { name: 'C', ...body },
      });
    expect(await post({ stage: 'Introduced' })).toEqual(['stage INVALID_OPTION']);
    expect(await post({ pipeline: 'Unknown', stage: 'New' })).toEqual(['pipeline INVALID_OPTION']);
    expect(await post({ pipeline_id: partners.id })).toEqual(['pipeline_id READ_ONLY']);
  });

  test('moves to another pipeline with a stage of it', async () => {
    const { tenant, partners } = await newTenantWithPartners();
    const { key } = tenant;
    const { id } = await createRecord(key, 'deals', { name: 'D', stage: 'Proposal' });
    const change = (body: object) => call('PATCH', dealPath(id), { key, body });
    const incomplete = await change({ pipeline: 'Partners' });
    expect(incomplete.status).toBe(422);
    expect(incomplete.body.error.details.fields).toMatchObject([
      { field: 'stage', code: 'REQUIRED', allowed: expect.arrayContaining(['Introduced', 'Signed']) },
    ]);
    const elsewhere = await change({ stage: 'signed' });
    expect(elsewhere.status).toBe(422);
    const [fault] = elsewhere.body.error.details.fields;
    expect(fault).toMatchObject({ field: 'stage', code: 'INVALID_OPTION', hint: expect.stringContaining('pipeline') });
    expect(fault.allowed).not.toContain('Signed');
    const moved = await patchRecord(key, 'deals', id, { stage: 'signed', pipeline: 'partners' });
    expect(moved).toMatchObject({ pipeline: 'Partners', pipeline_id: partners.id, stage: 'Signed', probability: 100 });
    const { audit, events } = await leftBehind(id);
    expect(audit[1].changes).toMatchObject({
      pipeline: { from: 'Sales', to: 'Partners' },
      stage: { from: 'Proposal', to: 'Signed' },
    });
    expect(events.map(({ event }: Json) => event)).toContain('deal.stage_changed');
    expect(await patchRecord(key, 'deals', id, { pipeline: 'Partners' })).toMatchObject({ stage: 'Signed' });
  });

  test('moves with POST /v1/deals/{id}/stage by name within its pipeline, by id anywhere', async () => {
    const { tenant, partners } = await newTenantWithPartners();
    const { key } = tenant;
    const { id } = await createRecord(key, 'deals', { name: 'D' });
    const to = `/v1/deals/${id}/stage`;
    const move = async (body: object): Promise<Json> =>
      (await expectStatus(200, 'POST', to, { key, body })).body.data.deal;
    const refused = (body: object) => refusedFields(422, 'POST', to, { key, body });
    expect(await refused({ stage: 'Signed' })).toEqual(['stage INVALID_OPTION']);
    expect(await refused({ stage: 'New', pipeline: 'None' })).toEqual(['pipeline INVALID_OPTION']);
    expect(await refused({ stage: 'Won', fields: { pipeline: 'Partners' } })).toEqual([
      'fields.pipeline CONFLICTING_FIELDS',
    ]);
    expect(await move({ stage: 'won', pipeline: 'PARTNERS' })).toMatchObject({ pipeline: 'Partners', stage: 'Won' });
    expect(await move({ stage: 'New' })).toMatchObject({ pipeline: 'Partners', pipeline_id: partners.id });
    const proposal = await database()`
      select id from statuses where company_id = ${tenant.companyId} and name = 'Proposal' and pipeline_id <> ${partners.id}`;
    const stageId = proposal[0]?.id;
    expect(await refused({ stage_id: stageId, pipeline: 'Partners' })).toEqual(['stage_id INVALID_OPTION']);
    expect(await move({ stage_id: stageId })).toMatchObject({ pipeline: 'Sales', stage: 'Proposal' });
  });

  test('is found, sorted and grouped by its pipeline, and by stages of one name in all pipelines', async () => {
    const { tenant, partners, sales } = await newTenantWithPartners();
    const { key } = tenant;
    await createRecord(key, 'deals', { name: 'A', amount_minor: 100 });
    await createRecord(key, 'deals', { name: 'B', amount_minor: 20, pipeline: 'Partners', stage: 'New' });
    await createRecord(key, 'deals', { name: 'C', amount_minor: 3, pipeline: 'Partners' });
    const where = (field: string, op: string, value: unknown) =>
      findDeals(tenant, { filter: JSON.stringify({ field, op, value }), sort: 'name' });
    expect(await where('pipeline', 'eq', 'partners')).toEqual(['B', 'C']);
    expect(await where('pipeline_id', 'in', [sales.id])).toEqual(['A']);
    expect(await where('stage', 'eq', 'new')).toEqual(['A', 'B']);
    expect(await where('stage', 'neq', 'New')).toEqual(['C']);
    expect(await where('stage', 'not_in', ['New'])).toEqual(['C']);
    expect(await where('stage', 'in', ['New', 'Introduced'])).toEqual(['A', 'B', 'C']);
    expect(await findDeals(tenant, { sort: '-pipeline,name' })).toEqual(['A', 'B', 'C']);
    const report = { object: 'deals', metric: 'sum', field: 'amount_minor', group_by: 'pipeline' };
    const { body } = await expectStatus(200, 'POST', '/v1/reports/query', { key, body: report });
    expect(body.data.groups).toMatchObject([
      { key: 'Partners', value: 23, count: 2 },
      { key: 'Sales', value: 100, count: 1 },
    ]);
    const read = async (query: Record<string, string>): Promise<Json> =>
      (await expectStatus(200, 'GET', '/v1/reports/pipeline', { key, query })).body.data;
    const all = await read({ object: 'deals' });
    expect(all).toMatchObject({ total: 3 });
    expect(all.by_status).toHaveLength(14);
    const own = await read({ object: 'deals', pipeline_id: partners.id.toUpperCase() });
    expect(own.total).toBe(2);
    expect(own.by_status.slice(0, 2)).toMatchObject([
      { status: 'Introduced', pipeline_id: partners.id, count: 1, amount_minor: 3 },
      { status: 'New', pipeline_id: partners.id, count: 1, amount_minor: 20 },
    ]);
    expect(own.by_status).toHaveLength(8);
    const other = await newTenantWithPartners();
    const query = { object: 'deals', pipeline_id: other.partners.id };
    await expectStatus(404, 'GET', '/v1/reports/pipeline', { key, query });
    const ofLeads = { key, query: { object: 'leads', pipeline_id: partners.id } };
    expect(await refusedFields(400, 'GET', '/v1/reports/pipeline', ofLeads)).toEqual([
      'pipeline_id CONFLICTING_FIELDS',
    ]);
  });

  test('is written in any pipeline by batches and upserts', async () => {
    const { tenant } = await newTenantWithPartners();
    const { key } = tenant;
    const records = [
      { name: 'A', pipeline: 'Partners', stage: 'Signed' },
      { name: 'B', stage: 'Signed' },
      { name: 'C', pipeline: 'Partners' },
    ];
    const { body } = await expectStatus(200, 'POST', '/v1/objects/deals/records:batch', {
      key,
      idempotencyKey: true,
      body: { records },
    });
    expect(body.data.failed).toMatchObject([
      { index: 1, details: { fields: [{ field: 'stage', code: 'INVALID_OPTION' }] } },
    ]);
    expect(await findDeals(tenant, { sort: 'name' })).toEqual(['A', 'C']);
  });

  test('of a converted lead starts in the default pipeline, or in the one that it names', async () => {
    const { tenant, partners } = await newTenantWithPartners();
    const { key } = tenant;
    const convert = async (deal: object): Promise<Json> => {
      const lead = await createRecord(key, 'leads', { first_name: 'S', mobile: '+971501234567' });
      const to = `/v1/leads/${lead.id}/convert`;
      return (await expectStatus(200, 'POST', to, { key, body: { deal } })).body.data.deal;
    };
    expect(await convert({ name: 'A' })).toMatchObject({ pipeline: 'Sales', stage: 'New' });
    expect(await convert({ name: 'B', pipeline: 'Partners' })).toMatchObject({ stage: 'Introduced' });
    await patch(tenant, partners.id, { is_default: true });
    expect(await convert({ name: 'C' })).toMatchObject({ pipeline: 'Partners', stage: 'Introduced' });
  });
});

describe('deleting a pipeline', () => {
  test('is rejected with counts while deals of either mode are in it', async () => {
    const { tenant, partners } = await newTenantWithPartners();
    const deal = await createRecord(tenant.key, 'deals', { name: 'A', pipeline: 'Partners' });
    const trial = await createRecord(tenant.testKey, 'deals', { name: 'B', pipeline: 'Partners' });
    const { body } = await refuse(409, tenant, 'DELETE', path(partners.id));
    expect(body.error).toMatchObject({
      code: 'CONFLICT',
      details: { reason: 'in_use', references: { deals: 2 } },
    });
    await patchRecord(tenant.key, 'deals', deal.id, { pipeline: 'Sales', stage: 'Won' });
    await expectStatus(200, 'DELETE', dealPath(trial.id), { key: tenant.testKey });
    await expectStatus(200, 'DELETE', path(partners.id), { key: tenant.key });
    expect(await listStages(tenant, partners.id)).toEqual([]);
    await refuse(404, tenant, 'DELETE', path(partners.id));
    const restored = await expectStatus(200, 'POST', `/v1/objects/deals/deleted-records/${trial.id}/restore`, {
      key: tenant.testKey,
    });
    expect(restored.body.data.warnings.map(({ code, field }: Json) => `${code} ${field}`)).toEqual([
      'status_gone stage',
      'option_gone pipeline',
    ]);
    expect(await readRecord(tenant.testKey, 'deals', trial.id)).toMatchObject({ pipeline: 'Sales', stage: 'New' });
  });

  test('leaves no deal behind while deals are created in it', async () => {
    const { tenant, partners } = await newTenantWithPartners();
    const { key } = tenant;
    const post = (number: number) =>
      call('POST', '/v1/objects/deals/records', {
        key,
        idempotencyKey: true,
        body: { name: `D${number}`, pipeline: 'Partners' },
      });
    const [gone, ...created] = await Promise.all([
      call('DELETE', path(partners.id), { key }),
      ...Array.from({ length: 12 }, (_, number) => post(number)),
    ]);
    const stored = created.filter(({ status }) => status === 201).length;
    // 409 changed_meanwhile: the deletion ended while the deal was being written.
    expect(created.every(({ status }) => [201, 409, 422].includes(status))).toBe(true);
    expect(gone?.status).toBe(stored > 0 ? 409 : 200);
    const [{ count } = { count: -1 }] = await database()<{ count: number }[]>`
      select count(*)::int as count from deals d
      where d.company_id = ${tenant.companyId}
        and exists (select from statuses s where s.company_id = d.company_id and s.id = d.stage_id)`;
    expect(count).toBe(stored);
  });
});

test('a stage and its pipeline cannot differ in a stored deal', async () => {
  const { tenant, partners } = await newTenantWithPartners();
  const { id } = await createRecord(tenant.key, 'deals', { name: 'D' });
  const wrong = database()`
    update deals set pipeline_id = ${partners.id}, stage_id = ${await statusId(tenant, 'deals', 'Proposal')}
    where company_id = ${tenant.companyId} and id = ${id}`;
  await expect(wrong).rejects.toThrow(/foreign key/);
});
