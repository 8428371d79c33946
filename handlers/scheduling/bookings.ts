// Bookings: create from a hold or for the first free user, read, reschedule and cancel.
import { v7 as uuidv7 } from 'uuid';
import { toActor } from '../../db/client/created-by.ts';
import * as db from '../../db/scheduling/bookings.ts';
import { findCalendar } from '../../db/scheduling/calendars.ts';
import { lockFollowedRecord } from '../../db/scheduling/followed-records.ts';
import { findMembers } from '../../db/scheduling/members.ts';
import { countTurn, lockTurns } from '../../db/scheduling/pools.ts';
import { endReservation, findHeld, type ReservationRow } from '../../db/scheduling/reservations.ts';
import { bookHeldTime, countAhead, freeTime, moveTime } from '../../db/scheduling/taken-times.ts';
import type { AssignmentStrategy, Candidate } from '../../domain/scheduling/assignment.ts';
import { chooseMember } from '../../domain/scheduling/assignment.ts';
import { toBookingResponse } from '../../domain/scheduling/booking-view.ts';
import {
  type BookingProvider,
  fillMeetingUrl,
  getMeetingUrl,
  listGuests,
  type StoredBooking,
} from '../../domain/scheduling/bookings.ts';
import type { FreeSlot } from '../../domain/scheduling/slots.ts';
import { isKnown } from '../../domain/scheduling/user-availability.ts';
import type { Interval } from '../../domain/service/intervals.ts';
import { buildProblem, conflict, notFound, orNotFound, validationFailed } from '../../runtime/errors.ts';
import type { Call, Handler } from '../../runtime/handler.ts';
import { readPage } from '../../runtime/paging.ts';
import { requireAboutRecord } from '../../services/records/about-record.ts';
import {
  findPeople,
  findPolicies,
  findUsersIn,
  type Person,
  type Policies,
  resolveWindow,
  toSlotDemand,
  unknownUsers,
} from '../../services/scheduling/bookable-users.ts';
import { type BookingCall, recordBookingChange } from '../../services/scheduling/booking-changes.ts';
import { updateFollowup } from '../../services/scheduling/booking-followups.ts';
import {
  readBookingFilter,
  readPhone,
  refuseOtherTime,
  requireAnswers,
} from '../../services/scheduling/booking-requests.ts';
import {
  addBuffers,
  computeAlternativesInterval,
  conflictWithAlternatives,
  readLiveTimes,
} from '../../services/scheduling/live-alternatives.ts';
import { askCalendar, type LiveTimes, readAhead } from '../../services/scheduling/outside-calendars.ts';
import {
  findAlternatives,
  findNextSlots,
  findSlot,
  findSlotsWithin,
  getFirstStretch,
  listUnknown,
  noCalendar,
  openPool,
  readSlotClaim,
} from '../../services/scheduling/slot-offers.ts';
import { takeFor } from '../../services/scheduling/taking-times.ts';

type CreateCall = Call<'createBooking'>;

/** Times that are tried, the earliest first, before the call fails. */
const maxTimes = 20;

export const listBookings: Handler<'listBookings'> = async (call) => {
  const { caller } = call;
  const { query } = call.request;
  const { sql } = call.db;
  const filter = await readBookingFilter(call);
  const { rows, ...rest } = await readPage(
    call,
    [
      ...['bookings', query.user_id, query.status, query.from, query.to],
      ...[query.upcoming, query.pool_id, query.attendee_email, query.object, query.record_id, query.order],
    ],
    (after, limit) => db.listBookings(sql, caller, filter, after, limit),
    (last: db.BookingRow) => [last.startAt.toISOString(), last.id],
  );
  return { status: 200, data: { bookings: rows.map((row) => toResponse(row, caller.testMode)), ...rest } };
};

export const getBooking: Handler<'getBooking'> = async ({ caller, request: { path }, db: { sql } }) => {
  const row = orNotFound(await db.findBooking(sql, caller, path.id));
  return { status: 200, data: { booking: toResponse(row, caller.testMode) } };
};

