// What a session token cannot be: forged, altered, respelled, borrowed or outlived. Each attack is a 401 with WWW-Authenticate (E1).
import { createHmac, generateKeyPairSync, randomUUID, sign } from 'node:crypto';
import { importJWK, type JWK, type JWTHeaderParameters, SignJWT } from 'jose';
import { beforeAll, describe, expect, test } from 'vitest';
import { newSigningKey, SessionTokens, sessionTokenSeconds } from '../runtime/session-tokens.ts';
import { expectStatus } from './support/client.ts';
import { newPerson, serverSigningKey, signIn } from './support/sessions.ts';
import { database, newTenant, type Tenant } from './support/tenants.ts';

type Claims = Record<string, unknown>;

let tenant: Tenant;
let token: string;
let header: JWTHeaderParameters;
let claims: Claims;
let privateKey: JWK;

const encode = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url');
const decode = (part: string | undefined) => JSON.parse(Buffer.from(part ?? '', 'base64url').toString());

beforeAll(async () => {
  tenant = await newTenant();
  token = (await signIn(tenant.admin.email)).access_token;
  const [head, body] = token.split('.');
  header = decode(head);
  claims = decode(body);
  privateKey = await serverSigningKey();
});

/** A token that the server's own key signs. */
async function signed(changes: Claims = {}, headerChanges: object = {}): Promise<string> {
  const key = await importJWK(privateKey, 'ES256');
  return new SignJWT({ ...claims, ...changes }).setProtectedHeader({ ...header, ...headerChanges }).sign(key);
}

async function expectRefused(attacks: readonly string[], code = 'AUTH_INVALID_KEY'): Promise<void> {
  expect(attacks.length).toBeGreaterThan(0);
  for (const attack of attacks) {
    const { body, headers } = await expectStatus(401, 'GET', '/v1/me', { token: attack });
    expect(body.error.code).toBe(code);
    expect(headers.get('www-authenticate')).toBe('Bearer realm="api", error="invalid_token"');
  }
}

