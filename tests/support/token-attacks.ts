// Invalid tokens, derived from a valid one.
import { createHmac, generateKeyPairSync, sign } from 'node:crypto';
import { importJWK, type JWK, type JWTHeaderParameters, SignJWT } from 'jose';
import { newSigningKey } from '../../runtime/credentials/session-tokens.ts';

export type Claims = Record<string, unknown>;

/** A valid token with its claims and its private signing key. */
export interface GoodToken {
  token: string;
  header: JWTHeaderParameters;
  claims: Claims;
  privateKey: JWK;
}

export const encode = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString('base64url');
const decode = (part: string | undefined) => JSON.parse(Buffer.from(part ?? '', 'base64url').toString());

export function takeApart(token: string, privateKey: JWK): GoodToken {
  const [header, claims] = token.split('.');
  return { token, header: decode(header), claims: decode(claims), privateKey };
}

/** Returns a token with other claims and headers, signed by the right key. */
export async function signed(
  { claims, header, privateKey }: GoodToken,
  changes: Claims = {},
  headerChanges: object = {},
): Promise<string> {
  const key = await importJWK(privateKey, 'ES256');
  return new SignJWT({ ...claims, ...changes }).setProtectedHeader({ ...header, ...headerChanges }).sign(key);
}

/** Signs any two texts with the right key, for tokens that no library would write. */
export function signedTexts({ privateKey }: GoodToken, header: string, claims: string): string {
  const text = [header, claims].map((part) => Buffer.from(part).toString('base64url')).join('.');
  const key = { key: privateKey as never, format: 'jwk', dsaEncoding: 'ieee-p1363' } as const;
  return `${text}.${sign('sha256', Buffer.from(text), key).toString('base64url')}`;
}

/** Returns tokens with another character, for each place. */
export function changed(token: string): string[] {
  return [...token].map((character, index) => {
    const other = character === 'A' ? 'B' : 'A';
    return token.slice(0, index) + other + token.slice(index + 1);
  });
}

/** Returns tokens without a character, for each place, and with additional ones at the seams. */
export function cutAndGrown(token: string): string[] {
  const cut = [...token].map((_, index) => token.slice(0, index) + token.slice(index + 1));
  const grown = ['.', 'A', '=', '==', '%3D'].flatMap((more) => [
    more + token,
    token + more,
    token.replace('.', `${more}.`),
  ]);
  return [...cut, ...grown];
}

/** Returns other spellings that decode to the same bytes. */
export function respelled(token: string): string[] {
  const parts = token.split('.');
  return parts.flatMap((part, index) => {
    const spellings = [...spareBits(part), `${part}=`, `${part}==`, `${part} `, ` ${part}`, `${part}\t`];
    spellings.push(`${part.slice(0, 5)} ${part.slice(5)}`, `${part.slice(0, 5)}\t${part.slice(5)}`);
    const standard = part.replaceAll('-', '+').replaceAll('_', '/');
    if (standard !== part) spellings.push(standard);
    // HTTP itself trims the end of a header.
    return spellings
      .map((spelling) => parts.with(index, spelling).join('.'))
      .filter((attack) => attack.trim() !== token);
  });
}

/** Returns spellings of a base64url text that differ in unused bits of its last character. */
function spareBits(part: string): string[] {
  const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';
  const bytes = Buffer.from(part, 'base64url');
  return [...alphabet]
    .map((last) => part.slice(0, -1) + last)
    .filter((spelling) => spelling !== part && Buffer.from(spelling, 'base64url').equals(bytes));
}

/** Returns unsigned tokens, in all the ways that alg can say none, or nothing. */
export function unsigned({ token, header }: GoodToken): string[] {
  const [, body, signature] = token.split('.');
  return ['none', 'None', 'NONE', 'nOnE', '', null, undefined, 0, [], ['ES256'], {}].flatMap((alg) => {
    const head = encode({ ...header, alg });
    return [`${head}.${body}.`, `${head}.${body}`, `${head}.${body}.${signature}`, `${head}.${body}.AA`];
  });
}

