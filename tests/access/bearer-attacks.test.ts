// Attacks on access tokens: forged, altered, borrowed or expired (E1).
import { createHmac, createPublicKey, generateKeyPairSync, randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { exportJWK, importJWK, type JWK, SignJWT } from 'jose';
import { beforeAll, describe, expect, inject, test } from 'vitest';
import { BearerTokens } from '../../runtime/credentials/bearer-tokens.ts';
import { createOwnKeys } from '../../runtime/credentials/issuer-keys.ts';
import { newSigningKey, SessionTokens } from '../../runtime/credentials/session-tokens.ts';
import { accessToken, newGrant } from '../support/access-tokens.ts';
import { expectStatus } from '../support/client.ts';
import { adminToken, serverIssuer, serverSigningKey } from '../support/sessions.ts';
import { newTenant, type Tenant } from '../support/tenants.ts';
import * as attack from '../support/token-attacks.ts';

let tenant: Tenant;
let good: attack.GoodToken;
let session: attack.GoodToken;
let publicKey: JWK;

beforeAll(async () => {
  tenant = await newTenant();
  const key = await serverSigningKey();
  good = attack.takeApart(await accessToken(tenant, await newGrant(tenant, { groups: ['records'] })), key);
  session = attack.takeApart(await adminToken(tenant), key);
  publicKey = (await expectStatus(200, 'GET', '/auth/v1/.well-known/jwks.json')).body.keys[0];
});

const seconds = (): number => Math.floor(Date.now() / 1000);
const signedAs = (changes: readonly attack.Claims[], headers: readonly object[] = []): Promise<string[]> =>
  Promise.all([
    ...changes.map((change) => attack.signed(good, change)),
    ...headers.map((header) => attack.signed(good, {}, header)),
  ]);
/** Returns a signature of the right key over claims given as raw text. */
const saying = (...claims: string[]): string[] =>
  claims.map((each) => attack.signedTexts(good, JSON.stringify(good.header), each));

const oddClaims = (): attack.Claims[] => [
  ...['https://attacker.example/auth/v1', `${good.claims.iss}/`, String(good.claims.iss).toUpperCase(), '', null].map(
    (iss) => ({ iss }),
  ),
  { iss: [good.claims.iss] },
  { iss: undefined },
  ...['x', '', null, 5, [good.claims.sub], {}, String(good.claims.sub).toUpperCase(), `${good.claims.sub}\0`].map(
    (sub) => ({ sub }),
  ),
  { sub: `urn:uuid:${good.claims.sub}` },
  { sub: ` ${good.claims.sub}` },
  { sub: undefined },
  { sub: randomUUID() },
  { sub: '00000000-0000-0000-0000-000000000000' },
  ...['', 5, true, [good.claims.client_id], {}, 'a\0b', 'x'.repeat(256), 'ä', '😀', 'a\nb', '\ud800'].map(
    (client_id) => ({ client_id }),
  ),
  ...[undefined, null, 'never', String(seconds() + 600), {}, [seconds() + 600], true, 1e300].map((exp) => ({ exp })),
  ...[seconds() + 120, 'soon', null, {}, 1e300].map((nbf) => ({ nbf })),
  ...[seconds() + 120, seconds() + 3600, 'soon', {}, 1e300].map((iat) => ({ iat })),
  // Claims that would make it a session token.
  { session_id: session.claims.session_id },
  { session_id: null },
  { aud: 'authenticated' },
  { aud: ['authenticated', 'urn:other'] },
];

const strangeTypes: object[] = [
  ...['JWT', 'jwt', '', 'at+jwt ', 'id+jwt', 'logout+jwt', 'dpop+jwt', 'secevent+jwt', 'application/jwt'].map(
    (typ) => ({
      typ,
    }),
  ),
  ...[undefined, null, 5, ['at+jwt'], {}].map((typ) => ({ typ })),
  ...[5, null, '', [], {}, 'other', `${'x'.repeat(300)}`].map((kid) => ({ kid })),
];

const oddTexts = (): string[] => {
  const { sub, exp, ...rest } = good.claims;
  const open = JSON.stringify({ ...rest, exp }).slice(0, -1);
  const whole = JSON.stringify(good.claims);
  return [
    ...saying('[]', 'null', '5', '"text"', '{}', `[${whole}]`, `${whole}x`, `${whole}${whole}`, whole.slice(0, -1)),
    // RFC 7519: the last of two duplicate claims counts.
    ...saying(`${open},"sub":"${sub}","sub":"${randomUUID()}"}`, `${open},"sub":"${sub}","sub":null}`),
    ...saying(`${whole.slice(0, -1)},"exp":0}`.replace('"exp":0', '"exp":"x"'), `${whole.slice(0, -1)},"iss":"other"}`),
    ...saying(`\ufeff${whole}`, whole.replaceAll('"', "'"), `${open},"sub":"${sub}",}`, `/**/${whole}`),
    attack.signedTexts(good, `${JSON.stringify(good.header).slice(0, -1)},"alg":"none"}`, whole),
    attack.signedTexts(good, '[]', whole),
    attack.signedTexts(good, 'null', whole),
    attack.signedTexts(good, '{}', whole),
  ];
};

/** Each function derives attacks of one kind from the valid token. */
const families: Record<string, () => string[] | Promise<string[]>> = {
  'with another character': () => attack.changed(good.token),
  'with a character less, or more at the seams': () => attack.cutAndGrown(good.token),
  'spelled in another way': () => attack.respelled(good.token),
  'that is not signed': () => attack.unsigned(good),
  'signed by HMAC under the public key': () => attack.hmacUnderPublicKey(good, publicKey),
  'signed by somebody else, whatever its header says about the key': () => attack.signedByOthers(good),
  'with an odd signature': () => attack.oddSignatures(good),
  'with a critical header that nobody understands': () => attack.criticalHeaders(good),
  'of another type, or naming another key': () => signedAs([], strangeTypes),
  'with claims that do not fit': () => signedAs(oddClaims()),
  'with texts that no library would write': oddTexts,
  'that a session token was made into': () =>
    Promise.all([
      attack.signed(session, {}, { typ: 'at+jwt' }),
      attack.signed(session, { client_id: good.claims.client_id }),
      attack.signed(session, { client_id: good.claims.client_id }, { typ: 'at+jwt' }),
      attack.signed(session, { session_id: undefined, client_id: good.claims.client_id }, { typ: 'at+jwt' }),
      attack.signed(session, { aud: undefined, client_id: good.claims.client_id }, { typ: 'at+jwt' }),
      attack.signed(session, { session_id: undefined }),
      attack.signed(session, { aud: undefined }),
    ]),
  'that was made into a session token': () =>
    Promise.all([
      attack.signed(good, { client_id: undefined, aud: 'authenticated' }),
      attack.signed(good, { client_id: undefined, aud: 'authenticated' }, { typ: 'JWT' }),
      attack.signed(good, { client_id: undefined, session_id: session.claims.session_id }, { typ: 'JWT' }),
      attack.signed(good, { aud: 'authenticated', session_id: session.claims.session_id }, { typ: 'JWT' }),
    ]),
};

async function expectRefused(attacks: readonly string[], code = 'AUTH_INVALID_KEY'): Promise<void> {
  for (const token of attacks) {
    const { body, headers } = await expectStatus(401, 'GET', '/v1/me', { token });
    expect([token, body.error.code]).toEqual([token, code]);
    expect(headers.get('www-authenticate')).toBe('Bearer realm="api", error="invalid_token"');
  }
}

describe('an access token', () => {
  test('accepts the valid token and another one of the same key', async () => {
    await expectStatus(200, 'GET', '/v1/me', { token: good.token });
    await expectStatus(200, 'GET', '/v1/me', { token: await attack.signed(good) });
    await expectStatus(200, 'GET', '/v1/me', { token: await attack.signed(good, {}, { typ: 'application/at+jwt' }) });
    await expectStatus(200, 'GET', '/v1/me', { token: await attack.signed(good, { nbf: seconds(), aud: 'urn:crm' }) });
    await expectStatus(200, 'GET', '/v1/me', { token: session.token });
  });

  test.each(Object.keys(families))('rejects tokens %s', async (family) => {
    const attacks = (await families[family]?.()) ?? [];
    expect(attacks.length).toBeGreaterThan(3);
    await expectRefused(attacks);
  });

  test('tries more than 500 attacks', async () => {
    const attacks = await Promise.all(Object.values(families).map((family) => family()));
    expect(new Set(attacks.flat()).size).toBeGreaterThan(500);
  });

  test('reports an expired token as expired only if nothing else is wrong with it', async () => {
    await expectStatus(200, 'GET', '/v1/me', { token: await attack.signed(good, { exp: seconds() - 30 }) });
    const past = [seconds() - 60, seconds() - 61, 0, -1, -1e300];
    await expectRefused(await signedAs(past.map((exp) => ({ exp }))), 'API_KEY_EXPIRED');
    const exp = seconds() - 100;
    await expectRefused([
      ...(await signedAs([{ exp, iss: 'https://attacker.example' }])),
      (await attack.signed(good, { exp })).replace(/.{10}$/, 'AAAAAAAAAA'),
    ]);
  });

  test('never logs a rejected token (E10)', async () => {
    const token = await attack.signed(good, { iss: 'https://attacker.example' });
    const { headers } = await expectStatus(401, 'GET', '/v1/me', { token });
    const log = (): string => readFileSync(inject('logFile'), 'utf8');
    await expect.poll(log).toContain(headers.get('x-request-id'));
    for (const part of token.split('.').slice(1)) expect(log()).not.toContain(part);
  });
});

describe('access tokens and session tokens of this server', () => {
  test('never confuses access tokens and session tokens of this server', async () => {
    const issuer = await serverIssuer(tenant);
    const sessions = await SessionTokens.fromKeys(issuer, [good.privateKey]);
    const bearers = new BearerTokens({
      issuer,
      agentAudience: 'urn:agents',
      audience: undefined,
      keys: createOwnKeys(sessions.jwks),
      isOwn: true,
    });
    const now = new Date();
    expect((await bearers.verify(good.token, now)).kind).toBe('valid');
    expect((await sessions.verify(session.token, now)).kind).toBe('valid');
    expect((await bearers.verify(session.token, now)).kind).toBe('invalid');
    expect((await sessions.verify(good.token, now)).kind).toBe('invalid');
  });

  test('lets each kind of token call only the operations that declare it', async () => {
    const list = await expectStatus(403, 'GET', '/v1/api-keys', { token: good.token });
    expect(list.body.error.details).toEqual({ required_scopes: [], reason: 'session_token_required' });
    const records = await expectStatus(403, 'GET', '/v1/objects/leads/records', { token: session.token });
    expect(records.body.error.details).toEqual({ required_scopes: [], reason: 'api_key_required' });
  });
});

describe('edge cases', () => {
  const issuer = 'https://issuer.example/';
  const now = new Date('2026-11-20T12:00:00.000Z');
  const at = (later: number) => Math.floor(now.getTime() / 1000) + later;
  const claims = { iss: issuer, sub: randomUUID(), client_id: 'app', exp: at(600), scope: 'openid leads:view' };
  const rsa = generateKeyPairSync('rsa', { modulusLength: 2048 });
  let ec: JWK;
  let keys: JWK[];

  beforeAll(async () => {
    ec = await newSigningKey('ec');
    const { d: _private, ...ecPublic } = ec;
    keys = [ecPublic, { ...(await exportJWK(rsa.publicKey)), kid: 'rsa', use: 'sig' }];
  });

  async function sign(changes: attack.Claims = {}, header: object = {}): Promise<string> {
    return new SignJWT({ ...claims, ...changes })
      .setProtectedHeader({ alg: 'ES256', typ: 'at+jwt', kid: 'ec', ...header })
      .sign(await importJWK(ec, 'ES256'));
  }
  const byRsa = (alg: string, header: object = {}): Promise<string> =>
    new SignJWT(claims).setProtectedHeader({ alg, typ: 'at+jwt', kid: 'rsa', ...header }).sign(rsa.privateKey);
  const verify = (token: string, audience?: string) =>
    new BearerTokens({
      issuer,
      agentAudience: 'urn:agents',
      audience,
      keys: createOwnKeys({ keys }),
      isOwn: false,
    }).verify(token, now);
  const verifyKind = async (token: Promise<string> | string, audience?: string) =>
    (await verify(await token, audience)).kind;

  test('accepts a token exactly 60 seconds before and after its validity', async () => {
    const kinds = async (name: string, times: number[]) =>
      Promise.all(times.map((time) => verifyKind(sign({ [name]: at(time) }))));
    expect(await kinds('exp', [-59, -60, -61])).toEqual(['valid', 'expired', 'expired']);
    expect(await kinds('nbf', [59, 60, 61])).toEqual(['valid', 'valid', 'invalid']);
    expect(await kinds('iat', [-3600, 59, 60, 61, 3600])).toEqual(['valid', 'valid', 'valid', 'invalid', 'invalid']);
  });

  test('accepts RS256 and ES256 from another issuer, and no other algorithm', async () => {
    const valid = { kind: 'valid', userId: claims.sub, clientId: 'app', expiresAt: new Date('2026-11-20T12:10:00Z') };
    expect(await verify(await sign())).toEqual({ ...valid, scopes: ['openid', 'leads:view'] });
    expect(await verify(await byRsa('RS256'))).toEqual({ ...valid, scopes: ['openid', 'leads:view'] });
    for (const alg of ['RS384', 'RS512', 'PS256', 'PS512'])
      expect([alg, await verifyKind(byRsa(alg))]).toEqual([alg, 'invalid']);
    const secrets = [
      rsa.publicKey.export({ type: 'spki', format: 'pem' }),
      rsa.publicKey.export({ type: 'pkcs1', format: 'pem' }),
      createPublicKey({ key: keys[0] as never, format: 'jwk' }).export({ type: 'spki', format: 'pem' }),
    ];
    for (const secret of secrets) {
      const text = `${attack.encode({ alg: 'HS256', typ: 'at+jwt', kid: 'rsa' })}.${attack.encode(claims)}`;
      const signature = createHmac('sha256', secret).update(text).digest('base64url');
      expect(await verifyKind(`${text}.${signature}`)).toBe('invalid');
    }
  });

  test('verifies a token with the key that it names, or with the only matching one', async () => {
    expect(await verifyKind(sign({}, { kid: undefined }))).toBe('valid');
    for (const kid of ['rsa', 'other', '', 5])
      expect([kid, await verifyKind(sign({}, { kid }))]).toEqual([kid, 'invalid']);
    expect(await verifyKind(byRsa('RS256', { kid: 'ec' }))).toBe('invalid');
    const { d: _private, ...second } = await newSigningKey('second');
    const two = new BearerTokens({
      issuer,
      audience: undefined,
      agentAudience: 'urn:agents',
      keys: createOwnKeys({ keys: [...keys, second] }),
      isOwn: false,
    });
    expect((await two.verify(await sign({}, { kid: undefined }), now)).kind).toBe('invalid');
    expect((await two.verify(await sign(), now)).kind).toBe('valid');
  });

  test('requires the audience only if the settings name one', async () => {
    for (const [aud, audience, kind] of [
      [undefined, undefined, 'valid'],
      ['urn:other', undefined, 'valid'],
      ['urn:crm', 'urn:crm', 'valid'],
      [['urn:other', 'urn:crm'], 'urn:crm', 'valid'],
      [undefined, 'urn:crm', 'invalid'],
      ['urn:other', 'urn:crm', 'invalid'],
      ['urn:crm/', 'urn:crm', 'invalid'],
      [[], 'urn:crm', 'invalid'],
      [{}, 'urn:crm', 'invalid'],
    ] as const)
      expect([aud, audience, await verifyKind(sign({ aud }), audience)]).toEqual([aud, audience, kind]);
  });

  test('rejects ID tokens and other tokens of the issuer that are not access tokens', async () => {
    // Access tokens of issuers that do not follow RFC 9068.
    for (const typ of ['JWT', undefined]) expect(await verifyKind(sign({ aud: 'urn:crm' }, { typ }))).toBe('valid');
    expect(await verifyKind(sign({ client_id: undefined, azp: 'app' }, { typ: 'JWT' }))).toBe('valid');
    for (const typ of ['JWT', undefined]) {
      expect(await verifyKind(sign({ aud: 'app' }, { typ }))).toBe('invalid');
      expect(await verifyKind(sign({ aud: ['app'], client_id: undefined, azp: 'app' }, { typ }))).toBe('invalid');
    }
    for (const typ of ['logout+jwt', 'dpop+jwt', 'secevent+jwt', 5])
      expect([typ, await verifyKind(sign({}, { typ }))]).toEqual([typ, 'invalid']);
    expect(await verify(await sign({ client_id: undefined, azp: 'other' }))).toMatchObject({ clientId: 'other' });
    expect(await verify(await sign({ client_id: undefined }))).toMatchObject({ clientId: claims.sub });
  });
});
