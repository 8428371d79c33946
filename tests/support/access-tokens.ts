// OAuth access tokens of the server's own issuer, with the grants behind them.
import { randomUUID } from 'node:crypto';
import { importJWK, SignJWT } from 'jose';
import { v7 as uuidv7 } from 'uuid';
import { serverIssuer, serverSigningKey } from './sessions.ts';
import { database, newUser, type Tenant } from './tenants.ts';

export const consentGroups = ['records', 'pipeline', 'automation', 'calendar', 'messaging', 'billing', 'admin'];

/** Every scope that a token may request, by module. */
export const everyModule = [
  'leads',
  'deals',
  'customers',
  'accounts',
  'tasks',
  'activities',
  'reports',
  'users',
  'access_control',
  'settings',
  'billing',
  'webhooks',
  'attachments',
  'exports',
  'imports',
  'reverts',
  'change_sets',
  'bookings',
  'inbox',
  'campaigns',
  'workforces',
];

export interface GrantOptions {
  /**
   * The role of the user. Company_Admin is the tenant's administrator, and other roles get a new
   * user.
   */
  role?: string;
  userId?: string;
  clientId?: string;
  groups?: string[];
  extraScopes?: string[];
  revokedAt?: Date;
  writeMode?: 'direct' | 'propose';
}

export interface Grant {
  userId: string;
  clientId: string;
}

/** Creates a grant. By default, it only allows what the token itself requests. */
export async function newGrant(tenant: Tenant, options: GrantOptions = {}): Promise<Grant & { id: string }> {
  const { role = 'Company_Admin', clientId = `app-${randomUUID()}` } = options;
  const userId = options.userId ?? (role === 'Company_Admin' ? tenant.admin : await newUser(tenant, { role })).id;
  const id = uuidv7();
  await database()`
    insert into oauth_grants (company_id, id, user_id, client_id, client_name, groups, extra_scopes, created_at, revoked_at, write_mode)
    values (${tenant.companyId}, ${id}, ${userId}, ${clientId}, 'Test app', ${options.groups ?? []}, ${options.extraScopes ?? []},
      now(), ${options.revokedAt ?? null}, ${options.writeMode ?? 'direct'})`;
  return { id, userId, clientId };
}

/** Returns an access token of the server's own issuer. */
export async function accessToken(
  tenant: Tenant,
  { userId, clientId }: Grant,
  claims: Record<string, unknown> = {},
): Promise<string> {
  const [issuer, jwk] = await Promise.all([serverIssuer(tenant), serverSigningKey()]);
  const key = await importJWK(jwk, 'ES256');
  const seconds = Math.floor(Date.now() / 1000);
  const said = { iss: issuer, sub: userId, client_id: clientId, iat: seconds, exp: seconds + 3600, ...claims };
  return new SignJWT(said).setProtectedHeader({ alg: 'ES256', typ: 'at+jwt', kid: jwk.kid ?? '' }).sign(key);
}

/**
 * Returns a token of a new app with the named scopes, or all scopes, limited by the user's role.
 */
export async function newBearer(tenant: Tenant, scopes?: string[], options: GrantOptions = {}): Promise<string> {
  const scope = (scopes ?? everyModule.map((module) => `${module}:*`)).join(' ');
  return accessToken(tenant, await newGrant(tenant, options), { scope });
}
