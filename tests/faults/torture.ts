// make torture: injects all faults in turn under 16 writers, and prints a table of the results.
import { mkdirSync } from 'node:fs';
import { resolve } from 'node:path';
import { database, newKey, newTenant, useDatabase } from '../support/tenants.ts';
import { type Fault, faults, judge } from './support/faults.ts';
import {
  Chain,
  compare,
  disorder,
  FeedReader,
  gaps,
  isNotOfChain,
  orderOfChanges,
  storedFeed,
} from './support/feed-readers.ts';
import { check } from './support/oracle.ts';
import { Random } from './support/random.ts';
import { TestRig } from './support/test-rig.ts';
import { WebhookWatch } from './support/webhook-watch.ts';
import { Writers } from './support/writers.ts';

const seconds = Number(process.env.TORTURE_SECONDS ?? 600);
/** The run continues past its time until the server was killed this many times. */
const kills = Number(process.env.KILLS ?? 0);
/** Selects faults whose name contains one of these. */
const wanted = process.env.FAULTS?.split(',');
// Unlike in tests, each run has another seed.
const random = new Random(Number(process.env.SEED) || (Date.now() ^ (process.pid << 10)) >>> 0);

interface Row {
  figure: string;
  runs: number;
  violations: string[];
  measured: Map<string, number>;
  counted: Map<string, number>;
}

const rows = new Map<string, Row>();
const startedAt = performance.now();
let acknowledged = 0;
let rounds = 0;
let stopping = false;

function getRow(name: string, figure: string): Row {
  const row = rows.get(name) ?? { figure, runs: 0, violations: [], measured: new Map(), counted: new Map() };
  rows.set(name, row);
  return row;
}

const say = (text: string): void => void process.stdout.write(`${text}\n`);
const elapsed = (): number => (performance.now() - startedAt) / 1000;
const allViolations = (): string[] => [...rows.values()].flatMap((row) => row.violations);
const countRuns = (figure: string): number =>
  [...rows.values()].filter((row) => row.figure === figure).reduce((sum, row) => sum + row.runs, 0);
const isOver = (): boolean => stopping || (elapsed() > seconds && countRuns('A1') >= kills);

/** Injects one fault under the writers, and waits for their recovery. */
async function strike(fault: Fault, rig: TestRig, writers: Writers): Promise<void> {
  const row = getRow(fault.name, fault.figure);
  const before = writers.violations.length;
  writers.takeTally();
  const scene = {
    rig,
    writers,
    random,
    measure: (name: string, value: number) => void row.measured.set(name, Math.max(value, row.measured.get(name) ?? 0)),
    count: (name: string, value: number) => void row.counted.set(name, value + (row.counted.get(name) ?? 0)),
  };
  row.runs += 1;
  try {
    row.violations.push(...(await fault.strike(scene)));
    await writers.progress(20);
  } catch (error) {
    row.violations.push(error instanceof Error ? (error.stack ?? error.message) : String(error));
  }
  row.violations.push(...judge(fault, writers.takeTally()), ...writers.violations.slice(before));
}

/**
 * Injects all faults in random order on a new company, and compares the acknowledged writes with
 * the tables.
 */
async function round(rig: TestRig): Promise<void> {
  const tenant = await newTenant();
  // Test mode may send to receivers on this machine.
  const apiKey = await newKey(tenant, { environment: 'test', perMinute: 1_000_000, perHour: 10_000_000 });
  const watch = await WebhookWatch.start(database(), tenant.companyId);
  const servers = [rig.server.url, rig.second.url];
  const readers = [1, 2, 5].map((wait) => new FeedReader(servers, apiKey, wait));
  const chain = new Chain(servers, apiKey, 2);
  const writers = new Writers({ servers, apiKey, random, count: 16 });
  const possible = faults
    .filter((fault) => !fault.needsRedis || rig.redis)
    .filter((fault) => !wanted || wanted.some((name) => fault.name.includes(name)));
  for (const fault of random.shuffled(possible.flatMap((each) => Array.from({ length: each.times }, () => each)))) {
    if (isOver()) break;
    const shown = getRow(fault.name, fault.figure).violations.length;
    await strike(fault, rig, writers);
    for (const line of getRow(fault.name, fault.figure).violations.slice(shown))
      say(`VIOLATION ${fault.name}: ${line}`);
  }
  const before = writers.violations.length;
  await Promise.all([writers.settle(), chain.end()]);
  await rig.server.untilHealthy();
  await writers.replayAll();
  const row = getRow('acknowledged writes against the tables', 'all');
  const wrong = [
    ...writers.violations.slice(before),
    ...(await check(database(), tenant.companyId, writers.writes)).filter(isNotOfChain(chain)),
    ...rig.server.failures.map((line) => `the server logged ${line.slice(0, 1000)}`),
  ];
  for (const line of wrong.slice(0, 20)) say(`VIOLATION ${line}`);
  row.runs += 1;
  row.violations.push(...wrong);
  await judgeFeed(tenant.companyId, readers, chain, watch);
  row.counted.set('writes', (row.counted.get('writes') ?? 0) + writers.writes.length);
  acknowledged += writers.acknowledged;
  rounds += 1;
}

