// What stands between tenants and between modes: each wall alone holds, and each piece of each wall is needed.
// MUTANTS says how many conditions are taken away, or all of them; MUTANTS_SEED repeats a choice.
import { resolve } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { dropAllDatabases, dropDatabase, inDatabase, newDatabase } from './isolation/databases.ts';
import { copySources, sampleOf, withMutation } from './isolation/mutants.ts';
import { type Predicate, tenantPredicates } from './isolation/predicates.ts';
import { redundant, unreached } from './isolation/redundant.ts';
import { differences, type Observation, replay, type Volatile, volatileIn } from './isolation/replay.ts';
import { digestOf } from './isolation/shadows.ts';
import { buildWorld, serve, type World } from './isolation/world.ts';

const all = process.env.MUTANTS === 'all';
const count = all ? Number.POSITIVE_INFINITY : Number(process.env.MUTANTS ?? 4);
const seed = Number(process.env.MUTANTS_SEED ?? Date.now() % 2 ** 31);
/** Servers at the same time. */
const lanes = 2;

let world: World;
/** What the tenant is told when there is nobody else. */
let expected: Observation[];
let volatile: Volatile;

beforeAll(async () => {
  world = await buildWorld();
  const [first, second] = [await run(world.alone), await run(world.alone)];
  volatile = volatileIn(first.observations, second.observations, world.probes);
  expected = first.observations;
}, 180_000);

afterAll(dropAllDatabases);

interface Run {
  observations: Observation[];
  /** What differs from what is told when there is nobody else. */
  leaks: string[];
  /** Tables in which a row of somebody else was changed. */
  changed: string[];
  answers: string;
  log: string;
}

/** Sends all requests to a server on a copy of the data. @param main another program than the project's own; then the first leak ends it */
async function run(template: string, main?: string): Promise<Run> {
  const url = await newDatabase(template);
  const { companyId, tables, shadows } = world;
  const digest = () => inDatabase(url, (sql) => digestOf(sql, tables, companyId, shadows));
  const before = await digest();
  const server = await serve(url, main);
  try {
    let answers = '';
    const leaks: string[] = [];
    const observations = await replay(server.url, world.probes, (observation, index, text) => {
      answers += text;
      leaks.push(...leaksOf(observation, index));
      return main === undefined || leaks.length === 0;
    });
    const after = await digest();
    const changed = [...before.keys()].filter((name) => before.get(name) !== after.get(name));
    return { observations, leaks, changed, answers, log: server.output() };
  } finally {
    await server.stop();
    await dropDatabase(url);
  }
}

function leaksOf(observation: Observation, index: number): string[] {
  const wanted = expected?.[index];
  const probe = world.probes[index];
  if (!wanted || !probe) return [];
  const { operation, path, options } = probe;
  return differences(observation, wanted)
    .filter((value) => !volatile[index]?.has(value))
    .map(
      (value) =>
        `${operation.id} ${path} ${JSON.stringify(options.query ?? {})} ${value}: ${observation.get(value)}, alone ${wanted.get(value)}`,
    )
    .slice(0, 2);
}

describe('a tenant among others with rows of the same ids, in both modes', () => {
  test('is answered as if it were alone, and changes nothing of theirs', async () => {
    const { leaks, changed } = await run(world.crowded);
    expect({ leaks, changed }).toEqual({ leaks: [], changed: [] });
  }, 60_000);

  test('is answered so by the statements alone, where row-level security lets everything through', async () => {
    const { leaks, changed } = await run(world.unwalled);
    expect({ leaks, changed }).toEqual({ leaks: [], changed: [] });
  }, 60_000);
});

describe('without row-level security, every condition on a company or a mode is needed', () => {
  const predicates = tenantPredicates();
  const needed = predicates.filter(({ id, file }) => !Object.hasOwn(redundant, id) && !Object.hasOwn(unreached, file));
  const chosen = all ? [...needed] : sampleOf(needed, count, seed);

  test('the lists of exceptions name only what there is', () => {
    const ids = new Set(predicates.flatMap(({ id, file }) => [id, file]));
    expect([...Object.keys(redundant), ...Object.keys(unreached)].filter((id) => !ids.has(id))).toEqual([]);
    expect(needed.length).toBeGreaterThan(60);
  });

  test(`${all ? 'each' : `some, with MUTANTS_SEED=${seed}`}`, async () => {
    const survivors: string[] = [];
    const lane = async (_: unknown, index: number): Promise<void> => {
      const folder = copySources(resolve('.test-data', `mutant-${process.pid}-${index}`));
      for (let predicate = chosen.pop(); predicate; predicate = chosen.pop()) {
        const caught = await consequenceOf(folder, predicate);
        if (caught === undefined) survivors.push(predicate.id);
        if (all)
          process.stdout.write(
            `${predicate.file}:${predicate.line} ${predicate.id.split(': ')[1]}: ${caught ?? 'NOT CAUGHT'}\n`,
          );
      }
    };
    await Promise.all(Array.from({ length: lanes }, lane));
    expect(survivors).toEqual([]);
  }, 3_600_000);
});

/** What gives it away that a condition is missing. */
async function consequenceOf(folder: string, predicate: Predicate): Promise<string | undefined> {
  const { leaks, changed } = await withMutation(folder, predicate, (main) => run(world.unwalled, main));
  return leaks[0] ?? (changed.length > 0 ? `changes rows of others in ${changed.join(', ')}` : undefined);
}
