// Passes requests to the OAuth library and collects its responses.
import type { IncomingMessage, ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import { http } from '../runtime/http/node-http.ts';
import type { PageRequest, PageResponse } from '../runtime/http/page-routes.ts';

/** The parts of the request that differ from the client's request. */
export interface PassedRequest {
  method: string;
  /** The path below the issuer, with its query. */
  target: string;
  contentType?: string;
  body?: string;
}

type Callback = (request: IncomingMessage, response: ServerResponse) => unknown;

/**
 * Builds the request for the library. Its host is that of the issuer, regardless of the client's
 * Host header.
 */
export function toLibraryRequest(
  { headers }: Pick<PageRequest, 'headers'>,
  issuer: string,
  { method, target, contentType, body = '' }: PassedRequest,
): IncomingMessage {
  const { protocol, host, pathname } = new URL(issuer);
  // An unconnected socket, so that the library never touches the client's connection.
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

/** Errors inside the library, by request. */
const faults = new WeakMap<IncomingMessage, Error>();

/** Records an error that the library answers with a response of its own. */
export function recordFault(request: IncomingMessage, fault: Error): void {
  faults.set(request, fault);
}

/**
 * Returns the response of the library.
 * @throws the recorded error, so that outages are reported as on every other page
 */
export function collectResponse(callback: Callback, request: IncomingMessage): Promise<PageResponse> {
  return new Promise((resolve, reject) => {
    const response = new CollectedResponse(request, (answer) => {
      const fault = faults.get(request);
      if (fault) reject(fault);
      else resolve(answer);
    });
    Promise.resolve(callback(request, response)).catch(reject);
  });
}

/** Collects the response instead of sending it. */
class CollectedResponse extends http.ServerResponse {
  readonly #done: (answer: PageResponse) => void;

  constructor(request: IncomingMessage, done: (answer: PageResponse) => void) {
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
