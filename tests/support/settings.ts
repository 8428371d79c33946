// What a workspace configures as lists, for tests: made, changed and listed as administrators do.
import { expect } from 'vitest';
import { expectStatus, type Json } from './client.ts';
import { database, type Tenant } from './tenants.ts';

/** The one thing that an answer shows. */
const shown = (data: object): Json => Object.values(data)[0];

/** @param path of the list @returns what was created */
export async function createSetting(tenant: Tenant, path: string, body: object): Promise<Json> {
  return shown((await expectStatus(201, 'POST', path, { key: tenant.key, body })).body.data);
}

/** @param path of the item @returns it as it is now */
export async function changeSetting(tenant: Tenant, path: string, body: object): Promise<Json> {
  return shown((await expectStatus(200, 'PATCH', path, { key: tenant.key, body })).body.data);
}

/** A whole list, which is never paged. */
export async function listSettings(key: string, path: string): Promise<Json[]> {
  const { next_cursor, has_more, ...list } = (await expectStatus(200, 'GET', path, { key })).body.data;
  expect({ next_cursor, has_more }).toEqual({ next_cursor: null, has_more: false });
  return shown(list);
}

/** How often the configuration of a workspace was changed. */
export async function configVersion({ companyId }: Pick<Tenant, 'companyId'>): Promise<number> {
  const [row] = await database()`select config_version::int as version from companies where id = ${companyId}`;
  return row?.version;
}
