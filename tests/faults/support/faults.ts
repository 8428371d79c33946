// The faults of a long run: what each does to the stand, and what must hold meanwhile.
import { setTimeout as sleep } from 'node:timers/promises';
import { percentile } from './figures.ts';
import { dispatcherPoints, matcherPoints, type Point, points, senderPoints } from './points.ts';
import type { FaultProxy, Link } from './proxy.ts';
import type { Random } from './random.ts';
import type { Stand } from './test-rig.ts';
import { unkeyedDuring } from './unkeyed.ts';
import type { Tally, Writers } from './writers.ts';

interface Scene {
  stand: Stand;
  writers: Writers;
  random: Random;
  /** Remembers a measurement; the report has the greatest. */
  measure(name: string, value: number): void;
  /** Adds to a count of the report. */
  count(name: string, value: number): void;
}

export interface Fault {
  name: string;
  /** The figure that it proves. */
  figure: string;
  /** How often it comes in a round. */
  times: number;
  /** True where clients are cut off, which must not happen otherwise. */
  cutsClients?: boolean;
  /** True where no call may be answered with 503. */
  serves?: boolean;
  needsRedis?: boolean;
  /** @returns what was wrong */
  strike(scene: Scene): Promise<string[]>;
}

/** Milliseconds until an answer that the figures allow, and what a client beside a busy server adds. */
const answerTime = 2000 + 250;

async function killServer({ stand, writers, random }: Scene): Promise<string[]> {
  await writers.progress(random.whole(0, 80));
  await stand.server.restart();
  return [];
}

async function killDatabase({ stand, measure }: Scene): Promise<string[]> {
  stand.database.kill();
  await stand.database.restart();
  const milliseconds = await stand.server.untilHealthy();
  measure('ms until healthy', milliseconds);
  return milliseconds > 1000 ? [`healthy only ${Math.round(milliseconds)} ms after PostgreSQL accepted`] : [];
}

async function killBackend({ stand, random }: Scene): Promise<string[]> {
  stand.database.killOne((processes) => random.pick(processes));
  await stand.server.untilHealthy();
  return [];
}

/** Cuts the next write at a point. */
async function cutWrite(scene: Scene, how: 'kill' | 'reset' | 'silence', endpoint?: string): Promise<string[]> {
  const { stand, random } = scene;
  const late = points.filter(({ statement }) => !endpoint || statement !== 'begin and locks of the key');
  const point = random.pick(late);
  const acts: Record<typeof how, (link: Link) => void> = {
    kill: () => void process.kill(stand.server.pid, 'SIGKILL'),
    reset: (link) => link.reset(),
    silence: (link) => link.silence(),
  };
  const hit = await Promise.race([
    stand.traps.set({ ...point, ...(endpoint ? { endpoint } : {}), act: acts[how] }).then(() => true),
    sleep(10_000).then(() => false),
  ]);
  stand.traps.clear();
  if (how === 'kill') await stand.server.restart();
  return hit ? [] : [`no write came to: ${point.statement} ${point.moment}`];
}

/** How a part of the server is cut off from its database. */
type Cut = 'kill' | 'reset' | 'silence';

/** Milliseconds in which each part comes to each of its points: what a killed sender had on its way is looked at again after 30 s. */
const patience = 45_000;

/** Points at which a part has not been cut in this way yet, by the way and the part: each comes before one comes again. */
const undone = new Map<string, Point[]>();

/** Cuts what works behind the writes at its next point. */
async function cutJob({ stand, random, measure }: Scene, part: readonly Point[], how: Cut): Promise<string[]> {
  const deck = `${how} ${part[0]?.statement}`;
  const left = undone.get(deck) ?? [];
  const point = left.pop() ?? random.pick(part);
  if (!undone.has(deck)) undone.set(deck, random.shuffled(part.filter((each) => each !== point)));
  const acts: Record<Cut, (link: Link) => void> = {
    kill: () => void process.kill(stand.server.pid, 'SIGKILL'),
    reset: (link) => link.reset(),
    silence: (link) => link.silence(),
  };
  const hit = await Promise.race([
    stand.traps.set({ ...point, act: acts[how] }).then(() => true),
    sleep(patience).then(() => false),
  ]);
  stand.traps.clear();
  if (how === 'kill') await stand.server.restart();
  measure(`points of ${part.length}`, part.length - (undone.get(deck) ?? []).length);
  return hit ? [] : [`nothing came to: ${point.statement} ${point.moment}`];
}