/** Returns tokens signed by HMAC with the public key, in all its known forms. */
export function hmacUnderPublicKey({ header, claims, privateKey }: GoodToken, jwk: JWK): string[] {
  const { d: _private, ...publicJwk } = privateKey;
  const x = Buffer.from(jwk.x ?? '', 'base64url');
  const y = Buffer.from(jwk.y ?? '', 'base64url');
  const spki = Buffer.concat([Buffer.from('3059301306072a8648ce3d020106082a8648ce3d03010703420004', 'hex'), x, y]);
  const pem = `-----BEGIN PUBLIC KEY-----\n${spki.toString('base64').replace(/.{64}/g, '$&\n')}\n-----END PUBLIC KEY-----\n`;
  const secrets = [
    JSON.stringify(jwk),
    JSON.stringify({ keys: [jwk] }),
    JSON.stringify(publicJwk),
    jwk.x ?? '',
    jwk.kid ?? '',
    x,
    spki,
    pem,
    pem.trim(),
    '',
  ];
  return secrets.flatMap((secret) =>
    [256, 384, 512].map((bits) => {
      const text = `${encode({ ...header, alg: `HS${bits}` })}.${encode(claims)}`;
      return `${text}.${createHmac(`sha${bits}`, secret).update(text).digest('base64url')}`;
    }),
  );
}

/**
 * Returns tokens signed by other keys, with headers that embed or name foreign keys, and with other
 * algorithms.
 */
export async function signedByOthers({ header, claims }: GoodToken): Promise<string[]> {
  const own = await newSigningKey('mine');
  const { d: _private, ...jwk } = own;
  const key = await importJWK(own, 'ES256');
  const kids = ['', '../../dev/null', '/dev/null', "' or '1'='1", 'file:///etc/passwd', '%00', 'x'.repeat(500)];
  const headers: object[] = [
    {},
    { kid: 'mine', jwk },
    { jwk },
    { jku: 'https://attacker.example/jwks.json' },
    { x5u: 'https://attacker.example/cert.pem' },
    { x5c: ['AAAA'] },
    ...kids.map((kid) => ({ kid })),
  ];
  const sign = (alg: string, more: object, by: Parameters<SignJWT['sign']>[0]) =>
    new SignJWT(claims).setProtectedHeader({ ...header, ...more, alg }).sign(by);
  const rsa = generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey;
  const p384 = generateKeyPairSync('ec', { namedCurve: 'P-384' }).privateKey;
  const edwards = generateKeyPairSync('ed25519').privateKey;
  return Promise.all([
    ...headers.map((more) => sign('ES256', more, key)),
    ...['RS256', 'PS256', 'RS512'].map((alg) => sign(alg, {}, rsa)),
    sign('ES384', {}, p384),
    sign('EdDSA', {}, edwards),
  ]);
}

/** Returns tokens with signatures of zeros, of wrong lengths, and in the form of certificates. */
export function oddSignatures({ token, privateKey }: GoodToken): string[] {
  const text = token.slice(0, token.lastIndexOf('.'));
  const der = sign('sha256', Buffer.from(text), { key: privateKey as never, format: 'jwk', dsaEncoding: 'der' });
  const signatures = [Buffer.alloc(64), Buffer.alloc(64, 255), Buffer.alloc(0), Buffer.alloc(96), der];
  return signatures.map((signature) => `${text}.${signature.toString('base64url')}`);
}

/**
 * Returns tokens signed by the right key with a critical header that the server does not
 * understand.
 */
export function criticalHeaders(good: GoodToken): string[] {
  const more: object[] = [
    { crit: ['exp'], exp: 9_999_999_999 },
    { crit: [] },
    { crit: 'exp', exp: 9_999_999_999 },
    { crit: ['b64'], b64: false },
    { crit: ['http://example.com/extension'], 'http://example.com/extension': true },
  ];
  return more.map((header) =>
    signedTexts(good, JSON.stringify({ ...good.header, ...header }), JSON.stringify(good.claims)),
  );
}
