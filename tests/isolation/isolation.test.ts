// Isolation of tenants and modes: each mechanism suffices alone, and each part of it is needed.
// MUTANTS selects the conditions to remove: all, unnoticed, a number (chosen by MUTANTS_SEED), or
// parts of their ids, separated by commas.
import type { Sql, TransactionSql } from 'postgres';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { dropAllDatabases, dropDatabase, inDatabase, newDatabase } from '../support/databases.ts';
import { type DeclaredOperation, operations } from '../support/document.ts';
import { forgetStatements } from '../support/noted-statements.ts';
import { isForPlatform } from '../support/requests.ts';
import { openedByKey, openedByOAuth } from '../support/walk.ts';
import { callConcurrently } from './concurrent-load.ts';
import { type Coverage, measureCoverage, sampleProbes, spread } from './condition-coverage.ts';
import { buildWorld, serve, type World } from './databases.ts';
import { holdRows } from './locks.ts';
import { pickSample, removal } from './mutants.ts';
import { breachesIn, policyMutants } from './policies.ts';
import { type Predicate, tenantPredicates } from './predicates.ts';
import type { Probe } from './probe.ts';
import { buildJunk } from './probes.ts';
import { differences, type Observation, replay, type Volatile, volatileIn } from './replay.ts';
import { marker, unmarkedColumns } from './schema.ts';
import { digestRows, markedRows, readClocks } from './shadow-rows.ts';
import { redundant, unnoticed, unreached } from './unused-conditions.ts';
import { waitUntilStable } from './wait-until-stable.ts';

/** A condition that one operation detects, so that the default run takes seconds. */
const sampleId = 'db/access/api-keys.ts listApiKeys: k.company_id';
const sampleOperation = 'listApiKeys';
const wanted = process.env.MUTANTS ?? sampleId;
const isSample = /^\d+$/.test(wanted);
/** True if it is worth finding out which requests send which condition. */
const isLong = wanted !== sampleId;
const seed = Number(process.env.MUTANTS_SEED ?? 1);
/** Concurrent servers. With few requests, most time is spent waiting for jobs. */
const lanes = 4;

let world: World;

/** Requests, and the responses when the tenant is alone. */
interface Walk {
  testMode: boolean;
  probes: readonly Probe[];
  expected: readonly Observation[];
  /** Values that differ between any two runs. */
  volatile: Volatile;
  /** Warnings that the server logs by itself. */
  warnings: ReadonlySet<string>;
  /** States of its SLA clocks that two runs agree on. */
  clocks: ReadonlyMap<string, string>;
}

/**
 * `live` uses all credentials of the tenant. `inTest` uses a sample with its keys, which are test
 * keys there.
 */
let live: Walk;
let inTest: Walk;

beforeAll(async () => {
  world = await buildWorld();
  live = await runWalk(world.alone, isLong ? world.probes : sampleProbes(world.probes), false);
  inTest = await runWalk(
    world.aloneInTest,
    sampleProbes(world.probes.filter(({ options }) => options.key !== undefined)),
    true,
  );
}, 600_000);

afterAll(dropAllDatabases);

async function runWalk(template: string, probes: readonly Probe[], testMode: boolean): Promise<Walk> {
  const runs = await Promise.all([1, 2].map(() => observeAlone(template, probes, testMode)));
  const [expected = [], again = []] = runs.map(({ observations }) => observations);
  const warnings = new Set(runs.flatMap(({ log }) => warningsIn(log)));
  const [first = new Map(), second] = runs.map(({ clocks }) => clocks);
  const clocks = new Map([...first].filter(([clock, fate]) => second?.get(clock) === fate));
  return { testMode, probes, expected, volatile: volatileIn(expected, again, probes), warnings, clocks };
}

/** Returns the warnings that a server logs outside of requests. */
function warningsIn(log: string): string[] {
  return log
    .split('\n')
    .filter((line) => /"level":"(?:warn|error)"/.test(line) && !/"request_id":/.test(line))
    .map((line) => /"msg":"([^"]*)"/.exec(line)?.[1] ?? line);
}

