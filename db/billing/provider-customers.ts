// The customer that a company is to a payment provider, its events, and looks at it.
import { isDeepStrictEqual } from 'node:util';
import type { Sql } from '../client/pool.ts';
import { removeByCompany } from '../client/sweeping.ts';

/** Milliseconds after which whoever looks at a customer is taken for dead. */
const lease = 60_000;
/** Milliseconds after which a customer is looked at again, though nothing was heard of it. */
const lookAgain = 24 * 3_600_000;

export async function findCustomer(sql: Sql, companyId: string): Promise<string | undefined> {
  const [row] = await sql<{ customerId: string }[]>`
    select customer_id from provider_customers where company_id = ${companyId}`;
  return row?.customerId;
}

/** Who is to pay. */
export async function findPayer(sql: Sql, companyId: string): Promise<{ name: string; email: string } | undefined> {
  const [row] = await sql<{ name: string; email: string }[]>`select name, email from companies where id = ${companyId}`;
  return row;
}

/** Keeps the customer of a company, unless it has one. @returns the one that it has now */
export async function keepCustomer(sql: Sql, companyId: string, customerId: string, now: Date): Promise<string> {
  const kept = await sql`
    insert into provider_customers (company_id, customer_id, due_at, created_at)
    values (${companyId}, ${customerId}, ${new Date(now.getTime() + lookAgain)}, ${now})
    on conflict (company_id) do nothing`;
  if (kept.count === 0) return (await findCustomer(sql, companyId)) ?? customerId;
  await sql`insert into provider_customer_places (customer_id, company_id) values (${customerId}, ${companyId})`;
  return customerId;
}

/** Whose customer that is; for the platform role. */
export async function findCompanyOfCustomer(sql: Sql, customerId: string): Promise<string | undefined> {
  const [row] = await sql<{ companyId: string }[]>`
    select company_id from provider_customer_places where customer_id = ${customerId}`;
  return row?.companyId;
}

/** Keeps an event, once, and asks for a look at the customer. */
export async function takeEvent(sql: Sql, companyId: string, id: string, now: Date): Promise<void> {
  const kept = await sql`
    insert into provider_events (company_id, id, received_at) values (${companyId}, ${id}, ${now})
    on conflict (company_id, id) do nothing`;
  if (kept.count === 1)
    await sql`update provider_customers set asked = asked + 1, due_at = ${now} where company_id = ${companyId}`;
}

/** Companies whose customer is to be looked at, those first that have waited longest. @param besides companies that are left out */
export async function findDueCustomers(
  sql: Sql,
  besides: readonly string[],
  limit: number,
  now: Date,
): Promise<{ companyId: string; testMode: boolean }[]> {
  return await sql<{ companyId: string; testMode: boolean }[]>`
    select company_id, false as test_mode from provider_customers
    where due_at <= ${now} and company_id <> all(${[...besides]}::uuid[])
    order by due_at
    limit ${limit}`;
}

/** One look at a customer: what is written of it gives way to what looks with a higher number have written. */
export interface Look {
  customerId: string;
  number: number;
}

/** Begins a look. @param dueBy looks only at a customer that is due by then @returns undefined where there is nothing to look at */
export async function beginLook(sql: Sql, companyId: string, dueBy: Date | null, now: Date): Promise<Look | undefined> {
  const [look] = await sql<Look[]>`
    update provider_customers set asked = asked + 1, due_at = ${new Date(now.getTime() + lease)}
    where company_id = ${companyId} ${dueBy === null ? sql`` : sql`and due_at <= ${dueBy}`}
    returning customer_id, asked::int as number`;
  return look;
}

/** Notes that a look is written. @returns false where a later one was written already */
export async function endLook(sql: Sql, companyId: string, { number }: Look, now: Date): Promise<boolean> {
  const written = await sql`
    update provider_customers
    set written = ${number}, due_at = case when asked = ${number} then ${new Date(now.getTime() + lookAgain)}::timestamptz else due_at end
    where company_id = ${companyId} and written < ${number}`;
  return written.count === 1;
}

/** Asks for a look at a customer by a time, if none is due before. */
export async function askForLook(sql: Sql, companyId: string, by: Date): Promise<void> {
  await sql`update provider_customers set due_at = ${by} where company_id = ${companyId} and due_at > ${by}`;
}

/** A live subscription of a customer that is charged beside the one that counts. */
export interface DuplicateSubscription {
  provider_id: string;
  status: string;
  package_code: string | null;
  started_at: string;
}

export async function findDuplicates(sql: Sql, companyId: string): Promise<DuplicateSubscription[]> {
  const [row] = await sql<{ duplicates: DuplicateSubscription[] }[]>`
    select duplicates from provider_customers where company_id = ${companyId}`;
  return row?.duplicates ?? [];
}

/** Writes the duplicates of a customer. @returns those that were not known before */
export async function saveDuplicates(
  sql: Sql,
  companyId: string,
  duplicates: readonly DuplicateSubscription[],
): Promise<DuplicateSubscription[]> {
  const known = await findDuplicates(sql, companyId);
  if (isDeepStrictEqual(known, duplicates)) return [];
  await sql`update provider_customers set duplicates = ${sql.json(duplicates as never)} where company_id = ${companyId}`;
  return duplicates.filter(({ provider_id }) => !known.some((other) => other.provider_id === provider_id));
}

/** Days that the ids of events are kept: the provider sends an event again for three. */
const keptDays = 30;

/** Removes events that are past their time. @returns how many, at most the limit */
export async function sweepProviderEvents(sql: Sql, limit: number, now: Date): Promise<number> {
  const before = new Date(now.getTime() - keptDays * 86_400_000);
  const due = await sql<{ companyId: string; id: string }[]>`
    select company_id, id from provider_events where received_at < ${before} order by received_at limit ${limit}`;
  return removeByCompany(due, async (companyId, rows) => {
    const removed = await sql`
      delete from provider_events where company_id = ${companyId} and id = any(${rows.map(({ id }) => id)}::text[])`;
    return removed.count;
  });
}
