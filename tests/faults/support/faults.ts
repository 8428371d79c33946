// The faults of a long run: what each breaks in the test rig, and what must hold meanwhile.
import { setTimeout as sleep } from 'node:timers/promises';
import { percentile } from './figures.ts';
import { dispatcherPoints, matcherPoints, type Point, points, senderPoints } from './points.ts';
import type { FaultProxy, Link } from './proxy.ts';
import type { Random } from './random.ts';
import type { TestRig } from './test-rig.ts';
import { unkeyedDuring } from './unkeyed.ts';
import type { Tally, Writers } from './writers.ts';

interface Scene {
  rig: TestRig;
  writers: Writers;
  random: Random;
  /** Records a measurement. The report shows the maximum. */
  measure(name: string, value: number): void;
  /** Adds to a count in the report. */
  count(name: string, value: number): void;
}

export interface Fault {
  name: string;
  /** The guarantee that it tests, as in docs/faults.md. */
  figure: string;
  /** How often it occurs in a round. */
  times: number;
  /** True if clients may be cut off, which must not happen otherwise. */
  cutsClients?: boolean;
  /** True if no call may be answered with 503. */
  serves?: boolean;
  needsRedis?: boolean;
  /** @returns the violations */
  strike(scene: Scene): Promise<string[]>;
}

/**
 * The guaranteed milliseconds until a response, plus the delay of a client next to a busy server.
 */
const answerTime = 2000 + 250;

async function killServer({ rig, writers, random }: Scene): Promise<string[]> {
  await writers.progress(random.whole(0, 80));
  await rig.server.restart();
  return [];
}

async function killDatabase({ rig, measure }: Scene): Promise<string[]> {
  rig.database.kill();
  await rig.database.restart();
  const milliseconds = await rig.server.untilHealthy();
  measure('ms until healthy', milliseconds);
  return milliseconds > 1000 ? [`healthy only ${Math.round(milliseconds)} ms after PostgreSQL accepted`] : [];
}

async function killBackend({ rig, random }: Scene): Promise<string[]> {
  rig.database.killOne((processes) => random.pick(processes));
  await rig.server.untilHealthy();
  return [];
}

/** Cuts the next write at a random point. */
async function cutWrite(scene: Scene, how: 'kill' | 'reset' | 'silence', endpoint?: string): Promise<string[]> {
  const { rig, random } = scene;
  const late = points.filter(({ statement }) => !endpoint || statement !== 'begin and locks of the key');
  const point = random.pick(late);
  const acts: Record<typeof how, (link: Link) => void> = {
    kill: () => void process.kill(rig.server.pid, 'SIGKILL'),
    reset: (link) => link.reset(),
    silence: (link) => link.silence(),
  };
  const hit = await Promise.race([
    rig.traps.set({ ...point, ...(endpoint ? { endpoint } : {}), act: acts[how] }).then(() => true),
    sleep(10_000).then(() => false),
  ]);
  rig.traps.clear();
  if (how === 'kill') await rig.server.restart();
  return hit ? [] : [`no write came to: ${point.statement} ${point.moment}`];
}

/** How a part of the server is cut off from its database. */
type Cut = 'kill' | 'reset' | 'silence';

/**
 * Milliseconds in which each part reaches each of its points. Deliveries of a killed sender are
 * retried after 30 s.
 */
const pointTimeoutMs = 45_000;

/**
 * Points that a part has left in this way, by way and part. Each occurs once before any occurs
 * again.
 */
const remainingPoints = new Map<string, Point[]>();

/** Cuts a background job at its next point. */
async function cutJob({ rig, random, measure }: Scene, part: readonly Point[], how: Cut): Promise<string[]> {
  const deck = `${how} ${part[0]?.statement}`;
  const left = remainingPoints.get(deck) ?? [];
  const point = left.pop() ?? random.pick(part);
  if (!remainingPoints.has(deck)) remainingPoints.set(deck, random.shuffled(part.filter((each) => each !== point)));
  const acts: Record<Cut, (link: Link) => void> = {
    kill: () => void process.kill(rig.server.pid, 'SIGKILL'),
    reset: (link) => link.reset(),
    silence: (link) => link.silence(),
  };
  const hit = await Promise.race([
    rig.traps.set({ ...point, act: acts[how] }).then(() => true),
    sleep(pointTimeoutMs).then(() => false),
  ]);
  rig.traps.clear();
  if (how === 'kill') await rig.server.restart();
  measure(`points of ${part.length}`, part.length - (remainingPoints.get(deck) ?? []).length);
  return hit ? [] : [`nothing came to: ${point.statement} ${point.moment}`];
}

