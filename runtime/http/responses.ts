// Sends responses: headers, bodies and files, and errors for input that is not HTTP.
import { randomUUID } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { pipeline, Readable } from 'node:stream';
import { buildContentDisposition } from '../../domain/records/file-names.ts';
import { bodyLimits } from '../../domain/service/request-limits.ts';
import type { ApiError } from '../errors.ts';
import { FileBody } from '../files/files.ts';
import type { RateFigures } from '../limits/rate-limits.ts';
import { buildDeprecationHeaders, type DeprecatedUse } from '../openapi/deprecation.ts';
import { PreparedBody } from '../openapi/prepared-body.ts';
import { stalledWriteMs } from './connections.ts';
import { buildFailureBody } from './envelope.ts';
import { http } from './node-http.ts';

/**
 * Milliseconds in which a client may keep sending after its response, before the connection is
 * closed.
 */
const lingerMs = 1000;

export interface Answer {
  status: number;
  /** A stream is sent in chunks as it produces them, without a time limit. */
  body: string | Buffer | PreparedBody | FileBody | Readable | undefined;
  headers: Record<string, string | string[]> | undefined;
}

type SentAnswer = Omit<Answer, 'body'> & { body: Exclude<Answer['body'], PreparedBody> };

/** Values for the headers of a response. */
export interface AboutAnswer {
  requestId: string;
  figures: RateFigures;
  /** Deprecated parameters and fields that the request uses. */
  deprecated: readonly DeprecatedUse[];
  /** True to make the client use another connection for its next request. */
  leave: boolean;
}

/**
 * Returns true for calls that do not count toward the quota: rejected by a limit, failed on the
 * server's side, or replayed from a stored response.
 */
export function isFree({ status, headers }: Answer): boolean {
  return status === 429 || status >= 500 || headers?.['idempotent-replay'] !== undefined;
}

const securityHeaders: readonly string[] = [
  'X-Content-Type-Options',
  'nosniff',
  'X-Frame-Options',
  'DENY',
  'Strict-Transport-Security',
  'max-age=31536000; includeSubDomains',
];

/**
 * Sends a response with the headers that every response has.
 * @param ending runs before a response after which the connection ends
 * @returns the status that was sent
 */
export function sendAnswer(
  request: IncomingMessage,
  response: ServerResponse,
  given: Answer,
  about: AboutAnswer,
  ending: () => void,
): number {
  const answer = chooseForm(given, request);
  if (response.destroyed) {
    discardBody(answer);
    return answer.status;
  }
  const headers = ['X-Request-Id', about.requestId, ...figureHeaders(about.figures), ...securityHeaders];
  if (about.deprecated.length > 0) headers.push(...buildDeprecationHeaders(about.deprecated));
  let encoding: BufferEncoding = 'utf8';
  if (answer.body instanceof FileBody) headers.push('Content-Length', String(answer.body.bytes));
  else if (answer.body !== undefined && !(answer.body instanceof Readable)) {
    if (!answer.headers?.['content-type']) headers.push('Content-Type', 'application/json; charset=utf-8');
    const length = Buffer.byteLength(answer.body);
    headers.push('Content-Length', String(length));
    // As many bytes as characters means plain ASCII, which Node sends faster as latin1.
    if (length === answer.body.length) encoding = 'latin1';
  }
  if (answer.headers)
    for (const name of Object.keys(answer.headers)) headers.push(name, answer.headers[name] as string);
  // The rest of an unread body is read and discarded if its size is known and within the limit.
  // Otherwise the connection is closed.
  const isTooMuch = remainingBytes(request) > bodyLimits.bytes;
  if (about.leave || isTooMuch || !response.shouldKeepAlive) {
    headers.push('Connection', 'close');
    ending();
  }
  response.writeHead(answer.status, headers);
  const content = answer.body instanceof FileBody ? answer.body.stream : answer.body;
  if (content instanceof Readable) {
    sendStream(request, response, content);
    return answer.status;
  }
  const body = request.method === 'HEAD' ? undefined : content;
  if (isTooMuch) endLater(request, response, body);
  else response.end(body, encoding);
  return answer.status;
}

