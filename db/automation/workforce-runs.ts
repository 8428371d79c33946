// Runs of workforces: the enrolled records, and the steps done for each.
import type { GivenStep, KeptCondition, RunStatus, StepCall } from '../../domain/automation/workforces.ts';
import { type CreatedByRow, toCreatedColumns } from '../client/created-by.ts';
import type { Sql } from '../client/pool.ts';
import { type DueDataRow, forEachTenant } from '../client/sweeping.ts';
import type { TenantScope } from '../client/tenant.ts';

/** A run as it is stored. */
export interface StoredRun {
  id: string;
  workforceId: string;
  status: RunStatus;
  object: string;
  recordId: string;
  context: Readonly<Record<string, unknown>>;
  steps: readonly GivenStep[];
  stopWhen: KeptCondition | null;
  stopWhenReplied: boolean;
  position: number;
  nextStepAt: Date | null;
  dueAt: Date | null;
  attempts: number;
  triedSince: Date | null;
  call: StepCall | null;
  errorCode: string | null;
  errorMessage: string | null;
  enrolledAt: Date;
  endedAt: Date | null;
}

export interface RunRow extends StoredRun, CreatedByRow {}

/** The result of a step. */
export interface RunStepRow {
  position: number;
  status: 'done' | 'skipped' | 'failed';
  madeObject: 'tasks' | 'notes' | 'message_drafts' | null;
  madeId: string | null;
  reason: string | null;
  errorCode: string | null;
  errorMessage: string | null;
  at: Date;
}

const columns = [
  'id',
  'workforce_id',
  'status',
  'object',
  'record_id',
  'context',
  'steps',
  'stop_when',
  'stop_when_replied',
  'position',
  'next_step_at',
  'due_at',
  'attempts',
  'tried_since',
  'call',
  'error_code',
  'error_message',
  'created_by_kind',
  'created_by_id',
  'created_by_name',
  'enrolled_at',
  'ended_at',
];
const stepColumns = ['position', 'status', 'made_object', 'made_id', 'reason', 'error_code', 'error_message', 'at'];

/** @returns false if the record already has an active run in this workforce */
export async function insertRun(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  run: StoredRun,
  by: Parameters<typeof toCreatedColumns>[0],
): Promise<boolean> {
  const { context, steps, stopWhen, ...rest } = run;
  const json = { context: sql.json(context as never), steps: sql.json(steps as never) };
  const condition = { stopWhen: stopWhen && sql.json(stopWhen as never) };
  const row = { companyId, testMode, ...rest, ...json, ...condition, ...toCreatedColumns(by) };
  const added = await sql`
    insert into workforce_runs ${sql(row as never)}
    on conflict (company_id, test_mode, workforce_id, object, record_id) where ended_at is null do nothing`;
  return added.count > 0;
}

/**
 * Returns runs of a workforce, the newest first.
 * @param after time and id of the last run of the previous page
 */
export async function listRuns(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  workforceId: string,
  status: RunStatus | undefined,
  after: readonly [string, string] | undefined,
  limit: number,
): Promise<RunRow[]> {
  return sql<RunRow[]>`
    select ${sql(columns)} from workforce_runs
    where company_id = ${companyId} and test_mode = ${testMode} and workforce_id = ${workforceId}
      ${status ? sql`and status = ${status}` : sql``}
      ${after ? sql`and (enrolled_at, id) < (${after[0]}::timestamptz, ${after[1]}::uuid)` : sql``}
    order by enrolled_at desc, id desc
    limit ${limit}`;
}

export async function findRun(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  workforceId: string,
  id: string,
): Promise<RunRow | undefined> {
  const [row] = await sql<RunRow[]>`
    select ${sql(columns)} from workforce_runs
    where company_id = ${companyId} and test_mode = ${testMode} and workforce_id = ${workforceId} and id = ${id}`;
  return row;
}

/**
 * Finds the active run of a record in a workforce.
 * @returns its id
 */
export async function findActiveRun(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  { workforceId, object, recordId }: Pick<StoredRun, 'workforceId' | 'object' | 'recordId'>,
): Promise<string | undefined> {
  const [row] = await sql<{ id: string }[]>`
    select id from workforce_runs
    where company_id = ${companyId} and test_mode = ${testMode} and workforce_id = ${workforceId} and object = ${object}
      and record_id = ${recordId} and ended_at is null`;
  return row?.id;
}

/** Returns the finished steps of a run in order. */
export async function listRunSteps(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  runId: string,
): Promise<RunStepRow[]> {
  return sql<RunStepRow[]>`
    select ${sql(stepColumns)} from workforce_run_steps
    where company_id = ${companyId} and test_mode = ${testMode} and run_id = ${runId}
    order by position`;
}

/** Returns how many active runs each of the workforces has. */
export async function countOnTheirWay(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  workforceIds: readonly string[],
): Promise<Map<string, number>> {
  const rows = await sql<{ id: string; count: number }[]>`
    select workforce_id as id, count(*)::int as count from workforce_runs
    where company_id = ${companyId} and test_mode = ${testMode} and workforce_id = any(${workforceIds as string[]}::uuid[]) and ended_at is null
    group by workforce_id`;
  return new Map(rows.map(({ id, count }) => [id, count]));
}

