// Change sets of tests.
import { randomUUID } from 'node:crypto';
import { expectStatus, type Json } from './client.ts';

/** Proposes an account with a key. @returns the change set */
export async function proposeAccount(key: string): Promise<Json> {
  const operations = [{ method: 'POST', path: '/v1/objects/accounts/records', body: { name: randomUUID() } }];
  const body = { title: 'Add an account', operations };
  return (await expectStatus(201, 'POST', '/v1/change-sets', { key, body })).body.data.change_set;
}
