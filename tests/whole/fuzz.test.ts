// Generated requests for every operation: never a fault of ours, always a declared answer.
// FUZZ_RUNS says how many in all, FUZZ_SEED repeats a run; the seed of a run is printed.
import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import { type GeneratedRequest, type PublishedField, requestsOf } from '../support/arbitraries.ts';
import { newObject, newRecord } from '../support/arranged-ids.ts';
import { call, expectStatus } from '../support/client.ts';
import { type DeclaredOperation, operations } from '../support/document.ts';
import { tellSomething } from '../support/feeds.ts';
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

/** Requests under way at the same time. */
const clients = 8;

/** Opened by session tokens and by nothing else. */
const isForPeople = (operation: DeclaredOperation): boolean =>
  openedBySession.includes(operation) && !openedByKey.includes(operation);

/** How often each operation gave each status: a run that is refused everywhere has tried nothing. */
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

/** The objects of a tenant with their published fields. */
async function publishedFields(tenant: Tenant): Promise<Map<string, PublishedField[]>> {
  const fields = new Map<string, PublishedField[]>();
  const listed = await expectStatus(200, 'GET', '/v1/objects', { key: tenant.key });
  for (const { object } of listed.body.data.objects) {
    const { body } = await expectStatus(200, 'GET', `/v1/objects/${object}/schema`, { key: tenant.key });
    fields.set(object, body.data.schema.fields);
  }
  return fields;
}

/** Path parameters that name something of an object, where the operation is about records. */
async function valuesIn(
  operation: DeclaredOperation,
  tenant: Tenant,
  object: string,
): Promise<Record<string, string> | undefined> {
  if (!operation.path.startsWith('/v1/objects/{object}/records')) return undefined;
  if (!operation.path.includes('{id}')) return { object };
  // A tag or a link belongs to one record.
  if (/\{(tag|link)_id\}/.test(operation.path)) return undefined;
  const inTable = ['leads', 'customers', 'accounts'].find((each) => each === object) ?? 'leads';
  return { object: inTable, id: await newRecord(tenant, 'live', inTable as 'leads') };
}

/** Good requests by tenant and object, for which all that they need still is as it was arranged. */
type Spare = Map<string, PreparedRequest[]>;

/** True where a request has left everything as it was, so that the good one that it was made of is good for another. */
function leavesAll(operation: DeclaredOperation, status: number): boolean {
  // A key of the operator's may ask a few times a minute, and who has ended a session needs another.
  if (isForPlatform(operation) || operation.id === 'endSession') return false;
  return operation.method === 'GET' || [400, 404, 422].includes(status);
}

/** What a request went wrong with; undefined when all is well. */
async function faultOf(
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
      // Whose it is must be right where it is signed, or nothing else is looked at.
      query: { ...request.query, ...(good.options.signedWith ? good.options.query : {}) },
    });
    if (leavesAll(operation, status)) spare.set(whose, [...(spare.get(whose) ?? []), good]);
    const counts = seen.get(operation.id) ?? new Map<number, number>();
    seen.set(operation.id, counts.set(status, (counts.get(status) ?? 0) + 1));
    return status < 500 ? undefined : `${described}\nanswered ${text}\n${logOf(headers.get('x-request-id') ?? '')}`;
  } catch (error) {
    return `${described}\n${(error as Error).message}`;
  }
}

/** What the server noted about a request. */
function logOf(requestId: string): string {
  const lines = readFileSync(inject('logFile'), 'utf8').split('\n');
  return lines.find((line) => line.includes(requestId) && line.includes('"err"'))?.slice(0, 1500) ?? '';
}

test.each(operations)('$id answers whatever it is sent', { timeout: 600_000 }, async (operation) => {
  const count = Math.ceil(runs / operations.length);
  // A signed-in person may call an operation sixty times a minute.
  const tenants = await Promise.all(
    Array.from({ length: isForPeople(operation) ? Math.ceil(count / 50) : 1 }, newWideTenant),
  );
  const tenant = tenants[0] as Tenant;
  await newObject(tenant);
  // A call that may wait for something finds it there.
  if (operation.id === 'listChanges') await tellSomething(tenant.key);
  const fields = await publishedFields(tenant);
  const isAboutRecords = operation.path.startsWith('/v1/objects/{object}/records');
  const objects = isAboutRecords ? [...fields.keys()] : ['leads'];
  const work = objects.flatMap((object, index) => {
    const requests = requestsOf(operation, fields.get(object) ?? []);
    const numRuns = Math.ceil(count / objects.length);
    return fc.sample(requests, { numRuns, seed: seed + index }).map((request) => ({ request, object }));
  });
  const spare: Spare = new Map();
  const faults: string[] = [];
  const client = async (): Promise<void> => {
    for (let next = work.pop(); next; next = work.pop()) {
      const fault = await faultOf(operation, tenants[work.length % tenants.length] as Tenant, next, spare);
      if (fault) faults.push(fault);
    }
  };
  await Promise.all(Array.from({ length: clients }, client));
  expect(faults.slice(0, 5), `${faults.length} faults with FUZZ_SEED=${seed}`).toEqual([]);
});
