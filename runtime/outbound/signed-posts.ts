// Sends signed POST requests with a JSON body, and reports the outcome.
import { createHmac, createPrivateKey, generateKeyPairSync, randomBytes, sign } from 'node:crypto';
import { computeDigest } from '../credentials/service-signature.ts';
import { type OutgoingClient, OutgoingError, type OutgoingFault } from './client.ts';

/** Returns a new signing secret in the format of Standard Webhooks. */
export function newSigningSecret(): string {
  return `whsec_${randomBytes(32).toString('base64')}`;
}

/** An Ed25519 key pair. */
export interface SigningKeyPair {
  /** PKCS#8 in base64. */
  signingKey: string;
  /** In the format of Standard Webhooks: `whpk_` and the 32 bytes of the key in base64. */
  publicKey: string;
}

export function newSigningKeyPair(): SigningKeyPair {
  const { privateKey, publicKey } = generateKeyPairSync('ed25519');
  const raw = Buffer.from(publicKey.export({ format: 'jwk' }).x ?? '', 'base64url');
  return {
    signingKey: privateKey.export({ format: 'der', type: 'pkcs8' }).toString('base64'),
    publicKey: `whpk_${raw.toString('base64')}`,
  };
}

export interface SignedPost {
  url: string;
  /** Each secret adds a signature, in this order. */
  secrets: readonly string[];
  /** Each private key adds a further signature. */
  signingKeys?: readonly string[];
  /** Stays the same when a message is retried. */
  messageId: string;
  headers: Readonly<Record<string, string>>;
  /** Headers of the tenant, whose names differ from those of the service. */
  ownHeaders: Readonly<Record<string, string>>;
  body: string;
  testMode: boolean;
  sentAt: Date;
  /** Timeout of the whole call in milliseconds; by default the client's. */
  within?: number;
}

export interface PostOutcome {
  /** null if no response was received; then `error` says why. */
  status: number | null;
  error: OutgoingFault | null;
  retryAfter: string | undefined;
  /** The response header `webhook-delivery`. */
  wish: string | undefined;
  /** The start of the response body, without the values of the tenant's own headers. */
  snippet: string | null;
  durationMs: number;
}

/** Maximum characters of the stored response, and the bytes to read for them. */
const snippetLength = 1024;
const snippetBytes = 4 * snippetLength;

/** Sends the request once, without retries. */
export async function postSigned(client: OutgoingClient, post: SignedPost): Promise<PostOutcome> {
  const { url, body, testMode, within } = post;
  const start = performance.now();
  const took = (): number => Math.round(performance.now() - start);
  try {
    const answer = await client.send({
      method: 'POST',
      url,
      headers: {
        ...post.ownHeaders,
        ...post.headers,
        ...buildSignatures(post),
        'content-type': 'application/json',
        'user-agent': 'Service-Webhooks/1.0',
      },
      body,
      testMode,
      mostBytes: snippetBytes,
      ...(within === undefined ? {} : { within }),
    });
    const { status, headers } = answer;
    return {
      status,
      error: status >= 200 && status < 300 ? null : 'http_error',
      retryAfter: headers['retry-after'],
      wish: [headers['webhook-delivery']].flat()[0]?.trim().toLowerCase(),
      snippet: toSnippet(answer.body, post.ownHeaders),
      durationMs: took(),
    };
  } catch (error) {
    if (!(error instanceof OutgoingError)) throw error;
    const nothing = { status: null, retryAfter: undefined, wish: undefined, snippet: null };
    return { ...nothing, error: error.fault, durationMs: took() };
  }
}

/**
 * Signs the body in two schemes: `Service-Signature`, whose key is the whole secret as text, and
 * Standard Webhooks, whose keys are the decoded bytes (`v1`) and Ed25519 keys (`v1a`).
 */
export function buildSignatures({
  secrets,
  signingKeys = [],
  messageId,
  body,
  sentAt,
}: Pick<SignedPost, 'secrets' | 'signingKeys' | 'messageId' | 'body' | 'sentAt'>): Record<string, string> {
  const time = Math.floor(sentAt.getTime() / 1000);
  const message = `${messageId}.${time}.${body}`;
  const own = secrets.map((secret) => `v1=${computeDigest(secret, time, body)}`);
  const standard = secrets.map((secret) => {
    const key = Buffer.from(secret.replace(/^whsec_/, ''), 'base64');
    return `v1,${createHmac('sha256', key).update(message).digest('base64')}`;
  });
  const asymmetric = signingKeys.map((signingKey) => {
    const key = createPrivateKey({ key: Buffer.from(signingKey, 'base64'), format: 'der', type: 'pkcs8' });
    return `v1a,${sign(null, Buffer.from(message), key).toString('base64')}`;
  });
  return {
    'service-signature': [`t=${time}`, ...own].join(','),
    'webhook-id': messageId,
    'webhook-timestamp': String(time),
    'webhook-signature': [...standard, ...asymmetric].join(' '),
  };
}

/** The shortest value that is removed from responses: shorter ones occur by chance. */
const shortestSecret = 4;

/**
 * Returns text that the database can store, without the values of the tenant's own headers, which a
 * receiver may echo; null if the text is empty.
 */
function toSnippet(body: Buffer, ownHeaders: SignedPost['ownHeaders']): string | null {
  const text = body.toString('utf8').replaceAll('\0', '');
  const secrets = listEchoes(ownHeaders);
  // A value that the limit would cut in half is removed as a whole.
  const end = secrets.reduce((until, secret) => {
    const start = text.lastIndexOf(secret, snippetLength - 1);
    return start === -1 ? until : Math.max(until, start + secret.length);
  }, snippetLength);
  const clean = secrets.reduce((rest, secret) => rest.replaceAll(secret, '[removed]'), text.slice(0, end));
  const snippet = clean.slice(0, snippetLength).toWellFormed();
  return snippet === '' ? null : snippet;
}

/**
 * Returns the texts in which responses contain the values of headers, longest first: as they are,
 * escaped in JSON, and without the scheme of Authorization.
 */
function listEchoes(ownHeaders: SignedPost['ownHeaders']): string[] {
  const values = Object.values(ownHeaders).flatMap((value) => [value, value.replace(/^[\w-]+ +/, '')]);
  const escaped = values.map((value) => JSON.stringify(value).slice(1, -1));
  return [...new Set([...values, ...escaped])]
    .filter((each) => each.length >= shortestSecret)
    .sort((a, b) => b.length - a.length);
}
