// The walls between tenants and modes: each alone holds, and each piece of each is needed.
// MUTANTS says which conditions are taken away: all, unnoticed, so many of them (MUTANTS_SEED chooses), or parts of names, by commas.
import { rmSync } from 'node:fs';
import { resolve } from 'node:path';
import type { Sql, TransactionSql } from 'postgres';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { dropAllDatabases, dropDatabase, inDatabase, newDatabase } from '../support/databases.ts';
import { type DeclaredOperation, operations } from '../support/document.ts';
import { forgetStatements } from '../support/noted-statements.ts';
import { isForPlatform } from '../support/requests.ts';
import { openedByKey, openedByOAuth } from '../support/walk.ts';
import { rushTo } from './concurrent-load.ts';
import { briefly, type Reach, reachOf, spread } from './condition-coverage.ts';
import { buildWorld, serve, type World } from './databases.ts';
import { holdRows } from './locks.ts';
import { copySources, sampleOf, withMutation } from './mutants.ts';
import { breachesIn, policyMutants } from './policies.ts';
import { type Predicate, tenantPredicates } from './predicates.ts';
import type { Probe } from './probe.ts';
import { junkOf } from './probes.ts';
import { differences, type Observation, replay, type Volatile, volatileIn } from './replay.ts';
import { marker, unmarkedColumns } from './schema.ts';
import { clocksOf, digestOf, markedRows } from './shadow-rows.ts';
import { redundant, unnoticed, unreached } from './unused-conditions.ts';
import { settled } from './wait-until-stable.ts';

/** One that a single operation notices, so that it is seen in a few seconds that taking away is noticed at all. */
const shown = 'db/access/api-keys.ts listApiKeys: k.company_id';
const noticing = 'listApiKeys';
const wanted = process.env.MUTANTS ?? shown;
const isSample = /^\d+$/.test(wanted);
/** Whether it is worth its time to find out which requests send which condition. */
const isLong = wanted !== shown;
const seed = Number(process.env.MUTANTS_SEED ?? 1);
/** Servers at the same time; of few requests, most of the time is waiting until a server has done what it does by itself. */
const lanes = isLong ? 4 : 2;

let world: World;

/** Requests, and what the tenant is told when there is nobody else. */
interface Walk {
  testMode: boolean;
  probes: readonly Probe[];
  expected: readonly Observation[];
  /** What differs whenever they are sent again. */
  volatile: Volatile;
  /** What the server itself warns of. */
  warnings: ReadonlySet<string>;
  /** What became of its SLA clocks, as far as that is the same twice. */
  clocks: ReadonlyMap<string, string>;
}

/** With all credentials of the tenant; then briefly with its keys alone, which are test keys. */
let live: Walk;
let inTest: Walk;

beforeAll(async () => {
  world = await buildWorld();
  live = await walkOf(world.alone, isLong ? world.probes : briefly(world.probes), false);
  inTest = await walkOf(
    world.aloneInTest,
    briefly(world.probes.filter(({ options }) => options.key !== undefined)),
    true,
  );
}, 600_000);

afterAll(dropAllDatabases);

async function walkOf(template: string, probes: readonly Probe[], testMode: boolean): Promise<Walk> {
  const told = await Promise.all([1, 2].map(() => tell(template, probes, testMode)));
  const [expected = [], again = []] = told.map(({ observations }) => observations);
  const warnings = new Set(told.flatMap(({ log }) => warningsIn(log)));
  const [first = new Map(), second] = told.map(({ clocks }) => clocks);
  const clocks = new Map([...first].filter(([clock, fate]) => second?.get(clock) === fate));
  return { testMode, probes, expected, volatile: volatileIn(expected, again, probes), warnings, clocks };
}

/** What a server says of what it does without being asked. */
function warningsIn(log: string): string[] {
  return log
    .split('\n')
    .filter((line) => /"level":"(?:warn|error)"/.test(line) && !/"request_id":/.test(line))
    .map((line) => /"msg":"([^"]*)"/.exec(line)?.[1] ?? line);
}