async function pauseDatabase({ rig, writers, count, measure }: Scene): Promise<string[]> {
  await writers.progress(20);
  writers.takeTally();
  const { refused, doneBefore, doneAfter } = await unkeyedDuring(rig.server.url, 8, async () => {
    await sleep(300);
    const resume = rig.database.pause();
    await sleep(5000);
    resume();
    await rig.server.untilHealthy();
  });
  count('unkeyed calls answered with 503', refused);
  // A change that PostgreSQL committed before the pause cannot be rolled back if only its response
  // is missing.
  count('of them committed before it', doneBefore);
  const slowest = Math.max(...writers.takeTally().latencies);
  measure('ms of the slowest answer', slowest);
  return [
    ...(slowest > answerTime ? [`an answer took ${Math.round(slowest)} ms`] : []),
    ...(doneAfter > 0 ? [`${doneAfter} calls were done after their 503`] : []),
  ];
}

async function stopServers({ rig, writers, measure }: Scene): Promise<string[]> {
  await rig.second.restart();
  const wrong: string[] = [];
  for (const server of [rig.server, rig.second]) {
    await writers.progress(100);
    const started = performance.now();
    const code = await server.stop();
    measure('ms until stopped', performance.now() - started);
    if (code !== 0) wrong.push(`a stopped server exited with ${code}`);
    if (server === rig.server) await server.restart();
  }
  return wrong;
}

async function breakRedis(
  scene: Scene,
  harm: () => Promise<void> | void,
  repair: () => Promise<void> | void,
): Promise<string[]> {
  const { rig, writers, measure } = scene;
  writers.takeTally();
  await writers.progress(100);
  const calm = percentile(writers.takeTally().latencies, 99);
  await harm();
  await writers.progress(100);
  measure('ms added at the 99th percentile', percentile(writers.takeTally().latencies, 99) - calm);
  await repair();
  await rig.server.untilHealthy();
  return [];
}

const modes = (proxy: FaultProxy | undefined, mode: FaultProxy['mode']) => (): void => {
  if (proxy) proxy.mode = mode;
};

async function slowNetwork({ rig: { databaseProxy }, writers }: Scene): Promise<string[]> {
  databaseProxy.delay = 30;
  await writers.progress(80).finally(() => {
    databaseProxy.delay = 0;
  });
  return [];
}

async function deadNetwork(
  { rig: { databaseProxy } }: Scene,
  mode: 'stall' | 'swallow',
  milliseconds: number,
): Promise<string[]> {
  databaseProxy.mode = mode;
  await sleep(milliseconds);
  databaseProxy.mode = 'pass';
  return [];
}

