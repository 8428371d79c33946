// Sign-ins, sessions and refresh tokens. All but the end of one's own session run under the platform role: an address or a token names no company.
import type { Sql } from './connect.ts';

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

/** Finds who signs in with an address, in whatever company. */
export async function findSignIn(sql: Sql, email: string): Promise<SignInRow | undefined> {
  const [row] = await sql<SignInRow[]>`
    select i.company_id as "companyId", i.user_id as "userId", u.full_name as "fullName", i.email, i.password_hash as "passwordHash",
      i.must_change_password as "mustChangePassword", u.status = 'active' and c.status = 'active' as "isActive"
    from sign_ins i
    join users u on u.company_id = i.company_id and u.id = i.user_id
    join companies c on c.id = i.company_id
    where i.email = ${email}`;
  return row;
}

export interface NewSession {
  companyId: string;
  sessionId: string;
  userId: string;
  expiresAt: Date;
}

/** Begins a session with its first refresh token, and notes when the person signed in. */
export async function createSession(sql: Sql, session: NewSession, tokenHash: Buffer, now: Date): Promise<void> {
  await Promise.all([
    sql`
      insert into sessions (company_id, id, user_id, created_at, expires_at)
      values (${session.companyId}, ${session.sessionId}, ${session.userId}, ${now}, ${session.expiresAt})`.execute(),
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

/** Finds a refresh token and locks it and its session, so that of two calls with it the second sees what the first did. */
export async function lockRefreshToken(sql: Sql, tokenHash: Buffer): Promise<RefreshTokenRow | undefined> {
  const [row] = await sql<RefreshTokenRow[]>`
    select t.company_id as "companyId", t.session_id as "sessionId", u.id as "userId", u.full_name as "fullName", i.email,
      i.must_change_password as "mustChangePassword", u.status = 'active' and c.status = 'active' as "isActive",
      t.issued_at as "issuedAt", t.used_at as "usedAt", s.ended_at as "endedAt"
    from refresh_tokens t
    join sessions s on s.company_id = t.company_id and s.id = t.session_id
    join users u on u.company_id = s.company_id and u.id = s.user_id
    join sign_ins i on i.company_id = u.company_id and i.user_id = u.id
    join companies c on c.id = t.company_id
    where t.token_hash = ${tokenHash}
    for update of t, s`;
  return row;
}

/** Marks a token as used, unless it is already, and gives the session another one and more time. */
export async function replaceRefreshToken(
  sql: Sql,
  usedHash: Buffer,
  session: NewSession,
  tokenHash: Buffer,
  now: Date,
): Promise<void> {
  await Promise.all([
    sql`update refresh_tokens set used_at = ${now} where token_hash = ${usedHash} and used_at is null`.execute(),
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

/** Ends a session: the next call with a token of it is refused. */
export async function endSession(sql: Sql, companyId: string, sessionId: string, now: Date): Promise<void> {
  await sql`
    update sessions set ended_at = ${now}
    where company_id = ${companyId} and id = ${sessionId} and ended_at is null`;
}

/** Ends all sessions of a user. @param but one that goes on */
export async function endSessionsOf(
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

/** How a user signs in; for the platform role. */
export async function findSignInOf(
  sql: Sql,
  companyId: string,
  userId: string,
): Promise<{ email: string; passwordHash: string } | undefined> {
  const [row] = await sql<{ email: string; passwordHash: string }[]>`
    select email, password_hash as "passwordHash" from sign_ins
    where company_id = ${companyId} and user_id = ${userId}`;
  return row;
}

/** Sets a password that the user chose; for the platform role. */
export async function updatePassword(sql: Sql, companyId: string, userId: string, passwordHash: string): Promise<void> {
  await sql`
    update sign_ins set password_hash = ${passwordHash}, must_change_password = false
    where company_id = ${companyId} and user_id = ${userId}`;
}

/** Removes sessions whose last refresh token ran out a day ago or longer, with their tokens. @returns how many */
export async function sweepSessions(sql: Sql, now: Date): Promise<number> {
  const before = new Date(now.getTime() - 86_400_000);
  const removed = await sql`
    delete from sessions
    where ctid in (select ctid from sessions where expires_at < ${before} limit 5000)`;
  return removed.count;
}