async function pauseDatabase({ stand, writers, count, measure }: Scene): Promise<string[]> {
  await writers.progress(20);
  writers.takeTally();
  const { refused, doneBefore, doneAfter } = await unkeyedDuring(stand.server.url, 8, async () => {
    await sleep(300);
    const resume = stand.database.pause();
    await sleep(5000);
    resume();
    await stand.server.untilHealthy();
  });
  count('unkeyed calls answered with 503', refused);
  // What was committed when everything stood still, and only its answer was missing, cannot be called back.
  count('of them committed before it', doneBefore);
  const slowest = Math.max(...writers.takeTally().latencies);
  measure('ms of the slowest answer', slowest);
  return [
    ...(slowest > answerTime ? [`an answer took ${Math.round(slowest)} ms`] : []),
    ...(doneAfter > 0 ? [`${doneAfter} calls were done after their 503`] : []),
  ];
}

async function tellToStop({ stand, writers, measure }: Scene): Promise<string[]> {
  await stand.second.restart();
  const wrong: string[] = [];
  for (const server of [stand.server, stand.second]) {
    await writers.progress(100);
    const started = performance.now();
    const code = await server.stop();
    measure('ms until stopped', performance.now() - started);
    if (code !== 0) wrong.push(`a server that was told to stop ended with ${code}`);
    if (server === stand.server) await server.restart();
  }
  return wrong;
}

async function harmRedis(
  scene: Scene,
  harm: () => Promise<void> | void,
  mend: () => Promise<void> | void,
): Promise<string[]> {
  const { stand, writers, measure } = scene;
  writers.takeTally();
  await writers.progress(100);
  const calm = percentile(writers.takeTally().latencies, 99);
  await harm();
  await writers.progress(100);
  measure('ms added at the 99th percentile', percentile(writers.takeTally().latencies, 99) - calm);
  await mend();
  await stand.server.untilHealthy();
  return [];
}

const modes = (proxy: FaultProxy | undefined, mode: FaultProxy['mode']) => (): void => {
  if (proxy) proxy.mode = mode;
};

async function slowNetwork({ stand: { databaseProxy }, writers }: Scene): Promise<string[]> {
  databaseProxy.delay = 30;
  await writers.progress(80).finally(() => {
    databaseProxy.delay = 0;
  });
  return [];
}

async function deadNetwork(
  { stand: { databaseProxy } }: Scene,
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
      harmRedis(
        scene,
        () => scene.stand.redis?.kill(),
        () => scene.stand.redis?.restart(),
      ),
  },
  {
    name: 'Redis paused',
    figure: 'A3',
    times: 2,
    serves: true,
    needsRedis: true,
    strike: (scene) =>
      harmRedis(
        scene,
        () => scene.stand.redis?.pause(),
        () => scene.stand.redis?.resume(),
      ),
  },
  {
    name: 'Redis out of reach',
    figure: 'A3',
    times: 1,
    serves: true,
    needsRedis: true,
    strike: (scene) =>
      harmRedis(scene, modes(scene.stand.redisProxy, 'swallow'), modes(scene.stand.redisProxy, 'pass')),
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
    strike: async ({ stand }) => {
      stand.databaseProxy.reset();
      return [];
    },
  },
  {
    name: 'told to stop, with a second server',
    figure: 'B4',
    times: 1,
    serves: true,
    cutsClients: true,
    strike: tellToStop,
  },
];

/** What the writers met during a fault that they must not meet. */
export function judge(fault: Fault, { refusals, broken }: Tally): string[] {
  const wrong: string[] = [];
  if (fault.serves && refusals.length > 0)
    wrong.push(`${refusals.length} calls were answered with 503, the first ${refusals[0]}`);
  // A server that does not run takes nothing: that is no failure.
  for (const [code, times] of broken)
    if (code === 'NO_ANSWER' || (code !== 'ECONNREFUSED' && !fault.cutsClients))
      wrong.push(`${times} calls had no answer: ${code}`);
  return wrong;
}
