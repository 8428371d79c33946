// Opt-outs of recipients: on the do-not-call list, or on the suppression list.
import type { StoredDraft } from '../../domain/messaging/drafts.ts';
import type { Sql } from '../client/pool.ts';
import type { TenantScope } from '../client/tenant.ts';
import { findListedNumbers } from './do-not-call.ts';
import { findSuppressedEmails } from './email-suppression.ts';

/**
 * Reads each list at most once.
 * @returns a function that returns true if the recipient of a draft is on the list of its channel
 */
export async function findOptOuts(
  sql: Sql,
  scope: TenantScope,
  drafts: readonly Pick<StoredDraft, 'channel' | 'recipient'>[],
): Promise<(draft: Pick<StoredDraft, 'channel' | 'recipient'>) => boolean> {
  const [emails, numbers] = [true, false].map((isEmail) =>
    drafts.filter(({ channel }) => (channel === 'email') === isEmail).map(({ recipient }) => recipient),
  ) as [string[], string[]];
  const none = new Set<string>();
  const [suppressed, listed] = await Promise.all([
    emails.length > 0 ? findSuppressedEmails(sql, scope, emails) : none,
    numbers.length > 0 ? findListedNumbers(sql, scope, numbers) : none,
  ]);
  return ({ channel, recipient }) => (channel === 'email' ? suppressed : listed).has(recipient);
}
