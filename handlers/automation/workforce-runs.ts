// Runs of workforces: enroll records, and read what was done for them.
import { v7 as uuidv7 } from 'uuid';
import * as db from '../../db/automation/workforce-runs.ts';
import { findWorkforce, holdWorkforce, type WorkforceRow } from '../../db/automation/workforces.ts';
import { toActor } from '../../db/client/created-by.ts';
import { holdRecord } from '../../db/records/records.ts';
import { type GivenStep, type SubjectType, toObjectName } from '../../domain/automation/workforces.ts';
import { isVisible } from '../../domain/records/reading.ts';
import type { components } from '../../generated/api.ts';
import { conflict, notFound, orNotFound } from '../../runtime/errors.ts';
import type { Call, Handler } from '../../runtime/handler.ts';
import { readPage } from '../../runtime/paging.ts';

type Item = components['schemas']['WorkforceRunItem'];
type Run = components['schemas']['WorkforceRun'];

export const enrollInWorkforce: Handler<'enrollInWorkforce'> = async (call) => {
  const { caller, now } = call;
  const { body, path } = call.request;
  const { sql } = call.db;
  const { subject_type: type, subject_id: subjectId } = body;
  const workforce = orNotFound(await holdWorkforce(sql, caller.companyId, path.id));
  await lockSubject(call, toObjectName(type), subjectId);
  assertAccepts(workforce, type);
  const subject = { workforce_id: workforce.id, subject_type: type, subject_id: subjectId.toLowerCase() };
  const answer = { ...subject, kind: 'workforce_run' as const };
  if (caller.testMode) {
    const detail = { would_run_steps: workforce.steps.length };
    const nothing = { run_id: null, status: null, enrolled_at: null, message: 'Nothing runs in test mode.', detail };
    const data = { ...answer, ...nothing, enrolled: false, simulated: true, test_mode: true, reason: 'test_mode' };
    return { status: 200, data };
  }
  const run = newRun(uuidv7(), workforce, toObjectName(type), subject.subject_id, body.context ?? {}, now);
  if (!(await db.insertRun(sql, caller, run, caller))) throw await alreadyEnrolled(call, run);
  call.db.record({
    action: 'workforce.enroll',
    object: run.object,
    recordId: run.recordId,
    metadata: { workforce_id: workforce.id, run_id: run.id },
  });
  const begun = { run_id: run.id, status: run.status, enrolled_at: now.toISOString(), detail: null, reason: null };
  const message = `The ${type} is enrolled.`;
  return { status: 202, data: { ...answer, ...begun, message, enrolled: true, simulated: false, test_mode: false } };
};

export const listWorkforceRuns: Handler<'listWorkforceRuns'> = async (call) => {
  const { caller } = call;
  const { path, query } = call.request;
  const { sql } = call.db;
  const { id } = orNotFound(await findWorkforce(sql, caller.companyId, path.id));
  const { rows, ...rest } = await readPage(
    call,
    ['workforce runs', id, query.status],
    (after, limit) => db.listRuns(sql, caller, id, query.status, after, limit),
    (last: db.RunRow) => [last.enrolledAt.toISOString(), last.id],
  );
  return { status: 200, data: { runs: rows.map((row) => toRunListItem(row, caller.testMode)), ...rest } };
};

export const getWorkforceRun: Handler<'getWorkforceRun'> = async (call) => {
  const { caller } = call;
  const { path } = call.request;
  const { sql } = call.db;
  const row = orNotFound(await db.findRun(sql, caller, path.id, path.run_id));
  return { status: 200, data: { run: await toRunResponse(call, row) } };
};

export const cancelWorkforceRun: Handler<'cancelWorkforceRun'> = async (call) => {
  const { caller, now } = call;
  const { path } = call.request;
  const { sql } = call.db;
  const cancelled = await db.cancelRun(sql, caller, path.id, path.run_id, now);
  const run = cancelled ?? orNotFound(await db.findRun(sql, caller, path.id, path.run_id));
  const { id, workforceId, status, object, recordId } = run;
  if (status !== 'cancelled') throw conflict('run_ended', 'This run has already ended.', { status });
  if (cancelled)
    call.db.record({
      action: 'workforce.cancel',
      object,
      recordId,
      metadata: { workforce_id: workforceId, run_id: id },
    });
  return { status: 200, data: { run: await toRunResponse(call, run) } };
};

