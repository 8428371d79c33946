// Service-Signature, `t=<unix seconds>,v1=<hex>`, of outgoing and incoming bodies.
import { createHmac } from 'node:crypto';
import { isSameText } from './secrets.ts';

/** Maximum difference in seconds between the signature's time and now. */
const tolerance = 300;

/**
 * Returns v1: HMAC-SHA256 of `<t>.<body>`. The key is the whole secret as text.
 * @param time unix seconds
 */
export function computeDigest(secret: string, time: number | string, body: string | Buffer): string {
  return createHmac('sha256', secret).update(`${time}.`).update(body).digest('hex');
}

/** Verifies a signature header with any of the secrets. */
export function judgeSignature(
  header: string,
  body: Buffer,
  secrets: readonly string[],
  now: Date,
): 'good' | 'wrong' | 'old' {
  const parts = header.split(',').map((part) => part.trim().split('=') as [string, string?]);
  const time = parts.find(([name]) => name === 't')?.[1] ?? '';
  const digests = parts.flatMap(([name, value]) => (name === 'v1' && value !== undefined ? [value] : []));
  if (!/^\d{1,12}$/.test(time)) return 'wrong';
  const expected = secrets.map((secret) => computeDigest(secret, time, body));
  if (!digests.some((digest) => expected.some((each) => isSameText(each, digest)))) return 'wrong';
  return Math.abs(now.getTime() / 1000 - Number(time)) > tolerance ? 'old' : 'good';
}
