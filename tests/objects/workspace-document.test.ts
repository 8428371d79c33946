// The OpenAPI document of a workspace: its own objects and fields, for its own credentials.

import { Ajv2020 } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import openapiTypes, { astToString } from 'openapi-typescript';
import { beforeAll, describe, expect, test } from 'vitest';
import { call, expectStatus, type Json } from '../support/client.ts';
import { createRecord, newCustomField, newCustomObject } from '../support/records.ts';
import { newKey, newTenant, type Tenant } from '../support/tenants.ts';

const path = '/v1/openapi.json';
const own = { workspace: 'true' };
const readDocument = async (key: string): Promise<Json> =>
  (await expectStatus(200, 'GET', path, { key, query: own })).body;

let tenant: Tenant;
let document: Json;

beforeAll(async () => {
  tenant = await newTenant();
  await newCustomObject(tenant, 'site-visits');
  await newCustomField(tenant, 'leads', 'mood', { type: 'select', options: [{ value: 'good' }, { value: 'bad' }] });
  await newCustomField(tenant, 'object:site-visits', 'guests', { type: 'number', required: true });
  document = await readDocument(tenant.key);
});

/** Returns true if a value fits a schema of the workspace's document. */
function fits(name: string, value: unknown): boolean {
  const ajv = new Ajv2020({ strict: false });
  (addFormats as unknown as (ajv: Ajv2020) => void)(ajv);
  ajv.addSchema(document, 'workspace');
  const validate = ajv.compile({ $ref: `workspace#/components/schemas/${name}` });
  return validate(value);
}

test('includes the paths of each object and all paths of the public document', async () => {
  const { body: everybodys } = await expectStatus(200, 'GET', path);
  for (const [each, item] of Object.entries(everybodys.paths)) expect(document.paths[each]).toEqual(item);
  const visits = '/v1/objects/object:site-visits/records';
  expect(Object.keys(document.paths)).toEqual(
    expect.arrayContaining([
      visits,
      `${visits}/{id}`,
      `${visits}:upsert`,
      `${visits}:batch`,
      '/v1/objects/leads/records',
    ]),
  );
  expect(document.paths[visits].get.operationId).toBe('listRecordsOfObjectSiteVisits');
  // The object is in the path itself, and each operation declares the id once.
  expect(document.paths[`${visits}/{id}`].parameters).toEqual([]);
  for (const method of ['get', 'patch']) {
    const parameters = JSON.stringify(document.paths[`${visits}/{id}`][method].parameters);
    expect(parameters.split('#/components/parameters/RecordId"')).toHaveLength(2);
    expect(parameters).not.toContain('RecordObject');
  }
  const ids = Object.values<Json>(document.paths).flatMap((item) =>
    Object.values<Json>(item).map((each) => each.operationId),
  );
  const named = ids.filter((id) => id !== undefined);
  expect(new Set(named).size).toBe(named.length);
});

test('describes the records that the server accepts and returns', async () => {
  expect(fits('LeadsRecordCreate', { first_name: 'Sara', email: 'sara@example.com', mood: 'good' })).toBe(true);
  expect(fits('LeadsRecordCreate', { first_name: 'Sara', mood: 'fine' })).toBe(false);
  expect(fits('LeadsRecordCreate', { email: 'sara@example.com' })).toBe(false);
  expect(fits('ObjectSiteVisitsRecordCreate', { name: 'First' })).toBe(false);
  expect(fits('ObjectSiteVisitsRecordCreate', { name: 'First', guests: 3 })).toBe(true);
  expect(fits('ObjectSiteVisitsRecordPatch', { guests: 'many' })).toBe(false);
  const record = await createRecord(tenant.key, 'object:site-visits', { name: 'First', guests: 3 });
  expect(fits('ObjectSiteVisitsRecord', record)).toBe(true);
  const answer = await expectStatus(200, 'GET', `/v1/objects/leads/records`, { key: tenant.key });
  expect(fits('LeadsRecordListAnswer', answer.body)).toBe(true);
  expect(fits('ObjectSiteVisitsRecordListAnswer', answer.body)).toBe(false);
});

test('generates a client that has the custom fields', async () => {
  const types = astToString(await openapiTypes(document as never));
  expect(types).toMatch(/ObjectSiteVisitsRecordCreate: \{[^}]*guests: number/);
  expect(types).toMatch(/\bmood\?: [^;]*"good" \| "bad"[^;]*;/);
});

describe('access to the workspace document', () => {
  test('omits objects that the key cannot view', async () => {
    const { paths } = await readDocument(await newKey(tenant, { scopes: ['leads:view'] }));
    const ofObjects = Object.keys(paths).filter((each) => /^\/v1\/objects\/(?!\{)/.test(each));
    expect(ofObjects.every((each) => each.startsWith('/v1/objects/leads/'))).toBe(true);
    expect(ofObjects).not.toHaveLength(0);
  });

  test('contains nothing of other workspaces', async () => {
    const text = JSON.stringify(await readDocument((await newTenant()).key));
    expect(text).not.toContain('SiteVisits');
    expect(text).not.toContain('"mood"');
  });

  test('requires a valid credential, unlike the public document', async () => {
    const none = await expectStatus(401, 'GET', path, { query: own });
    expect(none.body.error.code).toBe('MISSING_API_KEY');
    const key = `svc_live_${'0'.repeat(32)}`;
    await expectStatus(401, 'GET', path, { key, query: own });
    for (const query of [undefined, { workspace: 'false' }]) await expectStatus(200, 'GET', path, { key, query });
    await expectStatus(400, 'GET', path, { key: tenant.key, query: { workspace: 'yes' } });
  });

  test('prevents shared caching, and returns 304 for the current ETag', async () => {
    const first = await expectStatus(200, 'GET', path, { key: tenant.key, query: own });
    expect(first.headers.get('cache-control')).toBe('private, no-cache');
    const etag = first.headers.get('etag') ?? '';
    const headers = { 'if-none-match': etag };
    expect((await call('GET', path, { key: tenant.key, query: own, headers })).status).toBe(304);
    const everybodys = await expectStatus(200, 'GET', path, { headers });
    expect(everybodys.headers.get('cache-control')).toBe('public, max-age=300');
    expect(everybodys.headers.get('etag')).not.toBe(etag);
  });
});
