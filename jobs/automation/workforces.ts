// Runs workforces: performs each due step once, through the operations of the API.
import * as runs from '../../db/automation/workforce-runs.ts';
import { holdWorkforce, type WorkforceRow } from '../../db/automation/workforces.ts';
import type { Sql } from '../../db/client/pool.ts';
import type { DueDataRow } from '../../db/client/sweeping.ts';
import type { Scope } from '../../db/client/visibility.ts';
import { loadWorkspaceRows } from '../../db/objects/workspace.ts';
import { countRecords, findRecord, hasRecord } from '../../db/records/records.ts';
import { findUnfinishedMerges } from '../../db/records/unfinished-merges.ts';
import {
  buildConditionFilter,
  buildStepCall,
  findCallRecord,
  findCreatedItem,
  findStepScopes,
  type KeptCondition,
  type Step,
  type StepCall,
} from '../../domain/automation/workforces.ts';
import type { Filter } from '../../domain/objects/filter.ts';
import { buildWorkspace } from '../../domain/objects/workspace.ts';
import type { TenantJobContext } from '../runner.ts';

/** An API call on behalf of a workforce. */
export interface Deed extends StepCall {
  companyId: string;
  actor: { id: string; name: string };
  /** The scopes that the call may use. */
  scopes: readonly string[];
  /** The same key for each attempt. */
  idempotencyKey: string;
}

export interface WorkforceServices {
  /** Performs a call in this process, with the same rules as over HTTP. */
  act: (deed: Deed) => Promise<{ status: number; body: unknown }>;
  /** Returns true if the workspace has paid for workforces and enabled them. */
  isOpen: (companyId: string) => Promise<boolean>;
}

type WorkforceContext = TenantJobContext & WorkforceServices;

const second = 1000;
const minute = 60 * second;
const hour = 60 * minute;

/**
 * Milliseconds, longer than a whole step takes. After that, the server that leased a run counts as
 * dead.
 */
const lease = minute;
/**
 * Limits of the pause between attempts. The pause equals the time that the step has waited so far.
 */
const pauses = { shortest: 5 * second, longest: 10 * minute };
/**
 * Time after which a failing step is abandoned. It is less than the day for which its idempotent
 * response is stored.
 */
const givenUpAfter = 12 * hour;
/** Pause until the next check if workforces are unavailable. */
const closedPause = hour;
/** Runs per tenant in one query: few, so that a large tenant does not delay others. */
const foundOfEach = 10;
/** Tenants that are processed at the same time. */
const tenantsAtOnce = 4;

/**
 * Performs steps until none is due. Several servers may run it at the same time.
 * @returns the number of runs processed
 */
export async function runWorkforces(jobContext: TenantJobContext, services: WorkforceServices): Promise<number> {
  const context: WorkforceContext = { ...jobContext, ...services };
  const { platform, batchSize, now, signal } = context;
  let looked = 0;
  for (;;) {
    const due = await platform.use((sql) => runs.findDueRuns(sql, foundOfEach, batchSize, now()));
    const companies = [...Map.groupBy(due, ({ companyId }) => companyId).values()];
    let served = 0;
    const serve = async (): Promise<void> => {
      for (let own = companies.shift(); own; own = companies.shift()) {
        for (const each of own) {
          if (signal.aborted) return;
          if (await serveOne(context, each)) served += 1;
        }
      }
    };
    await Promise.all(Array.from({ length: tenantsAtOnce }, serve));
    looked += served;
    if (served === 0 || signal.aborted) return looked;
  }
}

/** @returns false if it failed; it is due again in the next run, or when its lease expires */
async function serveOne(context: WorkforceContext, due: DueDataRow): Promise<boolean> {
  try {
    await goOn(context, due);
    return true;
  } catch (error) {
    const err = { message: (error as Error).message };
    context.log.warn({ company: due.companyId, run: due.id, err }, 'failed to continue a workforce run; will retry');
    return false;
  }
}

/** A step that needs a call. */
interface Begun {
  run: runs.RunRow;
  workforce: WorkforceRow;
  call: StepCall;
  triedSince: Date;
}

/**
 * Performs the next step of a run. The call is committed before it is sent, and its outcome
 * afterwards.
 */
