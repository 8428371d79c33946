// The entry to tests/support: a workspace, and calls of the API as one of its keys.
import { type CallOptions, expectStatus, type Json } from './client.ts';
import { createRecord, lead } from './records.ts';
import { newTenant } from './tenants.ts';

export type { Json };

/**
 * Creates a workspace for one test, with its defaults, an administrator, and a live and a test key
 * with every scope.
 */
export const workspace = newTenant;

/** Calls of one credential. */
export interface Client {
  /** @returns `data` of the response */
  get(path: string, query?: CallOptions['query']): Promise<Json>;
  /** Sends a new Idempotency-Key. @returns `data` of the response */
  post(path: string, body?: object): Promise<Json>;
  /** Sends a new Idempotency-Key. @returns `data` of the response */
  patch(path: string, body: object): Promise<Json>;
  delete(path: string): Promise<unknown>;
  /**
   * Makes a call that must fail.
   * @param status the expected status
   * @returns `error` of the response
   */
  rejects(status: number, method: string, path: string, body?: object): Promise<Json>;
}

/**
 * Calls the API as an API key. A call fails the test if its status is no success of its method, or
 * if the OpenAPI document does not declare the response.
 *
 * @example
 * const { key } = await workspace();
 * const { tag } = await as(key).post('/v1/settings/tags', { name: 'VIP', object: 'leads' });
 * const error = await as(key).rejects(422, 'POST', '/v1/leads', { first_name: 7 });
 */
export function as(key: string): Client {
  const created = [200, 201, 202];
  const data = async (expected: number[], method: string, path: string, options: CallOptions): Promise<Json> =>
    (await expectStatus(expected, method, path, { key, ...options })).body?.data;
  return {
    get: (path, query = {}) => data([200], 'GET', path, { query }),
    post: (path, body = {}) => data(created, 'POST', path, { body, idempotencyKey: true }),
    patch: (path, body) => data([200], 'PATCH', path, { body, idempotencyKey: true }),
    delete: (path) => data([200, 204], 'DELETE', path, {}),
    async rejects(status, method, path, body) {
      const { body: answer } = await expectStatus(status, method, path, { key, ...(body && { body }) });
      return answer.error;
    },
  };
}

/**
 * Creates a lead without references to it.
 * @param fields in addition to a first name and a unique email address
 */
export function createLead(key: string, fields: object = {}): Promise<Json> {
  return createRecord(key, 'leads', lead(fields));
}
