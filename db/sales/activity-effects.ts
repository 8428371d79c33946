// What logging activities does to the records that they are logged on.
import type { Fragment } from 'postgres';
import type { ChangedContact, LoggedContact } from '../../domain/records/writes.ts';
import type { Sql } from '../client/pool.ts';
import type { TenantScope } from '../client/tenant.ts';
import type { Scope } from '../client/visibility.ts';
import { isNamed } from '../records/reached.ts';
import { selectMergeSources, selectMergeTarget } from '../records/unfinished-merges.ts';

/** What an activity changed of its record; times as ISO 8601. */
export interface EntityChange extends Pick<LoggedContact, 'entityType' | 'entityId'> {
  before: Followed;
  after: Followed;
  changedAt: Date;
}

/** A tenant, and who changes its records. */
type WriteScope = TenantScope & Pick<Scope, 'actor'>;

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
  /** False if only the planned follow-up changed, which records do not show. */
  isShown: boolean;
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

/** A change that records do not show gives them no new version: no event would announce it. */
const raiseVersion = (sql: Sql, scope: WriteScope, now: Date): Fragment => sql`
  version = r.version + next.is_shown::int,
  updated_at = case when next.is_shown then ${changeTime(sql, now)} else r.updated_at end,
  updated_by_id = case when next.is_shown then ${scope.actor.id} else r.updated_by_id end`;

const tableOf = { lead: 'leads', deal: 'deals', customer: 'customers', account: 'accounts' } as const;
/** In the order in which they are locked. */
const entityTypes = ['lead', 'deal', 'customer', 'account'] as const;

/** Customers and accounts have no next follow-up. */
const hasFollowup = (type: LoggedContact['entityType']): boolean => type === 'lead' || type === 'deal';

/**
 * The start of the next confirmed meeting about a record. Bookings that a merge still moves to it
 * count as its own. Lock the record in an earlier statement, as every change of a booking does.
 */
function selectNextMeeting(sql: Sql, scope: WriteScope, entityType: LoggedContact['entityType'], now: Date): Fragment {
  return sql`(
    select min(b.start_at) from bookings b
    where b.company_id = ${scope.companyId} and b.test_mode = ${scope.testMode} and b.object = ${tableOf[entityType]}
      and b.record_id = any(array_append(array(${selectMergeSources(sql, scope, sql`r.id`)}), r.id))
      and b.start_at > ${now} and b.status = 'confirmed'
  )`;
}

/**
 * Moves last_contacted_at forward, never back. If a follow-up is given, it becomes the planned one,
 * and next_followup_at the earlier of it and the next meeting. If there are several, the last one
 * counts. Customers and accounts only have last_contacted_at.
 *
 * Lock the records in an earlier statement.
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
    const meeting = selectNextMeeting(sql, scope, entityType, now);
    const named = isNamed(sql, [...new Set(rows.map(({ entityId }) => entityId))]);
    const changed = await sql<ChangedRow[]>`
      with contact as (
        select "entityId" as id, max("contactedAt") as contacted_at,
          (array_agg("followupAt" order by position desc) filter (where "followupAt" is not null))[1] as followup_at
        from jsonb_to_recordset(${sql.json(rows)}) as c("entityId" uuid, "contactedAt" timestamptz, "followupAt" timestamptz, position int)
        group by "entityId"
      ), locked as (
        select r.id, r.last_contacted_at as contacted_before, ${followup} as followup_before,
          greatest(r.last_contacted_at, contact.contacted_at) as contacted_after,
          ${
            isFollowed
              ? sql`contact.followup_at as planned,
                case when contact.followup_at is null then r.next_followup_at else least(contact.followup_at, ${meeting}) end`
              : followup
          } as followup_after
        from ${sql(tableOf[entityType])} r
        join contact on contact.id = r.id
        where r.company_id = ${scope.companyId} and r.test_mode = ${scope.testMode} and ${named}
        order by r.id
        for no key update of r
      ), next as (
        select *, (contacted_after, followup_after) is distinct from (contacted_before, followup_before) as is_shown
        from locked
      )
      update ${sql(tableOf[entityType])} r
      set last_contacted_at = next.contacted_after,
        ${isFollowed ? sql`planned_followup_at = coalesce(next.planned, r.planned_followup_at), next_followup_at = next.followup_after,` : sql``}
        ${raiseVersion(sql, scope, now)}
      from next
      where r.company_id = ${scope.companyId} and r.test_mode = ${scope.testMode} and ${named} and r.id = next.id
        and (next.is_shown ${isFollowed ? sql`or next.planned is distinct from r.planned_followup_at and next.planned is not null` : sql``})
      returning r.id, next.contacted_before, next.followup_before,
        r.last_contacted_at as contacted_after, ${followup} as followup_after, r.updated_at, next.is_shown`;
    changes.push(...changed.filter(({ isShown }) => isShown).map((row) => toChange(entityType, row)));
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
  scope: TenantScope,
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
  return followupCleared ? [...noted, ...(await planFollowups(sql, scope, [contact], now))] : noted;
}

/**
 * Plans the follow-up of records again: the earliest future one among their activities, or none.
 * next_followup_at becomes the earlier of it and the next meeting. The activities and bookings that
 * a merge still moves to a record count as its own.
 * @returns the changes
 */