async function goOn(context: WorkforceContext, { companyId, testMode, id }: DueDataRow): Promise<void> {
  const scope: Scope = {
    companyId,
    testMode,
    reach: { kind: 'company' },
    userId: null,
    actor: { kind: 'system', id: 'workforces', name: null },
  };
  const within = <T>(work: (sql: Sql) => Promise<T>): Promise<T> => context.transaction(scope, work);
  const now = context.now();
  if (!(await context.isOpen(companyId))) {
    const until = new Date(now.getTime() + closedPause);
    await within((sql) => runs.postponeRun(sql, scope, id, until, now));
    return;
  }
  const begun = await within((sql) => begin(sql, scope, id, now));
  if (!begun) return;
  const { run, workforce, call } = begun;
  const step = run.steps[run.position] as Step;
  const answer = await context.act({
    ...call,
    companyId,
    actor: { id: workforce.id, name: workforce.name },
    scopes: findStepScopes(step, run.object),
    idempotencyKey: `workforce:${run.id}:${run.position}:${findCallRecord(call)}`,
  });
  await within((sql) => finish(sql, scope, begun, answer, context.now()));
}

/**
 * Leases a run and performs what needs no call.
 * @returns the next call; undefined if there is none now
 */
async function begin(sql: Sql, scope: Scope, id: string, now: Date): Promise<Begun | undefined> {
  const run = await runs.takeRun(sql, scope, id, lease, now);
  if (!run) return undefined;
  const workforce = await holdWorkforce(sql, scope.companyId, run.workforceId);
  if (!workforce) throw new Error('a run has a workforce');
  if (workforce.status !== 'active') return void (await runs.updateRun(sql, scope, run, { dueAt: null }));
  const { call, triedSince } = run;
  if (triedSince && now.getTime() - triedSince.getTime() > givenUpAfter)
    return failed(sql, scope, run, 'SERVICE_UNAVAILABLE', 'All attempts failed for 12 hours.', now);
  if (call && triedSince) return { run, workforce, call, triedSince };
  const begun = await nextCall(sql, scope, run, now);
  if (!begun) return undefined;
  await runs.updateRun(sql, scope, run, { call: begun, triedSince: now, status: 'running' });
  return { run, workforce, call: begun, triedSince: now };
}

/**
 * Returns the call of the next step, for the current record. Steps without a call, and the end of
 * the run, are handled here.
 */
async function nextCall(sql: Sql, scope: Scope, run: runs.RunRow, now: Date): Promise<StepCall | undefined> {
  const step = run.steps[run.position] as Step | undefined;
  if (!step) return end(sql, scope, run, 'completed', now);
  const record = await findRecord(sql, scope, run.object, run.recordId);
  if (!record) return end(sql, scope, run, 'cancelled', now);
  if (run.stopWhenReplied) {
    // Runs move with a merge immediately, but replies later. An undo moves them back in the same way.
    // The merges are read first: one that ends in between has moved its replies.
    const [merging, hasReplied] = await Promise.all([
      findUnfinishedMerges(sql, scope, [run.recordId]),
      runs.hasReplied(sql, scope, run),
    ]);
    if (merging.length > 0) return postpone(sql, scope, run, now);
    if (hasReplied) return end(sql, scope, run, 'stopped', now);
  }
  const { objects, timezone } = buildWorkspace(await loadWorkspaceRows(sql, scope.companyId));
  const object = objects.get(run.object);
  if (!object) return failed(sql, scope, run, 'NOT_FOUND', `The object ${run.object} is disabled.`, now);
  const holds = async (condition: KeptCondition): Promise<boolean | undefined> => {
    const filter = buildConditionFilter(condition, object, { now, timezone });
    if (!filter) return undefined;
    const both: Filter = { and: [isRecord(record.id), filter] };
    return (await countRecords(sql, scope, run.object, both, 1)) > 0;
  };
  const misfit = 'A condition no longer matches the fields of the object.';
  const stops = run.stopWhen ? await holds(run.stopWhen) : false;
  if (stops === undefined) return failed(sql, scope, run, 'VALIDATION_ERROR', misfit, now);
  if (stops) return end(sql, scope, run, 'stopped', now);
  switch (step.kind) {
    case 'wait': {
      const until = new Date(now.getTime() + step.minutes * minute);
      return advance(sql, scope, run, { status: 'done' }, now, until);
    }
    case 'stop_when': {
      const isMet = await holds(step.condition);
      if (isMet === undefined) return failed(sql, scope, run, 'VALIDATION_ERROR', misfit, now);
      if (!isMet) return advance(sql, scope, run, { status: 'done' }, now);
      await runs.insertRunStep(sql, scope, run.id, outcome(run, { status: 'done' }, now));
      return end(sql, scope, run, 'stopped', now);
    }
    default: {
      const call = buildStepCall(step, object, record, now);
      if (!('skipped' in call)) return call;
      return advance(sql, scope, run, { status: 'skipped', reason: call.skipped }, now);
    }
  }
}

