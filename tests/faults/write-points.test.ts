// A write cut at each point: all of it is stored or nothing, and its key tells which.

import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, inject, test, vi } from 'vitest';
import { besideCommon } from '../support/databases.ts';
import { recordedEvents } from '../support/events.ts';
import { database, newTenant, type Tenant } from '../support/tenants.ts';
import { check } from './support/oracle.ts';
import { OwnServer } from './support/own-server.ts';
import { fatal, type Point, points, preamble, type Statement, Traps } from './support/points.ts';
import { FaultProxy, type Link, through } from './support/proxy.ts';
import { settingsFor } from './support/settings.ts';
import { type Answered, buildBatch, isFinal, send, type Write } from './support/writers.ts';

const traps = new Traps();
const accounts = '/v1/objects/accounts/records';
let proxy: FaultProxy;
let server: OwnServer;
let tenant: Tenant;
/** All writes that were sent, with any outcome. */
const writes: Write[] = [];

beforeAll(async () => {
  const url = inject('databaseUrl');
  proxy = await FaultProxy.start(Number(new URL(url).port), traps.watch);
  server = await OwnServer.start({ ...besideCommon(), ...settingsFor(through(url, proxy), '.test-data') });
  tenant = await newTenant();
});
afterAll(async () => {
  await server?.kill();
  await proxy?.close();
});

const ask = (write: Write): Promise<Answered> => send(undefined, server.url, tenant.key, write);

/** Repeats an uncut write until it has a final response. A busy machine may answer 503 before. */
async function askUntilFinal(write: Write): Promise<Answered> {
  return vi.waitFor(async () => {
    const answer = await ask(write);
    expect(isFinal(answer.status), answer.text).toBe(true);
    return answer;
  });
}

function newWrite(write: Omit<Write, 'key' | 'answer'>): Write {
  const made = { ...write, key: `point-${randomUUID()}`, answer: undefined };
  if (made.kind === 'update') made.body = { description: made.key };
  if (made.kind === 'create') made.body = { name: made.key };
  if (made.kind === 'lead') made.body = { first_name: made.key, email: `${made.key}@example.com` };
  if (made.kind === 'batch') made.body = buildBatch(made.key, 11);
  writes.push(made);
  return made;
}

async function newAccount(): Promise<string> {
  const write = newWrite({ kind: 'create', method: 'POST', path: accounts, body: undefined });
  write.answer = await askUntilFinal(write);
  return JSON.parse(write.answer.text).data.record.id;
}

const kinds: Record<string, () => Promise<Write>> = {
  lead: async () => newWrite({ kind: 'lead', method: 'POST', path: '/v1/leads', body: undefined }),
  create: async () => newWrite({ kind: 'create', method: 'POST', path: accounts, body: undefined }),
  update: async () =>
    newWrite({ kind: 'update', method: 'PATCH', path: `${accounts}/${await newAccount()}`, body: {} }),
  delete: async () =>
    newWrite({ kind: 'delete', method: 'DELETE', path: `${accounts}/${await newAccount()}`, body: undefined }),
  batch: async () => newWrite({ kind: 'batch', method: 'POST', path: `${accounts}:batch`, body: undefined }),
};

/** Counts the company's rows in the tables that writes add to. */
async function contents(): Promise<{ records: number; audit: number; events: number; kept: number }> {
  const { companyId } = tenant;
  const [row] = await database()<{ records: number; audit: number; events: number; kept: number }[]>`
    select (select count(*) from accounts where company_id = ${companyId})::int + (select count(*) from leads where company_id = ${companyId})::int as records,
      (select count(*) from audit_logs where company_id = ${companyId})::int as audit,
      (select count(*) from ${recordedEvents(database())} where company_id = ${companyId})::int as events,
      (select count(*) from idempotency_records where company_id = ${companyId})::int as kept`;
  if (!row) throw new Error('no row');
  return row;
}

/** How many records a call of each kind adds, and how many changes it makes. */
const effects: Record<string, { records: number; changes: number }> = {
  lead: { records: 1, changes: 1 },
  create: { records: 1, changes: 1 },
  update: { records: 0, changes: 1 },
  delete: { records: -1, changes: 1 },
  batch: { records: 9, changes: 9 },
};

/** Cuts a write at a point, checks the tables, and repeats the write until it has its response. */
async function cut(
  point: Point,
  kind: string,
  act: (link: Link) => void,
  afterwards: () => Promise<void>,
): Promise<void> {
  // Warms up: the first call of a company and a new statement on a connection send additional
  // statements.
  const usual = await (kinds[kind] as () => Promise<Write>)();
  usual.answer = await askUntilFinal(usual);
  const write = await (kinds[kind] as () => Promise<Write>)();
  const before = await contents();
  let closed: Promise<void> | undefined;
  void traps.set({
    ...point,
    act: (link) => {
      ({ closed } = link);
      act(link);
    },
  });
  const first = await ask(write).catch(() => undefined);
  traps.clear();
  // The cut happened, and the caller got no success.
  expect({ hit: closed !== undefined, status: first?.status }).toEqual({
    hit: true,
    status: act === reset ? 503 : undefined,
  });
  // PostgreSQL has processed everything that it received.
  await closed;
  const { records, changes } = effects[kind] as { records: number; changes: number };
  const done = point.applied ? 1 : 0;
  expect(await contents()).toEqual({
    records: before.records + done * records,
    audit: before.audit + done * changes,
    events: before.events + done * changes,
    kept: before.kept + done,
  });
  await afterwards();
  write.answer = await askUntilFinal(write);
  expect(write.answer.headers['idempotent-replay']).toBe(point.applied ? 'true' : undefined);
}

const kill = (): void => void process.kill(server.pid, 'SIGKILL');
const reset = (link: Link): void => link.reset();
const restart = (): Promise<void> => server.restart();
const goOn = async (): Promise<void> => undefined;

const turns = Object.keys(kinds);
/**
 * Statements that a call of each kind sends together with its commit, besides audit row and event:
 * once they are answered, the transaction is committed.
 */
const withCommit: Readonly<Record<string, readonly Statement[]>> = {
  create: ['begin and locks of the key', preamble, 'change'],
  // These send a query first: for a duplicate, or for the record.
  lead: ['change'],
  update: ['change'],
};
/** All kinds in turn. If the change itself is cut, the kind that writes most. */
const killedPoints = fatal(points).map((point, index) => ({
  ...point,
  kind: ['change', 'commit'].includes(point.statement) ? 'batch' : (turns[index % turns.length] as string),
}));

describe('a server killed', () => {
  test.each(killedPoints)('stores all or nothing if the server is killed with $statement $moment in a $kind', (point) =>
    cut(point, point.kind, kill, restart),
  );
});

describe('a connection to PostgreSQL reset', () => {
  test.each(points)(
    'stores all or nothing if the connection is reset with $statement $moment, in calls of every kind',
    async (point) => {
      for (const kind of turns) {
        const isBehind = point.moment === 'answered' && withCommit[kind]?.includes(point.statement);
        await cut({ ...point, applied: point.applied || isBehind === true }, kind, reset, goOn);
      }
    },
  );
});

test('has stored every write once after the cuts, with audit row and event', async () => {
  for (const write of writes) {
    const again = await askUntilFinal(write);
    expect({ status: again.status, text: again.text }).toEqual({
      status: write.answer?.status,
      text: write.answer?.text,
    });
  }
  expect(await check(database(), tenant.companyId, writes)).toEqual([]);
});
