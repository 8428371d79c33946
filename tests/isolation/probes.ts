// Requests of one tenant for every operation, prepared once, to be sent to copies of its data.
import { inject } from 'vitest';
import { Secrets, sign } from '../../runtime/credentials/secrets.ts';
import { arrangedPaths } from '../support/arranged-ids.ts';
import { type DeclaredOperation, operations } from '../support/document.ts';
import { alternativesOf, goodRequest, pathParameters } from '../support/requests.ts';
import { bodyExamples, bodySchema, queryParameters } from '../support/schemas.ts';
import type { Tenant } from '../support/tenants.ts';
import { furtherOf } from './additional-requests.ts';
import { type Ground, recordBody } from './fixture-tenant.ts';
import { fixedParts, type Probe, varied } from './probe.ts';

export const isAboutRecords = (operation: DeclaredOperation): boolean =>
  operation.path.startsWith('/v1/objects/{object}/records');

/** Who may see what hangs on a record is decided by the record, for all objects by the same lines (`services/records/open-record.ts`). */
const isBelowRecords = ({ path }: DeclaredOperation): boolean => path.includes('/records/{id}/');

/** The object at which everything is tried that is the same for all; at others, once. */
const isThorough = (object: string | undefined): boolean => object === 'leads';

/** Branches, teams, who is in them, and figures: what a key of a branch or a team is told less of. */
const isAboutPlaces = ({ path, method }: DeclaredOperation): boolean =>
  /^\/v1\/(branches|teams|org-|reports)/.test(path) || (path === '/v1/users' && method === 'POST');

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
  // What hangs on a record is there on the one that it was made for.
  if (pathParameters(operation.path).length > 2)
    return [await arrangedPaths[operation.path]?.exists(ground.tenant, 'live')];
  if (!pathParameters(operation.path).includes('id')) return [...ground.records.keys()].map((object) => ({ object }));
  const most = { GET: 4, DELETE: 1 }[operation.method] ?? 2;
  return [...ground.records].flatMap(([object, ids]) => {
    const count = isBelowRecords(operation) ? Math.min(most, isThorough(object) ? 2 : 1) : most;
    return ids.slice(0, count).map((id) => ({ object, id }));
  });
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
      const link = /^get(Attachment|Export)Content$/.test(operation.id)
        ? { query: lastingLink(path, ground.tenant) }
        : {};
      // A live key, which is a test key in the walk with modes swapped.
      const own = operation.declared['x-test-only'] ? { key: ground.tenant.key } : {};
      return { operation, path, options: { ...options, ...fixedParts(options), ...link, ...own } };
    }),
  );
}

/** What a link says that works as long as many walks take; those of the API work for ten minutes. */
function lastingLink(path: string, { companyId }: Tenant): Record<string, string> {
  const exp = String(Math.floor(Date.now() / 1000) + 7200);
  const key = new Secrets(inject('secretKey')).deriveKey('download links');
  const environment = 'live';
  const signature = sign(key, JSON.stringify([...path.split('/').slice(2, 4), companyId, environment, exp]));
  return { company_id: companyId, environment, exp, sig: signature };
}

/** Prepares requests for an operation: every example of it at every place, every query that it declares, and keys that see less. */
export async function probesOf(operation: DeclaredOperation, ground: Ground): Promise<Probe[]> {
  const probes: Probe[] = [];
  const opensByApp = alternativesOf(operation).some(({ scheme }) => scheme === 'oauth');
  for (const [index, values] of (await placesOf(operation, ground)).entries()) {
    const examples = await examplesOf(operation, ground, values);
    const [first] = examples as [Probe];
    if (!isAboutRecords(operation)) {
      probes.push(...examples);
      if (isAboutPlaces(operation))
        probes.push(...ground.narrowKeys.slice(0, 2).map((key) => varied(examples.at(-1) ?? first, { key })));
    } else {
      const body = recordsBody(operation, ground, values?.object ?? '', index);
      const whole = { ...first, options: { ...first.options, ...(body ? { body } : {}) } };
      probes.push(whole);
      if ((operation.method === 'GET' && !isBelowRecords(operation)) || isThorough(values?.object))
        probes.push(...ground.narrowKeys.map((key) => varied(whole, { key })));
    }
    const whole = probes.at(-1) ?? first;
    // Both people at the first place, then one after the other.
    for (const token of opensByApp ? ground.bearers.splice(0, index === 0 ? 2 : 1) : []) {
      ground.bearers.push(token);
      probes.push(varied(whole, { key: undefined, token }));
    }
    const queries =
      isBelowRecords(operation) && !isThorough(values?.object) ? [] : queriesOf(operation, ground, values?.object);
    for (const query of queries) probes.push(varied(first, { query: { ...first.options.query, ...query } }));
  }
  return [...probes, ...furtherOf(probes[0] as Probe, ground)];
}

/** Requests for keys that reach the branches and teams of a ground only. */
export function narrowKeysOf(examples: readonly Probe[], { groups }: Ground): Probe[] {
  const asked = examples.filter(({ operation }) => operation.id === 'createApiKey').slice(0, 1);
  return asked.flatMap((probe) =>
    groups.map((reach) => varied(probe, { body: { ...(probe.options.body as object), reach } })),
  );
}

/** Others below records have bodies of their own. */
const takesRecords = /\/records(\/\{id\}|:batch)?$/;

function recordsBody(operation: DeclaredOperation, ground: Ground, object: string, index: number): unknown {
  const ids = ground.records.get(object) ?? [];
  if (operation.id === 'getRecordBatch') return { ids };
  if (operation.id === 'updateRecordBatch')
    return { records: ids.slice(0, 2).map((id, each) => ({ id, ...changesOf(ground, object, each) })) };
  if (!bodySchema(operation) || !takesRecords.test(operation.path)) return undefined;
  if (operation.path.endsWith(':batch')) return [0, 1, 2].map((each) => recordBody(ground, object, each));
  if (operation.method === 'POST') return recordBody(ground, object, 0);
  return changesOf(ground, object, index % 4);
}

function changesOf(ground: Ground, object: string, index: number): Record<string, unknown> {
  const immutable = new Set(['entity_type', 'entity_id']);
  const whole = Object.entries(recordBody(ground, object, index)).filter(([name]) => !immutable.has(name));
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

/** All operations: first those that read, then those that make, those that change, last those that remove, or end sessions. */
export const inOrder: readonly DeclaredOperation[] = [...operations].sort((a, b) => rankOf(a) - rankOf(b));

function rankOf(operation: DeclaredOperation): number {
  if (operation.method === 'GET') return 0;
  // Leaves nothing to do anything with.
  if (operation.declared['x-test-only']) return 5;
  // Another password ends the sessions that were begun with the one before.
  if (operation.id === 'updatePassword') return 4;
  if (operation.method === 'DELETE' || operation.id === 'endSession') return 3;
  return operation.method === 'POST' ? 1 : 2;
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