/** Resumes runs that were paused while their workforce was not active. */
export async function resumeRuns(sql: Sql, { companyId, testMode }: TenantScope, workforceId: string): Promise<void> {
  await sql`
    update workforce_runs set due_at = next_step_at
    where company_id = ${companyId} and test_mode = ${testMode} and workforce_id = ${workforceId} and ended_at is null and due_at is null`;
}

/** Finds due runs, the longest overdue first, and at most a few for each company. */
export async function findDueRuns(sql: Sql, ofEach: number, limit: number, now: Date): Promise<DueDataRow[]> {
  return await sql<DueDataRow[]>`
    select company_id, test_mode, id
    from (
      select company_id, test_mode, id, due_at, row_number() over (partition by company_id order by due_at) as turn
      from (
        select company_id, test_mode, id, due_at from workforce_runs where due_at <= ${now} order by due_at limit ${10 * limit}
      ) due
    ) ranked
    where turn <= ${ofEach}
    order by due_at
    limit ${limit}`;
}

/**
 * Takes a run that is due, for one server only.
 * @returns undefined if another server has it
 */
export async function takeRun(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  id: string,
  lease: number,
  now: Date,
): Promise<RunRow | undefined> {
  const [taken] = await sql<RunRow[]>`
    update workforce_runs set attempts = attempts + 1, due_at = ${new Date(now.getTime() + lease)}
    where company_id = ${companyId} and test_mode = ${testMode} and id = ${id} and due_at <= ${now}
    returning ${sql(columns)}`;
  return taken;
}

/** Changes of a run. */
export type RunChange = Partial<
  Pick<
    StoredRun,
    'status' | 'position' | 'nextStepAt' | 'dueAt' | 'triedSince' | 'call' | 'errorCode' | 'errorMessage' | 'endedAt'
  >
>;

/** @returns false if another server has taken the run since, and nothing was changed */
export async function updateRun(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  { id, attempts }: Pick<StoredRun, 'id' | 'attempts'>,
  change: RunChange,
): Promise<boolean> {
  const row = change.call ? { ...change, call: sql.json(change.call as never) } : change;
  const changed = await sql`
    update workforce_runs set ${sql(row as never)}
    where company_id = ${companyId} and test_mode = ${testMode} and id = ${id} and attempts = ${attempts}`;
  return changed.count > 0;
}

/**
 * Cancels an active run, even if a server has it. The call of a step in progress stays: see
 * noteLateStep.
 * @returns the cancelled run; undefined if none was cancelled
 */
export async function cancelRun(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  workforceId: string,
  id: string,
  now: Date,
): Promise<RunRow | undefined> {
  const [cancelled] = await sql<RunRow[]>`
    update workforce_runs
    set status = 'cancelled', attempts = attempts + 1, next_step_at = null, due_at = null, tried_since = null, ended_at = ${now}
    where company_id = ${companyId} and test_mode = ${testMode} and workforce_id = ${workforceId} and id = ${id} and ended_at is null
    returning ${sql(columns)}`;
  return cancelled;
}

/**
 * Counts a step whose call was in progress when its run was cancelled, once.
 * @returns false if there was no such step
 */
export async function noteLateStep(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  { id, position }: Pick<StoredRun, 'id' | 'position'>,
): Promise<boolean> {
  const noted = await sql`
    update workforce_runs set position = position + 1, call = null
    where company_id = ${companyId} and test_mode = ${testMode} and id = ${id} and status = 'cancelled' and call is not null and position = ${position}`;
  return noted.count > 0;
}

/** Postpones runs of a company that were not started. */
export async function postponeRun(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  id: string,
  until: Date,
  now: Date,
): Promise<void> {
  await sql`
    update workforce_runs set due_at = ${until}
    where company_id = ${companyId} and test_mode = ${testMode} and id = ${id} and due_at <= ${now}`;
}

export async function insertRunStep(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  runId: string,
  step: RunStepRow,
): Promise<void> {
  await sql`
    insert into workforce_run_steps ${sql({ companyId, testMode, runId, ...step })}`;
}

/** Returns true if the record has sent a message since. */
export async function hasReplied(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  { object, recordId, enrolledAt: since }: Pick<StoredRun, 'object' | 'recordId' | 'enrolledAt'>,
): Promise<boolean> {
  const rows = await sql`
    select from messages
    where company_id = ${companyId} and test_mode = ${testMode} and object = ${object} and record_id = ${recordId}
      and direction = 'inbound' and occurred_at > ${since}
    limit 1`;
  return rows.length > 0;
}

/** Days for which a run is kept after its end. */
const keptDays = 90;

/**
 * Removes expired runs with their steps.
 * @returns how many, at most the limit
 */
export async function sweepRuns(sql: Sql, limit: number, now: Date): Promise<number> {
  const before = new Date(now.getTime() - keptDays * 86_400_000);
  const due = await sql<DueDataRow[]>`
    select company_id, test_mode, id from workforce_runs
    where ended_at < ${before} order by ended_at limit ${limit}`;
  return forEachTenant(due, async ({ companyId, testMode }, rows) => {
    const removed = await sql`
      delete from workforce_runs
      where company_id = ${companyId} and test_mode = ${testMode} and id = any(${rows.map(({ id }) => id)}::uuid[])`;
    return removed.count;
  });
}
