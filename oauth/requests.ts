// Passes a request on to the library, and collects what it answers.
import type { IncomingMessage, ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import { http } from '../runtime/http/node-http.ts';
import type { ScreenAnswer, ScreenRequest } from '../runtime/http/page-routes.ts';

/** What is passed on, where it is not what came. */
export interface Passed {
  method: string;
  /** Below the issuer, with its query. */
  target: string;
  contentType?: string;
  body?: string;
}

type Callback = (request: IncomingMessage, response: ServerResponse) => unknown;

/** A request for the library: its host is the issuer's, whatever the client calls this server. */
export function libraryRequest(
  { headers }: Pick<ScreenRequest, 'headers'>,
  issuer: string,
  { method, target, contentType, body = '' }: Passed,
): IncomingMessage {
  const { protocol, host, pathname } = new URL(issuer);
  // A connection of its own, which is none: the library never touches the client's.
  const request = new http.IncomingMessage(new Socket());
  const { cookie, accept } = headers;
  request.method = method;
  request.url = target;
  request.headers = {
    host,
    'x-forwarded-proto': protocol.slice(0, -1),
    ...(cookie === undefined ? {} : { cookie }),
    ...(accept === undefined ? {} : { accept }),
    ...(contentType === undefined
      ? {}
      : { 'content-type': contentType, 'content-length': String(Buffer.byteLength(body)) }),
  };
  Object.assign(request, { originalUrl: `${pathname.replace(/\/$/, '')}${target}`, complete: true });
  if (body !== '') request.push(body);
  request.push(null);
  return request;
}

/** What went wrong inside of the library, by the request. */
const faults = new WeakMap<IncomingMessage, Error>();

/** Notes a fault that the library has an answer of its own for. */
export function noteFault(request: IncomingMessage, fault: Error): void {
  faults.set(request, fault);
}

/** Has the library answer. @throws what went wrong inside of it: an outage is told as by every other screen */
export function answerOf(callback: Callback, request: IncomingMessage): Promise<ScreenAnswer> {
  return new Promise((resolve, reject) => {
    const response = new CollectedResponse(request, (answer) => {
      const fault = faults.get(request);
      if (fault) reject(fault);
      else resolve(answer);
    });
    Promise.resolve(callback(request, response)).catch(reject);
  });
}

/** Keeps what is written instead of sending it. */
class CollectedResponse extends http.ServerResponse {
  readonly #done: (answer: ScreenAnswer) => void;

  constructor(request: IncomingMessage, done: (answer: ScreenAnswer) => void) {
    super(request);
    this.#done = done;
  }

  // biome-ignore lint/suspicious/noExplicitAny: the method has several forms; the library uses the one with a whole body.
  override end(chunk?: any): this {
    const body = Buffer.isBuffer(chunk) || typeof chunk === 'string' ? String(chunk) : '';
    const headers: Record<string, string | string[]> = {};
    for (const [name, value] of Object.entries(this.getHeaders()))
      if (value !== undefined && name !== 'content-length')
        headers[name] = typeof value === 'number' ? String(value) : value;
    this.finished = true;
    this.emit('finish');
    this.#done({ status: this.statusCode, headers, body });
    return this;
  }
}
