// What logging activities does to the records that they are logged on.
import type { Fragment } from 'postgres';
import type { ChangedContact, LoggedContact } from '../../domain/records/writes.ts';
import type { Sql } from '../client/pool.ts';
import type { Scope } from '../client/visibility.ts';
import { isNamed } from '../records/reached.ts';
import { findMovingMerges, selectMergeTarget } from '../records/unfinished-merges.ts';

/** What an activity changed of its record; times as ISO 8601. */
export interface EntityChange extends Pick<LoggedContact, 'entityType' | 'entityId'> {
  before: Followed;
  after: Followed;
  changedAt: Date;
}

interface Followed {
  last_contacted_at: string | null;
  next_followup_at: string | null;
}

interface ChangedRow {
  id: string;
  contactedBefore: Date | null;
  followupBefore: Date | null;
  contactedAfter: Date | null;
  followupAfter: Date | null;
  updatedAt: Date;
}

function toChange(entityType: LoggedContact['entityType'], row: ChangedRow): EntityChange {
  const followed = (contacted: Date | null, followup: Date | null): Followed => ({
    last_contacted_at: contacted?.toISOString() ?? null,
    next_followup_at: followup?.toISOString() ?? null,
  });
  return {
    entityType,
    entityId: row.id,
    before: followed(row.contactedBefore, row.followupBefore),
    after: followed(row.contactedAfter, row.followupAfter),
    changedAt: row.updatedAt,
  };
}

/** As computeChangeTime() of domain/records/version.ts, for a row that the statement itself locks. */
const changeTime = (sql: Sql, now: Date): Fragment => sql`greatest(r.updated_at + interval '1 millisecond', ${now})`;

const tableOf = { lead: 'leads', deal: 'deals', customer: 'customers', account: 'accounts' } as const;
/** In the order in which they are locked. */
const entityTypes = ['lead', 'deal', 'customer', 'account'] as const;

/** Customers and accounts have no next follow-up. */
const hasFollowup = (type: LoggedContact['entityType']): boolean => type === 'lead' || type === 'deal';

/**
 * Moves last_contacted_at forward, never back, and sets next_followup_at if one is given. If there
 * are several, the last one counts. Customers and accounts only have last_contacted_at.
 * @returns the records that this changed. Others are not written
 */
export async function noteContacts(
  sql: Sql,
  scope: Scope,
  contacts: readonly Pick<LoggedContact, 'entityType' | 'entityId' | 'contactedAt' | 'followupAt'>[],
  now: Date,
): Promise<EntityChange[]> {
  const changes: EntityChange[] = [];
  for (const entityType of entityTypes) {
    const isFollowed = hasFollowup(entityType);
    const rows = contacts
      .filter(
        (contact) =>
          contact.entityType === entityType &&
          (contact.contactedAt ?? (isFollowed ? contact.followupAt : null)) !== null,
      )
      .map(({ entityId, contactedAt, followupAt }, position) => ({ entityId, contactedAt, followupAt, position }));
    if (rows.length === 0) continue;
    const followup = isFollowed ? sql`r.next_followup_at` : sql`null::timestamptz`;
    const named = isNamed(sql, [...new Set(rows.map(({ entityId }) => entityId))]);
    const changed = await sql<ChangedRow[]>`
      with contact as (
        select "entityId" as id, max("contactedAt") as contacted_at,
          (array_agg("followupAt" order by position desc) filter (where "followupAt" is not null))[1] as followup_at
        from jsonb_to_recordset(${sql.json(rows)}) as c("entityId" uuid, "contactedAt" timestamptz, "followupAt" timestamptz, position int)
        group by "entityId"
      ), locked as (
        select r.id, r.last_contacted_at as contacted_before, ${followup} as followup_before
        from ${sql(tableOf[entityType])} r
        join contact on contact.id = r.id
        where r.company_id = ${scope.companyId} and r.test_mode = ${scope.testMode} and ${named}
        order by r.id
        for no key update of r
      )
      update ${sql(tableOf[entityType])} r
      set last_contacted_at = greatest(r.last_contacted_at, contact.contacted_at),
        ${isFollowed ? sql`next_followup_at = coalesce(contact.followup_at, r.next_followup_at),` : sql``}
        version = r.version + 1, updated_at = ${changeTime(sql, now)}, updated_by_id = ${scope.actor.id}
      from contact
      join locked on locked.id = contact.id
      where r.company_id = ${scope.companyId} and r.test_mode = ${scope.testMode} and ${named} and r.id = contact.id
        and (greatest(locked.contacted_before, contact.contacted_at) is distinct from locked.contacted_before
          ${isFollowed ? sql`or coalesce(contact.followup_at, locked.followup_before) is distinct from locked.followup_before` : sql``})
      returning r.id, locked.contacted_before, locked.followup_before,
        r.last_contacted_at as contacted_after, ${followup} as followup_after, r.updated_at`;
    changes.push(...changed.map((row) => toChange(entityType, row)));
  }
  return changes;
}

/**
 * Locks the record that an activity is logged on. Sent before the activity itself is locked: a deletion of the record locks in
 * this order too, and two orders would be a deadlock.
 */
export function lockEntity(sql: Sql, scope: Scope, activityId: string): Promise<void> {
  return lockEntities(sql, scope, [activityId]);
}

