// Verifies webhook requests: the signature over the raw body, and its age.

export class WebhookSignatureError extends Error {
  override readonly name = 'WebhookSignatureError';
  readonly reason: 'malformed_header' | 'outside_tolerance' | 'no_match';

  constructor(reason: WebhookSignatureError['reason'], message: string) {
    super(message);
    this.reason = reason;
  }
}

/**
 * Verifies the signature of a webhook and parses its body. Respond with 400 if it throws.
 * @param rawBody as received, before any parsing
 * @param header the value of Service-Signature, `t=<unix seconds>,v1=<64 hex characters>`; any v1
 * may match
 * @param secrets of the subscription; both during a rotation
 * @param toleranceSec maximum difference between `t` and this machine's clock in seconds
 * @returns the parsed body
 * @throws WebhookSignatureError if the request cannot be trusted
 */
export async function verifyWebhook<Event = unknown>(
  rawBody: string | Uint8Array,
  header: string | null | undefined,
  secrets: string | readonly string[],
  toleranceSec = 300,
): Promise<Event> {
  const trusted = [secrets].flat();
  // Anyone could sign with an empty secret, such as that of an unset variable.
  if (trusted.length === 0 || trusted.some((secret) => !secret)) throw new TypeError('a webhook secret is empty');
  const { time, signatures } = readHeader(header ?? '');
  if (!(Math.abs(Math.floor(Date.now() / 1000) - Number(time)) <= toleranceSec))
    throw new WebhookSignatureError('outside_tolerance', 'The webhook was signed too long ago, or in the future.');
  const body = typeof rawBody === 'string' ? new TextEncoder().encode(rawBody) : rawBody;
  const signed = concat(new TextEncoder().encode(`${time}.`), body);
  for (const secret of trusted) if (await isSignedWith(secret, signed, signatures)) return parse(body);
  throw new WebhookSignatureError('no_match', 'No signature of the webhook fits its body and a secret.');
}

/** The headers of a request: of Node, with names in lower case, or of fetch. */
export type WebhookHeaders = Headers | Readonly<Record<string, string | readonly string[] | undefined>>;

/**
 * Verifies the `webhook-` headers of Standard Webhooks and parses the body. Respond with 400 if it
 * throws.
 * @param rawBody as received, before any parsing
 * @param keys public keys (`whpk_…`) for signatures of `v1a`, or secrets (`whsec_…`) for those of
 * `v1`; any may match
 * @param toleranceSec maximum difference between `webhook-timestamp` and this machine's clock in
 * seconds
 * @returns the parsed body
 * @throws WebhookSignatureError if the request cannot be trusted
 */
export async function verifyStandardWebhook<Event = unknown>(
  rawBody: string | Uint8Array,
  headers: WebhookHeaders,
  keys: string | readonly string[],
  toleranceSec = 300,
): Promise<Event> {
  const trusted = [keys].flat();
  if (trusted.length === 0 || trusted.some((key) => !/^wh(sec|pk)_./.test(key)))
    throw new TypeError('a webhook key must begin with whpk_ or whsec_');
  const [id, time, signature] = ['webhook-id', 'webhook-timestamp', 'webhook-signature'].map((name) =>
    String((headers instanceof Headers ? headers.get(name) : headers[name]) ?? ''),
  ) as [string, string, string];
  if (id === '' || !/^\d{1,12}$/.test(time) || signature === '')
    throw new WebhookSignatureError('malformed_header', 'A webhook- header is missing or not readable.');
  if (!(Math.abs(Math.floor(Date.now() / 1000) - Number(time)) <= toleranceSec))
    throw new WebhookSignatureError('outside_tolerance', 'The webhook was signed too long ago, or in the future.');
  const body = typeof rawBody === 'string' ? new TextEncoder().encode(rawBody) : rawBody;
  const signed = concat(new TextEncoder().encode(`${id}.${time}.`), body);
  for (const key of trusted) if (await isStandardSignature(key, signed, signature)) return parse(body);
  throw new WebhookSignatureError('no_match', 'No signature of the webhook fits its body and a key.');
}

async function isStandardSignature(key: string, signed: Uint8Array<ArrayBuffer>, signature: string): Promise<boolean> {
  const isPublic = key.startsWith('whpk_');
  const [version, algorithm] = isPublic ? ['v1a', { name: 'Ed25519' }] : ['v1', { name: 'HMAC', hash: 'SHA-256' }];
  const bytes = decodeBase64(key.slice(key.indexOf('_') + 1));
  const imported = await crypto.subtle.importKey('raw', bytes, algorithm, false, ['verify']);
  const signatures = signature.split(' ').filter((each) => each.startsWith(`${version},`));
  const matches = await Promise.all(
    signatures.map((each) =>
      crypto.subtle.verify(algorithm.name, imported, decodeBase64(each.slice(version.length + 1)), signed),
    ),
  );
  return matches.includes(true);
}

/** Returns no bytes for text that is not base64. */
function decodeBase64(text: string): Uint8Array<ArrayBuffer> {
  try {
    return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  } catch {
    return new Uint8Array(0);
  }
}

function readHeader(header: string): { time: string; signatures: Uint8Array<ArrayBuffer>[] } {
  const parts = header.split(',').map((part) => part.trim());
  const times = parts.filter((part) => part.startsWith('t=')).map((part) => part.slice(2));
  const hex = parts.filter((part) => /^v1=[0-9a-f]{64}$/i.test(part)).map((part) => part.slice(3));
  const [time = ''] = times;
  if (times.length !== 1 || !/^\d{1,12}$/.test(time) || hex.length === 0)
    throw new WebhookSignatureError('malformed_header', 'The header Service-Signature is missing or not readable.');
  const bytes = (text: string) => Uint8Array.from(text.match(/../g) ?? [], (pair) => Number.parseInt(pair, 16));
  return { time, signatures: hex.map(bytes) };
}

/** WebCrypto compares in constant time. */
async function isSignedWith(
  secret: string,
  signed: Uint8Array<ArrayBuffer>,
  signatures: readonly Uint8Array<ArrayBuffer>[],
): Promise<boolean> {
  const algorithm = { name: 'HMAC', hash: 'SHA-256' };
  const key = await crypto.subtle.importKey('raw', new TextEncoder().encode(secret), algorithm, false, ['verify']);
  const matches = await Promise.all(
    signatures.map((signature) => crypto.subtle.verify('HMAC', key, signature, signed)),
  );
  return matches.includes(true);
}

function concat(first: Uint8Array, second: Uint8Array): Uint8Array<ArrayBuffer> {
  const whole = new Uint8Array(first.length + second.length);
  whole.set(first);
  whole.set(second, first.length);
  return whole;
}

function parse<Event>(body: Uint8Array): Event {
  return JSON.parse(new TextDecoder().decode(body)) as Event;
}
