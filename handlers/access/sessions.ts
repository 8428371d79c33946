// Sign-in, renewal and sign-out: session tokens, and refresh tokens that work once.
import { v7 as uuidv7 } from 'uuid';
import {
  createSession as beginSession,
  endSession as closeSession,
  findSignIn,
  lockRefreshToken,
  type RefreshTokenRow,
  replaceRefreshToken,
} from '../../db/access/sessions.ts';
import { checkPassword } from '../../runtime/credentials/passwords.ts';
import { newRefreshToken, readRefreshTokenCompany, sha256 } from '../../runtime/credentials/secrets.ts';
import { sessionTokenSeconds } from '../../runtime/credentials/session-tokens.ts';
import { oauthRefusal } from '../../runtime/errors.ts';
import type { Call, Handler, Result } from '../../runtime/handler.ts';

/** A refresh token works for seven days. Each renewal starts them again. */
const refreshMilliseconds = 7 * 86_400_000;
/** A replaced token still works for this long, for a client that lost the response. */
const graceMilliseconds = 60_000;

interface Person {
  companyId: string;
  userId: string;
  fullName: string;
  email: string;
  mustChangePassword: boolean;
}

/** The same text for every reason, so that it does not reveal who has an account. */
const wrongPassword = () => oauthRefusal('invalid_grant', 'The email address or the password is wrong.');
const wrongToken = (options: { keepsWork?: boolean } = {}) =>
  oauthRefusal('invalid_grant', 'The refresh token is invalid or has expired. Sign in again.', options);

export const createSession: Handler<'createSession'> = async (call) => {
  const { query, body } = call.request;
  if (query.grant_type === 'password' && 'email' in body) return signIn(call, body.email, body.password);
  if (query.grant_type === 'refresh_token' && 'refresh_token' in body) return renew(call, body.refresh_token);
  throw oauthRefusal(
    'invalid_request',
    query.grant_type === 'password'
      ? 'email and password are required if grant_type is password.'
      : 'refresh_token is required if grant_type is refresh_token.',
  );
};

async function signIn(call: Call<'createSession'>, email: string, password: string): Promise<Result<'createSession'>> {
  const { now } = call;
  const address = email.toLowerCase();
  call.services.rejectGuessing(address);
  const found = await findSignIn(call.db.sql, address);
  // Unknown addresses and deactivated users cost a password check, too.
  const isRight = await call.db.withoutConnection(checkPassword(password, found?.passwordHash ?? null));
  if (!found || !isRight || !found.isActive) {
    await call.services.countWrongPassword(address);
    throw wrongPassword();
  }
  const session = toSession(found, uuidv7(), now);
  const refresh = newRefreshToken(found.companyId);
  await beginSession(call.db.sql, session, call.caller, refresh.hash, now);
  recordSignIn(call, 'session.create', found, session.sessionId);
  return toTokenResponse(call, found, session.sessionId, refresh.token);
}

async function renew(call: Call<'createSession'>, token: string): Promise<Result<'createSession'>> {
  const { now } = call;
  const { sql } = call.db;
  const companyId = readRefreshTokenCompany(token);
  if (companyId === undefined) throw wrongToken();
  const usedHash = sha256(token);
  const found = await lockRefreshToken(sql, companyId, usedHash);
  if (!found || found.endedAt || !found.isActive) throw wrongToken();
  if (isStolen(found, now)) {
    await closeSession(sql, found.companyId, found.sessionId, now);
    recordSignIn(call, 'session.end', found, found.sessionId, { reason: 'refresh_token_reused' });
    throw wrongToken({ keepsWork: true });
  }
  if (now.getTime() - found.issuedAt.getTime() > refreshMilliseconds) throw wrongToken();
  const refresh = newRefreshToken(found.companyId);
  await replaceRefreshToken(sql, usedHash, toSession(found, found.sessionId, now), refresh.hash, now);
  recordSignIn(call, 'session.renew', found, found.sessionId);
  return toTokenResponse(call, found, found.sessionId, refresh.token);
}

/** Returns true if a replaced token is used after the grace period: two parties have it. */
function isStolen(token: RefreshTokenRow, now: Date): boolean {
  return token.usedAt !== null && now.getTime() - token.usedAt.getTime() > graceMilliseconds;
}

function toSession(person: Person, sessionId: string, now: Date) {
  const { companyId, userId } = person;
  return { companyId, sessionId, userId, expiresAt: new Date(now.getTime() + refreshMilliseconds) };
}

function recordSignIn(
  call: Call<'createSession'>,
  action: string,
  person: Person,
  sessionId: string,
  metadata?: Record<string, unknown>,
): void {
  call.db.record({
    action,
    companyId: person.companyId,
    actor: { kind: 'user', id: person.userId, name: person.fullName },
    object: 'sessions',
    recordId: sessionId,
    ...(metadata ? { metadata } : {}),
  });
}

async function toTokenResponse(
  call: Call<'createSession'>,
  person: Person,
  sessionId: string,
  refreshToken: string,
): Promise<Result<'createSession'>> {
  return {
    status: 200,
    body: {
      access_token: await call.services.sessionTokens.issue(
        { companyId: person.companyId, userId: person.userId, sessionId },
        call.now,
      ),
      token_type: 'bearer',
      expires_in: sessionTokenSeconds,
      refresh_token: refreshToken,
      user: { id: person.userId, email: person.email, must_change_password: person.mustChangePassword },
    },
  };
}

export const endSession: Handler<'endSession'> = async (call) => {
  const { companyId, sessionId } = call.caller;
  if (sessionId === null) throw new Error('the document lets session tokens only in here');
  await closeSession(call.db.sql, companyId, sessionId, call.now);
  call.db.record({ action: 'session.end', object: 'sessions', recordId: sessionId });
  return { status: 200, body: { session_id: sessionId, ended: true } };
};

export const getSigningKeys: Handler<'getSigningKeys'> = async (call) => ({
  status: 200,
  // The keys are created here, so their members are known. The library's type leaves all of them
  // open.
  body: call.services.sessionTokens.jwks as Result<'getSigningKeys'>['body'],
});