export const createBooking: Handler<'createBooking'> = async (call) => {
  const { body } = call.request;
  const phone = await readPhone(call);
  const id = uuidv7();
  const { userId, userName, provider, policies, poolId, start, end, timezone } =
    body.reservation_id === undefined ? await takeEarliest(call, id) : await takeHeld(call, id, body.reservation_id);
  const { caller, now } = call;
  const about = await requireAboutRecord(call, body);
  const { attendee } = body;
  const meeting = {
    title: body.meeting.title.trim(),
    description: body.meeting.description ?? null,
    locationKind: body.meeting.location_kind ?? policies.policy.meetingLocationKind,
    location: body.meeting.location ?? null,
  };
  const { meetingUrlTemplate: template } = policies.policy;
  if (meeting.location === null && meeting.locationKind === 'video' && template !== null)
    meeting.location = fillMeetingUrl(template, id);
  const attendeeEmail = attendee.email?.toLowerCase() ?? null;
  const booking: StoredBooking = {
    id,
    status: 'confirmed',
    userId,
    poolId,
    policyId: policies.policy.id,
    startAt: new Date(start),
    endAt: new Date(end),
    timezone: policies.policy.timezone,
    attendeeName: attendee.name.trim(),
    attendeeEmail,
    attendeePhone: phone,
    attendeeTimezone: attendee.timezone ?? timezone,
    attendeeLocale: attendee.locale ?? null,
    guests: listGuests(body.guests ?? [], attendeeEmail),
    answers: body.answers?.map(({ question, answer }) => ({ question: question.trim(), answer })) ?? [],
    metadata: body.metadata ?? {},
    meetingTitle: meeting.title,
    meetingDescription: meeting.description,
    locationKind: meeting.locationKind,
    location: meeting.location,
    meetingUrl: getMeetingUrl(meeting),
    provider,
    calendarEventLink: null,
    object: about.object,
    recordId: about.recordId,
    rescheduledFrom: null,
    rescheduledTo: null,
    cancelledAt: null,
    cancellationReason: null,
    invitationId: id,
    invitationSequence: 0,
    createdAt: now,
    updatedAt: now,
  };
  await db.insertBooking(call.db.sql, caller, booking, caller.actor);
  const row = { ...booking, userName, ...toCreator(caller.actor) };
  await recordBookingChange(call, 'scheduled', row, {});
  return { status: 201, data: { booking: toResponse(row, caller.testMode) } };
};

export const rescheduleBooking: Handler<'rescheduleBooking'> = async (call) => {
  const { caller, now } = call;
  const { body, path } = call.request;
  const [start, end] = [Date.parse(body.from), Date.parse(body.to)];
  const before = orNotFound(await db.findBooking(call.db.sql, caller, path.id));
  assertConfirmed(before);
  refuseOtherTime(before, start, end, now);
  const [user] = await findMembers(call.db.sql, { ...caller, reach: { kind: 'company' } }, [before.userId]);
  if (!user?.isActive) throw inactive(before.userName);
  if (await askCalendar(call, before.userId, { start, end }, before.id))
    throw await conflictWithAlternatives(call, before, start, 'outside');
  const row = await lockBooking(call, before);
  assertConfirmed(row);
  const id = uuidv7();
  const move = {
    bookingId: row.id,
    newId: id,
    userId: row.userId,
    startAt: new Date(start),
    endAt: new Date(end),
    later: start - row.startAt.getTime(),
  };
  if (!(await moveTime(call.db.sql, caller, move, now))) throw await conflictWithAlternatives(call, row, start, 'here');
  const sequence = row.invitationSequence + 1;
  const { userName, createdByKind: _kind, createdById: _id, createdByName: _name, ...stored } = row;
  const moved: StoredBooking = {
    ...stored,
    id,
    provider: await findProvider(call, row.userId),
    startAt: move.startAt,
    endAt: move.endAt,
    calendarEventLink: null,
    rescheduledFrom: row.id,
    invitationSequence: sequence,
    createdAt: now,
    updatedAt: now,
  };
  const ended = { status: 'rescheduled', rescheduledTo: id, cancelledAt: null, cancellationReason: null } as const;
  await db.endBooking(call.db.sql, caller, row.id, { ...ended, invitationSequence: sequence }, now);
  await db.insertBooking(call.db.sql, caller, moved, caller.actor);
  const created = { ...moved, userName, ...toCreator(caller.actor) };
  await recordBookingChange(call, 'rescheduled', created, { before: row, reason: body.reason });
  return { status: 200, data: { booking: toResponse(created, caller.testMode) } };
};

