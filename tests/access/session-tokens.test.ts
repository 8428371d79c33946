// Attacks on session tokens: forged, altered, borrowed or expired (E1).
import { randomUUID } from 'node:crypto';
import { importJWK, SignJWT } from 'jose';
import { beforeAll, describe, expect, test } from 'vitest';
import { newSigningKey, SessionTokens, sessionTokenSeconds } from '../../runtime/credentials/session-tokens.ts';
import { expectStatus } from '../support/client.ts';
import { newPerson, serverSigningKey, signIn } from '../support/sessions.ts';
import { database, newTenant, type Tenant } from '../support/tenants.ts';
import * as attack from '../support/token-attacks.ts';

let tenant: Tenant;
let token: string;
let good: attack.GoodToken;
let claims: attack.Claims;

beforeAll(async () => {
  tenant = await newTenant();
  token = (await signIn(tenant.admin.email)).access_token;
  good = attack.takeApart(token, await serverSigningKey());
  claims = good.claims;
});

/** Signs a token with the server's own key. */
const signed = (changes?: attack.Claims, headerChanges?: object) => attack.signed(good, changes, headerChanges);

async function expectRefused(attacks: readonly string[], code = 'AUTH_INVALID_KEY'): Promise<void> {
  expect(attacks.length).toBeGreaterThan(0);
  for (const each of attacks) {
    const { body, headers } = await expectStatus(401, 'GET', '/v1/me', { token: each });
    expect(body.error.code).toBe(code);
    expect(headers.get('www-authenticate')).toBe('Bearer realm="api", error="invalid_token"');
  }
}

describe('over HTTP', () => {
  test('accepts the valid token and another one of the same key', async () => {
    await expectStatus(200, 'GET', '/v1/me', { token });
    await expectStatus(200, 'GET', '/v1/me', { token: await signed() });
  });

  test('rejects a token with any changed character', async () => {
    const attacks = attack.changed(token);
    expect(attacks.length).toBeGreaterThan(300);
    await expectRefused(attacks);
  });

  test('rejects a token with any missing character, or one added at the seams', async () => {
    await expectRefused(attack.cutAndGrown(token));
  });

  test('rejects other encodings that decode to the same bytes', async () => {
    const attacks = attack.respelled(token);
    expect(attacks.length).toBeGreaterThan(30);
    await expectRefused(attacks);
    for (const scheme of ['Basic', 'Token', 'Bearer  ', 'bearer:', '']) {
      const authorization = `${scheme} ${token}`.trimStart();
      const { body } = await expectStatus(401, 'GET', '/v1/me', { headers: { authorization } });
      expect(body.error.code).toBe('AUTH_INVALID_KEY');
    }
    // The scheme name is case-insensitive.
    await expectStatus(200, 'GET', '/v1/me', { headers: { authorization: `bearer ${token}` } });
  });

  test('rejects unsigned tokens, however alg spells none', async () => {
    await expectRefused(attack.unsigned(good));
  });

  test('rejects HMAC signatures with the public key in any form', async () => {
    const [jwk] = (await expectStatus(200, 'GET', '/auth/v1/.well-known/jwks.json')).body.keys;
    await expectRefused(attack.hmacUnderPublicKey(good, jwk));
  });

  test('rejects signatures of other keys, regardless of the header', async () => {
    await expectRefused(await attack.signedByOthers(good));
  });

  test('rejects zero signatures and signatures in other formats', async () => {
    await expectRefused(attack.oddSignatures(good));
  });

  test('rejects headers with unsupported requirements', async () => {
    const headers: object[] = [{ typ: 'at+jwt' }, { typ: undefined }, { typ: 'logout+jwt' }];
    await expectRefused(await Promise.all(headers.map((more) => signed({}, more))));
    await expectRefused(attack.criticalHeaders(good));
  });

  test('rejects claims of another issuer, audience or person, and missing claims, even from the right key', async () => {
    const stranger = await newTenant();
    const changes: attack.Claims[] = [
      { iss: 'https://attacker.example/auth/v1' },
      { iss: `${claims.iss}/` },
      { iss: [claims.iss] },
      { iss: undefined },
      { aud: 'other' },
      { aud: ['other'] },
      { aud: undefined },
      { sub: stranger.admin.id },
      { sub: randomUUID() },
      { sub: 'x' },
      { sub: '' },
      { sub: undefined },
      { company_id: stranger.companyId },
      { company_id: randomUUID() },
      { company_id: 'x' },
      { company_id: [claims.company_id] },
      { company_id: undefined },
      { session_id: randomUUID() },
      { session_id: 'x' },
      { session_id: [claims.session_id] },
      { session_id: undefined },
      { exp: undefined },
      { nbf: Math.floor(Date.now() / 1000) + 120 },
    ];
    await expectRefused(await Promise.all(changes.map((change) => signed(change))));
    const never = { ...claims, exp: 'never' };
    await expectRefused([attack.signedTexts(good, JSON.stringify(good.header), JSON.stringify(never))]);
  });

  test('reports an expired token, and accepts one within the skew of 60 seconds', async () => {
    const seconds = Math.floor(Date.now() / 1000);
    await expectStatus(200, 'GET', '/v1/me', { token: await signed({ exp: seconds - 30 }) });
    await expectRefused([await signed({ exp: seconds - 60 }), await signed({ exp: 0 })], 'API_KEY_EXPIRED');
  });

  test('does not report expiry if anything else is wrong with the token', async () => {
    const exp = Math.floor(Date.now() / 1000) - 100;
    const forged = (await signed({ exp })).replace(/.{10}$/, 'AAAAAAAAAA');
    await expectRefused([
      await signed({ exp, iss: 'https://attacker.example' }),
      await signed({ exp, aud: 'x' }),
      forged,
    ]);
  });

  test('rejects tokens of a deactivated or removed user and of an ended session', async () => {
    const person = await newPerson(tenant);
    const { access_token: theirs } = await signIn(person.email);
    const setStatus = (status: string) => database()`update users set status = ${status} where id = ${person.id}`;
    await expectStatus(200, 'GET', '/v1/me', { token: theirs });
    await setStatus('inactive');
    await expectRefused([theirs]);
    await setStatus('active');
    await expectStatus(200, 'GET', '/v1/me', { token: theirs });
    await database()`delete from users where id = ${person.id}`;
    await expectRefused([theirs]);
  });

  test('rejects the next call that needs a role the user has lost', async () => {
    const person = await newPerson(tenant, 'Company_Admin');
    const { access_token: theirs } = await signIn(person.email);
    await expectStatus(200, 'GET', '/v1/api-keys', { token: theirs });
    await database()`delete from user_roles where user_id = ${person.id}`;
    await expectStatus(403, 'GET', '/v1/api-keys', { token: theirs });
  });
});

