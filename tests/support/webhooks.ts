// Webhook subscriptions and deliveries, inserted directly.
import { v7 as uuidv7 } from 'uuid';
import { inject } from 'vitest';
import { Secrets } from '../../runtime/credentials/secrets.ts';
import { newSigningSecret } from '../../runtime/outbound/signed-posts.ts';
import { database, type Tenant } from './tenants.ts';

type Mode = 'live' | 'test';

/** For a subscription without deliveries: no other subscription emits this event. */
export const withoutDeliveries = { events: ['webhook.disabled'] };

/**
 * Creates a subscription, to everything by default.
 * @returns its id and secret
 */
export async function newWebhook(
  tenant: Pick<Tenant, 'companyId'>,
  mode: Mode,
  more: Record<string, unknown> = {},
): Promise<{ id: string; secret: string }> {
  const sql = database();
  const [id, secret, now] = [uuidv7(), newSigningSecret(), new Date()];
  const row = {
    company_id: tenant.companyId,
    test_mode: mode === 'test',
    id,
    url: 'https://hooks.example.com/crm',
    events: ['*'],
    skip_own: false,
    sealed_secret: new Secrets(inject('secretKey')).encrypt(secret),
    secret_last4: secret.slice(-4),
    created_by_kind: 'api_key',
    created_by_id: 'test',
    created_by_name: 'Test',
    created_at: now,
    updated_at: now,
    ...more,
  };
  await sql`insert into webhook_subscriptions ${sql(row)}`;
  return { id, secret };
}

/**
 * Creates a delivery, by default one that has ended.
 * @returns its id
 */
export async function newDelivery(
  tenant: Pick<Tenant, 'companyId'>,
  mode: Mode,
  subscriptionId: string,
  more: Record<string, unknown> = {},
): Promise<string> {
  const sql = database();
  const [id, eventId, now] = [uuidv7(), uuidv7(), new Date()];
  const row = {
    company_id: tenant.companyId,
    test_mode: mode === 'test',
    id,
    subscription_id: subscriptionId,
    event_id: eventId,
    event: 'record.created',
    status: 'failed',
    attempts: 10,
    max_attempts: 10,
    last_response_code: 500,
    last_response_snippet: 'no',
    last_error: 'http_error',
    duration_ms: 7,
    body: JSON.stringify({ id: `evt_${eventId}`, event: 'record.created' }),
    created_at: now,
    completed_at: now,
    ...more,
  };
  await sql`insert into webhook_deliveries ${sql(row)}`;
  return id;
}