export const cancelBooking: Handler<'cancelBooking'> = async (call) => {
  const { caller, now } = call;
  const { body, path } = call.request;
  const { sql } = call.db;
  const row = await lockBooking(call, orNotFound(await db.findBooking(sql, caller, path.id)));
  if (row.status === 'cancelled') return { status: 200, data: { booking: toResponse(row, caller.testMode) } };
  assertConfirmed(row);
  const end = {
    status: 'cancelled',
    rescheduledTo: null,
    cancelledAt: now,
    cancellationReason: body?.reason ?? null,
    invitationSequence: row.invitationSequence + 1,
  } as const;
  await db.endBooking(sql, caller, row.id, end, now);
  await freeTime(sql, caller, { id: row.id, userId: row.userId });
  const cancelled = { ...row, ...end, updatedAt: now };
  await recordBookingChange(call, 'cancelled', cancelled, { reason: body?.reason });
  return { status: 200, data: { booking: toResponse(cancelled, caller.testMode) } };
};

export const markBookingNoShow: Handler<'markBookingNoShow'> = async (call) => {
  const { caller, now } = call;
  const { sql } = call.db;
  const row = await lockBooking(call, orNotFound(await db.findBooking(sql, caller, call.request.path.id)));
  if (row.status === 'no_show') return { status: 200, data: { booking: toResponse(row, caller.testMode) } };
  if (row.status !== 'completed') assertConfirmed(row);
  if (row.startAt > now)
    throw conflict(
      'not_started',
      `This booking begins at ${row.startAt.toISOString()}. Until then, cancel it instead.`,
      {
        start_at: row.startAt.toISOString(),
      },
    );
  const { rescheduledTo, cancelledAt, cancellationReason, invitationSequence } = row;
  const end = { rescheduledTo, cancelledAt, cancellationReason, invitationSequence, status: 'no_show' } as const;
  await db.endBooking(sql, caller, row.id, end, now);
  const metadata = { user_id: row.userId, start_at: row.startAt.toISOString() };
  const changes = { status: { from: row.status, to: end.status } };
  call.db.record({ action: 'booking.no_show', object: 'bookings', recordId: row.id, changes, metadata });
  await updateFollowup(call, row);
  return { status: 200, data: { booking: toResponse({ ...row, ...end, updatedAt: now }, caller.testMode) } };
};

/** Locks a booking, and its record before it. @throws ApiError 404 if it no longer exists */
async function lockBooking(
  { caller, db: { sql } }: Pick<Call, 'caller' | 'db'>,
  found: db.BookingRow,
): Promise<db.BookingRow> {
  await lockFollowedRecord(sql, caller, found);
  return orNotFound(await db.lockBooking(sql, caller, found.id));
}

/** Locks the record that the body of a new booking names, before the time of a user is taken. */
function lockNamedRecord({ caller, db: { sql }, request: { body } }: CreateCall): Promise<void> {
  return lockFollowedRecord(sql, caller, { object: body.object ?? 'leads', recordId: body.record_id ?? null });
}

const inactive = (userName: string) => conflict('no_eligible_rep', `${userName} is no longer active.`);

