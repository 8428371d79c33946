// Answers as they go over the wire: the headers that all carry, bodies in the form that fits, files, and what cannot be read as HTTP.
import { randomUUID } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { pipeline } from 'node:stream';
import { contentDisposition } from '../domain/file-names.ts';
import { bodyLimits } from '../domain/request-limits.ts';
import { type DeprecatedUse, deprecationHeaders } from './deprecation.ts';
import { failureBody } from './envelope.ts';
import { ApiError } from './errors.ts';
import { FileBody } from './files.ts';
import { PreparedBody } from './prepared-body.ts';
import type { RateFigures } from './rate-limits.ts';

/** Milliseconds of no progress, once or twice in a row, after which a client that does not read its answer is cut off. */
const stalledWrite = 7000;
/** Milliseconds that an answered client may go on sending before its connection is closed. */
const lingerTime = 1000;

export interface Answer {
  status: number;
  body: string | PreparedBody | FileBody | undefined;
  headers: Record<string, string> | undefined;
}

type SentAnswer = Omit<Answer, 'body'> & { body: string | Buffer | FileBody | undefined };

/** What the headers say about an answer. */
export interface AboutAnswer {
  requestId: string;
  figures: RateFigures;
  /** Deprecated forms that the request uses. */
  deprecated: readonly DeprecatedUse[];
  /** True to have the client open another connection for its next request. */
  leave: boolean;
}

const securityHeaders: readonly string[] = [
  'X-Content-Type-Options',
  'nosniff',
  'X-Frame-Options',
  'DENY',
  'Strict-Transport-Security',
  'max-age=31536000; includeSubDomains',
];

/** Connections that had an answer before their request had ended: what goes wrong on them afterwards needs no other. */
const answeredEarly = new WeakSet<object>();

/**
 * Sends an answer with the headers that every answer carries.
 * @returns the status that was sent
 */
export function sendAnswer(
  request: IncomingMessage,
  response: ServerResponse,
  given: Answer,
  about: AboutAnswer,
): number {
  const answer = chooseForm(given, request);
  if (response.destroyed) return answer.status;
  const headers = ['X-Request-Id', about.requestId, ...figureHeaders(about.figures), ...securityHeaders];
  if (about.deprecated.length > 0) headers.push(...deprecationHeaders(about.deprecated));
  let encoding: BufferEncoding = 'utf8';
  if (answer.body instanceof FileBody) headers.push('Content-Length', String(answer.body.bytes));
  else if (answer.body !== undefined) {
    if (!answer.headers?.['content-type']) headers.push('Content-Type', 'application/json; charset=utf-8');
    const length = Buffer.byteLength(answer.body);
    headers.push('Content-Length', String(length));
    // Text of as many bytes as characters is plain ASCII, which is sent faster when it is said so.
    if (length === answer.body.length) encoding = 'latin1';
  }
  if (answer.headers)
    for (const name of Object.keys(answer.headers)) headers.push(name, answer.headers[name] as string);
  if (answer.body instanceof FileBody) {
    response.writeHead(answer.status, headers);
    sendFile(request, response, answer.body);
    return answer.status;
  }
  const body = request.method === 'HEAD' ? undefined : answer.body;
  // What is left of a body of a known, allowed size is read and thrown away; more than that is not worth the connection.
  if (!request.complete) answeredEarly.add(request.socket);
  const rest = request.complete ? 0 : Number(request.headers['content-length'] ?? Number.POSITIVE_INFINITY);
  if (about.leave || rest > bodyLimits.bytes) headers.push('Connection', 'close');
  response.writeHead(answer.status, headers);
  if (rest > bodyLimits.bytes) endLater(request, response, body);
  else response.end(body, encoding);
  // What the system has not taken waits for the client to read; a client that reads on is given all the time it needs.
  if (response.writableLength > 0) request.socket.setTimeout(stalledWrite);
  return answer.status;
}

/**
 * Answers bytes that are no HTTP, or came too slowly, and closes the connection.
 * @param code what Node says went wrong
 * @returns what was answered; undefined where nobody is left to be answered
 */
export function refuseUnreadable(
  socket: Socket,
  code: string | undefined,
  figures: RateFigures,
): { requestId: string; status: number; error: string } | undefined {
  if (code === 'ECONNRESET' || !socket.writable || answeredEarly.has(socket)) {
    socket.destroy();
    return undefined;
  }
  const status =
    code === 'HPE_HEADER_OVERFLOW'
      ? '431 Request Header Fields Too Large'
      : code === 'ERR_HTTP_REQUEST_TIMEOUT'
        ? '408 Request Timeout'
        : '400 Bad Request';
  const requestId = randomUUID();
  const error = new ApiError('VALIDATION_ERROR', 'The request could not be read as HTTP.');
  const body = failureBody(error, requestId, Date.now());
  const headers = ['X-Request-Id', requestId, ...securityHeaders, ...figureHeaders(figures)];
  const lines = [`HTTP/1.1 ${status}`];
  for (let index = 0; index < headers.length; index += 2) lines.push(`${headers[index]}: ${headers[index + 1]}`);
  lines.push('Content-Type: application/json; charset=utf-8', `Content-Length: ${Buffer.byteLength(body)}`);
  socket.write(`${lines.join('\r\n')}\r\nConnection: close\r\n\r\n${body}`);
  // An end alone would wait for the client to end too, and a hostile one never does.
  socket.destroySoon();
  return { requestId, status: Number(status.slice(0, 3)), error: error.code };
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

/** Sends a file as the client reads it. */
function sendFile(request: IncomingMessage, response: ServerResponse, { stream }: FileBody): void {
  if (request.method === 'HEAD') {
    stream.destroy();
    response.end();
    return;
  }
  request.socket.setTimeout(stalledWrite);
  // A client that goes away, or a disk that fails, ends both; the length that was promised tells the client.
  pipeline(stream, response, () => request.socket.setTimeout(0));
}
