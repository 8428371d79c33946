// Senders of drafts that can send now: active numbers, and addresses of active users.
import type { StoredDraft } from '../../domain/messaging/drafts.ts';
import type { Sql } from '../client/pool.ts';
import type { TenantScope } from '../client/tenant.ts';

type Sending = Pick<StoredDraft, 'channel' | 'sender'>;

/**
 * Reads the numbers and the users at most once.
 * @returns a function that returns true if the sender of a draft, or the default one, can send it
 */
export async function findUsableSenders(
  sql: Sql,
  scope: TenantScope,
  drafts: readonly Sending[],
): Promise<(draft: Sending) => boolean> {
  const [emails, texts] = [true, false].map((isEmail) =>
    drafts.filter(({ channel }) => (channel === 'email') === isEmail),
  ) as [Sending[], Sending[]];
  const [users, numbers] = await Promise.all([
    listActiveUsers(sql, scope, listSenders(emails)),
    texts.length > 0 ? listSendingNumbers(sql, scope, listSenders(texts)) : [],
  ]);
  const known = new Set([...users, ...numbers.map(({ phoneNumber }) => phoneNumber)]);
  const hasDefault = numbers.some(({ isDefault }) => isDefault);
  // Without a sender, emails come from the service itself.
  return ({ channel, sender }) => (sender === null ? channel === 'email' || hasDefault : known.has(sender));
}

const listSenders = (drafts: readonly Sending[]): string[] => drafts.flatMap(({ sender }) => sender ?? []);

async function listActiveUsers(sql: Sql, { companyId }: TenantScope, addresses: readonly string[]): Promise<string[]> {
  if (addresses.length === 0) return [];
  const rows = await sql<{ email: string }[]>`
    select email from users
    where company_id = ${companyId} and email = any(${[...addresses]}::text[]) and status = 'active'`;
  return rows.map(({ email }) => email);
}

async function listSendingNumbers(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  numbers: readonly string[],
): Promise<{ phoneNumber: string; isDefault: boolean }[]> {
  return sql<{ phoneNumber: string; isDefault: boolean }[]>`
    select phone_number, is_default from phone_numbers
    where company_id = ${companyId} and test_mode = ${testMode} and status = 'active' and can_sms
      and (phone_number = any(${[...numbers]}::text[]) or is_default)`;
}
