// Reservations: slots held for a while, extended and released.
import { v7 as uuidv7 } from 'uuid';
import { actorOf } from '../../db/client/created-by.ts';
import { findPolicy } from '../../db/scheduling/policies.ts';
import * as db from '../../db/scheduling/reservations.ts';
import { extendTime, freeTime } from '../../db/scheduling/taken-times.ts';
import type { components } from '../../generated/api.ts';
import { conflict, found, notFound, problem, validationFailed } from '../../runtime/errors.ts';
import type { Call, Handler } from '../../runtime/handler.ts';
import { demandOf } from '../../services/scheduling/bookable-users.ts';
import { alternativesFrom, claimOf, openPool } from '../../services/scheduling/slot-offers.ts';
import { type SlotToTake, takeForSomebody } from '../../services/scheduling/taking-times.ts';

const minute = 60_000;

export const createReservation: Handler<'createReservation'> = async (call) => {
  const { caller, now } = call;
  const { body } = call.request;
  const { sql } = call.db;
  const claim = claimOf(call, body.slot_token);
  if (claim.expiresAt <= now.getTime() || claim.start <= now.getTime())
    throw conflict('slot_token_expired', 'This slot token has expired. Search again.');
  const opened = await openPool(call, claim.poolId, claim.policyId, claim);
  const { policy } = opened;
  const ttl = askedSeconds(body.ttl_seconds, policy.reservation_ttl_seconds);
  const expiresAt = new Date(now.getTime() + ttl * 1000);
  const demand = demandOf(policy, (claim.end - claim.start) / minute);
  const slot: SlotToTake = { id: uuidv7(), start: claim.start, demand, expiresAt };
  const named = claim.userId === null ? opened.people : opened.people.filter(({ userId }) => userId === claim.userId);
  const taken = await takeForSomebody(call, named, opened, slot);
  if (!taken.person) {
    if (taken.isReserved) throw conflict('slot_reserved', 'This slot is held by another reservation. Search again.');
    const terms = { exposure: claim.exposure, minutes: demand.durationMinutes, timezone: claim.timezone };
    const alternatives = await alternativesFrom(call, opened, claim.start, terms);
    throw conflict('slot_conflict', 'This slot is no longer free. Search again.', { alternatives });
  }
  const { person } = taken;
  const reservation: db.NewReservation = {
    id: slot.id,
    status: 'held',
    user_id: person.userId,
    is_assigned: claim.exposure !== 'shared',
    pool_id: opened.pool.id,
    policy_id: policy.id,
    start_at: new Date(claim.start),
    end_at: new Date(claim.end),
    ttl_seconds: ttl,
    expires_at: expiresAt,
    hard_cap_at: new Date(now.getTime() + policy.reservation_hard_cap_seconds * 1000),
    created_at: now,
  };
  await db.insertReservation(sql, caller, reservation, caller.actor);
  record(call, 'create', reservation.id, { user_id: person.userId, pool_id: opened.pool.id });
  const { kind, id, name } = caller.actor;
  const row = { ...reservation, created_by_kind: kind, created_by_id: id, created_by_name: name };
  return { status: 201, data: { reservation: toReservationResponse(row, caller.testMode) } };
};

export const getReservation: Handler<'getReservation'> = async ({ caller, now, request: { path }, db: { sql } }) => {
  const row = found(await db.findHeld(sql, caller, path.id, now));
  return { status: 200, data: { reservation: toReservationResponse(row, caller.testMode) } };
};

export const extendReservation: Handler<'extendReservation'> = async (call) => {
  const { caller, now } = call;
  const { body, path } = call.request;
  const { sql } = call.db;
  const row = found(await db.findHeld(sql, caller, path.id, now));
  const policy = await findPolicy(sql, caller.companyId, row.policy_id);
  const ttl = askedSeconds(body?.ttl_seconds, policy?.reservation_ttl_seconds ?? row.ttl_seconds);
  if (row.expires_at >= row.hard_cap_at)
    throw conflict(
      'hard_cap_reached',
      'This reservation has reached its maximum duration. Book the slot, or search again.',
    );
  const until = new Date(Math.min(now.getTime() + ttl * 1000, row.hard_cap_at.getTime()));
  const expiresAt = await extendTime(sql, caller, { id: row.id, userId: row.user_id, until }, now);
  if (!expiresAt) throw notFound();
  await db.extendReservation(sql, caller, row.id, expiresAt);
  record(call, 'extend', row.id, { expires_at: expiresAt.toISOString() });
  return {
    status: 200,
    data: { reservation: toReservationResponse({ ...row, expires_at: expiresAt }, caller.testMode) },
  };
};

export const deleteReservation: Handler<'deleteReservation'> = async (call) => {
  const { caller, now } = call;
  const { path } = call.request;
  const { sql } = call.db;
  const row = found(await db.findHeld(sql, caller, path.id, now));
  // Another call may have booked or released it since it was read.
  if (!(await freeTime(sql, caller, { id: row.id, userId: row.user_id }))) throw notFound();
  await db.endReservation(sql, caller, row.id, 'released');
  record(call, 'release', row.id, {});
  return { status: 200, data: { id: row.id, released: true } };
};

/** @throws ApiError 400 for more seconds than the policy gives */
function askedSeconds(asked: number | undefined, most: number): number {
  if (asked === undefined || asked <= most) return asked ?? most;
  const message = `ttl_seconds must be at most ${most}, the limit of the policy`;
  throw validationFailed([problem('ttl_seconds', 'OUT_OF_RANGE', message)], 400);
}

function record(
  call: Pick<Call, 'db'>,
  verb: 'create' | 'extend' | 'release',
  id: string,
  metadata: Record<string, unknown>,
): void {
  call.db.record({ action: `reservation.${verb}`, object: 'reservations', recordId: id, metadata });
}

function toReservationResponse(row: db.ReservationRow, testMode: boolean): components['schemas']['Reservation'] {
  return {
    id: row.id,
    status: row.status,
    start_at: row.start_at.toISOString(),
    end_at: row.end_at.toISOString(),
    user_id: row.is_assigned ? row.user_id : null,
    pool_id: row.pool_id,
    policy_id: row.policy_id,
    ttl_seconds: row.ttl_seconds,
    expires_at: row.expires_at.toISOString(),
    hard_cap_at: row.hard_cap_at.toISOString(),
    created_by: actorOf(row),
    created_at: row.created_at.toISOString(),
    test_mode: testMode,
  };
}