describe('clock skew', () => {
  const issuer = 'https://crm.example/auth/v1';
  const now = new Date('2026-11-20T12:00:00.000Z');
  const at = (seconds: number) => new Date(now.getTime() + seconds * 1000);
  const subject = { companyId: randomUUID(), userId: randomUUID(), sessionId: randomUUID() };

  test('accepts a token for exactly an hour and 60 seconds of skew', async () => {
    const tokens = await SessionTokens.fromKeys(issuer, [await newSigningKey('k')]);
    const issued = await tokens.issue(subject, now);
    const verdict = async (seconds: number) => (await tokens.verify(issued, at(seconds))).kind;
    expect(await tokens.verify(issued, now)).toEqual({
      kind: 'valid',
      ...subject,
      expiresAt: at(sessionTokenSeconds),
    });
    expect(await verdict(sessionTokenSeconds + 59)).toBe('valid');
    expect(await verdict(sessionTokenSeconds + 59.999)).toBe('valid');
    expect(await verdict(sessionTokenSeconds + 60)).toBe('expired');
    expect(await verdict(sessionTokenSeconds + 61)).toBe('expired');
  });

  test('accepts a token that is not valid yet exactly 60 seconds early', async () => {
    const { companyId, userId, sessionId } = subject;
    const jwk = await newSigningKey('k');
    const tokens = await SessionTokens.fromKeys(issuer, [jwk]);
    const verdict = async (early: number) => {
      const early_token = await new SignJWT({
        company_id: companyId,
        session_id: sessionId,
        nbf: Math.floor(at(early).getTime() / 1000),
      })
        .setProtectedHeader({ alg: 'ES256', typ: 'JWT' })
        .setIssuer(issuer)
        .setAudience('authenticated')
        .setSubject(userId)
        .setExpirationTime(at(3600))
        .sign(await importJWK(jwk, 'ES256'));
      return (await tokens.verify(early_token, now)).kind;
    };
    expect([await verdict(59), await verdict(60), await verdict(61)]).toEqual(['valid', 'valid', 'invalid']);
  });

  test('accepts a token issued in the future exactly 60 seconds early', async () => {
    const tokens = await SessionTokens.fromKeys(issuer, [await newSigningKey('k')]);
    const verdict = async (early: number) => (await tokens.verify(await tokens.issue(subject, at(early)), now)).kind;
    expect([await verdict(59), await verdict(60), await verdict(61), await verdict(3600)]).toEqual([
      'valid',
      'valid',
      'invalid',
      'invalid',
    ]);
  });

  test('rejects a line break anywhere in a token', async () => {
    const tokens = await SessionTokens.fromKeys(issuer, [await newSigningKey('k')]);
    const issued = await tokens.issue(subject, now);
    expect((await tokens.verify(issued, now)).kind).toBe('valid');
    for (let index = 0; index <= issued.length; index += 1) {
      for (const space of ['\n', '\r', ' ', '\u00a0']) {
        const broken = issued.slice(0, index) + space + issued.slice(index);
        expect((await tokens.verify(broken, now)).kind).toBe('invalid');
      }
    }
  });

  test('rejects tokens of another issuer with the same key, and of the same issuer with another key', async () => {
    const jwk = await newSigningKey('k');
    const tokens = await SessionTokens.fromKeys(issuer, [jwk]);
    const other = await SessionTokens.fromKeys('https://other.example/auth/v1', [jwk]);
    const foreign = await SessionTokens.fromKeys(issuer, [await newSigningKey('k')]);
    for (const each of [other, foreign])
      expect((await tokens.verify(await each.issue(subject, now), now)).kind).toBe('invalid');
  });
});