/** What a tenant is told that has a copy of the data to itself. */
async function tell(
  template: string,
  probes: readonly Probe[],
  testMode: boolean,
): Promise<{ observations: Observation[]; log: string; clocks: ReadonlyMap<string, string> }> {
  const url = await newDatabase(template);
  const server = await serve(url);
  try {
    const observations = await replay(server.url, probes, () => settled(url));
    await server.stop();
    const clocks = await inDatabase(url, (sql) => clocksOf(sql, { companyId: world.companyId, testMode }));
    return { observations, log: server.output(), clocks };
  } finally {
    await server.stop();
    await dropDatabase(url);
  }
}

let aloneRun: Promise<Run> | undefined;
let junkRun: Promise<Run> | undefined;

/** Everything asked where the statements are the only wall: what they let through, no other wall would have hidden. */
function byStatementsAlone(): Promise<Run> {
  aloneRun ??= run(world.unwalled, live);
  return aloneRun;
}

/** Much that is not well asked, with all walls up. */
function askedBadly(): Promise<Run> {
  junkRun ??= run(world.crowded, { ...live, probes: [] }, { more: junkOf(world.probes) });
  return junkRun;
}

interface Run {
  /** What differs from what is told when there is nobody else, and what had to wait for others. */
  leaks: string[];
  /** Tables in which a row of somebody else was changed. */
  changed: string[];
  answers: string;
  log: string;
}

interface RunOptions {
  /** Requests of which nothing is expected. */
  more?: readonly Probe[];
  /** Another program than the project's own; then the first leak ends the walk. */
  main?: string;
}

/** Sends the requests of a walk to a server on a copy of the data, of which the rows of others are locked all the while. */
async function run(template: string, walk: Walk, { more = [], main }: RunOptions = {}): Promise<Run> {
  const url = await newDatabase(template);
  const { companyId, tables, shadows } = world;
  const whose = { companyId, shadows, testMode: walk.testMode };
  const digest = () => inDatabase(url, (sql) => digestOf(sql, tables, whose));
  const before = await digest();
  // From before it starts: what it does by itself, it does at once.
  const held = await holdRows(url, tables, whose);
  const server = await serve(url, main);
  try {
    let answers = '';
    const leaks: string[] = [];
    await replay(
      server.url,
      [...walk.probes, ...more],
      () => settled(url),
      (observation, index, text) => {
        answers += text;
        leaks.push(...held.waited.splice(0), ...leaksOf(walk, observation, index));
        return main === undefined || leaks.length === 0;
      },
    );
    // Calls in test mode are charged to nobody.
    if (leaks.length === 0 && !walk.testMode) leaks.push(...(await rushTo(server.url, world.rush)));
    // What it does in the background, too.
    await server.stop();
    if (more.length === 0) leaks.push(...warningsIn(server.output()).filter((warning) => !walk.warnings.has(warning)));
    await held.release();
    leaks.push(...held.waited.splice(0));
    const after = await digest();
    const changed = [...before.keys()].filter((name) => before.get(name) !== after.get(name));
    leaks.push(...(await inDatabase(url, (sql) => markedRows(sql, tables, whose))));
    // A walk with more requests, or one that ended at a leak, does other things to them.
    if (more.length === 0 && leaks.length === 0) leaks.push(...(await inDatabase(url, (sql) => clockLeaks(sql, walk))));
    return { leaks, changed, answers, log: server.output() };
  } finally {
    await server.stop();
    // With a condition less, they are not what servers send.
    if (main !== undefined) await forgetStatements(url);
    await dropDatabase(url);
  }
}

async function clockLeaks(sql: Sql, { clocks, testMode }: Walk): Promise<string[]> {
  const now = await clocksOf(sql, { companyId: world.companyId, testMode });
  return [...clocks]
    .filter(([clock, fate]) => now.get(clock) !== fate)
    .map(([clock, fate]) => `the clock ${clock}: ${now.get(clock)}, alone ${fate}`);
}

