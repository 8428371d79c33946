// What logging activities does to the leads and deals that they are logged on.
import type { Sql } from './connect.ts';
import type { Scope } from './reach.ts';

export type EntityType = 'lead' | 'deal';

export interface Contact {
  entityType: EntityType;
  entityId: string;
  /** When somebody was in contact; null for activities that are none, such as notes. */
  contactedAt: string | null;
  /** The next contact that was agreed on; null: none. */
  followupAt: string | null;
}

const tableOf = { lead: 'leads', deal: 'deals' } as const;

/** Moves last_contacted_at forward, never back, and sets next_followup_at where one is given; of several, the last given counts. */
export async function noteContacts(sql: Sql, scope: Scope, contacts: readonly Contact[], now: Date): Promise<void> {
  for (const entityType of ['lead', 'deal'] as const) {
    const rows = contacts
      .filter((contact) => contact.entityType === entityType && (contact.contactedAt ?? contact.followupAt) !== null)
      .map((contact, index) => ({ ...contact, position: index }));
    if (rows.length === 0) continue;
    await sql`
      with contact as (
        select "entityId" as id, max("contactedAt") as contacted_at,
          (array_agg("followupAt" order by position desc) filter (where "followupAt" is not null))[1] as followup_at
        from jsonb_to_recordset(${sql.json(rows)}) as c("entityId" uuid, "contactedAt" timestamptz, "followupAt" timestamptz, position int)
        group by "entityId"
      ), locked as (
        select r.id
        from ${sql(tableOf[entityType])} r
        join contact on contact.id = r.id
        where r.company_id = ${scope.companyId} and r.test_mode = ${scope.testMode}
        order by r.id
        for no key update of r
      )
      update ${sql(tableOf[entityType])} r
      set last_contacted_at = greatest(r.last_contacted_at, contact.contacted_at),
        next_followup_at = coalesce(contact.followup_at, r.next_followup_at),
        version = r.version + 1, updated_at = ${now}
      from contact
      join locked on locked.id = contact.id
      where r.company_id = ${scope.companyId} and r.test_mode = ${scope.testMode} and r.id = contact.id`;
  }
}

/**
 * Locks the lead or deal that an activity is logged on. Sent before the activity itself is locked: whoever deletes the lead locks in
 * this order too, and two orders would be a deadlock.
 */
export async function lockEntity(sql: Sql, scope: Scope, activityId: string): Promise<void> {
  const own = sql`r.company_id = ${scope.companyId} and r.test_mode = ${scope.testMode}`;
  await sql`
    with entity as (
      select r.entity_type, r.entity_id from activities r where ${own} and r.id = ${activityId}
    ), lead as (
      select r.id from leads r where ${own} and r.id = (select entity_id from entity where entity_type = 'lead') for no key update
    ), deal as (
      select r.id from deals r where ${own} and r.id = (select entity_id from entity where entity_type = 'deal') for no key update
    )
    select id from lead union all select id from deal`;
}

/** What an update of an activity does: as a new contact, as far as it changed; a follow-up that was called off leaves the next one. */
export async function noteChange(
  sql: Sql,
  scope: Scope,
  change: Contact & { followupCleared: boolean },
  now: Date,
): Promise<void> {
  const { followupCleared, ...contact } = change;
  await noteContacts(sql, scope, [contact], now);
  if (followupCleared) await recomputeFollowup(sql, scope, contact, now);
}

/** Sets next_followup_at to the earliest one still to come among the entity's activities, or to null. */
export async function recomputeFollowup(
  sql: Sql,
  scope: Scope,
  entity: { entityType: EntityType; entityId: string },
  now: Date,
): Promise<void> {
  await sql`
    update ${sql(tableOf[entity.entityType])} r
    set next_followup_at = (
        select min(a.followup_at)
        from activities a
        where a.company_id = r.company_id and a.test_mode = r.test_mode and a.entity_type = ${entity.entityType} and a.entity_id = r.id
          and a.followup_at > ${now}
      ),
      version = r.version + 1, updated_at = ${now}
    where r.company_id = ${scope.companyId} and r.test_mode = ${scope.testMode} and r.id = ${entity.entityId}`;
}