/** Returns the calendar that stores new bookings of a user. */
async function findProvider({ caller, db: { sql } }: BookingCall, userId: string): Promise<BookingProvider> {
  if (caller.testMode) return 'test';
  return (await findCalendar(sql, caller.companyId, userId))?.provider ?? 'internal';
}

const toResponse = (row: db.BookingRow, testMode: boolean) => toBookingResponse(row, toActor(row), testMode);

const toCreator = ({ kind, id, name }: Call['caller']['actor']) => ({
  createdByKind: kind,
  createdById: id,
  createdByName: name,
});

/** The time that was taken for a booking. */
interface Taken {
  userId: string;
  userName: string;
  provider: BookingProvider;
  policies: Policies;
  poolId: string | null;
  start: number;
  end: number;
  /** The time zone of the searcher. */
  timezone: string | null;
}

/**
 * Turns the held time into a booked one, without a gap.
 * @throws ApiError 404 if it is no longer held; 400 if the token belongs to another slot; 409 if
 * the person has become busy in an external calendar
 */
async function takeHeld(call: CreateCall, id: string, reservationId: string): Promise<Taken> {
  const { caller, now } = call;
  const claim = readSlotClaim(call, call.request.body.slot_token ?? '');
  const held = orNotFound(await findHeld(call.db.sql, caller, reservationId, now));
  if (!matchesClaim(held, claim))
    throw validationFailed(
      [buildProblem('reservation_id', 'INVALID_FORMAT', 'reservation_id and slot_token must refer to the same slot')],
      400,
    );
  const [policies, [user]] = await Promise.all([
    findPolicies(call, held.policyId),
    findMembers(call.db.sql, caller, [held.userId]),
  ]);
  requireAnswers(call, policies.policy);
  if (!user?.isActive) throw inactive(user?.fullName ?? 'The reserved user');
  if (await askCalendar(call, user.id, addBuffers(claim, policies.policy))) {
    const live = await readLiveTimes(call, user.id, claim.start, policies.policy);
    const opened = await openPool(call, held.poolId, held.policyId, claim, { live });
    const terms = { exposure: claim.exposure, minutes: (claim.end - claim.start) / 60_000, timezone: claim.timezone };
    const alternatives = await findAlternatives(call, opened, claim.start, terms, live);
    throw conflict('slot_conflict', `${user.fullName} has another event in the calendar at this time.`, {
      alternatives,
    });
  }
  const { sql } = call.db;
  await lockNamedRecord(call);
  // Turns before people, in the same order as assignments.
  const rotation = await lockTurns(sql, caller.companyId, held.poolId);
  const times = { reservationId: held.id, bookingId: id, userId: user.id };
  const isBooked = await bookHeldTime(sql, caller, times, now);
  if (!isBooked || !(await endReservation(sql, caller, held.id, 'consumed'))) throw notFound();
  if (rotation !== undefined) await countTurn(sql, caller, { id: held.poolId, rotation }, user.id);
  return {
    userId: user.id,
    userName: user.fullName,
    provider: await findProvider(call, user.id),
    policies,
    poolId: held.poolId,
    start: claim.start,
    end: claim.end,
    timezone: claim.timezone,
  };
}

function matchesClaim(held: ReservationRow, claim: ReturnType<typeof readSlotClaim>): boolean {
  return (
    held.poolId === claim.poolId &&
    held.policyId === claim.policyId &&
    held.startAt.getTime() === claim.start &&
    held.endAt.getTime() === claim.end
  );
}

/**
 * Takes the earliest time at which one of the members can be booked.
 * @throws ApiError 409 if there is none
 */
