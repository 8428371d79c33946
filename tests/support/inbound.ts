// Inbound reports, signed as gateways sign them.
import { createHmac } from 'node:crypto';
import { inject } from 'vitest';
import { Secrets } from '../../runtime/credentials/secrets.ts';
import { newSigningSecret } from '../../runtime/outbound/signed-posts.ts';
import { database, type Tenant } from './tenants.ts';

/**
 * Returns the signature header of a body.
 * @param time unix seconds, by default now
 */
export function signBody(secret: string, body: string | Buffer, time = Math.floor(Date.now() / 1000)): string {
  return `t=${time},v1=${createHmac('sha256', secret).update(`${time}.`).update(body).digest('hex')}`;
}

/** Returns the secret of a tenant's gateways, and creates it if there is none. */
export async function inboundSecret({ companyId }: Pick<Tenant, 'companyId'>, mode: 'live' | 'test'): Promise<string> {
  const secrets = new Secrets(inject('secretKey'));
  const secret = newSigningSecret();
  const [row] = await database()<{ sealed: string }[]>`
    insert into inbound_secrets (company_id, environment, sealed_secret, secret_last4, created_at)
    values (${companyId}, ${mode}, ${secrets.encrypt(secret)}, ${secret.slice(-4)}, now())
    on conflict (company_id, environment) do update set environment = excluded.environment
    returning sealed_secret as sealed`;
  return secrets.decrypt(row?.sealed ?? '');
}
