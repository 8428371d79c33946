// Mails to administrators about payments, inserted in the transaction of the payment.
import type { Sql } from '../../db/client/pool.ts';
import type { TenantScope } from '../../db/client/tenant.ts';
import { insertMail } from '../../db/messaging/mails.ts';
import { findAdmins } from '../../db/people/users.ts';
import type { BillingMail } from '../../domain/billing/life-cycle.ts';
import type { Subscription } from '../../domain/billing/subscription.ts';

export async function mailAdmins(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  template: BillingMail,
  { endedAt, dueAt }: Subscription,
  now: Date,
): Promise<void> {
  // Test data causes no mails to people.
  if (testMode) return;
  const dates = { ended_on: formatDay(endedAt ?? now), next_on: formatDay(dueAt ?? now) };
  for (const { email, fullName, companyName } of await findAdmins(sql, companyId)) {
    const data = { full_name: fullName, company_name: companyName, ...dates };
    await insertMail(sql, { companyId, recipient: email, template, data }, now);
  }
}

const formatDay = (time: Date): string => time.toISOString().slice(0, 10);
