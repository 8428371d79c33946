// Reservations: slots held for a few minutes. taken_times prevents double bookings.

import { type Actor, type CreatedByRow, toCreatedColumns } from '../client/created-by.ts';
import type { Sql } from '../client/pool.ts';
import { type DueDataRow, forEachTenant } from '../client/sweeping.ts';
import type { TenantScope } from '../client/tenant.ts';
import { type Reach, selectVisibleUserIds } from '../client/visibility.ts';

export interface ReservationRow extends CreatedByRow {
  id: string;
  status: 'held' | 'released' | 'consumed' | 'expired';
  userId: string;
  /** False: the caller does not see the user. */
  isAssigned: boolean;
  poolId: string;
  policyId: string;
  startAt: Date;
  endAt: Date;
  ttlSeconds: number;
  expiresAt: Date;
  hardCapAt: Date;
  createdAt: Date;
}

const columns = [
  'id',
  'status',
  'user_id',
  'is_assigned',
  'pool_id',
  'policy_id',
  'start_at',
  'end_at',
  'ttl_seconds',
  'expires_at',
  'hard_cap_at',
  'created_by_kind',
  'created_by_id',
  'created_by_name',
  'created_at',
] as const;

export type NewReservation = Omit<ReservationRow, keyof CreatedByRow>;

export async function insertReservation(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  reservation: NewReservation,
  actor: Actor,
): Promise<void> {
  const { createdByUser: _, ...creator } = toCreatedColumns({ actor, userId: null });
  await sql`insert into slot_reservations ${sql({ companyId, testMode, ...reservation, ...creator })}`;
}

/** Returns a reservation that still holds its slot. */
export async function findHeld(
  sql: Sql,
  { companyId, testMode, reach }: TenantScope & { reach: Reach },
  id: string,
  now: Date,
): Promise<ReservationRow | undefined> {
  const [row] = await sql<ReservationRow[]>`
    select ${sql(columns)} from slot_reservations
    where company_id = ${companyId} and test_mode = ${testMode} and id = ${id} and status = 'held' and expires_at > ${now}
      and ${reach.kind === 'company' ? sql`true` : sql`user_id in (${selectVisibleUserIds(sql, companyId, reach)})`}`;
  return row;
}

/**
 * Ends a reservation.
 * @returns false if it has already ended
 */
export async function endReservation(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  id: string,
  status: 'released' | 'consumed',
): Promise<boolean> {
  const ended = await sql`
    update slot_reservations set status = ${status}
    where company_id = ${companyId} and test_mode = ${testMode} and id = ${id} and status = 'held'`;
  return ended.count === 1;
}

export async function extendReservation(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  id: string,
  until: Date,
): Promise<void> {
  await sql`
    update slot_reservations set expires_at = ${until}
    where company_id = ${companyId} and test_mode = ${testMode} and id = ${id} and status = 'held'`;
}

/** Returns how many slots of a pool are held. */
export async function countHeld(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  poolId: string,
  now: Date,
): Promise<number> {
  const [row] = await sql<{ count: number }[]>`
    select count(*)::int as count from slot_reservations
    where company_id = ${companyId} and test_mode = ${testMode} and pool_id = ${poolId} and status = 'held' and expires_at > ${now}`;
  return row?.count ?? 0;
}

/** Days for which a reservation is kept. */
const keptDays = 30;

/**
 * Removes expired reservations.
 * @returns how many, at most the limit
 */
export async function sweepReservations(sql: Sql, limit: number, now: Date): Promise<number> {
  const before = new Date(now.getTime() - keptDays * 86_400_000);
  const due = await sql<DueDataRow[]>`
    select company_id, test_mode, id from slot_reservations
    where created_at < ${before} order by created_at limit ${limit}`;
  return forEachTenant(due, async ({ companyId, testMode }, rows) => {
    const removed = await sql`
      delete from slot_reservations
      where company_id = ${companyId} and test_mode = ${testMode} and id = any(${rows.map(({ id }) => id)}::uuid[])`;
    return removed.count;
  });
}

/**
 * Removes held times that have expired.
 * @returns how many, at most the limit
 */
export async function sweepHeldTimes(sql: Sql, limit: number, now: Date): Promise<number> {
  const due = await sql<DueDataRow[]>`
    select company_id, test_mode, id from taken_times
    where expires_at <= ${now} order by expires_at limit ${limit}`;
  return forEachTenant(due, async ({ companyId, testMode }, rows) => {
    // Transactions that take a time of the same user also remove these rows, in another order.
    const removed = await sql`
      delete from taken_times
      where company_id = ${companyId} and test_mode = ${testMode} and id in (
        select id from taken_times
        where company_id = ${companyId} and test_mode = ${testMode} and id = any(${rows.map(({ id }) => id)}::uuid[]) and expires_at <= ${now}
        for update skip locked
      )`;
    return removed.count;
  });
}