/** Tries the next step of a run again after a pause. */
async function postpone(sql: Sql, scope: Scope, run: runs.RunRow, now: Date): Promise<undefined> {
  await runs.updateRun(sql, scope, run, { dueAt: new Date(now.getTime() + pauses.shortest) });
}

const isRecord = (id: string): Filter => ({ field: 'id', op: 'eq', value: id });

/** Records the outcome of a call. Internal failures and pending calls are retried later. */
async function finish(
  sql: Sql,
  scope: Scope,
  { run, call, triedSince }: Begun,
  { status, body }: { status: number; body: unknown },
  now: Date,
): Promise<void> {
  const { data, error } = body as { data?: unknown; error?: { code: string; message: string } };
  if (status < 300) {
    const made = findCreatedItem(call, data);
    const noted = made && { madeObject: made.object, madeId: made.id };
    await advance(sql, scope, run, { status: 'done', ...noted }, now);
  } else if (status >= 500 || error?.code === 'IDEMPOTENCY_IN_PROGRESS') {
    const waited = now.getTime() - triedSince.getTime();
    const pause = Math.min(Math.max(waited, pauses.shortest), pauses.longest);
    await runs.updateRun(sql, scope, run, { dueAt: new Date(now.getTime() + pause) });
  } else if (await isMoved(sql, scope, run, call)) {
    // A merge moved the run to another record, so nothing was done. The step is built again for it.
    await runs.updateRun(sql, scope, run, { call: null, triedSince: null, dueAt: now });
  } else if (await hasRecord(sql, scope, run.object, run.recordId)) {
    await failed(sql, scope, run, error?.code ?? 'INTERNAL_ERROR', error?.message ?? '', now);
  } else await end(sql, scope, run, 'cancelled', now);
}

/** Returns true if a run is now about another record than its call. */
async function isMoved(sql: Sql, scope: Scope, run: runs.RunRow, call: StepCall): Promise<boolean> {
  const current = await runs.findRun(sql, scope, run.workforceId, run.id);
  return current !== undefined && current.recordId !== findCallRecord(call);
}

const nothing = { madeObject: null, madeId: null, reason: null, errorCode: null, errorMessage: null };

type Outcome = Pick<runs.RunStepRow, 'status'> & Partial<Omit<runs.RunStepRow, 'position' | 'at'>>;

/** Builds the row of the next step. */
const outcome = ({ position }: runs.RunRow, done: Outcome, now: Date): runs.RunStepRow => ({
  ...nothing,
  ...done,
  position,
  at: now,
});

/** Advances to the next step, now or later. */
async function advance(
  sql: Sql,
  scope: Scope,
  run: runs.RunRow,
  done: Outcome,
  now: Date,
  until?: Date,
): Promise<undefined> {
  const position = run.position + 1;
  const next = until ?? now;
  const isOver = position === run.steps.length && !until;
  const status = until ? 'waiting' : 'running';
  const change = isOver
    ? ended('completed', now)
    : { status, nextStepAt: next, dueAt: next, call: null, triedSince: null };
  const isNoted =
    (await runs.updateRun(sql, scope, run, { ...change, position } as runs.RunChange)) ||
    (await runs.noteLateStep(sql, scope, run));
  if (isNoted) await runs.insertRunStep(sql, scope, run.id, outcome(run, done, now));
}

/** Ends a run as failed at the next step. */
async function failed(
  sql: Sql,
  scope: Scope,
  run: runs.RunRow,
  code: string,
  message: string,
  now: Date,
): Promise<undefined> {
  const error = { errorCode: code, errorMessage: message };
  if (await runs.updateRun(sql, scope, run, { ...ended('failed', now), ...error }))
    await runs.insertRunStep(sql, scope, run.id, outcome(run, { status: 'failed', ...error }, now));
}

async function end(
  sql: Sql,
  scope: Scope,
  run: runs.RunRow,
  status: 'completed' | 'stopped' | 'cancelled',
  now: Date,
): Promise<undefined> {
  await runs.updateRun(sql, scope, run, ended(status, now));
}

const ended = (status: 'completed' | 'stopped' | 'cancelled' | 'failed', now: Date) => ({
  status,
  nextStepAt: null,
  dueAt: null,
  call: null,
  triedSince: null,
  endedAt: now,
});