/** @throws ApiError 404 if the caller cannot see the record */
async function lockSubject(call: Call<'enrollInWorkforce'>, object: string, id: string): Promise<void> {
  const { caller } = call;
  const { sql } = call.db;
  const workspace = await call.services.loadWorkspace();
  if (!workspace.objects.has(object) || !isVisible(object, workspace, caller)) throw notFound();
  if (!(await holdRecord(sql, caller, object, id))) throw notFound();
}

/** @throws ApiError 409 if the workforce does not accept such a record now */
function assertAccepts({ name, status, subjectTypes: allowed }: WorkforceRow, type: SubjectType): void {
  if (!allowed.includes(type))
    throw conflict('subject_type_not_allowed', `The workforce ${name} does not accept records of type ${type}.`, {
      allowed,
    });
  if (status !== 'active') throw conflict('workforce_not_active', `The workforce ${name} is not active.`, { status });
}

async function alreadyEnrolled({ caller, db: { sql } }: Pick<Call, 'db' | 'caller'>, run: db.StoredRun) {
  const id = await db.findActiveRun(sql, caller, run);
  return conflict(
    'already_enrolled',
    'This record is already enrolled in this workforce.',
    id === undefined ? {} : { run_id: id },
  );
}

function newRun(
  id: string,
  workforce: WorkforceRow,
  object: string,
  recordId: string,
  context: Readonly<Record<string, unknown>>,
  now: Date,
): db.StoredRun {
  const { steps, stopWhen, stopWhenReplied } = workforce;
  return {
    id,
    workforceId: workforce.id,
    status: 'queued',
    object,
    recordId,
    context,
    steps,
    stopWhen,
    stopWhenReplied,
    position: 0,
    nextStepAt: now,
    dueAt: now,
    attempts: 0,
    triedSince: null,
    call: null,
    errorCode: null,
    errorMessage: null,
    enrolledAt: now,
    endedAt: null,
  };
}

async function toRunResponse({ caller, db: { sql } }: Pick<Call, 'db' | 'caller'>, row: db.RunRow): Promise<Run> {
  const done = new Map((await db.listRunSteps(sql, caller, row.id)).map((step) => [step.position, step]));
  const steps = row.steps.map((step, position) => toStepResponse(step, position, done.get(position)));
  return { ...toRunListItem(row, caller.testMode), steps };
}

function toRunListItem(row: db.RunRow, testMode: boolean): Item {
  return {
    id: row.id,
    workforce_id: row.workforceId,
    subject_type: row.object.slice(0, -1) as SubjectType,
    subject_id: row.recordId,
    status: row.status,
    context: { ...row.context },
    step_count: row.steps.length,
    steps_done: row.position,
    next_step_at: row.nextStepAt?.toISOString() ?? null,
    error: toError(row),
    enrolled_by: toActor(row),
    enrolled_at: row.enrolledAt.toISOString(),
    ended_at: row.endedAt?.toISOString() ?? null,
    test_mode: testMode,
  };
}

function toStepResponse({ kind }: GivenStep, position: number, done: db.RunStepRow | undefined): Run['steps'][number] {
  return {
    step: position + 1,
    kind,
    status: done?.status ?? 'pending',
    at: done?.at.toISOString() ?? null,
    made: done?.madeObject && done.madeId ? { object: done.madeObject, id: done.madeId } : null,
    reason: done?.reason ?? null,
    error: done ? toError(done) : null,
  };
}

function toError({ errorCode: code, errorMessage: message }: Pick<db.RunRow, 'errorCode' | 'errorMessage'>) {
  return code === null ? null : { code, message: message ?? '' };
}