/** Compares what readers and receivers got with the stored feed. */
async function judgeFeed(
  companyId: string,
  readers: readonly FeedReader[],
  chain: Chain,
  watch: WebhookWatch,
): Promise<void> {
  const stored = await storedFeed(database(), companyId);
  await Promise.all(readers.map((reader) => reader.end()));
  const row = getRow('readers against the stored feed', 'C14');
  const order = await orderOfChanges(database(), companyId);
  judged(row, [
    ...gaps(stored),
    ...disorder(stored, chain.pairs, order),
    ...readers.flatMap((reader) => compare(reader, stored)),
  ]);
  row.counted.set('changes', (row.counted.get('changes') ?? 0) + stored.length);
  row.counted.set('in chains', (row.counted.get('in chains') ?? 0) + chain.pairs.length);
  const sent = getRow('webhook receivers against the feed', 'A8');
  judged(sent, await watch.judge(stored));
  for (const [what, count] of Object.entries(watch.counts))
    sent.counted.set(what, (sent.counted.get(what) ?? 0) + count);
}

function judged(row: Row, wrong: readonly string[]): void {
  for (const line of wrong.slice(0, 20)) say(`VIOLATION ${line}`);
  row.runs += 1;
  row.violations.push(...wrong);
}

function report(): void {
  const sorted = [...rows].sort(([, a], [, b]) => a.figure.localeCompare(b.figure, 'en', { numeric: true }));
  say(`\n${'id'.padEnd(4)} ${'fault'.padEnd(42)} ${'runs'.padStart(6)} ${'violations'.padStart(10)}  details`);
  for (const [name, { figure, runs, violations, measured, counted }] of sorted) {
    const details = [...measured, ...counted].map(([what, value]) => `${what}: ${Math.round(value)}`).join(', ');
    say(
      `${figure.padEnd(4)} ${name.padEnd(42)} ${String(runs).padStart(6)} ${String(violations.length).padStart(10)}  ${details}`,
    );
  }
  const total = allViolations().length;
  say(
    `\n${rounds} rounds in ${Math.round(elapsed())} s, seed ${random.seed}: ${acknowledged} writes, ${total} violations`,
  );
}

const folder = resolve(process.env.TEST_DATA_DIR ?? '.test-data', `torture-${process.pid}`);
mkdirSync(folder, { recursive: true });
say(`torture: seed ${random.seed}, ${seconds} s`);
const rig = await TestRig.start(folder);
await useDatabase(rig.database.url);
/** Exits after stopping everything that this run started or paused. */
function giveUp(code: number): void {
  if (stopping) return;
  stopping = true;
  void rig.stop().finally(() => process.exit(code));
}
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => giveUp(130));
process.on('uncaughtException', (error) => {
  say(`VIOLATION the run itself: ${error.stack}`);
  giveUp(1);
});
const progress = setInterval(() => {
  const struck = [...rows.values()].reduce((sum, row) => sum + row.runs, 0);
  say(`${Math.round(elapsed())} s: ${struck} faults, ${allViolations().length} violations`);
}, 10_000);
try {
  while (!isOver() && allViolations().length < 200) await round(rig);
} catch (error) {
  const line = error instanceof Error ? (error.stack ?? error.message) : String(error);
  getRow('the run itself', 'all').violations.push(line);
  say(`VIOLATION the run itself: ${line}`);
} finally {
  clearInterval(progress);
  await useDatabase(undefined);
  await rig.stop();
}
report();
process.exit(allViolations().length > 0 ? 1 : 0);