/** Does the same for many, in the order of the ids. */
export async function lockEntities(sql: Sql, scope: Scope, activityIds: readonly string[]): Promise<void> {
  const own = sql`r.company_id = ${scope.companyId} and r.test_mode = ${scope.testMode}`;
  // PostgreSQL locks no rows of a union, so each table has a name of its own.
  const target = selectMergeTarget(sql, scope, sql`r.entity_id`);
  const locked = entityTypes.map(
    (type) => sql`, ${sql(tableOf[type])} as (
      select r.id from ${sql(tableOf[type])} r
      where ${own} and r.id = any(array(select entity_id from entity where entity_type = ${type}))
      order by r.id for no key update
    )`,
  );
  await sql`
    with entity as (
      select r.entity_type, coalesce((${target}), r.entity_id) as entity_id from activities r where ${own} and r.id = any(${activityIds as string[]}::uuid[])
    ) ${locked}
    select id from leads union all select id from deals union all select id from customers union all select id from accounts`;
}

/**
 * Locks the records that activities name by their ids, in the order of the IDs. Sends its
 * statements immediately.
 */
export async function lockNamedEntities(
  sql: Sql,
  scope: Scope,
  entities: readonly Pick<LoggedContact, 'entityType' | 'entityId'>[],
): Promise<void> {
  const own = sql`r.company_id = ${scope.companyId} and r.test_mode = ${scope.testMode}`;
  const locking = entityTypes.map((type) => {
    const ids = entities.filter(({ entityType }) => entityType === type).map(({ entityId }) => entityId);
    if (ids.length === 0) return undefined;
    return sql`
      select r.id from ${sql(tableOf[type])} r where ${own} and r.id = any(${ids}::uuid[]) order by r.id for no key update`.execute();
  });
  await Promise.all(locking);
}

/**
 * Applies an update of an activity like a new contact, as far as it changed. If the follow-up was
 * cleared, the next one is computed.
 */
export async function noteChange(sql: Sql, scope: Scope, change: ChangedContact, now: Date): Promise<EntityChange[]> {
  const { followupCleared, ...contact } = change;
  const noted = await noteContacts(sql, scope, [contact], now);
  return followupCleared ? [...noted, ...(await recomputeFollowups(sql, scope, [contact], now))] : noted;
}

/**
 * Sets next_followup_at of records to the earliest future one among their activities and confirmed
 * bookings, or to null. Those that a merge still moves to a record count as its own.
 * @returns the changes
 */
export async function recomputeFollowups(
  sql: Sql,
  scope: Scope,
  entities: readonly Pick<LoggedContact, 'entityType' | 'entityId'>[],
  now: Date,
): Promise<EntityChange[]> {
  const changes: EntityChange[] = [];
  for (const entityType of entityTypes) {
    const ids = entities.filter((entity) => entity.entityType === entityType).map(({ entityId }) => entityId);
    if (ids.length === 0 || !hasFollowup(entityType)) continue;
    const merges = (await findMovingMerges(sql, scope, ids)).filter(({ targetId }) => ids.includes(targetId));
    const sources = merges.map(({ sourceId }) => sourceId);
    const changed = await sql<ChangedRow[]>`
      with locked as (
        select r.id, r.last_contacted_at as contacted_before, r.next_followup_at as followup_before
        from ${sql(tableOf[entityType])} r
        where r.company_id = ${scope.companyId} and r.test_mode = ${scope.testMode} and r.id = any(${ids}::uuid[])
        order by r.id
        for no key update
      ), planned as (
        select coalesce(merging.target_id, ahead.entity_id) as entity_id, min(ahead.followup_at) as followup_at
        from (
          select a.entity_id, a.followup_at from activities a
          where a.company_id = ${scope.companyId} and a.test_mode = ${scope.testMode} and a.entity_type = ${entityType}
            and a.entity_id = any(${[...ids, ...sources]}::uuid[]) and a.followup_at > ${now}
          union all
          select b.record_id, b.start_at from bookings b
          where b.company_id = ${scope.companyId} and b.test_mode = ${scope.testMode} and b.object = ${tableOf[entityType]}
            and b.record_id = any(${[...ids, ...sources]}::uuid[]) and b.start_at > ${now} and b.status = 'confirmed'
        ) ahead
        left join unnest(${sources}::uuid[], ${merges.map(({ targetId }) => targetId)}::uuid[]) as merging (source_id, target_id)
          on merging.source_id = ahead.entity_id
        group by 1
      ), next as (
        select locked.*, planned.followup_at from locked left join planned on planned.entity_id = locked.id
      )
      update ${sql(tableOf[entityType])} r
      set next_followup_at = next.followup_at, version = r.version + 1, updated_at = ${changeTime(sql, now)},
        updated_by_id = ${scope.actor.id}
      from next
      where r.company_id = ${scope.companyId} and r.test_mode = ${scope.testMode} and r.id = any(${ids}::uuid[]) and r.id = next.id
        and next.followup_at is distinct from next.followup_before
      returning r.id, next.contacted_before, next.followup_before,
        r.last_contacted_at as contacted_after, r.next_followup_at as followup_after, r.updated_at`;
    changes.push(...changed.map((row) => toChange(entityType, row)));
  }
  return changes;
}