/** Closes the file or stream of a response that is not sent. */
export function discardBody({ body }: Pick<Answer, 'body'>): void {
  const content = body instanceof FileBody ? body.stream : body;
  if (content instanceof Readable) content.on('error', () => undefined).destroy();
}

/** Returns the maximum number of bytes of the body that may still arrive. */
function remainingBytes({ complete, headers }: IncomingMessage): number {
  if (complete) return 0;
  return headers['transfer-encoding'] === undefined ? Number(headers['content-length'] ?? 0) : Number.POSITIVE_INFINITY;
}

/**
 * Sends an error for input that is not a valid request, and closes the connection.
 * @returns the request id in the response
 */
export function refuseConnection(socket: Socket, error: ApiError, figures: RateFigures): string {
  const requestId = randomUUID();
  const body = buildFailureBody(error, requestId, Date.now(), false, false);
  const headers = ['X-Request-Id', requestId, ...securityHeaders, ...figureHeaders(figures)];
  const lines = [`HTTP/1.1 ${error.status} ${http.STATUS_CODES[error.status]}`];
  for (let index = 0; index < headers.length; index += 2) lines.push(`${headers[index]}: ${headers[index + 1]}`);
  lines.push('Content-Type: application/json; charset=utf-8', `Content-Length: ${Buffer.byteLength(body)}`);
  socket.write(`${lines.join('\r\n')}\r\nConnection: close\r\n\r\n${body}`);
  // socket.end() would wait for the client to end its side, which a hostile client never does.
  socket.destroySoon();
  return requestId;
}

/** Headers that make browsers save a file and never render it, and say which bytes are sent. */
export function buildFileHeaders(file: FileBody): Record<string, string> {
  const { start, totalBytes } = file;
  return {
    ...(start === undefined ? {} : { 'accept-ranges': 'bytes' }),
    ...(start ? { 'content-range': `bytes ${start}-${totalBytes - 1}/${totalBytes}` } : {}),
    'content-type': 'application/octet-stream',
    'content-disposition': buildContentDisposition(file.name),
    'content-security-policy': "default-src 'none'; sandbox",
    'cache-control': 'private, no-store',
  };
}

function figureHeaders({ limit, remaining, reset }: RateFigures): string[] {
  return [
    'X-RateLimit-Limit',
    String(limit),
    'X-RateLimit-Remaining',
    String(remaining),
    'X-RateLimit-Reset',
    String(reset),
  ];
}

/** Selects the representation of a prepared body that the request accepts. */
function chooseForm(answer: Answer, request: IncomingMessage): SentAnswer {
  if (!(answer.body instanceof PreparedBody)) return answer as SentAnswer;
  const prepared = answer.body.answerTo(request.headers);
  return { ...prepared, headers: { ...answer.headers, ...prepared.headers } };
}

/**
 * Sends a response and keeps reading for a moment. If the connection closed while the client is
 * still sending, the client would lose the response.
 */
function endLater(request: IncomingMessage, response: ServerResponse, body: string | Buffer | undefined): void {
  response.flushHeaders();
  if (body !== undefined) response.write(body);
  const timer = setTimeout(() => response.end(), lingerMs);
  response.on('close', () => clearTimeout(timer));
  request.on('end', () => response.end()).resume();
}

/** Sends a stream at the speed at which the client reads. */
function sendStream(request: IncomingMessage, response: ServerResponse, stream: Readable): void {
  if (request.method === 'HEAD') {
    stream.destroy();
    response.end();
    return;
  }
  request.socket.setTimeout(stalledWriteMs);
  // If the client disconnects or the disk fails, pipeline destroys both streams. The client notices
  // by the missing bytes or the missing end.
  pipeline(stream, response, () => request.socket.setTimeout(0));
}
