// The customer of a company at a payment provider, its events, and synchronization with it.
import { isDeepStrictEqual } from 'node:util';
import type { Sql } from '../client/pool.ts';
import { removeByCompany } from '../client/sweeping.ts';

/** Milliseconds after which a server that reads a customer counts as dead. */
const lease = 60_000;
/** Milliseconds after which a customer is read again, even without an event. */
const rereadAfter = 24 * 3_600_000;

export async function findCustomer(sql: Sql, companyId: string): Promise<string | undefined> {
  const [row] = await sql<{ customerId: string }[]>`
    select customer_id from provider_customers where company_id = ${companyId}`;
  return row?.customerId;
}

/** Returns the name and address for invoices. */
export async function findPayer(sql: Sql, companyId: string): Promise<{ name: string; email: string } | undefined> {
  const [row] = await sql<{ name: string; email: string }[]>`select name, email from companies where id = ${companyId}`;
  return row;
}

/**
 * Stores the customer of a company, unless it already has one.
 * @returns the stored one
 */
export async function keepCustomer(sql: Sql, companyId: string, customerId: string, now: Date): Promise<string> {
  const kept = await sql`
    insert into provider_customers (company_id, customer_id, due_at, created_at)
    values (${companyId}, ${customerId}, ${new Date(now.getTime() + rereadAfter)}, ${now})
    on conflict (company_id) do nothing`;
  if (kept.count === 0) return (await findCustomer(sql, companyId)) ?? customerId;
  await sql`insert into provider_customer_places (customer_id, company_id) values (${customerId}, ${companyId})`;
  return customerId;
}

/** Returns the company of a customer. For the platform role. */
export async function findCompanyOfCustomer(sql: Sql, customerId: string): Promise<string | undefined> {
  const [row] = await sql<{ companyId: string }[]>`
    select company_id from provider_customer_places where customer_id = ${customerId}`;
  return row?.companyId;
}

/** Stores an event, once, and schedules a read of the customer. */
export async function takeEvent(sql: Sql, companyId: string, id: string, now: Date): Promise<void> {
  const kept = await sql`
    insert into provider_events (company_id, id, received_at) values (${companyId}, ${id}, ${now})
    on conflict (company_id, id) do nothing`;
  if (kept.count === 1)
    await sql`update provider_customers set asked = asked + 1, due_at = ${now} where company_id = ${companyId}`;
}

/**
 * Finds companies whose customer is due to be read, the longest overdue first.
 * @param besides companies that are left out
 */
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

/** One read of a customer. What it writes is replaced by reads with a higher number. */
export interface ProviderLookup {
  customerId: string;
  number: number;
}

/**
 * Begins a read.
 * @param dueBy reads only a customer that is due by then
 * @returns undefined if there is nothing to read
 */
export async function beginProviderLookup(
  sql: Sql,
  companyId: string,
  dueBy: Date | null,
  now: Date,
): Promise<ProviderLookup | undefined> {
  const [look] = await sql<ProviderLookup[]>`
    update provider_customers set asked = asked + 1, due_at = ${new Date(now.getTime() + lease)}
    where company_id = ${companyId} ${dueBy === null ? sql`` : sql`and due_at <= ${dueBy}`}
    returning customer_id, asked::int as number`;
  return look;
}

/**
 * Records that the result of a read is written.
 * @returns false if a later one was already written
 */
export async function endLook(sql: Sql, companyId: string, { number }: ProviderLookup, now: Date): Promise<boolean> {
  const written = await sql`
    update provider_customers
    set written = ${number}, due_at = case when asked = ${number} then ${new Date(now.getTime() + rereadAfter)}::timestamptz else due_at end
    where company_id = ${companyId} and written < ${number}`;
  return written.count === 1;
}

/** Schedules a read of a customer by a time, unless one is due earlier. */
export async function askForLook(sql: Sql, companyId: string, by: Date): Promise<void> {
  await sql`update provider_customers set due_at = ${by} where company_id = ${companyId} and due_at > ${by}`;
}

/** A live subscription of a customer that is charged in addition to the one in use. */
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

/**
 * Stores the duplicates of a customer.
 * @returns those that were not known before
 */
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

/** Days for which ids of events are kept. The provider resends an event for three days. */
const keptDays = 30;

/**
 * Removes expired events.
 * @returns how many, at most the limit
 */
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
