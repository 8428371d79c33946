// Sign-ins, sessions and refresh tokens.
// All statements except the end of one's own session run under the platform role, because no caller
// is known yet.
import type { Sql } from '../client/pool.ts';
import { type DueRow, removeByCompany } from '../client/sweeping.ts';
import { findSignInPlace } from './places.ts';

export interface SignInRow {
  companyId: string;
  userId: string;
  fullName: string;
  email: string;
  passwordHash: string;
  mustChangePassword: boolean;
  /** False for deactivated users, and for users of companies that are not active. */
  isActive: boolean;
}

/** Finds the user who signs in with an address, in any company. */
export async function findSignIn(sql: Sql, email: string): Promise<SignInRow | undefined> {
  // For an unknown address, this searches a company that does not exist, which takes as long as for
  // a known address.
  const companyId = (await findSignInPlace(sql, email)) ?? unknownCompany;
  const [row] = await sql<SignInRow[]>`
    select i.company_id, i.user_id, u.full_name, i.email, i.password_hash,
      i.must_change_password, u.status = 'active' and c.status = 'active' as is_active
    from sign_ins i
    join users u on u.company_id = ${companyId} and u.id = i.user_id
    join companies c on c.id = ${companyId}
    where i.company_id = ${companyId} and i.email = ${email}`;
  return row;
}

/** A company that does not exist. */
const unknownCompany = '00000000-0000-0000-0000-000000000000';

export interface NewSession {
  companyId: string;
  sessionId: string;
  userId: string;
  expiresAt: Date;
}

/** The origin of a sign-in. */
export interface Origin {
  ip: string;
  userAgent: string | null;
}

/** Creates a session with its first refresh token, and stores the time of the sign-in. */
export async function createSession(
  sql: Sql,
  session: NewSession,
  { ip, userAgent }: Origin,
  tokenHash: Buffer,
  now: Date,
): Promise<void> {
  await Promise.all([
    sql`
      insert into sessions (company_id, id, user_id, created_at, expires_at, ip, user_agent)
      values (${session.companyId}, ${session.sessionId}, ${session.userId}, ${now}, ${session.expiresAt}, ${ip}, ${userAgent})`.execute(),
    insertRefreshToken(sql, session, tokenHash, now),
    sql`
      update users set last_sign_in_at = ${now}
      where company_id = ${session.companyId} and id = ${session.userId}`.execute(),
  ]);
}

export interface RefreshTokenRow {
  companyId: string;
  sessionId: string;
  userId: string;
  fullName: string;
  email: string;
  mustChangePassword: boolean;
  isActive: boolean;
  issuedAt: Date;
  usedAt: Date | null;
  endedAt: Date | null;
}

/**
 * Finds a refresh token and locks it and its session. Of two concurrent calls with it, the second
 * sees the result of the first.
 */
export async function lockRefreshToken(
  sql: Sql,
  companyId: string,
  tokenHash: Buffer,
): Promise<RefreshTokenRow | undefined> {
  const [row] = await sql<RefreshTokenRow[]>`
    select t.company_id, t.session_id, u.id as user_id, u.full_name, i.email,
      i.must_change_password, u.status = 'active' and c.status = 'active' as is_active,
      t.issued_at, t.used_at, s.ended_at
    from refresh_tokens t
    join sessions s on s.company_id = ${companyId} and s.id = t.session_id
    join users u on u.company_id = ${companyId} and u.id = s.user_id
    join sign_ins i on i.company_id = ${companyId} and i.user_id = u.id
    join companies c on c.id = ${companyId}
    where t.company_id = ${companyId} and t.token_hash = ${tokenHash}
    for update of t, s`;
  return row;
}

/** Marks a token as used, unless it already is, gives the session a new token and extends it. */
export async function replaceRefreshToken(
  sql: Sql,
  usedHash: Buffer,
  session: NewSession,
  tokenHash: Buffer,
  now: Date,
): Promise<void> {
  await Promise.all([
    sql`
      update refresh_tokens set used_at = ${now}
      where company_id = ${session.companyId} and token_hash = ${usedHash} and used_at is null`.execute(),
    insertRefreshToken(sql, session, tokenHash, now),
    sql`
      update sessions set expires_at = ${session.expiresAt}
      where company_id = ${session.companyId} and id = ${session.sessionId}`.execute(),
  ]);
}

