// What waits for a person in a workspace: the numbers on the home page of the console.
import type { Sql } from '../client/pool.ts';
import type { TenantScope } from '../client/tenant.ts';
import { isVisibleTo, type Scope } from '../client/visibility.ts';
import { isVisibleImport } from '../records/imports.ts';

/** Numbers above this are shown as "1,000 or more", so that no count reads a whole table. */
export const mostCounted = 1000;

export interface Attention {
  /** Messages and campaign runs that wait for approval. */
  drafts: number;
  campaignRuns: number;
  /** Imports that have failed since `importsSince`. */
  failedImports: number;
  /** Webhook endpoints that fail now, and those that were disabled because they failed. */
  failingWebhooks: number;
  disabledWebhooks: number;
  /** API keys of the mode that expire before `keysUntil`. */
  expiringKeys: number;
  /** True if the workspace has an API key, a key that was used, or a connected app, in any mode. */
  hasKey: boolean;
  hasCall: boolean;
  hasApp: boolean;
}

export interface AttentionPeriods {
  now: Date;
  /** The end of the period in which the expiry of a key is announced. */
  keysUntil: Date;
  /** Imports that failed earlier are not counted. */
  importsSince: Date;
}

/** @param viewers the person, with the visibility that applies to messages and to imports */
export async function countAttention(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  viewers: { messages: Scope; imports: Scope },
  { now, keysUntil, importsSince }: AttentionPeriods,
): Promise<Attention> {
  const count = (rows: ReturnType<typeof sql>) =>
    sql`(select count(*)::int from (${rows} limit ${mostCounted}) as counted)`;
  const [row] = await sql<Attention[]>`
    select
      ${count(sql`select from message_drafts
        where company_id = ${companyId} and test_mode = ${testMode} and status = 'draft' and run_id is null
          and ${isVisibleTo(sql, viewers.messages, 'unassigned')}`)} as drafts,
      ${count(sql`select from campaign_runs r
        join campaigns c on c.company_id = ${companyId} and c.test_mode = ${testMode} and c.id = r.campaign_id and c.status <> 'cancelled'
        where r.company_id = ${companyId} and r.test_mode = ${testMode} and r.status = 'completed' and r.decision is null
          and r.total > 0`)} as campaign_runs,
      ${count(sql`select from imports
        where company_id = ${companyId} and test_mode = ${testMode} and status = 'failed' and completed_at > ${importsSince}
          and ${isVisibleImport(sql, viewers.imports)}`)} as failed_imports,
      ${count(sql`select from webhook_subscriptions
        where company_id = ${companyId} and test_mode = ${testMode} and failing_since is not null and disabled_at is null
          and deleted_at is null`)} as failing_webhooks,
      ${count(sql`select from webhook_subscriptions
        where company_id = ${companyId} and test_mode = ${testMode} and disabled_reason in ('failures', 'gone')
          and deleted_at is null`)} as disabled_webhooks,
      ${count(sql`select from api_keys
        where company_id = ${companyId} and environment = ${testMode ? 'test' : 'live'} and revoked_at is null
          and expires_at > ${now} and expires_at <= ${keysUntil}`)} as expiring_keys,
      exists (select from api_keys where company_id = ${companyId} and revoked_at is null) as has_key,
      exists (select from api_key_usage where company_id = ${companyId} and total_requests > 0) as has_call,
      exists (select from oauth_grants where company_id = ${companyId} and revoked_at is null) as has_app`;
  // The statement has no FROM, so it returns exactly one row.
  return row as Attention;
}