async function takeEarliest(call: CreateCall, id: string): Promise<Taken> {
  const { caller, now } = call;
  const { body } = call.request;
  const within = resolveWindow(now, body.from, body.to);
  const ids = (body.member_ids ?? []).map((each) => each.toLowerCase());
  const users = await findUsersIn(call, 'member_ids', ids, caller.reach);
  const inactive = users.filter(({ isActive }) => !isActive).map((user) => user.id);
  if (inactive.length > 0) throw unknownUsers('member_ids', inactive);
  const policies = await findPolicies(call, body.policy_id);
  const { policy } = policies;
  requireAnswers(call, policy);
  const live = new Map<string, readonly Interval[] | null>();
  // Each pass ends the search, or reads one more calendar that has changed since it was last read.
  for (;;) {
    const people = await findPeople(call, users, policies, getFirstStretch(within), { live });
    const usable = people.filter(({ calendar }) => isKnown(calendar));
    if (usable.length === 0) throw noCalendar('these users', listUnknown(people));
    const named = findSlot(within, policy, usable, now);
    const { slots } = named
      ? { slots: [named] }
      : await findSlotsWithin(call, policies, users, within, undefined, maxTimes, { people, live });
    const found = await takeFirstFree(call, id, slots, usable, policy, live);
    if (found?.person)
      return {
        userId: found.person.userId,
        userName: found.person.fullName,
        provider: found.person.provider,
        policies,
        poolId: null,
        start: found.slot.start,
        end: found.slot.end,
        timezone: null,
      };
    if (!found) break;
    live.set(
      found.changed,
      await readAhead(call, found.changed, computeAlternativesInterval(call, within.start, policy)),
    );
  }
  const slots = await findNextSlots(call, policies, users, within.end, undefined, live);
  const alternatives = slots.map((slot) => ({
    start_at: new Date(slot.start).toISOString(),
    end_at: new Date(slot.end).toISOString(),
    user_ids: slot.userIds,
  }));
  throw conflict('no_slot', 'No user is available at this time.', { alternatives });
}

/**
 * Takes the earliest of these slots at which one of the people can be booked.
 * @returns the slot and the person; or the person whose current calendar conflicts with a slot and
 * was not read in this call before; undefined if no one can be booked
 */
async function takeFirstFree(
  call: CreateCall,
  id: string,
  slots: readonly FreeSlot[],
  people: readonly Person[],
  policy: Policies['policy'],
  live: LiveTimes,
): Promise<{ slot: FreeSlot; person: Person } | { person: undefined; changed: string } | undefined> {
  const ids = people.map(({ userId }) => userId);
  const choice = await rankUsers(call, ids, policy.assignmentStrategy);
  const byId = new Map(people.map((person) => [person.userId, person]));
  for (const slot of slots) {
    const left = new Set(slot.userIds);
    for (;;) {
      const person = byId.get(chooseMember(choice.strategy, choice.candidates, left) ?? '');
      if (!person) break;
      left.delete(person.userId);
      const { userId } = person;
      if (person.provider === 'caldav' && (await askCalendar(call, userId, addBuffers(slot, policy)))) {
        if (live.has(userId)) continue;
        return { person: undefined, changed: userId };
      }
      await lockNamedRecord(call);
      const attempt = { id, start: slot.start, demand: toSlotDemand(policy), expiresAt: null };
      if ((await takeFor(call, person, attempt)) === 'taken') return { slot, person };
    }
  }
  return undefined;
}

/** Turns belong to pools. Users without a pool are ranked by their number of future meetings. */
async function rankUsers(
  { caller, now, db: { sql } }: CreateCall,
  ids: readonly string[],
  strategy: AssignmentStrategy,
): Promise<{ strategy: AssignmentStrategy; candidates: Candidate[] }> {
  const ahead = await countAhead(sql, caller, ids, now);
  return {
    strategy: strategy === 'round_robin' ? 'least_busy' : strategy,
    candidates: ids.map((userId) => ({ userId, weight: 1, assigned: 0, load: ahead.get(userId) ?? 0 })),
  };
}

/** @throws ApiError 409 if the booking is no longer confirmed */
function assertConfirmed(row: db.BookingRow): void {
  if (row.status === 'confirmed') return;
  throw conflict('not_confirmed', `Only confirmed bookings can be changed. This one is ${row.status}.`, {
    booking_status: row.status,
  });
}
