// Requests of one tenant for every operation, prepared once and sent to copies of its data.
import { inject } from 'vitest';
import { Secrets, sign } from '../../runtime/credentials/secrets.ts';
import { arrangedPaths } from '../support/arranged-ids.ts';
import { type DeclaredOperation, operations } from '../support/document.ts';
import { goodRequest, listAlternatives, pathParameters } from '../support/requests.ts';
import { bodyExamples, bodySchema, queryParameters } from '../support/schemas.ts';
import type { Tenant } from '../support/tenants.ts';
import { additionalRequests } from './additional-requests.ts';
import { type FixtureTenant, recordBody } from './fixture-tenant.ts';
import { fixedParts, type Probe, varied } from './probe.ts';

export const isAboutRecords = (operation: DeclaredOperation): boolean =>
  operation.path.startsWith('/v1/objects/{object}/records');

/**
 * Returns true for children of a record. The same code checks their visibility for all objects
 * (`services/records/open-record.ts`).
 */
const isBelowRecords = ({ path }: DeclaredOperation): boolean => path.includes('/records/{id}/');

/** Returns true for the object with which everything common is tried. Other objects get one try. */
const isThorough = (object: string | undefined): boolean => object === 'leads';

/**
 * Returns true for branches, teams, their members, and figures, of which keys of a branch or team
 * see less.
 */
const isAboutPlaces = ({ path, method }: DeclaredOperation): boolean =>
  /^\/v1\/(branches|teams|org-|reports)/.test(path) || (path === '/v1/users' && method === 'POST');

/** Returns where an operation can be called: an object of each kind, or other path parameters. */
async function listPlaces(
  operation: DeclaredOperation,
  fixture: FixtureTenant,
): Promise<(Record<string, string> | undefined)[]> {
  if (!isAboutRecords(operation)) {
    const [name, ...others] = pathParameters(operation.path);
    const builtin =
      operation.method === 'GET' && name === 'object' && others.length === 0 ? fixture.records.keys() : [];
    const arranged = arrangedPaths[operation.path];
    const made = await arranged?.exists(fixture.tenant, 'live');
    const records = operation.method === 'GET' ? (fixture.records.get(arranged?.recordsOf ?? '') ?? []) : [];
    return [made, ...[...builtin].map((object) => ({ object })), ...records.map((id) => ({ id }))];
  }
  // Children of a record exist on the record that they were created for. A merge deletes its record, which others need.
  if (pathParameters(operation.path).length > 2 || operation.id === 'mergeRecord')
    return [await arrangedPaths[operation.path]?.exists(fixture.tenant, 'live')];
  if (!pathParameters(operation.path).includes('id')) return [...fixture.records.keys()].map((object) => ({ object }));
  const most = { GET: 4, DELETE: 1 }[operation.method] ?? 2;
  return [...fixture.records].flatMap(([object, ids]) => {
    const count = isBelowRecords(operation) ? Math.min(most, isThorough(object) ? 2 : 1) : most;
    return ids.slice(0, count).map((id) => ({ object, id }));
  });
}

/** Prepares a request for each example of an operation, with resources created for it. */
export async function prepareExamples(
  operation: DeclaredOperation,
  fixture: FixtureTenant,
  values?: Record<string, string>,
): Promise<Probe[]> {
  const count = Math.max(1, bodyExamples(operation).length);
  const indexes = Array.from({ length: count }, (_, example) => example);
  return Promise.all(
    indexes.map(async (example) => {
      const { path, options } = await goodRequest(operation, fixture.tenant, {
        example,
        ...(values ? { values } : {}),
      });
      const link = /^get(Attachment|Export)Content$/.test(operation.id)
        ? { query: lastingLink(path, fixture.tenant) }
        : {};
      // A live key becomes a test key in the walk with swapped modes.
      const own = operation.declared['x-test-only'] ? { key: fixture.tenant.key } : {};
      return { operation, path, options: { ...options, ...fixedParts(options), ...link, ...own } };
    }),
  );
}

/**
 * Returns parameters of a download link that is valid for many walks. Links of the API are valid
 * for ten minutes.
 */
function lastingLink(path: string, { companyId }: Tenant): Record<string, string> {
  const exp = String(Math.floor(Date.now() / 1000) + 7200);
  const key = new Secrets(inject('secretKey')).deriveKey('download links');
  const environment = 'live';
  const signature = sign(key, JSON.stringify([...path.split('/').slice(2, 4), companyId, environment, exp]));
  return { company_id: companyId, environment, exp, sig: signature };
}

/**
 * Prepares requests for an operation: every example in every place, every query parameter, and
 * limited keys.
 */
