// A merge and its undo, cut at each point: all is stored or nothing, and a repetition ends it.
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, inject, test, vi } from 'vitest';
import { type Answer, call, useServer } from '../support/client.ts';
import { dropDatabase, newDatabase } from '../support/databases.ts';
import { fillLead, prepareFilling, snapshotRecords } from '../support/merges.ts';
import { createRecords, lead, recordsPath } from '../support/records.ts';
import { newTenant, type Tenant, useDatabase } from '../support/tenants.ts';
import { OwnServer } from './support/own-server.ts';
import { fatal, mergePoints, merges, type Point, Traps, unmergePoints } from './support/points.ts';
import { FaultProxy, type Link, through } from './support/proxy.ts';
import { settingsFor } from './support/settings.ts';

const traps = new Traps(merges);
let url: string;
let proxy: FaultProxy;
/** The only server of its database, so that the cut hits it. */
let server: OwnServer;
let tenant: Tenant;

beforeAll(async () => {
  url = await newDatabase();
  await useDatabase(url);
  proxy = await FaultProxy.start(Number(new URL(url).port), traps.watch);
  server = await OwnServer.start({
    ...settingsFor(through(url, proxy), '.test-data'),
    SECRET_KEY: inject('secretKey'),
  });
  useServer(server.url);
  tenant = await newTenant();
  await prepareFilling(tenant);
});
afterAll(async () => {
  useServer(undefined);
  await server?.end();
  await proxy?.close();
  await useDatabase(undefined);
  if (url) await dropDatabase(url);
});

const kill = (): void => void process.kill(server.pid, 'SIGKILL');
const reset = (link: Link): void => link.reset();

/** Repeats a call until the server has answered it. A busy machine may answer 503 before. */
const untilAnswered = (send: () => Promise<Answer>): Promise<Answer> =>
  vi.waitFor(
    async () => {
      const answer = await send();
      expect(answer.status, answer.text).toBe(200);
      return answer;
    },
    { timeout: 20_000, interval: 100 },
  );

/** Returns a call that can be repeated. */
function prepareCall(path: string, body: object): () => Promise<Answer> {
  const headers = { 'idempotency-key': randomUUID() };
  return () => call('POST', path, { key: tenant.key, headers, body });
}

/** Sends a call that is cut at a point, checks that all of it was stored or nothing, and repeats it. */
async function cut(point: Point, act: (link: Link) => void, send: () => Promise<Answer>): Promise<Answer> {
  const before = await snapshotRecords(tenant);
  let closed: Promise<void> | undefined;
  void traps.set({
    ...point,
    act: (link) => {
      ({ closed } = link);
      act(link);
    },
  });
  const first = await send().catch(() => undefined);
  traps.clear();
  expect({ isCut: closed !== undefined, status: first?.status }).toEqual({
    isCut: true,
    status: act === reset ? 503 : undefined,
  });
  // PostgreSQL has processed everything that it received.
  await closed;
  const between = await snapshotRecords(tenant);
  if (!point.applied) expect(between).toEqual(before);
  if (act === kill) {
    await server.restart();
    useServer(server.url);
  }
  const again = await untilAnswered(send);
  expect(again.headers.get('idempotent-replay')).toBe(point.applied ? 'true' : null);
  const after = await snapshotRecords(tenant);
  if (point.applied) expect(after).toEqual(between);
  else expect(after).not.toEqual(before);
  return again;
}

const cutsAt = (points: readonly Point[]) => [
  ...points.map((point) => ({ ...point, how: 'a reset', act: reset })),
  ...fatal(points).map((point) => ({ ...point, how: 'a kill', act: kill })),
];

async function createPair(): Promise<{ merge: () => Promise<Answer> }> {
  const [source, target] = await createRecords(tenant.key, 'leads', [lead(), lead()]);
  await fillLead(tenant, source.id);
  return { merge: prepareCall(`${recordsPath('leads', source.id)}/merge`, { into_id: target.id }) };
}

const prepareUndo = ({ body }: Answer): (() => Promise<Answer>) =>
  prepareCall(`/v1/merges/${body.data.merge.id}/undo`, {});

test.each(cutsAt(mergePoints))('a merge is whole after $how with $statement $moment', async ({ act, ...point }) => {
  const { merge } = await createPair();
  const before = await snapshotRecords(tenant);
  const merged = await cut(point, act, merge);
  await untilAnswered(prepareUndo(merged));
  expect(await snapshotRecords(tenant)).toEqual(before);
});

test.each(cutsAt(unmergePoints))(
  'the undo of a merge is whole after $how with $statement $moment',
  async ({ act, ...point }) => {
    const { merge } = await createPair();
    const before = await snapshotRecords(tenant);
    const merged = await untilAnswered(merge);
    await cut(point, act, prepareUndo(merged));
    expect(await snapshotRecords(tenant)).toEqual(before);
  },
);