function leaksOf({ expected, probes, volatile }: Walk, observation: Observation, index: number): string[] {
  const wanted = expected[index];
  const probe = probes[index];
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

test('the requests reach every operation, by every kind of caller that it takes', () => {
  const reached = (walk: Walk, isWanted: (probe: Probe, status: string) => boolean): Set<DeclaredOperation> =>
    new Set(
      walk.probes
        .filter((probe, index) => isWanted(probe, walk.expected[index]?.get('status') ?? ''))
        .map(({ operation }) => operation),
    );
  const succeeded = (_: Probe, status: string) => /^[23]/.test(status);
  // What a key has just made or removed, an app cannot make or remove again.
  const letIn = ({ options }: Probe, status: string) => options.token !== undefined && /^(2|404|409|422)/.test(status);
  const inTestMode = openedByKey.filter((each) => !each.declared['x-live-only'] && !isForPlatform(each));
  // There are more users here than the plans include seats for, so that nobody can go to a smaller one.
  const without = (all: readonly DeclaredOperation[], some: Set<DeclaredOperation>) =>
    all.filter((each) => !some.has(each) && each.id !== 'downgradeSubscription').map(({ id }) => id);
  expect({
    anybody: without(
      operations.filter((each) => !each.declared['x-test-only']),
      reached(live, succeeded),
    ),
    apps: without(openedByOAuth, reached(live, letIn)),
    // What live mode offered cannot be held in test mode.
    testKeys: without(inTestMode, reached(inTest, succeeded)).filter((id) => id !== 'createReservation'),
  }).toEqual({ anybody: [], apps: [], testKeys: [] });
});

describe('a tenant among others with rows of the same ids, in both modes', () => {
  test('is answered as if it were alone, and changes nothing of theirs, by the statements alone', async () => {
    const { leaks, changed } = await byStatementsAlone();
    expect([...leaks, ...changed].join('\n')).toBe('');
  }, 600_000);

  test('is answered so with its test keys, when all that it has there its doubles have too, and it itself in live mode', async () => {
    const { leaks, changed } = await run(world.unwalledInTest, inTest);
    expect([...leaks, ...changed].join('\n')).toBe('');
  }, 600_000);

  test('changes nothing of theirs by what is not well asked, with all walls up', async () => {
    const { leaks, changed } = await askedBadly();
    expect([...leaks, ...changed].join('\n')).toBe('');
  }, 600_000);
});

describe('no text of others', () => {
  test('is left without the marker, so that none can go unseen', async () => {
    const marked = world.shadows.find(({ kind }) => kind === 'marked')?.companyId ?? '';
    const without = await inDatabase(world.crowded, (sql) => unmarkedColumns(sql, world.tables, marked));
    // Queues that are empty here: their work is done behind the writes.
    expect(without).toEqual(['reference_clearings.object', 'reference_clearings.caused_by', 'search_changes.object']);
  });

  test('is in any answer or line of the log, whatever is asked', async () => {
    for (const asked of [byStatementsAlone, askedBadly]) {
      const { answers, log } = await asked();
      expect(answers.length).toBeGreaterThan(100_000);
      expect(log.length).toBeGreaterThan(100_000);
      expect(contextsOf(answers, marker)).toEqual([]);
      expect(contextsOf(log, marker)).toEqual([]);
    }
  }, 600_000);
});

describe('in row-level security', () => {
  test('every condition of every policy is needed, and lets nothing through', async () => {
    const other = world.shadows.find(({ kind }) => kind === 'twin')?.companyId ?? '';
    const url = await newDatabase(world.crowded);
    await inDatabase(url, async (sql) => {
      // In tables that are empty but for moments, there is something of everybody.
      await sql`insert into search_changes (company_id, test_mode, object, record_id)
        select id, mode, 'leads', gen_random_uuid() from companies cross join (values (false), (true)) as modes (mode)`;
      await sql`insert into reference_clearings (company_id, test_mode, object, record_id, caused_by, created_at)
        select id, mode, 'leads', gen_random_uuid(), '{}', now() from companies cross join (values (false), (true)) as modes (mode)`;
      await sql`insert into webhook_backlog (company_id, test_mode, first_position, last_position)
        select id, mode, 1000000, 1000000 from companies cross join (values (false), (true)) as modes (mode)`;
      await sql`insert into api_quota_blocks (company_id, holder, month_start, calls, renewed_at)
        select id, gen_random_uuid(), now(), 1, now() from companies`;
      const mutants = await policyMutants(sql, world.tables);
      expect(mutants.length).toBeGreaterThan(60);
      const standing: string[] = [];
      for (const table of world.tables) {
        const breaches = await undone(sql, (inner) => breachesIn(inner, table, world.companyId, other));
        standing.push(...breaches.map((breach) => `${table.name}: ${breach}`));
      }
      expect(standing).toEqual([]);
      const survivors: string[] = [];
      for (const { name, table, statement } of mutants) {
        const breaches = await undone(sql, async (inner) => {
          await inner.unsafe(statement);
          return breachesIn(inner, table, world.companyId, other);
        });
        if (breaches.length === 0) survivors.push(name);
      }
      expect(survivors).toEqual([]);
    });
    await dropDatabase(url);
  }, 600_000);
});

/** Runs statements in a transaction that is then undone. */
async function undone<T>(sql: Sql, work: (inner: TransactionSql) => Promise<T>): Promise<T> {
  const undo = new Error('undo');
  let result: T | undefined;
  await sql
    .begin(async (inner) => {
      result = await work(inner);
      throw undo;
    })
    .catch((error: unknown) => {
      if (error !== undo) throw error;
    });
  return result as T;
}

/** Where a text occurs, with what is around it. */
function contextsOf(text: string, wanted: string): string[] {
  const pieces = text.split(wanted);
  return pieces.slice(0, -1).map((piece) => piece.slice(-200));
}

describe('without row-level security, every condition on a company or a mode is needed', () => {
  const predicates = tenantPredicates();
  const known = predicates.filter(({ id, file }) => !Object.hasOwn(redundant, id) && !Object.hasOwn(unreached, file));
  const needed = known.filter(({ id, file }) => !Object.hasOwn(unnoticed, file) && !Object.hasOwn(unnoticed, id));
  const chosen = choose();

  function choose(): Predicate[] {
    if (isSample) return sampleOf(needed, Number(wanted), seed);
    if (wanted === 'all') return needed;
    if (wanted === 'unnoticed') return known.filter((each) => !needed.includes(each));
    return known.filter(({ id }) => wanted.split(',').some((part) => id.includes(part)));
  }

  test('the lists of exceptions name only what there is', () => {
    const ids = new Set(predicates.flatMap(({ id, file }) => [id, file]));
    const listed = [...Object.keys(redundant), ...Object.keys(unreached), ...Object.keys(unnoticed)];
    expect(listed.filter((id) => !ids.has(id))).toEqual([]);
    expect(needed.length).toBeGreaterThan(60);
  });

  test(isSample ? `${wanted} of them, with MUTANTS_SEED=${seed}` : `what MUTANTS names: ${wanted}`, async () => {
    // Of two rows with one id the live one may be found first, so that only who asks for the other sees it.
    const modes = [
      new Mode(world.alone, world.unwalled, live, predicates),
      new Mode(world.aloneInTest, world.unwalledInTest, inTest, predicates),
    ];
    let survivors: readonly Predicate[] = chosen;
    if (isLong) survivors = await survivorsOf(survivors, modes, 'few');
    survivors = await survivorsOf(survivors, modes, 'all');
    // Nothing is caught because time has passed, e.g. by a link that works no longer.
    if (isLong) expect((await run(world.unwalled, live)).leaks).toEqual([]);
    if (isLong)
      process.stdout.write(
        `${chosen.length - survivors.length} of ${chosen.length} caught; ${predicates.length - needed.length} of ${predicates.length} left out: redundant, not reached, or shown by no answer\n`,
      );
    expect(survivors.map(({ id }) => id)).toEqual([]);
  }, 36_000_000);
});

/** Requests that are asked of one condition at first. */
const most = 16;

const isFirst = ({ operation, isAgain }: Probe): boolean => operation.method === 'GET' && !isAgain;

function partition<Item>(items: readonly Item[], isWanted: (item: Item) => boolean): [Item[], Item[]] {
  return [items.filter(isWanted), items.filter((item) => !isWanted(item))];
}

/** The walks of one mode: the whole one, and those of the few requests that send a condition. */
class Mode {
  readonly #alone: string;
  readonly #unwalled: string;
  readonly #whole: Walk;
  readonly #predicates: readonly Predicate[];
  #reach: Promise<Reach> | undefined;
  readonly #parts = new Map<string, Promise<Walk>>();

  constructor(alone: string, unwalled: string, whole: Walk, predicates: readonly Predicate[]) {
    this.#alone = alone;
    this.#unwalled = unwalled;
    this.#whole = whole;
    this.#predicates = predicates;
  }

  /** Whether anything sends it. */
  async reaches(id: string): Promise<boolean> {
    return (await this.#reached()).has(id);
  }

  /** Asks those that send it: first who only reads, then who writes; where the server alone does, those who see what became of it. */
  async askFew(main: string, id: string): Promise<string | undefined> {
    const places = (await this.#reached()).get(id);
    if (!places) return undefined;
    const { probes, testMode } = this.#whole;
    const [reading, others] = partition(places, (place) => isFirst(probes[place] as Probe));
    const read = reading.length > 0 ? await this.#ask(main, this.#reads(spread(reading, most))) : undefined;
    if (read !== undefined || (others.length === 0 && reading.length > 0)) return read;
    const few = spread(others.length > 0 ? others : [...probes.keys()].filter((place) => probes[place]?.isAgain), most);
    const part =
      this.#parts.get(few.join()) ??
      walkOf(
        this.#alone,
        few.map((place) => probes[place] as Probe),
        testMode,
      );
    this.#parts.set(few.join(), part);
    return this.#ask(main, await part);
  }

  /** What reads before anything was changed is answered as in the whole walk, whoever else asks. */
  #reads(places: readonly number[]): Walk {
    const { probes, expected, volatile, ...rest } = this.#whole;
    const taken = <Item>(all: readonly Item[]): Item[] => places.map((place) => all[place] as Item);
    return { ...rest, probes: taken(probes), expected: taken(expected), volatile: taken(volatile), clocks: new Map() };
  }

  askAll(main: string): Promise<string | undefined> {
    return this.#ask(main, this.#whole);
  }

  /** Asks what only reads, before anything was changed. */
  askOf(main: string, operationId: string): Promise<string | undefined> {
    const { probes } = this.#whole;
    const own = probes.flatMap((probe, place) => (probe.operation.id === operationId && isFirst(probe) ? [place] : []));
    return this.#ask(main, this.#reads(own));
  }

  async #ask(main: string, walk: Walk): Promise<string | undefined> {
    return consequenceOf(await run(this.#unwalled, walk, { main }));
  }

  #reached(): Promise<Reach> {
    this.#reach ??= reachOf(this.#alone, this.#whole.probes, this.#predicates);
    return this.#reach;
  }
}

/** What gives it away that a condition is missing. */
function consequenceOf({ leaks, changed }: Run): string | undefined {
  return leaks[0] ?? (changed.length > 0 ? `changes rows of others in ${changed.join(', ')}` : undefined);
}

/**
 * Takes conditions away, one at a time.
 * @param asked few: only those requests that send the condition, which most of the missing is found by
 * @returns those that nobody noticed
 */
async function survivorsOf(
  predicates: readonly Predicate[],
  modes: readonly Mode[],
  asked: 'few' | 'all',
): Promise<readonly Predicate[]> {
  const left = [...predicates];
  const survivors: Predicate[] = [];
  const lane = async (_: unknown, index: number): Promise<void> => {
    const folder = copySources(resolve('.test-data', `mutant-${process.pid}-${index}`));
    for (let predicate = left.pop(); predicate; predicate = left.pop()) {
      const { id } = predicate;
      const told = await withMutation(folder, predicate, (main) => consequenceIn(modes, main, id, asked));
      if (!told.isCaught) survivors.push(predicate);
      if (isLong) process.stdout.write(`${id}: ${told.isCaught ? '' : 'NOT CAUGHT: '}${told.because}\n`);
    }
    rmSync(folder, { recursive: true, force: true });
  };
  await Promise.all(Array.from({ length: lanes }, lane));
  return survivors;
}

async function consequenceIn(
  modes: readonly Mode[],
  main: string,
  id: string,
  asked: 'few' | 'all',
): Promise<{ isCaught: boolean; because: string }> {
  const reached = await Promise.all(modes.map((mode) => !isLong || mode.reaches(id)));
  if (!reached.includes(true)) return { isCaught: false, because: 'nothing sends it' };
  try {
    for (const mode of modes) {
      const because = await (!isLong
        ? mode.askOf(main, noticing)
        : asked === 'few'
          ? mode.askFew(main, id)
          : mode.askAll(main));
      if (because !== undefined) return { isCaught: true, because };
    }
    return { isCaught: false, because: 'nobody notices' };
  } catch (error) {
    // Of hundreds, the others are still tried.
    return { isCaught: false, because: (error as Error).message };
  }
}
