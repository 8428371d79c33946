// A proxy between a client and the server that fails on command and otherwise passes everything.
import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';

/**
 * The outcome of a request. reset: the connection breaks before the server gets the request. lose:
 * the server responds, and the connection breaks instead. silence: no response until the caller
 * gives up. Or a response of the proxy itself.
 */
export type Fault = 'reset' | 'lose' | 'silence' | { status: number; headers?: Record<string, string>; body: unknown };

export interface Seen {
  method: string | undefined;
  url: string | undefined;
  headers: IncomingHttpHeaders;
  body: string;
}

export class FailingProxy {
  readonly url: string;
  /** Every request that reached the proxy. */
  readonly seen: Seen[] = [];
  readonly #close: () => void;
  #faults: Fault[] = [];

  private constructor(url: string, close: () => void) {
    this.url = url;
    this.#close = close;
  }

  static async start(target: string): Promise<FailingProxy> {
    const server = createServer((request, response) => void proxy.#handle(target, request, response));
    await once(server.listen(0, '127.0.0.1'), 'listening');
    const proxy: FailingProxy = new FailingProxy(`http://127.0.0.1:${(server.address() as AddressInfo).port}`, () => {
      server.close();
      server.closeAllConnections();
    });
    return proxy;
  }

  /** Sets the faults of the next requests, one each, and clears the recorded requests. */
  failWith(...faults: Fault[]): void {
    this.#faults = faults;
    this.seen.length = 0;
  }

  stop(): void {
    this.#close();
  }

  async #handle(target: string, request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { method, url, headers } = request;
    const body = await text(request);
    this.seen.push({ method, url, headers, body });
    const fault = this.#faults.shift();
    if (fault === 'silence') return;
    if (fault === 'reset') return void request.socket.resetAndDestroy();
    if (typeof fault === 'object') {
      response.writeHead(fault.status, { 'content-type': 'application/json', ...fault.headers });
      return void response.end(typeof fault.body === 'string' ? fault.body : JSON.stringify(fault.body));
    }
    const { host: _host, connection: _connection, 'content-length': _length, ...passed } = headers;
    const answer = await fetch(`${target}${url}`, {
      method: method ?? 'GET',
      headers: { ...(passed as Record<string, string>), 'accept-encoding': 'identity' },
      ...(body === '' ? {} : { body }),
    });
    const answered = await answer.text();
    if (fault === 'lose') return void request.socket.resetAndDestroy();
    const { 'content-length': _size, ...kept } = Object.fromEntries(answer.headers);
    response.writeHead(answer.status, kept).end(answered);
  }
}

/** Returns an error as the API words it. */
export function failure(status: number, code: string, headers: Record<string, string> = {}, details?: object): Fault {
  const body = { success: false, error: { code, message: 'Failed on command.', details }, meta: {} };
  return { status, headers: { 'x-request-id': '0b9a1f5e-6f3c-4b57-9d38-0f1c3c1f6a55', ...headers }, body };
}
