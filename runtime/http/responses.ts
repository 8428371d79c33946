// Answers as they go over the wire: headers, bodies, files, and refusals of what is not HTTP.
import { randomUUID } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { pipeline, Readable } from 'node:stream';
import { contentDisposition } from '../../domain/records/file-names.ts';
import { bodyLimits } from '../../domain/service/request-limits.ts';
import type { ApiError } from '../errors.ts';
import { FileBody } from '../files/files.ts';
import type { RateFigures } from '../limits/rate-limits.ts';
import { type DeprecatedUse, deprecationHeaders } from '../openapi/deprecation.ts';
import { PreparedBody } from '../openapi/prepared-body.ts';
import { stalledWrite } from './connections.ts';
import { failureBody } from './envelope.ts';
import { http } from './node-http.ts';

/** Milliseconds that an answered client may go on sending before its connection is closed. */
const lingerTime = 1000;

export interface Answer {
  status: number;
  /** A stream is sent as it comes, however long that takes. */
  body: string | Buffer | PreparedBody | FileBody | Readable | undefined;
  headers: Record<string, string | string[]> | undefined;
}

type SentAnswer = Omit<Answer, 'body'> & { body: Exclude<Answer['body'], PreparedBody> };

/** What the headers say about an answer. */
export interface AboutAnswer {
  requestId: string;
  figures: RateFigures;
  /** Deprecated forms that the request uses. */
  deprecated: readonly DeprecatedUse[];
  /** True to have the client open another connection for its next request. */
  leave: boolean;
}

/** True for calls that the quota does not count: refused by a limit, failed on our side, or answered from what was kept. */
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
 * Sends an answer with the headers that every answer carries.
 * @param ending runs before an answer after which the connection ends
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
  if (response.destroyed) return answer.status;
  const headers = ['X-Request-Id', about.requestId, ...figureHeaders(about.figures), ...securityHeaders];
  if (about.deprecated.length > 0) headers.push(...deprecationHeaders(about.deprecated));
  let encoding: BufferEncoding = 'utf8';
  if (answer.body instanceof FileBody) headers.push('Content-Length', String(answer.body.bytes));
  else if (answer.body !== undefined && !(answer.body instanceof Readable)) {
    if (!answer.headers?.['content-type']) headers.push('Content-Type', 'application/json; charset=utf-8');
    const length = Buffer.byteLength(answer.body);
    headers.push('Content-Length', String(length));
    // Text of as many bytes as characters is plain ASCII, which is sent faster when it is said so.
    if (length === answer.body.length) encoding = 'latin1';
  }
  if (answer.headers)
    for (const name of Object.keys(answer.headers)) headers.push(name, answer.headers[name] as string);
  // What is left of a body of a known, allowed size is read and thrown away; more than that is not worth the connection.
  const isTooMuch = restOf(request) > bodyLimits.bytes;
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

/** Bytes at most that are still to come of a body. */
function restOf({ complete, headers }: IncomingMessage): number {
  if (complete) return 0;
  return headers['transfer-encoding'] === undefined ? Number(headers['content-length'] ?? 0) : Number.POSITIVE_INFINITY;
}

/**
 * Answers what came on a connection without being a request, and closes the connection.
 * @returns the id that the answer tells
 */
export function refuseConnection(socket: Socket, error: ApiError, figures: RateFigures): string {
  const requestId = randomUUID();
  const body = failureBody(error, requestId, Date.now(), false);
  const headers = ['X-Request-Id', requestId, ...securityHeaders, ...figureHeaders(figures)];
  const lines = [`HTTP/1.1 ${error.status} ${http.STATUS_CODES[error.status]}`];
  for (let index = 0; index < headers.length; index += 2) lines.push(`${headers[index]}: ${headers[index + 1]}`);
  lines.push('Content-Type: application/json; charset=utf-8', `Content-Length: ${Buffer.byteLength(body)}`);
  socket.write(`${lines.join('\r\n')}\r\nConnection: close\r\n\r\n${body}`);
  // An end alone would wait for the client to end too, and a hostile one never does.
  socket.destroySoon();
  return requestId;
}

/** Never shown in a browser, whatever is in it. */
export function fileHeaders(file: FileBody): Record<string, string> {
  return {
    'content-type': 'application/octet-stream',
    'content-disposition': contentDisposition(file.name),
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

/** A prepared body is sent in the form that fits the request. */
function chooseForm(answer: Answer, request: IncomingMessage): SentAnswer {
  if (!(answer.body instanceof PreparedBody)) return answer as SentAnswer;
  const prepared = answer.body.answerTo(request.headers);
  return { ...prepared, headers: { ...answer.headers, ...prepared.headers } };
}

/** Sends an answer and reads on for a little: a connection closed under a client that is still sending would lose the answer. */
function endLater(request: IncomingMessage, response: ServerResponse, body: string | Buffer | undefined): void {
  response.flushHeaders();
  if (body !== undefined) response.write(body);
  const timer = setTimeout(() => response.end(), lingerTime);
  response.on('close', () => clearTimeout(timer));
  request.on('end', () => response.end()).resume();
}

/** Sends a stream as the client reads it. */
function sendStream(request: IncomingMessage, response: ServerResponse, stream: Readable): void {
  if (request.method === 'HEAD') {
    stream.destroy();
    response.end();
    return;
  }
  request.socket.setTimeout(stalledWrite);
  // A client that goes away, or a disk that fails, ends both; the length that was promised, or the end that is missing, tells the client.
  pipeline(stream, response, () => request.socket.setTimeout(0));
}
