// The company of a credential or a person. It is looked up first, so that later statements name it.
import type { Sql } from '../client/pool.ts';

/** Returns the companies of API keys, by the keys' hashes in hexadecimal. For the platform role. */
export async function findKeyPlaces(sql: Sql, hashes: readonly string[]): Promise<Map<string, string>> {
  const rows = await sql<{ hash: string; companyId: string }[]>`
    select encode(key_hash, 'hex') as hash, company_id
    from api_key_places
    where key_hash in (select decode(hash, 'hex') from unnest(${hashes as string[]}::text[]) asked (hash))`;
  return new Map(rows.map(({ hash, companyId }) => [hash, companyId]));
}

/** Returns the companies of users. For the platform role. */
export async function findUserPlaces(sql: Sql, userIds: readonly string[]): Promise<Map<string, string>> {
  const rows = await sql<{ userId: string; companyId: string }[]>`
    select user_id, company_id from user_places where user_id = any(${userIds as string[]}::uuid[])`;
  return new Map(rows.map(({ userId, companyId }) => [userId, companyId]));
}

/** Returns the company of the user who signs in with an address. For the platform role. */
export async function findSignInPlace(sql: Sql, email: string): Promise<string | undefined> {
  const [row] = await sql<{ companyId: string }[]>`
    select company_id from user_places where email = ${email}`;
  return row?.companyId;
}

/** Stores the company of a new key. Sends its statement immediately. */
export function insertKeyPlace(sql: Sql, companyId: string, keyHash: Buffer): Promise<unknown> {
  return sql`insert into api_key_places (key_hash, company_id) values (${keyHash}, ${companyId})`.execute();
}

/**
 * Stores the company of a new user who can sign in. Sends its statement immediately.
 * @returns false if a user of any company already signs in with this address
 */
export async function insertUserPlace(sql: Sql, companyId: string, userId: string, email: string): Promise<boolean> {
  const place = await sql`
    insert into user_places (user_id, company_id, email) values (${userId}, ${companyId}, ${email})
    on conflict do nothing`.execute();
  return place.count === 1;
}
