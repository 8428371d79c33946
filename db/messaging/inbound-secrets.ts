// The secrets with which gateways sign their reports, one for each mode, encrypted.
import type { Sql } from '../client/pool.ts';
import { selectClockAhead } from '../client/test-clocks.ts';

export type Environment = 'live' | 'test';

export interface InboundSecretRow {
  environment: Environment;
  sealedSecret: string;
  secretLast4: string;
  sealedPreviousSecret: string | null;
  previousSecretExpiresAt: Date | null;
  createdAt: Date;
}

const columns = [
  'environment',
  'sealed_secret',
  'secret_last4',
  'sealed_previous_secret',
  'previous_secret_expires_at',
  'created_at',
];

/** Returns the existing secrets, in no particular order. */
export async function listInboundSecrets(sql: Sql, companyId: string): Promise<InboundSecretRow[]> {
  return sql<InboundSecretRow[]>`select ${sql(columns)} from inbound_secrets where company_id = ${companyId}`;
}

/**
 * Replaces a secret. The previous one stays valid until it expires.
 * @param until when the previous one expires; null: immediately
 */
export async function putInboundSecret(
  sql: Sql,
  companyId: string,
  secret: Pick<InboundSecretRow, 'environment' | 'sealedSecret' | 'secretLast4'>,
  until: Date | null,
  now: Date,
): Promise<InboundSecretRow> {
  const [row] = await sql<[InboundSecretRow]>`
    insert into inbound_secrets ${sql({ companyId, ...secret, createdAt: now })}
    on conflict (company_id, environment) do update
    set sealed_secret = excluded.sealed_secret, secret_last4 = excluded.secret_last4, created_at = excluded.created_at,
      sealed_previous_secret = case when ${until}::timestamptz is not null then inbound_secrets.sealed_secret end,
      previous_secret_expires_at = ${until}
    returning ${sql(columns)}`;
  return row;
}

interface InboundEndpointRow {
  companyName: string;
  configVersion: number;
  clockAheadSeconds: number;
  sealedSecrets: string[];
}

/**
 * Returns the secrets that verify reports of a company, under a role that sees all of them;
 * undefined without a secret.
 */
export async function findInboundEndpoint(
  sql: Sql,
  companyId: string,
  environment: Environment,
  now: Date,
): Promise<InboundEndpointRow | undefined> {
  const [row] = await sql<InboundEndpointRow[]>`
    select c.name as company_name, c.config_version, ${selectClockAhead(sql)},
      case when i.previous_secret_expires_at > ${now} then array[i.sealed_secret, i.sealed_previous_secret]
        else array[i.sealed_secret] end as sealed_secrets
    from inbound_secrets i
    join companies c on c.id = ${companyId} and c.status = 'active'
    where i.company_id = ${companyId} and i.environment = ${environment}`;
  return row;
}
