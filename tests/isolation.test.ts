// Tenants and modes: what stands between them, each wall alone, and what happens when a piece of one is taken away.
import { afterAll, beforeAll, expect, test } from 'vitest';
import { dropAllDatabases, dropDatabase, inDatabase, newDatabase } from './isolation/databases.ts';
import { differences, type Observation, replay, type Volatile, volatileIn } from './isolation/replay.ts';
import { digestOf } from './isolation/shadows.ts';
import { buildWorld, serve, type World } from './isolation/world.ts';

let world: World;
let expected: Observation[];
let volatile: Volatile;

beforeAll(async () => {
  let started = performance.now();
  const lap = (what: string) => { console.log(what, Math.round(performance.now() - started)); started = performance.now(); };
  world = await buildWorld();
  lap(`world, ${world.probes.length} probes`);
  const first = await runOn(world.alone);
  lap('first');
  const second = await runOn(world.alone);
  lap('second');
  volatile = volatileIn(first.observations, second.observations, world.probes);
  expected = first.observations;
}, 120_000);

afterAll(dropAllDatabases);

async function runOn(template: string): Promise<{ observations: Observation[]; texts: string; log: string; changed: string[] }> {
  const url = await newDatabase(template);
  const { companyId, tables, shadows } = world;
  const digest = () => inDatabase(url, (sql) => digestOf(sql, tables, companyId, shadows));
  const before = await digest();
  const server = await serve(url);
  try {
    let texts = '';
    const observations = await replay(server.url, world.probes, (_observation, _index, text) => {
      texts += text;
      return true;
    });
    const after = await digest();
    const changed = [...before.keys()].filter((name) => before.get(name) !== after.get(name));
    return { observations, texts, log: server.output(), changed };
  } finally {
    await server.stop();
    await dropDatabase(url);
  }
}

function leaks(observations: readonly Observation[]): string[] {
  return observations.flatMap((observation, index) => {
    const probe = world.probes[index];
    const wanted = expected[index] as Observation;
    return differences(observation, wanted)
      .filter((path) => !volatile[index]?.has(path))
      .slice(0, 2)
      .map((path) => `${probe?.operation.id} ${probe?.path} ${JSON.stringify(probe?.options.query ?? {})} ${path}: ${observation.get(path)}, alone ${wanted.get(path)}`);
  });
}

test.each(['crowded', 'unwalled'] as const)('%s', async (name) => {
  const { observations, changed } = await runOn(world[name]);
  expect(leaks(observations)).toEqual([]);
  expect(changed).toEqual([]);
}, 120_000);