export async function prepareProbes(operation: DeclaredOperation, fixture: FixtureTenant): Promise<Probe[]> {
  const probes: Probe[] = [];
  const opensByApp = listAlternatives(operation).some(({ scheme }) => scheme === 'oauth');
  for (const [index, values] of (await listPlaces(operation, fixture)).entries()) {
    const examples = await prepareExamples(operation, fixture, values);
    const [first] = examples as [Probe];
    if (!isAboutRecords(operation)) {
      probes.push(...examples);
      if (isAboutPlaces(operation))
        probes.push(...fixture.narrowKeys.slice(0, 2).map((key) => varied(examples.at(-1) ?? first, { key })));
    } else {
      const body = recordsBody(operation, fixture, values?.object ?? '', index);
      const whole = { ...first, options: { ...first.options, ...(body ? { body } : {}) } };
      probes.push(whole);
      if ((operation.method === 'GET' && !isBelowRecords(operation)) || isThorough(values?.object))
        probes.push(...fixture.narrowKeys.map((key) => varied(whole, { key })));
    }
    const whole = probes.at(-1) ?? first;
    // Both users in the first place, then one in turn.
    for (const token of opensByApp ? fixture.bearers.splice(0, index === 0 ? 2 : 1) : []) {
      fixture.bearers.push(token);
      probes.push(varied(whole, { key: undefined, token }));
    }
    const queries =
      isBelowRecords(operation) && !isThorough(values?.object) ? [] : buildQueries(operation, fixture, values?.object);
    for (const query of queries) probes.push(varied(first, { query: { ...first.options.query, ...query } }));
  }
  return [...probes, ...additionalRequests(probes[0] as Probe, fixture)];
}

/** Returns requests that create keys for the branches and teams of a tenant. */
export function prepareNarrowKeys(examples: readonly Probe[], { groups }: FixtureTenant): Probe[] {
  const asked = examples.filter(({ operation }) => operation.id === 'createApiKey').slice(0, 1);
  return asked.flatMap((probe) =>
    groups.map((reach) => varied(probe, { body: { ...(probe.options.body as object), reach } })),
  );
}

/** Other operations below records have their own bodies. */
const takesRecords = /\/records(\/\{id\}|:batch)?$/;

function recordsBody(operation: DeclaredOperation, fixture: FixtureTenant, object: string, index: number): unknown {
  const ids = fixture.records.get(object) ?? [];
  if (operation.id === 'getRecordBatch') return { ids };
  if (operation.id === 'updateRecordBatch')
    return { records: ids.slice(0, 2).map((id, each) => ({ id, ...buildChanges(fixture, object, each) })) };
  if (!bodySchema(operation) || !takesRecords.test(operation.path)) return undefined;
  if (operation.path.endsWith(':batch')) return [0, 1, 2].map((each) => recordBody(fixture, object, each));
  if (operation.method === 'POST') return recordBody(fixture, object, 0);
  return buildChanges(fixture, object, index % 4);
}

function buildChanges(fixture: FixtureTenant, object: string, index: number): Record<string, unknown> {
  const immutable = new Set(['entity_type', 'entity_id']);
  const whole = Object.entries(recordBody(fixture, object, index)).filter(([name]) => !immutable.has(name));
  // Clearing the follow-up of an activity looks up the next one of its record.
  return { ...Object.fromEntries(whole), ...(object === 'activities' ? { followup_at: null } : {}) };
}

/** Returns a query for each value of each parameter. */
function buildQueries(
  operation: DeclaredOperation,
  fixture: FixtureTenant,
  object: string | undefined,
): Record<string, string>[] {
  const fields = (object === undefined ? undefined : fixture.fields.get(object)) ?? [];
  return queryParameters(operation).flatMap(({ name, schema, example }) => {
    // Rows of the other mode are foreign to a walk, and a session token may name that mode.
    if (name === 'cursor' || name === operation.declared['x-mode-with']) return [];
    // How far the sender is with deliveries of all endpoints differs between two runs.
    if (name === 'status' && operation.id === 'listAllWebhookDeliveries') return [];
    if (name === 'limit') return [{ limit: '1' }];
    if (name === 'email') return fixture.emails.map((email) => ({ email }));
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

/** Returns all groups that the parameter's description lists. */
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

/** Returns true for operations that create something. */
export const creates = (operation: DeclaredOperation): boolean =>
  operation.method === 'POST' && pathParameters(operation.path).every((name) => name === 'object');

/** All operations: reads, then creates, then updates, then deletions and the end of sessions. */
export const inOrder: readonly DeclaredOperation[] = [...operations].sort((a, b) => getRank(a) - getRank(b));

function getRank(operation: DeclaredOperation): number {
  if (operation.method === 'GET') return 0;
  // Deletes everything.
  if (operation.declared['x-test-only']) return 5;
  // A changed password ends earlier sessions.
  if (operation.id === 'updatePassword') return 4;
  if (operation.method === 'DELETE' || operation.id === 'endSession') return 3;
  return operation.method === 'POST' ? 1 : 2;
}

/**
 * Returns malformed variants: invalid bodies, and in every parameter the beginning of the shadows'
 * texts.
 */
export function buildJunk(probes: readonly Probe[]): Probe[] {
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