function insertRefreshToken(sql: Sql, session: NewSession, tokenHash: Buffer, now: Date): Promise<unknown> {
  return sql`
    insert into refresh_tokens (token_hash, company_id, session_id, issued_at)
    values (${tokenHash}, ${session.companyId}, ${session.sessionId}, ${now})`.execute();
}

/** Ends a session: its tokens are rejected from now on. */
export async function endSession(sql: Sql, companyId: string, sessionId: string, now: Date): Promise<void> {
  await sql`
    update sessions set ended_at = ${now}
    where company_id = ${companyId} and id = ${sessionId} and ended_at is null`;
}

export interface SessionRow {
  id: string;
  createdAt: Date;
  expiresAt: Date;
  /** null: it began before this was stored. */
  ip: string | null;
  userAgent: string | null;
}

/** Returns the active sessions of a user, the newest first. */
export async function listUserSessions(sql: Sql, companyId: string, userId: string, now: Date): Promise<SessionRow[]> {
  return sql<SessionRow[]>`
    select id, created_at, expires_at, ip, user_agent from sessions
    where company_id = ${companyId} and user_id = ${userId} and ended_at is null and expires_at > ${now}
    order by created_at desc, id desc`;
}

/**
 * Ends a session of a user.
 * @returns false if the user has no such active session
 */
export async function endUserSession(
  sql: Sql,
  companyId: string,
  userId: string,
  sessionId: string,
  now: Date,
): Promise<boolean> {
  const ended = await sql`
    update sessions set ended_at = ${now}
    where company_id = ${companyId} and user_id = ${userId} and id = ${sessionId} and ended_at is null`;
  return ended.count === 1;
}

/**
 * Ends all sessions of a user.
 * @param but the session that continues
 */
export async function endUserSessions(
  sql: Sql,
  companyId: string,
  userId: string,
  now: Date,
  but: string | null = null,
): Promise<void> {
  await sql`
    update sessions set ended_at = ${now}
    where company_id = ${companyId} and user_id = ${userId} and id is distinct from ${but} and ended_at is null`;
}

/** Returns how a user signs in. For the platform role. */
export async function findUserSignIn(
  sql: Sql,
  companyId: string,
  userId: string,
): Promise<{ email: string; passwordHash: string } | undefined> {
  const [row] = await sql<{ email: string; passwordHash: string }[]>`
    select email, password_hash from sign_ins
    where company_id = ${companyId} and user_id = ${userId}`;
  return row;
}

/**
 * Does the same for an active user, with a lock until the transaction ends. For the platform role.
 */
export async function lockUserSignIn(
  sql: Sql,
  companyId: string,
  userId: string,
): Promise<{ email: string; passwordHash: string; fullName: string } | undefined> {
  const [row] = await sql<{ email: string; passwordHash: string; fullName: string }[]>`
    select i.email, i.password_hash, u.full_name from sign_ins i
    join users u on u.company_id = ${companyId} and u.id = i.user_id and u.status = 'active'
    join companies c on c.id = ${companyId} and c.status = 'active'
    where i.company_id = ${companyId} and i.user_id = ${userId}
    for update of i`;
  return row;
}

/** Stores a password that the user chose. For the platform role. */
export async function updatePassword(sql: Sql, companyId: string, userId: string, passwordHash: string): Promise<void> {
  await sql`
    update sign_ins set password_hash = ${passwordHash}, must_change_password = false
    where company_id = ${companyId} and user_id = ${userId}`;
}

/**
 * Removes sessions whose last refresh token expired at least a day ago, with their tokens.
 * @returns how many, at most the limit
 */
export async function sweepSessions(sql: Sql, limit: number, now: Date): Promise<number> {
  const before = new Date(now.getTime() - 86_400_000);
  const due = await sql<DueRow[]>`
    select company_id, id from sessions where expires_at < ${before} order by expires_at limit ${limit}`;
  return removeByCompany(due, async (companyId, rows) => {
    const removed = await sql`
      delete from sessions
      where company_id = ${companyId} and id = any(${rows.map(({ id }) => id)}::uuid[]) and expires_at < ${before}`;
    return removed.count;
  });
}
