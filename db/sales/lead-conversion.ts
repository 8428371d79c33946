// Finds the existing customer and account for a lead, even if two leads are converted concurrently.
import type { MatchKeys } from '../../domain/sales/lead-conversion.ts';
import type { Sql } from '../client/pool.ts';
import { lockValues } from '../client/value-locks.ts';
import { isVisibleTo, type Scope } from '../client/visibility.ts';

export interface Matches {
  customer: { id: string; accountId: string | null } | undefined;
  accountId: string | undefined;
}

/**
 * Returns the visible matching customer and account that were changed last. They cannot be deleted
 * until the transaction ends. The values are locked until then, too.
 */
export async function findMatches(sql: Sql, scope: Scope, keys: MatchKeys): Promise<Matches> {
  const locking = lockKeys(sql, scope, keys);
  const own = sql`company_id = ${scope.companyId} and test_mode = ${scope.testMode} and ${isVisibleTo(sql, scope)}`;
  const { customerId, email, mobile, company } = keys;
  // Separate statements: they must see what the locks' last holder committed.
  const customers = sql<{ id: string; accountId: string | null }[]>`
    select id, account_id
    from customers
    where ${own} and (id = ${customerId} or email collate "C" = ${email} or mobile collate "C" = ${mobile} or phone collate "C" = ${mobile})
    order by (id = ${customerId}) is true desc, updated_at desc, id desc
    limit 1
    for key share`.execute();
  const accounts = sql<{ id: string }[]>`
    select id
    from accounts
    where ${own} and name_key = fold_name(btrim(${company}::text))
    order by updated_at desc, id desc
    limit 1
    for key share`.execute();
  const [, [customer], [account]] = await Promise.all([locking, customers, accounts]);
  return { customer, accountId: account?.id };
}

function lockKeys(
  sql: Sql,
  { companyId, testMode }: Scope,
  { email, mobile, companyKey: company }: MatchKeys,
): Promise<unknown> {
  const keys = { email, mobile, company };
  const given = Object.entries(keys).filter(([, value]) => value !== null);
  return lockValues(
    sql,
    companyId,
    given.map(([key, value]) => JSON.stringify(['conversion', testMode, key, value])),
  );
}

/** Returns the first visible deal that was created from a lead. */
export async function findDealOfLead(sql: Sql, scope: Scope, leadId: string): Promise<string | null> {
  const [deal] = await sql<{ id: string }[]>`
    select id
    from deals
    where company_id = ${scope.companyId} and test_mode = ${scope.testMode} and lead_id = ${leadId} and ${isVisibleTo(sql, scope)}
    order by created_at, id
    limit 1`;
  return deal?.id ?? null;
}

/** What moved from a lead to its customer. */
export interface MovedItems {
  notes: number;
  attachments: number;
  /** The tasks, with the time of their change. */
  tasks: { id: string; changedAt: Date }[];
}

/**
 * Moves notes, attachments and tasks of a lead to the customer, regardless of who can see the tasks. Call it in the
 * transaction that has locked both.
 */
export async function moveToCustomer(
  sql: Sql,
  { companyId, testMode, actor }: Scope,
  leadId: string,
  customerId: string,
  now: Date,
): Promise<MovedItems> {
  const own = sql`company_id = ${companyId} and test_mode = ${testMode} and object = 'leads' and record_id = ${leadId}`;
  const target = sql`object = 'customers', record_id = ${customerId}`;
  const notes = sql`update notes set ${target} where ${own}`.execute();
  const attachments = sql`update attachments set ${target} where ${own}`.execute();
  // Locked in the order of the ids, as everywhere.
  const tasks = sql<MovedItems['tasks']>`
    with locked as materialized (
      select id from tasks where ${own} order by id for no key update
    )
    update tasks
    set ${target}, version = version + 1, updated_at = greatest(updated_at + interval '1 millisecond', ${now}),
      updated_by_id = ${actor.id}
    where company_id = ${companyId} and test_mode = ${testMode} and id = any(array(select id from locked))
    returning id, updated_at as changed_at`.execute();
  const [movedNotes, movedAttachments, movedTasks] = await Promise.all([notes, attachments, tasks]);
  return { notes: movedNotes.count, attachments: movedAttachments.count, tasks: [...movedTasks] };
}