export const faults: readonly Fault[] = [
  { name: 'server killed', figure: 'A1', times: 8, cutsClients: true, strike: killServer },
  { name: 'PostgreSQL killed', figure: 'A2', times: 2, strike: killDatabase },
  { name: 'one connection of PostgreSQL killed', figure: 'A2', times: 1, strike: killBackend },
  {
    name: 'Redis killed',
    figure: 'A3',
    times: 2,
    serves: true,
    needsRedis: true,
    strike: (scene) =>
      breakRedis(
        scene,
        () => scene.rig.redis?.kill(),
        () => scene.rig.redis?.restart(),
      ),
  },
  {
    name: 'Redis paused',
    figure: 'A3',
    times: 2,
    serves: true,
    needsRedis: true,
    strike: (scene) =>
      breakRedis(
        scene,
        () => scene.rig.redis?.pause(),
        () => scene.rig.redis?.resume(),
      ),
  },
  {
    name: 'Redis out of reach',
    figure: 'A3',
    times: 1,
    serves: true,
    needsRedis: true,
    strike: (scene) => breakRedis(scene, modes(scene.rig.redisProxy, 'swallow'), modes(scene.rig.redisProxy, 'pass')),
  },
  {
    name: 'server killed at a point of a write',
    figure: 'A4',
    times: 4,
    cutsClients: true,
    strike: (scene) => cutWrite(scene, 'kill'),
  },
  {
    name: 'connection reset at a point of a write',
    figure: 'A4',
    times: 12,
    strike: (scene) => cutWrite(scene, 'reset'),
  },
  {
    name: 'connection silent at a point of a write',
    figure: 'A4',
    times: 1,
    strike: (scene) => cutWrite(scene, 'silence'),
  },
  {
    name: 'server killed inside a batch',
    figure: 'A10',
    times: 2,
    cutsClients: true,
    strike: (scene) => cutWrite(scene, 'kill', ':batch'),
  },
  {
    name: 'connection reset inside a batch',
    figure: 'A10',
    times: 4,
    strike: (scene) => cutWrite(scene, 'reset', ':batch'),
  },
  {
    name: 'server killed at a point of the dispatcher',
    figure: 'A8',
    times: 9,
    cutsClients: true,
    strike: (scene) => cutJob(scene, dispatcherPoints, 'kill'),
  },
  {
    name: 'dispatcher reset at a point',
    figure: 'A8',
    times: 6,
    strike: (scene) => cutJob(scene, dispatcherPoints, 'reset'),
  },
  {
    name: 'dispatcher silent at a point',
    figure: 'A8',
    times: 1,
    strike: (scene) => cutJob(scene, dispatcherPoints, 'silence'),
  },
  {
    name: 'server killed at a point of the matcher of webhooks',
    figure: 'A8',
    times: 9,
    cutsClients: true,
    strike: (scene) => cutJob(scene, matcherPoints, 'kill'),
  },
  {
    name: 'matcher of webhooks reset at a point',
    figure: 'A8',
    times: 6,
    strike: (scene) => cutJob(scene, matcherPoints, 'reset'),
  },
  {
    name: 'server killed at a point of a webhook sender',
    figure: 'A8',
    times: 15,
    cutsClients: true,
    strike: (scene) => cutJob(scene, senderPoints, 'kill'),
  },
  {
    name: 'webhook sender reset at a point',
    figure: 'A8',
    times: 10,
    strike: (scene) => cutJob(scene, senderPoints, 'reset'),
  },
  {
    name: 'webhook sender silent at a point',
    figure: 'A8',
    times: 1,
    strike: (scene) => cutJob(scene, senderPoints, 'silence'),
  },
  { name: 'PostgreSQL paused for 5 s', figure: 'B2', times: 1, strike: pauseDatabase },
  {
    name: 'network slow',
    figure: 'B2',
    times: 1,
    strike: slowNetwork,
  },
  { name: 'network stalled', figure: 'B2', times: 1, strike: (scene) => deadNetwork(scene, 'stall', 1500) },
  { name: 'network silent', figure: 'B2', times: 1, strike: (scene) => deadNetwork(scene, 'swallow', 2500) },
  {
    name: 'all connections reset',
    figure: 'B2',
    times: 2,
    strike: async ({ rig }) => {
      rig.databaseProxy.reset();
      return [];
    },
  },
  {
    name: 'stopped, with a second server',
    figure: 'B4',
    times: 1,
    serves: true,
    cutsClients: true,
    strike: stopServers,
  },
];

/** Returns what the writers met during a fault and must not meet. */
export function judge(fault: Fault, { refusals, broken }: Tally): string[] {
  const wrong: string[] = [];
  if (fault.serves && refusals.length > 0)
    wrong.push(`${refusals.length} calls were answered with 503, the first ${refusals[0]}`);
  // A stopped server refuses connections, which is no violation.
  for (const [code, times] of broken)
    if (code === 'NO_ANSWER' || (code !== 'ECONNREFUSED' && !fault.cutsClients))
      wrong.push(`${times} calls had no answer: ${code}`);
  return wrong;
}
