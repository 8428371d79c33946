// Users who sign in, and the server's own signing key for tests that forge tokens with it.
import { decodeJwt, type JWK } from 'jose';
import { v7 as uuidv7 } from 'uuid';
import { inject } from 'vitest';
import { Secrets } from '../../runtime/credentials/secrets.ts';
import { SessionTokens } from '../../runtime/credentials/session-tokens.ts';
import { expectStatus, type Json } from './client.ts';
import { adminPassword, database, newUser, type Tenant } from './tenants.ts';

/**
 * Signs in with the password that all test users have.
 * @returns the response body
 */
export async function signIn(email: string, baseUrl?: string): Promise<Json> {
  const { body } = await expectStatus(200, 'POST', '/auth/v1/token', {
    query: { grant_type: 'password' },
    body: { email, password: adminPassword },
    ...(baseUrl ? { baseUrl } : {}),
  });
  return body;
}

let issuer: Promise<string> | undefined;
let signingKey: Promise<JWK> | undefined;
let tokens: Promise<SessionTokens> | undefined;

/** Clears what the test file cached about its server. */
export function forgetServer(): void {
  issuer = undefined;
  signingKey = undefined;
  tokens = undefined;
}

/** Returns the issuer of the server's tokens, from one real sign-in. */
export function serverIssuer(tenant: Tenant): Promise<string> {
  issuer ??= signIn(tenant.admin.email).then((body) => decodeJwt(body.access_token).iss ?? '');
  return issuer;
}

/**
 * Returns a session token of the tenant's admin, stored directly because a sign-in hashes a
 * password.
 */
export function adminToken(tenant: Tenant): Promise<string> {
  return tokenFor(tenant, tenant.admin);
}

/** Returns a session token of a user, stored directly as well. */
export async function tokenFor(tenant: Tenant, user: { id: string }): Promise<string> {
  tokens ??= Promise.all([serverIssuer(tenant), serverSigningKey()]).then(([name, key]) =>
    SessionTokens.fromKeys(name, [key]),
  );
  const sessionId = uuidv7();
  await database()`
    insert into sessions (company_id, id, user_id, created_at, expires_at)
    values (${tenant.companyId}, ${sessionId}, ${user.id}, now(), now() + interval '7 days')`;
  return (await tokens).issue({ companyId: tenant.companyId, userId: user.id, sessionId }, new Date());
}

/**
 * Creates a sent form, whose key is deleted after some time.
 * @param daysAgo its age
 */
export async function newSentForm({ companyId, admin }: Tenant, daysAgo = -1): Promise<string> {
  const [sessionId, id] = [uuidv7(), uuidv7()];
  await database()`
    insert into sessions (company_id, id, user_id, created_at, expires_at)
    values (${companyId}, ${sessionId}, ${admin.id}, now(), now() + interval '7 days')`;
  await database()`
    insert into shown_secrets (company_id, id, session_id, created_at, expires_at)
    values (${companyId}, ${id}, ${sessionId}, now(), now() - make_interval(days => ${daysAgo}))`;
  return id;
}

/** Creates a user with a role who can sign in. */
export async function newPerson(tenant: Tenant, role = 'Sales_Rep'): Promise<{ id: string; email: string }> {
  const user = await newUser(tenant, { role });
  await database()`
    insert into sign_ins (email, company_id, user_id, password_hash, must_change_password, created_at)
    select ${user.email}, company_id, ${user.id}, password_hash, false, now() from sign_ins where email = ${tenant.admin.email}`;
  await database()`update user_places set email = ${user.email} where user_id = ${user.id}`;
  return user;
}

/** Returns the private key that the server under test signs session tokens with. */
export function serverSigningKey(): Promise<JWK> {
  signingKey ??= readSigningKey();
  return signingKey;
}

async function readSigningKey(): Promise<JWK> {
  const [row] = await database()`select sealed from server_secrets where name = 'session_signing_key'`;
  return [JSON.parse(new Secrets(inject('secretKey')).decrypt(row?.sealed))].flat()[0] as JWK;
}
