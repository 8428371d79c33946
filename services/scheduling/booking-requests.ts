// Validates booking requests beyond the OpenAPI document.

import type { BookingFilter, BookingRow } from '../../db/scheduling/bookings.ts';
import { readAddress } from '../../domain/messaging/addresses.ts';
import { bookingStatuses } from '../../domain/scheduling/bookings.ts';
import { findTimezoneProblems, type PolicySettings } from '../../domain/scheduling/policies.ts';
import { sendAtLeastOneOf, sendTogether } from '../../domain/service/messages.ts';
import { buildProblem, type FieldProblem, validationFailed } from '../../runtime/errors.ts';
import type { Call } from '../../runtime/handler.ts';

type CreateCall = Call<'createBooking'>;

/**
 * Returns the attendee's number in its stored form.
 * @throws ApiError 400 if the body does not name exactly one kind of slot, or has no address of the
 * attendee
 */
export async function readPhone(call: CreateCall): Promise<string | null> {
  const problems = findProblems(call);
  const { phone } = call.request.body.attendee;
  const read =
    phone === undefined
      ? null
      : readAddress('phone', 'attendee.phone', phone, (await call.services.loadWorkspace()).country);
  if (read && 'problem' in read) problems.push(read.problem);
  if (problems.length > 0) throw validationFailed(problems, 400);
  return read && 'value' in read ? read.value : null;
}

function findProblems({ request: { body } }: CreateCall): FieldProblem[] {
  const problems: FieldProblem[] = [];
  const held = [body.slot_token, body.reservation_id].filter((each) => each !== undefined).length;
  const others = (['member_ids', 'policy_id', 'from', 'to'] as const).filter((field) => body[field] !== undefined);
  if (held > 0) {
    for (const field of others) {
      const message = `${field} is not allowed together with slot_token and reservation_id`;
      problems.push(buildProblem(field, 'CONFLICTING_FIELDS', message));
    }
    for (const field of ['slot_token', 'reservation_id'] as const)
      if (body[field] === undefined)
        problems.push(buildProblem(field, 'REQUIRED', sendTogether(['slot_token', 'reservation_id'])));
  } else if (body.member_ids === undefined) {
    problems.push(buildProblem('member_ids', 'REQUIRED', 'Send slot_token and reservation_id, or member_ids'));
  }
  const { attendee } = body;
  if (attendee.email === undefined && attendee.phone === undefined)
    problems.push(buildProblem('attendee.email', 'REQUIRED', sendAtLeastOneOf(['attendee.email', 'attendee.phone'])));
  if (attendee.timezone !== undefined) problems.push(...findTimezoneProblems('attendee.timezone', attendee.timezone));
  for (const key of Object.keys(body.metadata ?? {})) {
    if (key.length > longestKey)
      problems.push(
        buildProblem('metadata', 'TOO_LONG', `metadata must have keys of at most ${longestKey} characters`),
      );
    if (key.trim() === '' || /[\r\n]/.test(key))
      problems.push(buildProblem('metadata', 'INVALID_FORMAT', 'metadata must have keys with text and on one line'));
  }
  const asked = body.answers?.map(({ question }) => question.trim()) ?? [];
  for (const [index, question] of asked.entries()) {
    const field = `answers[${index}].question`;
    if (asked.indexOf(question) < index)
      problems.push(buildProblem(field, 'INVALID_FORMAT', `${field} must not repeat an earlier question`));
  }
  return problems;
}

/** The maximum length of a key of `metadata`. */
const longestKey = 40;

/** @throws ApiError 400 if a required question of the policy has no answer */
export function requireAnswers({ request: { body } }: CreateCall, { questions }: PolicySettings): void {
  const answered = new Set(body.answers?.map(({ question }) => question.trim()));
  const missing = questions.filter(({ question, required }) => required && !answered.has(question.trim()));
  if (missing.length === 0) return;
  const asked = questions.map(({ question, required }) => `“${question.trim()}”${required ? ' (required)' : ''}`);
  const hint = `The policy asks ${asked.join(', ')}. Send answers as {"question", "answer"}.`;
  const problems = missing.map(({ question }, index) =>
    buildProblem(
      'answers',
      'REQUIRED',
      `answers must contain an answer to “${question.trim()}”`,
      index === 0 ? { hint } : {},
    ),
  );
  throw validationFailed(problems, 400);
}

/** @throws ApiError 400 if the time has passed, or its duration differs from the booking's */
export function refuseOtherTime({ startAt, endAt }: BookingRow, start: number, end: number, now: Date): void {
  const minutes = (endAt.getTime() - startAt.getTime()) / 60_000;
  const problems: FieldProblem[] = [];
  if (end - start !== minutes * 60_000)
    problems.push(
      buildProblem('to', 'OUT_OF_RANGE', `to must be ${minutes} minutes after from, the duration of the booking`),
    );
  if (start <= now.getTime()) problems.push(buildProblem('from', 'OUT_OF_RANGE', 'from must be in the future'));
  if (problems.length > 0) throw validationFailed(problems, 400);
}

/**
 * @throws ApiError 400 for an unknown status or object, if the interval ends before it starts, for half of a
 * record, or for a status besides `upcoming`
 */
export async function readBookingFilter(call: Call<'listBookings'>): Promise<BookingFilter> {
  const { now } = call;
  const { query } = call.request;
  const statuses = query.status?.split(',').map((each) => each.trim());
  const [from, to] = [query.from, query.to].map((time) => (time === undefined ? undefined : new Date(time)));
  const problems: FieldProblem[] = [];
  if (statuses?.some((each) => !(bookingStatuses as readonly string[]).includes(each))) {
    const message = `status must be one or more of ${bookingStatuses.join(', ')}, separated by commas`;
    problems.push(buildProblem('status', 'INVALID_OPTION', message, { allowed: bookingStatuses }));
  }
  if (from && to && from > to) problems.push(buildProblem('to', 'OUT_OF_RANGE', 'to must not be before from'));
  for (const field of ['object', 'record_id'] as const)
    if (query[field] === undefined && (query.object ?? query.record_id) !== undefined)
      problems.push(buildProblem(field, 'REQUIRED', sendTogether(['object', 'record_id'])));
  if (query.object !== undefined && !(await call.services.loadWorkspace()).objects.has(query.object))
    problems.push(buildProblem('object', 'NOT_FOUND', 'object must be the name of an object of this workspace'));
  if (query.upcoming && statuses) {
    const message = 'status is not allowed together with upcoming, which returns confirmed bookings only';
    problems.push(buildProblem('status', 'CONFLICTING_FIELDS', message));
  }
  if (problems.length > 0) throw validationFailed(problems, 400);
  const { user_id: userId, pool_id: poolId, object, record_id: recordId } = query;
  return {
    userId,
    statuses: query.upcoming ? ['confirmed'] : statuses,
    from,
    to,
    after: query.upcoming ? now : undefined,
    poolId,
    attendeeEmail: query.attendee_email?.toLowerCase(),
    record: object !== undefined && recordId !== undefined ? { object, id: recordId } : undefined,
    ascending: query.order === 'asc',
  };
}
