// The parts of a customer's profile besides the record itself.
import type { Fragment } from 'postgres';
import type { IncludeGroup, Profile } from '../../domain/sales/customer-profile.ts';
import type { Sql } from '../client/pool.ts';
import { isVisibleTo, type Scope } from '../client/visibility.ts';

/** The maximum of other customers of an account in a profile. */
const maxContacts = 99;

/**
 * Returns the visible customer with an address that was changed last, and how many others have the
 * address.
 */
export async function findCustomerByEmail(
  sql: Sql,
  scope: Scope,
  email: string,
): Promise<{ id: string; others: number } | undefined> {
  const [row] = await sql<{ id: string; matches: number }[]>`
    select id, count(*) over () as matches
    from customers
    where company_id = ${scope.companyId} and test_mode = ${scope.testMode} and email collate "C" = ${email} and ${isVisibleTo(sql, scope)}
    order by updated_at desc, id desc
    limit 1`;
  return row && { id: row.id, others: row.matches - 1 };
}

/**
 * Returns the profile of a visible customer, or undefined; groups that were not requested are null.
 */
export async function findCustomerProfile(
  sql: Sql,
  scope: Scope,
  id: string,
  groups: ReadonlySet<IncludeGroup>,
): Promise<Profile | undefined> {
  const { companyId, testMode } = scope;
  const asked = (group: IncludeGroup, found: ReturnType<typeof counted>) => (groups.has(group) ? found : sql`null`);
  const [profile] = await sql<Profile[]>`
    select
      jsonb_build_object('kind', c.created_by_kind, 'id', c.created_by_id, 'name', c.created_by_name) as created_by,
      (
        select jsonb_build_object('id', id, 'name', name)
        from accounts
        where company_id = ${companyId} and test_mode = ${testMode} and id = c.account_id and ${isVisibleTo(sql, scope)}
      ) as account,
      (
        select jsonb_build_object('id', id, 'full_name', full_name, 'email', email)
        from users
        where company_id = ${companyId} and id = c.assigned_to
      ) as assignee,
      (
        select coalesce(jsonb_agg(jsonb_build_object('id', t.id, 'name', t.name, 'color', t.color) order by t.priority, t.name, t.id), '[]')
        from record_tags r
        join tags t on t.company_id = r.company_id and t.id = r.tag_id
        where r.company_id = ${companyId} and r.test_mode = ${testMode} and r.object = 'customers' and r.record_id = c.id
      ) as tags,
      ${asked('contacts', selectContacts(sql, scope))} as contacts,
      ${asked('deals_count', counted(sql, scope, 'deals'))} as deals_count,
      ${asked('leads_count', counted(sql, scope, 'leads'))} as leads_count,
      ${asked('activities_count', activitiesCounted(sql, scope))} as activities_count
    from customers c
    where c.company_id = ${companyId} and c.test_mode = ${testMode} and c.id = ${id}`;
  return profile;
}

function selectContacts(sql: Sql, scope: Scope) {
  return sql`(
    select coalesce(jsonb_agg(to_jsonb(person) - 'created_at' order by person.created_at, person.id), '[]')
    from (
      select id, first_name, last_name, email, mobile, phone, job_title, created_at
      from customers
      where company_id = ${scope.companyId} and test_mode = ${scope.testMode} and account_id = c.account_id and id <> c.id and ${isVisibleTo(sql, scope)}
      order by created_at, id
      limit ${maxContacts}
    ) person
  )`;
}

/**
 * Returns a condition for deals or leads of the customer. A lead belongs to the customer if it was
 * converted to it, or if the customer refers to it.
 */
function own(sql: Sql, table: 'deals' | 'leads') {
  return table === 'deals' ? sql`customer_id = c.id` : sql`(converted_customer_id = c.id or id = c.lead_id)`;
}

function counted(sql: Sql, scope: Scope, table: 'deals' | 'leads') {
  return sql`(
    select count(*)
    from ${sql(table)}
    where company_id = ${scope.companyId} and test_mode = ${scope.testMode} and ${own(sql, table)} and ${isVisibleTo(sql, scope)}
  )`;
}

function activitiesCounted(sql: Sql, scope: Scope) {
  return sql`(
    select count(*)
    from activities r
    where r.company_id = ${scope.companyId} and r.test_mode = ${scope.testMode} and ${isVisibleTo(sql, scope, 'unassigned')}
      and ${isOfCustomer(sql, scope, sql`c.id`)}
  )`;
}

/**
 * Returns the condition that an activity `r` is logged on a customer, or on a lead or a deal of it.
 */
export function isOfCustomer(sql: Sql, { companyId, testMode }: Scope, customerId: Fragment): Fragment {
  return sql`(r.entity_type, r.entity_id) in (
    select 'customer', ${customerId}
    union all
    select 'deal', id
    from deals
    where company_id = ${companyId} and test_mode = ${testMode} and customer_id = ${customerId}
    union all
    select 'lead', id
    from leads
    where company_id = ${companyId} and test_mode = ${testMode}
      and (
        converted_customer_id = ${customerId}
        or id = (select lead_id from customers where company_id = ${companyId} and test_mode = ${testMode} and id = ${customerId})
      )
  )`;
}
