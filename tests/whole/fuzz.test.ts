// Generated requests for every operation get declared responses and never a 5xx. FUZZ_RUNS is the
// total number, and FUZZ_SEED repeats a run; each run prints its seed.
import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import { type GeneratedRequest, generateRequests, type PublishedField } from '../support/arbitraries.ts';
import { newObject, newRecord } from '../support/arranged-ids.ts';
import { call, expectStatus } from '../support/client.ts';
import { type DeclaredOperation, operations } from '../support/document.ts';
import { recordSomeChange } from '../support/feeds.ts';
import {
  goodRequest,
  isForPlatform,
  newWideTenant,
  type PreparedRequest,
  pathParameters,
} from '../support/requests.ts';
import { readSeed } from '../support/seed.ts';
import type { Tenant } from '../support/tenants.ts';
import { anyPath, openedByKey, openedBySession } from '../support/walk.ts';

const runs = Number(process.env.FUZZ_RUNS ?? 2000);
const seed = readSeed('FUZZ_SEED');

/** Concurrent requests. */
const clients = 8;

/** Returns true if only session tokens open the operation. */
const isForPeople = (operation: DeclaredOperation): boolean =>
  openedBySession.includes(operation) && !openedByKey.includes(operation);

/** Counts of each status by operation. A run in which every request is rejected tests nothing. */
const seen = new Map<string, Map<number, number>>();

beforeAll(() => {
  process.stdout.write(`\nfuzz: FUZZ_SEED=${seed} FUZZ_RUNS=${runs}\n`);
});

afterAll(() => {
  for (const [id, counts] of seen) {
    const sorted = [...counts].sort(([a], [b]) => a - b).map(([status, count]) => `${status} × ${count}`);
    process.stdout.write(`fuzz: ${id.padEnd(28)} ${sorted.join(', ')}\n`);
  }
});

/** Returns the objects of a tenant with their published fields. */
async function publishedFields(tenant: Tenant): Promise<Map<string, PublishedField[]>> {
  const fields = new Map<string, PublishedField[]>();
  const listed = await expectStatus(200, 'GET', '/v1/objects', { key: tenant.key });
  for (const { object } of listed.body.data.objects) {
    const { body } = await expectStatus(200, 'GET', `/v1/objects/${object}/schema`, { key: tenant.key });
    fields.set(object, body.data.schema.fields);
  }
  return fields;
}

/** Returns path parameters of a record of the object if the operation concerns records. */
async function valuesIn(
  operation: DeclaredOperation,
  tenant: Tenant,
  object: string,
): Promise<Record<string, string> | undefined> {
  if (!operation.path.startsWith('/v1/objects/{object}/records')) return undefined;
  if (!operation.path.includes('{id}')) return { object };
  // A tag, a link or a note belongs to one record.
  if (/\{(tag|link|note)_id\}/.test(operation.path)) return undefined;
  const inTable = ['leads', 'customers', 'accounts'].find((each) => each === object) ?? 'leads';
  return { object: inTable, id: await newRecord(tenant, 'live', inTable as 'leads') };
}

/** Unused valid requests by tenant and object. Everything that they need still exists. */
type Spare = Map<string, PreparedRequest[]>;

/**
 * Returns true if the request changed nothing, so that the valid request behind it can be reused.
 */
function leavesAll(operation: DeclaredOperation, status: number): boolean {
  // A platform key has a low rate limit, and an ended session cannot be used again.
  if (isForPlatform(operation) || operation.id === 'endSession') return false;
  return operation.method === 'GET' || [400, 404, 422].includes(status);
}

/** Sends a generated request. @returns a description of the fault, or undefined if there is none */
async function findFault(
  operation: DeclaredOperation,
  tenant: Tenant,
  { request, object }: { request: GeneratedRequest; object: string },
  spare: Spare,
): Promise<string | undefined> {
  const whose = `${tenant.companyId} ${object}`;
  const arrange = async (): Promise<PreparedRequest> => {
    const values = await valuesIn(operation, tenant, object);
    return goodRequest(operation, tenant, values ? { values } : {});
  };
  const good = spare.get(whose)?.pop() ?? (await arrange());
  const name = pathParameters(operation.path).at(-1);
  const path =
    request.path === true || !name ? good.path : anyPath(operation, { object: 'leads', [name]: request.path });
  const body = request.body(good.options.body);
  const sent = body === undefined ? {} : request.garble ? { body: undefined, rawBody: request.garble(body) } : { body };
  const described = JSON.stringify({ path, query: request.query, ...sent }).slice(0, 3000);
  try {
    const { status, text, headers } = await call(operation.method, path, {
      ...good.options,
      ...sent,
      // Signed parameters must stay valid, or the request fails before anything else is read.
      query: { ...request.query, ...(good.options.signedWith ? good.options.query : {}) },
    });
    if (leavesAll(operation, status)) spare.set(whose, [...(spare.get(whose) ?? []), good]);
    const counts = seen.get(operation.id) ?? new Map<number, number>();
    seen.set(operation.id, counts.set(status, (counts.get(status) ?? 0) + 1));
    return status < 500 ? undefined : `${described}\nanswered ${text}\n${findLog(headers.get('x-request-id') ?? '')}`;
  } catch (error) {
    return `${described}\n${(error as Error).message}`;
  }
}

/** Returns the error that the server logged for a request. */
function findLog(requestId: string): string {
  const lines = readFileSync(inject('logFile'), 'utf8').split('\n');
  return lines.find((line) => line.includes(requestId) && line.includes('"err"'))?.slice(0, 1500) ?? '';
}

test.each(operations)(
  'returns a declared status from $id for generated requests',
  { timeout: 600_000 },
  async (operation) => {
    const count = Math.ceil(runs / operations.length);
    // A signed-in user may call an operation sixty times a minute.
    const tenants = await Promise.all(
      Array.from({ length: isForPeople(operation) ? Math.ceil(count / 50) : 1 }, newWideTenant),
    );
    const tenant = tenants[0] as Tenant;
    await newObject(tenant);
    // Without a change in the feed, the call could wait.
    if (operation.id === 'listChanges') await recordSomeChange(tenant.key);
    const fields = await publishedFields(tenant);
    const isAboutRecords = operation.path.startsWith('/v1/objects/{object}/records');
    const objects = isAboutRecords ? [...fields.keys()] : ['leads'];
    const work = objects.flatMap((object, index) => {
      const requests = generateRequests(operation, fields.get(object) ?? []);
      const numRuns = Math.ceil(count / objects.length);
      return fc.sample(requests, { numRuns, seed: seed + index }).map((request) => ({ request, object }));
    });
    const spare: Spare = new Map();
    const faults: string[] = [];
    const client = async (): Promise<void> => {
      for (let next = work.pop(); next; next = work.pop()) {
        const fault = await findFault(operation, tenants[work.length % tenants.length] as Tenant, next, spare);
        if (fault) faults.push(fault);
      }
    };
    await Promise.all(Array.from({ length: clients }, client));
    expect(faults.slice(0, 5), `${faults.length} faults with FUZZ_SEED=${seed}`).toEqual([]);
  },
);
