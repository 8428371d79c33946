// People who sign in, and the server's own signing key for tests that forge tokens with it.
import type { JWK } from 'jose';
import { inject } from 'vitest';
import { Secrets } from '../../runtime/secrets.ts';
import { expectStatus, type Json } from './client.ts';
import { adminPassword, database, newUser, type Tenant } from './tenants.ts';

/** Signs in with the password that all people of the tests have. @returns the answer's body */
export async function signIn(email: string, baseUrl?: string): Promise<Json> {
  const { body } = await expectStatus(200, 'POST', '/auth/v1/token', {
    query: { grant_type: 'password' },
    body: { email, password: adminPassword },
    ...(baseUrl ? { baseUrl } : {}),
  });
  return body;
}

const adminTokens = new Map<string, Promise<string>>();

/** A session token of the tenant's admin; one sign-in per tenant, since each costs a password check. */
export function adminToken(tenant: Tenant): Promise<string> {
  let token = adminTokens.get(tenant.companyId);
  if (!token) {
    token = signIn(tenant.admin.email).then((body) => body.access_token as string);
    adminTokens.set(tenant.companyId, token);
  }
  return token;
}

/** A user who can sign in, with a role. */
export async function newPerson(tenant: Tenant, role = 'Sales_Rep'): Promise<{ id: string; email: string }> {
  const user = await newUser(tenant, { role });
  await database()`
    insert into sign_ins (email, company_id, user_id, password_hash, must_change_password, created_at)
    select ${user.email}, company_id, ${user.id}, password_hash, false, now() from sign_ins where email = ${tenant.admin.email}`;
  return user;
}

/** The private key that the server under test signs session tokens with. */
export async function serverSigningKey(): Promise<JWK> {
  const [row] = await database()`select sealed from server_secrets where name = 'session_signing_key'`;
  return JSON.parse(new Secrets(inject('secretKey')).decrypt(row?.sealed)) as JWK;
}
