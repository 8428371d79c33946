// Signed posts: a JSON body with signatures that prove who sent it, and what came of it.
import { createHmac, randomBytes } from 'node:crypto';
import { digestOf } from '../credentials/service-signature.ts';
import { type OutgoingClient, OutgoingError, type OutgoingFault } from './client.ts';

/** A new secret to sign with; libraries for Standard Webhooks take it as it is. */
export function newSigningSecret(): string {
  return `whsec_${randomBytes(32).toString('base64')}`;
}

export interface SignedPost {
  url: string;
  /** Each makes a signature of its own, the first one first. */
  secrets: readonly string[];
  /** The same whenever the same message is sent. */
  messageId: string;
  headers: Readonly<Record<string, string>>;
  body: string;
  testMode: boolean;
  sentAt: Date;
  /** Milliseconds for all of it, unless the client's own. */
  within?: number;
}

export interface PostOutcome {
  /** null where no answer came; then `error` says why. */
  status: number | null;
  error: OutgoingFault | null;
  retryAfter: string | undefined;
  /** The header `webhook-delivery` of the answer. */
  wish: string | undefined;
  /** The beginning of the answer's body. */
  snippet: string | null;
  durationMs: number;
}

/** Characters of an answer that are kept, and the bytes that they may take. */
const snippetLength = 1024;
const snippetBytes = 4 * snippetLength;

/** Sends it once. */
export async function postSigned(client: OutgoingClient, post: SignedPost): Promise<PostOutcome> {
  const { url, body, testMode, within } = post;
  const start = performance.now();
  const took = (): number => Math.round(performance.now() - start);
  try {
    const answer = await client.send({
      method: 'POST',
      url,
      headers: {
        ...post.headers,
        ...signatures(post),
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
      snippet: snippetOf(answer.body),
      durationMs: took(),
    };
  } catch (error) {
    if (!(error instanceof OutgoingError)) throw error;
    const nothing = { status: null, retryAfter: undefined, wish: undefined, snippet: null };
    return { ...nothing, error: error.fault, durationMs: took() };
  }
}

/**
 * Two schemes over the same body: `Service-Signature` under the whole secret as text, and that of Standard Webhooks under the bytes that
 * it stands for.
 */
export function signatures({
  secrets,
  messageId,
  body,
  sentAt,
}: Pick<SignedPost, 'secrets' | 'messageId' | 'body' | 'sentAt'>): Record<string, string> {
  const time = Math.floor(sentAt.getTime() / 1000);
  const own = secrets.map((secret) => `v1=${digestOf(secret, time, body)}`);
  const standard = secrets.map((secret) => {
    const key = Buffer.from(secret.replace(/^whsec_/, ''), 'base64');
    return `v1,${createHmac('sha256', key).update(`${messageId}.${time}.${body}`).digest('base64')}`;
  });
  return {
    'service-signature': [`t=${time}`, ...own].join(','),
    'webhook-id': messageId,
    'webhook-timestamp': String(time),
    'webhook-signature': standard.join(' '),
  };
}

/** As text that the database takes; null where there is none. */
function snippetOf(body: Buffer): string | null {
  const text = body.toString('utf8').replaceAll('\0', '').slice(0, snippetLength).toWellFormed();
  return text === '' ? null : text;
}