/** Returns the responses of a tenant that is alone on a copy of the data. */
async function observeAlone(
  template: string,
  probes: readonly Probe[],
  testMode: boolean,
): Promise<{ observations: Observation[]; log: string; clocks: ReadonlyMap<string, string> }> {
  const url = await newDatabase(template);
  const server = await serve(url);
  try {
    const observations = await replay(server.url, probes, () => waitUntilStable(url));
    await server.stop();
    const clocks = await inDatabase(url, (sql) => readClocks(sql, { companyId: world.companyId, testMode }));
    return { observations, log: server.output(), clocks };
  } finally {
    await server.stop();
    await dropDatabase(url);
  }
}

let aloneRun: Promise<Run> | undefined;
let junkRun: Promise<Run> | undefined;

/**
 * Sends all requests with the statements as the only isolation, so that nothing hides their leaks.
 */
function runWithoutPolicies(): Promise<Run> {
  aloneRun ??= run(world.withoutPolicies, live);
  return aloneRun;
}

/** Sends malformed requests with row-level security in force. */
function runMalformed(): Promise<Run> {
  junkRun ??= run(world.shadowed, { ...live, probes: [] }, { more: buildJunk(world.probes) });
  return junkRun;
}

interface Run {
  /** Responses that differ from those alone, and statements that waited for foreign rows. */
  leaks: string[];
  /** Tables in which foreign rows changed. */
  changed: string[];
  answers: string;
  log: string;
}

interface RunOptions {
  /** Requests without expected responses. */
  more?: readonly Probe[];
  /** A condition that the server lacks. The first leak then ends the walk. */
  removed?: Predicate;
}

/**
 * Sends the requests of a walk to a server on a copy of the data, while foreign rows are locked.
 */
async function run(template: string, walk: Walk, { more = [], removed }: RunOptions = {}): Promise<Run> {
  const url = await newDatabase(template);
  const { companyId, tables, shadows } = world;
  const whose = { companyId, shadows, testMode: walk.testMode };
  const digest = () => inDatabase(url, (sql) => digestRows(sql, tables, whose));
  const before = await digest();
  // Locks before the server starts, because its jobs begin immediately.
  const held = await holdRows(url, tables, whose);
  const server = await serve(url, { edits: removed ? [removal(removed)] : [] });
  try {
    let answers = '';
    const leaks: string[] = [];
    await replay(
      server.url,
      [...walk.probes, ...more],
      () => waitUntilStable(url),
      (observation, index, text) => {
        answers += text;
        leaks.push(...held.waited.splice(0), ...findLeaks(walk, observation, index));
        return removed === undefined || leaks.length === 0;
      },
    );
    // Calls in test mode are not charged.
    if (leaks.length === 0 && !walk.testMode)
      leaks.push(...(await callConcurrently(server.url, world.loadCredentials)));
    // Stopping the server ends its background work, too.
    await server.stop();
    if (more.length === 0) leaks.push(...warningsIn(server.output()).filter((warning) => !walk.warnings.has(warning)));
    await held.release();
    leaks.push(...held.waited.splice(0));
    const after = await digest();
    const changed = [...before.keys()].filter((name) => before.get(name) !== after.get(name));
    leaks.push(...(await inDatabase(url, (sql) => markedRows(sql, tables, whose))));
    // A walk with additional requests, or one that ended early, leaves other clock states.
    if (more.length === 0 && leaks.length === 0) leaks.push(...(await inDatabase(url, (sql) => clockLeaks(sql, walk))));
    return { leaks, changed, answers, log: server.output() };
  } finally {
    await server.stop();
    // A mutant's statements are not those of the project.
    if (removed !== undefined) await forgetStatements(url);
    await dropDatabase(url);
  }
}

async function clockLeaks(sql: Sql, { clocks, testMode }: Walk): Promise<string[]> {
  const now = await readClocks(sql, { companyId: world.companyId, testMode });
  return [...clocks]
    .filter(([clock, fate]) => now.get(clock) !== fate)
    .map(([clock, fate]) => `the clock ${clock}: ${now.get(clock)}, alone ${fate}`);
}

