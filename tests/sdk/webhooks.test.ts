// The client's verification of webhooks: accepted and rejected requests.
import { createHmac } from 'node:crypto';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { verifyStandardWebhook, verifyWebhook, WebhookSignatureError } from '../../sdk/src/index.ts';

const now = 1_767_225_600;
const secret = 'whsec_c2VjcmV0';
const body = '{"event":"record.created"}';

const digest = (text: string | Buffer, key = secret, time: string | number = now): string =>
  createHmac('sha256', key).update(`${time}.`).update(text).digest('hex');
const buildHeader = (signature = digest(body), time: string | number = now): string => `t=${time},v1=${signature}`;

async function catchReason(verified: Promise<unknown>): Promise<string> {
  const error = await verified.catch((thrown: unknown) => thrown);
  expect(error).toBeInstanceOf(WebhookSignatureError);
  return (error as WebhookSignatureError).reason;
}

beforeEach(() => {
  vi.useFakeTimers({ now: now * 1000, toFake: ['Date'] });
});
afterEach(() => {
  vi.useRealTimers();
});

describe('a genuine webhook', () => {
  test('accepts a signature computed by openssl', async () => {
    const header = `t=${now},v1=fffabf334460dd88e446bf5693d8b10cf02796d1d1a6f95ea40868dec7b2f56d`;
    expect(await verifyWebhook(body, header, secret)).toEqual({ event: 'record.created' });
  });

  test('accepts any matching signature of any secret, as during a rotation', async () => {
    const old = 'whsec_old';
    const both = `t=${now},v1=${digest(body)},v1=${digest(body, old)}`;
    for (const secrets of [[secret], [old], [secret, old], ['whsec_another', old]])
      expect(await verifyWebhook(body, both, secrets)).toEqual({ event: 'record.created' });
    expect(await verifyWebhook(body, buildHeader(digest(body, old)), [secret, old])).toBeDefined();
  });

  test('accepts any bytes, and ignores unknown signature schemes', async () => {
    const text = '{"name":"Zoë 😀"}';
    const bytes = Buffer.from(text);
    const header = `t=${now}, v1=${digest(bytes)}, v2=later`;
    expect(await verifyWebhook(bytes, header, secret)).toEqual({ name: 'Zoë 😀' });
    expect(await verifyWebhook(text, header, secret)).toEqual({ name: 'Zoë 😀' });
  });

  test.each([-300, -1, 0, 1, 300])('accepts a webhook signed %i seconds from now', async (seconds) => {
    const time = now + seconds;
    expect(await verifyWebhook(body, buildHeader(digest(body, secret, time), time), secret)).toBeDefined();
  });
});

describe('a rejected webhook', () => {
  test.each([-301, 301])('rejects a webhook signed %i seconds from now', async (seconds) => {
    const time = now + seconds;
    const header = buildHeader(digest(body, secret, time), time);
    expect(await catchReason(verifyWebhook(body, header, secret))).toBe('outside_tolerance');
    expect(await verifyWebhook(body, header, secret, 301)).toBeDefined();
  });

  test.each([
    ['another body', '{"event":"record.deleted"}'],
    ['a space more', `${body} `],
    ['a body that was parsed and written again', JSON.stringify(JSON.parse(body), null, 1)],
    ['no body', ''],
  ])('rejects a webhook that came with %s', async (_, altered) => {
    expect(await catchReason(verifyWebhook(altered, buildHeader(), secret))).toBe('no_match');
  });

  test('rejects a changed time and a signature of another secret', async () => {
    expect(await catchReason(verifyWebhook(body, buildHeader(digest(body), now + 1), secret))).toBe('no_match');
    expect(await catchReason(verifyWebhook(body, buildHeader(), ['whsec_another']))).toBe('no_match');
  });

  test.each([
    undefined,
    null,
    '',
    'nonsense',
    `t=${now}`,
    `v1=${digest(body)}`,
    `t=,v1=${digest(body)}`,
    `t=${now}.5,v1=${digest(body)}`,
    `t=1e9,v1=${digest(body)}`,
    `t=${now},t=${now},v1=${digest(body)}`,
    `t=${now},v0=${digest(body)}`,
    `t=${now},v1=${digest(body).slice(1)}`,
    `t=${now},v1=${digest(body)}0`,
    `t=${now},v1=${'g'.repeat(64)}`,
  ])('rejects a webhook whose header is %s', async (header) => {
    expect(await catchReason(verifyWebhook(body, header, secret))).toBe('malformed_header');
  });

  test('rejects an empty secret, so that an unset variable opens nothing', async () => {
    for (const secrets of ['', [], [secret, ''], [undefined as unknown as string]])
      await expect(verifyWebhook(body, buildHeader(), secrets)).rejects.toThrow(TypeError);
  });
});

describe('the headers of Standard Webhooks', () => {
  const sign = (text: string, time = now): string =>
    createHmac('sha256', Buffer.from('secret')).update(`evt_1.${time}.${text}`).digest('base64');
  const buildHeaders = (signature = `v1,${sign(body)}`, time = now) => ({
    'webhook-id': 'evt_1',
    'webhook-timestamp': String(time),
    'webhook-signature': signature,
  });

  test('accepts any matching signature, in headers of Node and of fetch', async () => {
    const both = buildHeaders(`v1a,AAAA v1,AAAA v1,${sign(body)}`);
    expect(await verifyStandardWebhook(body, both, secret)).toEqual({ event: 'record.created' });
    expect(await verifyStandardWebhook(body, new Headers(both), ['whsec_b3RoZXI=', secret])).toBeDefined();
  });

  test('rejects a changed body, an old time, missing headers, and a signature of another version', async () => {
    const reason = (text: string, headers: Record<string, string>): Promise<string> =>
      catchReason(verifyStandardWebhook(text, headers, secret));
    expect(await reason('{}', buildHeaders())).toBe('no_match');
    expect(await reason(body, buildHeaders(`v1a,${sign(body)}`))).toBe('no_match');
    expect(await reason(body, buildHeaders('v1,%'))).toBe('no_match');
    expect(await reason(body, buildHeaders(`v1,${sign(body, now - 301)}`, now - 301))).toBe('outside_tolerance');
    expect(await reason(body, {})).toBe('malformed_header');
    await expect(verifyStandardWebhook(body, buildHeaders(), '')).rejects.toThrow(TypeError);
  });
});
