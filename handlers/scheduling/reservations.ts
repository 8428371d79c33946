// Reservations: slots held for a few minutes, extended and released.
import { v7 as uuidv7 } from 'uuid';
import { toActor } from '../../db/client/created-by.ts';
import { findPolicy } from '../../db/scheduling/policies.ts';
import * as db from '../../db/scheduling/reservations.ts';
import { extendTime, freeTime } from '../../db/scheduling/taken-times.ts';
import type { components } from '../../generated/api.ts';
import { buildProblem, conflict, notFound, orNotFound, validationFailed } from '../../runtime/errors.ts';
import type { Call, Handler } from '../../runtime/handler.ts';
import { toSlotDemand } from '../../services/scheduling/bookable-users.ts';
import { findAlternatives, openPool, readSlotClaim } from '../../services/scheduling/slot-offers.ts';
import { type SlotToTake, takeForSomebody } from '../../services/scheduling/taking-times.ts';

const minute = 60_000;

export const createReservation: Handler<'createReservation'> = async (call) => {
  const { caller, now } = call;
  const { body } = call.request;
  const { sql } = call.db;
  const claim = readSlotClaim(call, body.slot_token);
  if (claim.expiresAt <= now.getTime() || claim.start <= now.getTime())
    throw conflict('slot_token_expired', 'This slot token has expired. Search again.');
  const opened = await openPool(call, claim.poolId, claim.policyId, claim);
  const { policy } = opened;
  const ttl = resolveTtl(body.ttl_seconds, policy.reservationTtlSeconds);
  const expiresAt = new Date(now.getTime() + ttl * 1000);
  const demand = toSlotDemand(policy, (claim.end - claim.start) / minute);
  const slot: SlotToTake = { id: uuidv7(), start: claim.start, demand, expiresAt };
  const named = claim.userId === null ? opened.people : opened.people.filter(({ userId }) => userId === claim.userId);
  const taken = await takeForSomebody(call, named, opened, slot);
  if (!taken.person) {
    if (taken.isReserved) throw conflict('slot_reserved', 'This slot is held by another reservation. Search again.');
    const terms = { exposure: claim.exposure, minutes: demand.durationMinutes, timezone: claim.timezone };
    const alternatives = await findAlternatives(call, opened, claim.start, terms);
    throw conflict('slot_conflict', 'This slot is no longer free. Search again.', { alternatives });
  }
  const { person } = taken;
  const reservation: db.NewReservation = {
    id: slot.id,
    status: 'held',
    userId: person.userId,
    isAssigned: claim.exposure !== 'shared',
    poolId: opened.pool.id,
    policyId: policy.id,
    startAt: new Date(claim.start),
    endAt: new Date(claim.end),
    ttlSeconds: ttl,
    expiresAt,
    hardCapAt: new Date(now.getTime() + policy.reservationHardCapSeconds * 1000),
    createdAt: now,
  };
  await db.insertReservation(sql, caller, reservation, caller.actor);
  recordChange(call, 'create', reservation.id, { user_id: person.userId, pool_id: opened.pool.id });
  const { kind, id, name } = caller.actor;
  const row = { ...reservation, createdByKind: kind, createdById: id, createdByName: name };
  return { status: 201, data: { reservation: toReservationResponse(row, caller.testMode) } };
};

export const getReservation: Handler<'getReservation'> = async ({ caller, now, request: { path }, db: { sql } }) => {
  const row = orNotFound(await db.findHeld(sql, caller, path.id, now));
  return { status: 200, data: { reservation: toReservationResponse(row, caller.testMode) } };
};

export const extendReservation: Handler<'extendReservation'> = async (call) => {
  const { caller, now } = call;
  const { body, path } = call.request;
  const { sql } = call.db;
  const row = orNotFound(await db.findHeld(sql, caller, path.id, now));
  const policy = await findPolicy(sql, caller.companyId, row.policyId);
  const ttl = resolveTtl(body?.ttl_seconds, policy?.reservationTtlSeconds ?? row.ttlSeconds);
  if (row.expiresAt >= row.hardCapAt)
    throw conflict(
      'hard_cap_reached',
      'This reservation has reached its maximum duration. Book the slot, or search again.',
    );
  const until = new Date(Math.min(now.getTime() + ttl * 1000, row.hardCapAt.getTime()));
  const expiresAt = await extendTime(sql, caller, { id: row.id, userId: row.userId, until }, now);
  if (!expiresAt) throw notFound();
  await db.extendReservation(sql, caller, row.id, expiresAt);
  recordChange(call, 'extend', row.id, { expires_at: expiresAt.toISOString() });
  return {
    status: 200,
    data: { reservation: toReservationResponse({ ...row, expiresAt }, caller.testMode) },
  };
};

export const deleteReservation: Handler<'deleteReservation'> = async (call) => {
  const { caller, now } = call;
  const { path } = call.request;
  const { sql } = call.db;
  const row = orNotFound(await db.findHeld(sql, caller, path.id, now));
  // Another call may have booked or released it since it was read.
  if (!(await freeTime(sql, caller, { id: row.id, userId: row.userId }))) throw notFound();
  await db.endReservation(sql, caller, row.id, 'released');
  recordChange(call, 'release', row.id, {});
  return { status: 200, data: { id: row.id, released: true } };
};

/** @throws ApiError 400 if more seconds are requested than the policy allows */
function resolveTtl(asked: number | undefined, most: number): number {
  if (asked === undefined || asked <= most) return asked ?? most;
  const message = `ttl_seconds must be at most ${most}, the limit of the policy`;
  throw validationFailed([buildProblem('ttl_seconds', 'OUT_OF_RANGE', message)], 400);
}

function recordChange(
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
    start_at: row.startAt.toISOString(),
    end_at: row.endAt.toISOString(),
    user_id: row.isAssigned ? row.userId : null,
    pool_id: row.poolId,
    policy_id: row.policyId,
    ttl_seconds: row.ttlSeconds,
    expires_at: row.expiresAt.toISOString(),
    hard_cap_at: row.hardCapAt.toISOString(),
    created_by: toActor(row),
    created_at: row.createdAt.toISOString(),
    test_mode: testMode,
  };
}
