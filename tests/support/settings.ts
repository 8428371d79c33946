// Configured lists for tests: created, changed and listed as administrators do.
import { expect } from 'vitest';
import { expectStatus, type Json } from './client.ts';
import { database, type Tenant } from './tenants.ts';

/** Returns the only property of a response. */
const onlyValue = (data: object): Json => Object.values(data)[0];

/**
 * Creates an item.
 * @param path of the list
 * @returns the item
 */
export async function createSetting(tenant: Tenant, path: string, body: object): Promise<Json> {
  return onlyValue((await expectStatus(201, 'POST', path, { key: tenant.key, body })).body.data);
}

/**
 * Changes an item.
 * @param path of the item
 * @returns the item
 */
export async function changeSetting(tenant: Tenant, path: string, body: object): Promise<Json> {
  return onlyValue((await expectStatus(200, 'PATCH', path, { key: tenant.key, body })).body.data);
}

/** Returns a whole list, without paging. */
export async function listSettings(key: string, path: string): Promise<Json[]> {
  const { next_cursor, has_more, ...list } = (await expectStatus(200, 'GET', path, { key })).body.data;
  expect({ next_cursor, has_more }).toEqual({ next_cursor: null, has_more: false });
  return onlyValue(list);
}

/** Returns the version of a workspace's configuration. */
export async function configVersion({ companyId }: Pick<Tenant, 'companyId'>): Promise<number> {
  const [row] = await database()`select config_version::int as version from companies where id = ${companyId}`;
  return row?.version;
}