function findLeaks({ expected, probes, volatile }: Walk, observation: Observation, index: number): string[] {
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

test('reaches every operation with every kind of credential that it accepts', () => {
  const reached = (walk: Walk, isWanted: (probe: Probe, status: string) => boolean): Set<DeclaredOperation> =>
    new Set(
      walk.probes
        .filter((probe, index) => isWanted(probe, walk.expected[index]?.get('status') ?? ''))
        .map(({ operation }) => operation),
    );
  const succeeded = (_: Probe, status: string) => /^[23]/.test(status);
  // An app cannot repeat what a key has just created or deleted.
  const isAdmitted = ({ options }: Probe, status: string) =>
    options.token !== undefined && /^(2|404|409|422)/.test(status);
  const inTestMode = openedByKey.filter((each) => !each.declared['x-live-only'] && !isForPlatform(each));
  // The tenant has more users than the smaller plans have seats, so no downgrade succeeds.
  const without = (all: readonly DeclaredOperation[], some: Set<DeclaredOperation>) =>
    all.filter((each) => !some.has(each) && each.id !== 'downgradeSubscription').map(({ id }) => id);
  expect({
    anybody: without(
      operations.filter((each) => !each.declared['x-test-only']),
      reached(live, succeeded),
    ),
    apps: without(openedByOAuth, reached(live, isAdmitted)),
    // A slot that was offered in live mode cannot be reserved in test mode.
    testKeys: without(inTestMode, reached(inTest, succeeded)).filter((id) => id !== 'createReservation'),
  }).toEqual({ anybody: [], apps: [], testKeys: [] });
});

describe('a tenant among shadow rows with the same ids, in both modes', () => {
  test('returns the responses of a tenant that is alone and changes no foreign rows, without row-level security', async () => {
    const { leaks, changed } = await runWithoutPolicies();
    expect([...leaks, ...changed].join('\n')).toBe('');
  }, 600_000);

  test('returns the same with test keys, among shadow rows and its own live rows', async () => {
    const { leaks, changed } = await run(world.withoutPoliciesInTest, inTest);
    expect([...leaks, ...changed].join('\n')).toBe('');
  }, 600_000);

  test('changes no foreign rows for malformed requests with row-level security enabled', async () => {
    const { leaks, changed } = await runMalformed();
    expect([...leaks, ...changed].join('\n')).toBe('');
  }, 600_000);
});

describe('texts of shadow rows', () => {
  test('marks every text of shadow rows, so that none can leak unnoticed', async () => {
    const marked = world.shadows.find(({ kind }) => kind === 'marked')?.companyId ?? '';
    const without = await inDatabase(world.shadowed, (sql) => unmarkedColumns(sql, world.tables, marked));
    // These queues are empty, because jobs process them after the writes.
    expect(without).toEqual(['reference_clearings.object', 'reference_clearings.caused_by', 'search_changes.object']);
  });

  test('returns and logs no text of shadow rows for any request', async () => {
    for (const asked of [runWithoutPolicies, runMalformed]) {
      const { answers, log } = await asked();
      expect(answers.length).toBeGreaterThan(100_000);
      expect(log.length).toBeGreaterThan(100_000);
      expect(findContexts(answers, marker)).toEqual([]);
      expect(findContexts(log, marker)).toEqual([]);
    }
  }, 600_000);
});

describe('row-level security', () => {
  test('needs every condition of every policy, and lets nothing through', async () => {
    const other = world.shadows.find(({ kind }) => kind === 'twin')?.companyId ?? '';
    const url = await newDatabase(world.shadowed);
    await inDatabase(url, async (sql) => {
      // Fills tables that are usually empty with rows of every tenant.
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
        const breaches = await rollBackAfter(sql, (inner) => breachesIn(inner, table, world.companyId, other));
        standing.push(...breaches.map((breach) => `${table.name}: ${breach}`));
      }
      expect(standing).toEqual([]);
      const survivors: string[] = [];
      for (const { name, table, statement } of mutants) {
        const breaches = await rollBackAfter(sql, async (inner) => {
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

/** Runs statements in a transaction that is rolled back. */
async function rollBackAfter<T>(sql: Sql, work: (inner: TransactionSql) => Promise<T>): Promise<T> {
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

/** Returns the occurrences of a text with their context. */
function findContexts(text: string, wanted: string): string[] {
  const pieces = text.split(wanted);
  return pieces.slice(0, -1).map((piece) => piece.slice(-200));
}

describe('conditions on a company or a mode, without row-level security', () => {
  const predicates = tenantPredicates();
  const known = predicates.filter(({ id, file }) => !Object.hasOwn(redundant, id) && !Object.hasOwn(unreached, file));
  const needed = known.filter(({ id, file }) => !Object.hasOwn(unnoticed, file) && !Object.hasOwn(unnoticed, id));
  const chosen = choose();

  function choose(): Predicate[] {
    if (isSample) return pickSample(needed, Number(wanted), seed);
    if (wanted === 'all') return needed;
    if (wanted === 'unnoticed') return known.filter((each) => !needed.includes(each));
    return known.filter(({ id }) => wanted.split(',').some((part) => id.includes(part)));
  }

  test('lists only existing conditions and files as exceptions', () => {
    const ids = new Set(predicates.flatMap(({ id, file }) => [id, file]));
    const listed = [...Object.keys(redundant), ...Object.keys(unreached), ...Object.keys(unnoticed)];
    expect(listed.filter((id) => !ids.has(id))).toEqual([]);
    expect(needed.length).toBeGreaterThan(60);
  });

  test(isSample
    ? `detects the removal of ${wanted} conditions, with MUTANTS_SEED=${seed}`
    : `detects the removal of conditions that MUTANTS selects: ${wanted}`, async () => {
    // If two rows have one id, a statement may find the live one first, so only the other mode
    // detects the mutant.
    const modes = [
      new Mode(world.alone, world.withoutPolicies, live, predicates),
      new Mode(world.aloneInTest, world.withoutPoliciesInTest, inTest, predicates),
    ];
    let survivors: readonly Predicate[] = chosen;
    if (isLong) survivors = await findSurvivors(survivors, modes, 'few');
    survivors = await findSurvivors(survivors, modes, 'all');
    // Makes sure that no mutant was caught because of elapsed time, such as an expired link.
    if (isLong) expect((await run(world.withoutPolicies, live)).leaks).toEqual([]);
    if (isLong)
      process.stdout.write(
        `${chosen.length - survivors.length} of ${chosen.length} caught; ${predicates.length - needed.length} of ${predicates.length} left out: redundant, not reached, or sampleId by no answer\n`,
      );
    expect(survivors.map(({ id }) => id)).toEqual([]);
  }, 36_000_000);
});

/** The number of requests that a condition is first tried with. */
const most = 16;

const isFirst = ({ operation, isAgain }: Probe): boolean => operation.method === 'GET' && !isAgain;

function partition<Item>(items: readonly Item[], isWanted: (item: Item) => boolean): [Item[], Item[]] {
  return [items.filter(isWanted), items.filter((item) => !isWanted(item))];
}

/** The walks of one mode: the whole one, and short ones of the requests that send a condition. */
class Mode {
  readonly #alone: string;
  readonly #withoutPolicies: string;
  readonly #whole: Walk;
  readonly #predicates: readonly Predicate[];
  #reach: Promise<Coverage> | undefined;
  readonly #parts = new Map<string, Promise<Walk>>();

  constructor(alone: string, withoutPolicies: string, whole: Walk, predicates: readonly Predicate[]) {
    this.#alone = alone;
    this.#withoutPolicies = withoutPolicies;
    this.#whole = whole;
    this.#predicates = predicates;
  }

  /** Returns true if any request or job sends the condition. */
  async reaches(id: string): Promise<boolean> {
    return (await this.#reached()).has(id);
  }

  /**
   * Tries requests that send the condition: reads first, then writes. If only jobs send it,
   * repeated reads.
   */
  async askFew(removed: Predicate): Promise<string | undefined> {
    const places = (await this.#reached()).get(removed.id);
    if (!places) return undefined;
    const { probes, testMode } = this.#whole;
    const [reading, others] = partition(places, (place) => isFirst(probes[place] as Probe));
    const read = reading.length > 0 ? await this.#ask(removed, this.#reads(spread(reading, most))) : undefined;
    if (read !== undefined || (others.length === 0 && reading.length > 0)) return read;
    const few = spread(others.length > 0 ? others : [...probes.keys()].filter((place) => probes[place]?.isAgain), most);
    const part =
      this.#parts.get(few.join()) ??
      runWalk(
        this.#alone,
        few.map((place) => probes[place] as Probe),
        testMode,
      );
    this.#parts.set(few.join(), part);
    return this.#ask(removed, await part);
  }

  /** Reads before any change return the same as in the whole walk. */
  #reads(places: readonly number[]): Walk {
    const { probes, expected, volatile, ...rest } = this.#whole;
    const taken = <Item>(all: readonly Item[]): Item[] => places.map((place) => all[place] as Item);
    return { ...rest, probes: taken(probes), expected: taken(expected), volatile: taken(volatile), clocks: new Map() };
  }

  askAll(removed: Predicate): Promise<string | undefined> {
    return this.#ask(removed, this.#whole);
  }

  /** Tries the reads of one operation before any change. */
  askOperation(removed: Predicate, operationId: string): Promise<string | undefined> {
    const { probes } = this.#whole;
    const own = probes.flatMap((probe, place) => (probe.operation.id === operationId && isFirst(probe) ? [place] : []));
    return this.#ask(removed, this.#reads(own));
  }

  async #ask(removed: Predicate, walk: Walk): Promise<string | undefined> {
    return describeConsequence(await run(this.#withoutPolicies, walk, { removed }));
  }

  #reached(): Promise<Coverage> {
    this.#reach ??= measureCoverage(this.#alone, this.#whole.probes, this.#predicates);
    return this.#reach;
  }
}

/** Returns evidence that a condition is missing. */
function describeConsequence({ leaks, changed }: Run): string | undefined {
  return leaks[0] ?? (changed.length > 0 ? `changes rows of others in ${changed.join(', ')}` : undefined);
}

/**
 * Removes conditions, one at a time.
 * @param asked few: only requests that send the condition, which detect most mutants
 * @returns the undetected ones
 */
async function findSurvivors(
  predicates: readonly Predicate[],
  modes: readonly Mode[],
  asked: 'few' | 'all',
): Promise<readonly Predicate[]> {
  const left = [...predicates];
  const survivors: Predicate[] = [];
  const lane = async (): Promise<void> => {
    for (let predicate = left.pop(); predicate; predicate = left.pop()) {
      const { id } = predicate;
      const outcome = await consequenceIn(modes, predicate, asked);
      if (!outcome.isCaught) survivors.push(predicate);
      if (isLong) process.stdout.write(`${id}: ${outcome.isCaught ? '' : 'NOT CAUGHT: '}${outcome.because}\n`);
    }
  };
  await Promise.all(Array.from({ length: Math.min(lanes, left.length) }, lane));
  return survivors;
}

async function consequenceIn(
  modes: readonly Mode[],
  removed: Predicate,
  asked: 'few' | 'all',
): Promise<{ isCaught: boolean; because: string }> {
  const reached = await Promise.all(modes.map((mode) => !isLong || mode.reaches(removed.id)));
  if (!reached.includes(true)) return { isCaught: false, because: 'nothing sends it' };
  try {
    for (const mode of modes) {
      const because = await (!isLong
        ? mode.askOperation(removed, sampleOperation)
        : asked === 'few'
          ? mode.askFew(removed)
          : mode.askAll(removed));
      if (because !== undefined) return { isCaught: true, because };
    }
    return { isCaught: false, because: 'no response changes' };
  } catch (error) {
    // The run continues with the other mutants.
    return { isCaught: false, because: (error as Error).message };
  }
}