export async function planFollowups(
  sql: Sql,
  scope: WriteScope,
  entities: readonly Pick<LoggedContact, 'entityType' | 'entityId'>[],
  now: Date,
): Promise<EntityChange[]> {
  return await setFollowups(sql, scope, entities, now, (entityType) => {
    const sources = selectMergeSources(sql, scope, sql`r.id`);
    return sql`(
      select min(a.followup_at) from activities a
      where a.company_id = ${scope.companyId} and a.test_mode = ${scope.testMode} and a.entity_type = ${entityType}
        and a.entity_id = any(array_append(array(${sources}), r.id)) and a.followup_at > ${now}
    )`;
  });
}

/**
 * Sets next_followup_at of records to the earlier of their planned follow-up and their next meeting.
 * Lock the records in an earlier statement.
 * @returns the changes
 */
export async function recomputeFollowups(
  sql: Sql,
  scope: WriteScope,
  entities: readonly Pick<LoggedContact, 'entityType' | 'entityId'>[],
  now: Date,
): Promise<EntityChange[]> {
  return await setFollowups(sql, scope, entities, now, () => sql`r.planned_followup_at`);
}

async function setFollowups(
  sql: Sql,
  scope: WriteScope,
  entities: readonly Pick<LoggedContact, 'entityType' | 'entityId'>[],
  now: Date,
  selectPlanned: (entityType: LoggedContact['entityType']) => Fragment,
): Promise<EntityChange[]> {
  const changes: EntityChange[] = [];
  for (const entityType of entityTypes) {
    const ids = entities.filter((entity) => entity.entityType === entityType).map(({ entityId }) => entityId);
    if (ids.length === 0 || !hasFollowup(entityType)) continue;
    const changed = await sql<ChangedRow[]>`
      with locked as (
        select r.id, r.last_contacted_at as contacted_before, r.next_followup_at as followup_before,
          ${selectPlanned(entityType)} as planned, ${selectNextMeeting(sql, scope, entityType, now)} as meeting_at
        from ${sql(tableOf[entityType])} r
        where r.company_id = ${scope.companyId} and r.test_mode = ${scope.testMode} and r.id = any(${ids}::uuid[])
        order by r.id
        for no key update
      ), next as (
        select *, least(planned, meeting_at) as followup_after, least(planned, meeting_at) is distinct from followup_before as is_shown
        from locked
      )
      update ${sql(tableOf[entityType])} r
      set planned_followup_at = next.planned, next_followup_at = next.followup_after, ${raiseVersion(sql, scope, now)}
      from next
      where r.company_id = ${scope.companyId} and r.test_mode = ${scope.testMode} and r.id = any(${ids}::uuid[]) and r.id = next.id
        and (next.is_shown or next.planned is distinct from r.planned_followup_at)
      returning r.id, next.contacted_before, next.followup_before,
        r.last_contacted_at as contacted_after, r.next_followup_at as followup_after, r.updated_at, next.is_shown`;
    changes.push(...changed.filter(({ isShown }) => isShown).map((row) => toChange(entityType, row)));
  }
  return changes;
}
