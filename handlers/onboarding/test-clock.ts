// The clock of test mode: read, advanced, and returned to the real time.

import { findClockAhead } from '../../db/client/test-clocks.ts';
import { advanceClock, hasDueWork, removeClock, resumeSomeSending } from '../../db/onboarding/test-clock.ts';
import { buildFieldProblem } from '../../domain/objects/field-values.ts';
import type { components } from '../../generated/api.ts';
import { conflict, validationFailed } from '../../runtime/errors.ts';
import type { Call, Handler } from '../../runtime/handler.ts';
import { toTenantTime } from '../../runtime/test-time.ts';

type ClockCall = Pick<Call, 'caller' | 'arrivedAt' | 'db'>;

/** The seconds by which a clock may be ahead: two years. */
const maxAheadSeconds = 2 * 365 * 86_400;

/** Deliveries and messages that are resumed in one transaction. */
const resumedAtOnce = 2000;

export const getTestClock: Handler<'getTestClock'> = async (call) => {
  const ahead = await findClockAhead(call.db.sql, call.caller);
  return { status: 200, data: { clock: await toTestClock(call, ahead) } };
};

export const advanceTestClock: Handler<'advanceTestClock'> = async (call) => {
  const { caller, arrivedAt, now } = call;
  const { sql } = call.db;
  const change = readChange(call);
  const isBackwards = 'to' in change && change.time < now;
  const ahead = isBackwards ? undefined : await advanceClock(sql, caller.companyId, change);
  if (ahead === undefined) {
    // Another call may have advanced it since this one was authenticated.
    const current = toClockTime(arrivedAt, await findClockAhead(sql, caller));
    throw conflict('clock_backwards', 'The clock of test mode only goes forwards. Send a later time.', {
      now: current.toISOString(),
    });
  }
  if (ahead > maxAheadSeconds) throw tooFar('to' in change ? 'set_to' : 'advance_seconds');
  const clock = await toTestClock(call, ahead);
  call.db.record({
    action: 'test_clock.advance',
    metadata: { now: toClockTime(arrivedAt, ahead).toISOString(), offset_seconds: ahead },
  });
  return { status: 200, data: { clock } };
};

export const resetTestClock: Handler<'resetTestClock'> = async (call) => {
  const { caller, arrivedAt, db } = call;
  const resume = (sql: typeof db.sql) => resumeSomeSending(sql, caller.companyId, arrivedAt, resumedAtOnce);
  if ((await findClockAhead(db.sql, caller)) > 0) {
    // Before the clock is removed, so that a call that is interrupted can be repeated.
    for (let last = resumedAtOnce; last >= resumedAtOnce; ) last = await db.inSeparateTransaction(resume);
    const before = await removeClock(db.sql, caller.companyId, arrivedAt);
    // Those that were postponed meanwhile.
    await resume(db.sql);
    if (before > 0) db.record({ action: 'test_clock.reset', metadata: { offset_seconds: before } });
  }
  return { status: 200, data: { clock: await toTestClock(call, 0) } };
};

/** @throws ApiError 400 if neither or both fields are sent, 422 if the time is too far ahead */
function readChange({ arrivedAt, request: { body } }: Call<'advanceTestClock'>): Parameters<typeof advanceClock>[2] & {
  time: Date;
} {
  const { advance_seconds: seconds, set_to: text } = body;
  if (seconds === undefined && text === undefined)
    throw validationFailed([buildFieldProblem('advance_seconds', 'REQUIRED', 'or set_to is required')], 400);
  if (seconds !== undefined && text !== undefined)
    throw validationFailed(
      [buildFieldProblem('set_to', 'CONFLICTING_FIELDS', 'cannot be sent with advance_seconds')],
      400,
    );
  if (seconds !== undefined) return { by: seconds, time: arrivedAt };
  const time = new Date(text as string);
  const to = Math.ceil((time.getTime() - arrivedAt.getTime()) / 1000);
  // Before it is stored, because the number may be too large for that.
  if (to > maxAheadSeconds) throw tooFar('set_to');
  return { to, time };
}

const tooFar = (field: string) =>
  validationFailed(
    [buildFieldProblem(field, 'RULE_FAILED', 'must leave the clock at most two years ahead of the real time')],
    422,
  );

async function toTestClock(
  { arrivedAt, caller, db: { sql } }: ClockCall,
  ahead: number,
): Promise<components['schemas']['TestClock']> {
  const now = toClockTime(arrivedAt, ahead);
  const isDue = await hasDueWork(sql, caller.companyId, now);
  return { now: now.toISOString(), offset_seconds: ahead, status: isDue ? 'advancing' : 'ready' };
}

const toClockTime = (time: Date, clockAheadSeconds: number): Date =>
  toTenantTime(time, { testMode: true, clockAheadSeconds });