describe('over HTTP', () => {
  test('the token itself, and one like it from the same key, are accepted', async () => {
    await expectStatus(200, 'GET', '/v1/me', { token });
    await expectStatus(200, 'GET', '/v1/me', { token: await signed() });
  });

  test('no character of it can be another', async () => {
    const attacks = [...token].map((character, index) => {
      const other = character === 'A' ? 'B' : 'A';
      return token.slice(0, index) + other + token.slice(index + 1);
    });
    expect(attacks.length).toBeGreaterThan(300);
    await expectRefused(attacks);
  });

  test('no character of it can be missing, and none can be added at the seams', async () => {
    const cut = [...token].map((_, index) => token.slice(0, index) + token.slice(index + 1));
    const grown = ['.', 'A', '=', '==', '%3D'].flatMap((more) => [
      more + token,
      token + more,
      token.replace('.', `${more}.`),
    ]);
    await expectRefused([...cut, ...grown]);
  });

  test('no part of it can be spelled in another way that decodes to the same bytes', async () => {
    const parts = token.split('.');
    const attacks = parts.flatMap((part, index) => {
      const respelled = [...spareBits(part), `${part}=`, `${part}==`, `${part} `, ` ${part}`, `${part}\t`];
      respelled.push(`${part.slice(0, 5)} ${part.slice(5)}`, `${part.slice(0, 5)}\t${part.slice(5)}`);
      const standard = part.replaceAll('-', '+').replaceAll('_', '/');
      if (standard !== part) respelled.push(standard);
      // HTTP itself trims what stands at the very end of a header.
      return respelled
        .map((spelling) => parts.with(index, spelling).join('.'))
        .filter((attack) => attack.trim() !== token);
    });
    expect(attacks.length).toBeGreaterThan(30);
    await expectRefused(attacks);
    for (const scheme of ['Basic', 'Token', 'Bearer  ', 'bearer:', '']) {
      const authorization = `${scheme} ${token}`.trimStart();
      const { body } = await expectStatus(401, 'GET', '/v1/me', { headers: { authorization } });
      expect(body.error.code).toBe('AUTH_INVALID_KEY');
    }
    // The scheme's name has no case.
    await expectStatus(200, 'GET', '/v1/me', { headers: { authorization: `bearer ${token}` } });
  });

  test('no unsigned token is accepted, however alg says none', async () => {
    const [, body, signature] = token.split('.');
    const attacks = ['none', 'None', 'NONE', 'nOnE', '', null, undefined, 0, [], ['ES256'], {}].flatMap((alg) => {
      const head = encode({ ...header, alg });
      return [`${head}.${body}.`, `${head}.${body}`, `${head}.${body}.${signature}`, `${head}.${body}.AA`];
    });
    await expectRefused(attacks);
  });

  test('no HMAC under the public key, in any of its forms, is taken for a signature', async () => {
    const [jwk] = (await expectStatus(200, 'GET', '/auth/v1/.well-known/jwks.json')).body.keys;
    const { d: _private, ...publicJwk } = privateKey;
    const x = Buffer.from(jwk.x, 'base64url');
    const y = Buffer.from(jwk.y, 'base64url');
    const spki = Buffer.concat([Buffer.from('3059301306072a8648ce3d020106082a8648ce3d03010703420004', 'hex'), x, y]);
    const pem = `-----BEGIN PUBLIC KEY-----\n${spki.toString('base64').replace(/.{64}/g, '$&\n')}\n-----END PUBLIC KEY-----\n`;
    const secrets = [
      JSON.stringify(jwk),
      JSON.stringify({ keys: [jwk] }),
      JSON.stringify(publicJwk),
      jwk.x,
      jwk.kid,
      x,
      spki,
      pem,
      pem.trim(),
      '',
    ];
    const attacks = secrets.flatMap((secret) =>
      [256, 384, 512].map((bits) => {
        const text = `${encode({ ...header, alg: `HS${bits}` })}.${encode(claims)}`;
        return `${text}.${createHmac(`sha${bits}`, secret).update(text).digest('base64url')}`;
      }),
    );
    await expectRefused(attacks);
  });

  test('no key of somebody else signs for the server, whatever the header says about it', async () => {
    const own = await newSigningKey('mine');
    const { d: _private, ...jwk } = own;
    const key = await importJWK(own, 'ES256');
    const headers: object[] = [
      {},
      { kid: 'mine', jwk },
      { jwk },
      { jku: 'https://attacker.example/jwks.json' },
      { x5u: 'https://attacker.example/cert.pem' },
      { x5c: ['AAAA'] },
      ...['', '../../dev/null', '/dev/null', "' or '1'='1", 'file:///etc/passwd', '%00', 'x'.repeat(500)].map(
        (kid) => ({ kid }),
      ),
    ];
    const attacks = await Promise.all(
      headers.map((more) => new SignJWT(claims).setProtectedHeader({ ...header, ...more }).sign(key)),
    );
    await expectRefused(attacks);
    const rsa = generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey;
    const others = await Promise.all(
      ['RS256', 'PS256', 'RS512'].map((alg) => new SignJWT(claims).setProtectedHeader({ ...header, alg }).sign(rsa)),
    );
    const p384 = generateKeyPairSync('ec', { namedCurve: 'P-384' }).privateKey;
    others.push(await new SignJWT(claims).setProtectedHeader({ ...header, alg: 'ES384' }).sign(p384));
    const edwards = generateKeyPairSync('ed25519').privateKey;
    others.push(await new SignJWT(claims).setProtectedHeader({ ...header, alg: 'EdDSA' }).sign(edwards));
    await expectRefused(others);
  });

  test('signatures of zeros, and signatures in another form, are refused', async () => {
    const [head, body] = token.split('.');
    const text = `${head}.${body}`;
    const der = sign('sha256', Buffer.from(text), { key: privateKey as never, format: 'jwk', dsaEncoding: 'der' });
    const signatures = [Buffer.alloc(64), Buffer.alloc(64, 255), Buffer.alloc(0), Buffer.alloc(96), der];
    await expectRefused(signatures.map((signature) => `${text}.${signature.toString('base64url')}`));
  });

  test('headers that ask for more than the server understands are refused', async () => {
    const headers: object[] = [{ typ: 'at+jwt' }, { typ: undefined }, { typ: 'logout+jwt' }];
    const attacks = await Promise.all(headers.map((more) => signed({}, more)));
    const text = `${encode({ ...header, crit: ['exp'], exp: 9_999_999_999 })}.${encode(claims)}`;
    const key = { key: privateKey as never, format: 'jwk', dsaEncoding: 'ieee-p1363' } as const;
    attacks.push(`${text}.${sign('sha256', Buffer.from(text), key).toString('base64url')}`);
    await expectRefused(attacks);
  });

  test('claims of another issuer, audience or person, and missing ones, are refused even from the right key', async () => {
    const stranger = await newTenant();
    const changes: Claims[] = [
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
      { session_id: randomUUID() },
      { session_id: 'x' },
      { session_id: [claims.session_id] },
      { session_id: undefined },
      { exp: undefined },
      { nbf: Math.floor(Date.now() / 1000) + 120 },
    ];
    await expectRefused(await Promise.all(changes.map((change) => signed(change))));
    const text = `${encode(header)}.${encode({ ...claims, exp: 'never' })}`;
    const key = { key: privateKey as never, format: 'jwk', dsaEncoding: 'ieee-p1363' } as const;
    await expectRefused([`${text}.${sign('sha256', Buffer.from(text), key).toString('base64url')}`]);
  });

  test('an expired token says so; one within the skew of 60 seconds is accepted', async () => {
    const seconds = Math.floor(Date.now() / 1000);
    await expectStatus(200, 'GET', '/v1/me', { token: await signed({ exp: seconds - 30 }) });
    await expectRefused([await signed({ exp: seconds - 60 }), await signed({ exp: 0 })], 'API_KEY_EXPIRED');
  });

  test('that is expired and wrong in another way is not told that it only expired', async () => {
    const exp = Math.floor(Date.now() / 1000) - 100;
    const forged = (await signed({ exp })).replace(/.{10}$/, 'AAAAAAAAAA');
    await expectRefused([
      await signed({ exp, iss: 'https://attacker.example' }),
      await signed({ exp, aud: 'x' }),
      forged,
    ]);
  });

  test('of a deactivated user, an ended session or a removed user is refused', async () => {
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

  test('that lost its role is refused what the role opened, at the next call', async () => {
    const person = await newPerson(tenant, 'Company_Admin');
    const { access_token: theirs } = await signIn(person.email);
    await expectStatus(200, 'GET', '/v1/api-keys', { token: theirs });
    await database()`delete from user_roles where user_id = ${person.id}`;
    await expectStatus(403, 'GET', '/v1/api-keys', { token: theirs });
  });
});

describe('at the edges of the clock', () => {
  const issuer = 'https://crm.example/auth/v1';
  const now = new Date('2026-11-20T12:00:00.000Z');
  const at = (seconds: number) => new Date(now.getTime() + seconds * 1000);
  const [userId, sessionId] = [randomUUID(), randomUUID()];

  test('a token is good for an hour and 60 seconds of skew, to the second', async () => {
    const tokens = await SessionTokens.fromKey(issuer, await newSigningKey('k'));
    const issued = await tokens.issue(userId, sessionId, now);
    const verdict = async (seconds: number) => (await tokens.verify(issued, at(seconds))).kind;
    expect(await tokens.verify(issued, now)).toEqual({
      kind: 'valid',
      userId,
      sessionId,
      expiresAt: at(sessionTokenSeconds),
    });
    expect(await verdict(sessionTokenSeconds + 59)).toBe('valid');
    expect(await verdict(sessionTokenSeconds + 59.999)).toBe('valid');
    expect(await verdict(sessionTokenSeconds + 60)).toBe('expired');
    expect(await verdict(sessionTokenSeconds + 61)).toBe('expired');
  });

  test('a token that is not good yet is accepted 60 seconds early and no earlier', async () => {
    const jwk = await newSigningKey('k');
    const tokens = await SessionTokens.fromKey(issuer, jwk);
    const verdict = async (early: number) => {
      const early_token = await new SignJWT({ session_id: sessionId, nbf: Math.floor(at(early).getTime() / 1000) })
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

  test('a line break, which HTTP cannot carry, is refused wherever it stands', async () => {
    const tokens = await SessionTokens.fromKey(issuer, await newSigningKey('k'));
    const issued = await tokens.issue(userId, sessionId, now);
    expect((await tokens.verify(issued, now)).kind).toBe('valid');
    for (let index = 0; index <= issued.length; index += 1) {
      for (const space of ['\n', '\r', ' ', '\u00a0']) {
        const attack = issued.slice(0, index) + space + issued.slice(index);
        expect((await tokens.verify(attack, now)).kind).toBe('invalid');
      }
    }
  });

  test('a token of another issuer with the same key, and of the same issuer with another key, are refused', async () => {
    const jwk = await newSigningKey('k');
    const tokens = await SessionTokens.fromKey(issuer, jwk);
    const other = await SessionTokens.fromKey('https://other.example/auth/v1', jwk);
    const foreign = await SessionTokens.fromKey(issuer, await newSigningKey('k'));
    for (const each of [other, foreign])
      expect((await tokens.verify(await each.issue(userId, sessionId, now), now)).kind).toBe('invalid');
  });
});

/** Spellings of a base64url text that differ in the bits of its last character that no byte uses. */
function spareBits(part: string): string[] {
  const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';
  const bytes = Buffer.from(part, 'base64url');
  return [...alphabet]
    .map((last) => part.slice(0, -1) + last)
    .filter((spelling) => spelling !== part && Buffer.from(spelling, 'base64url').equals(bytes));
}
