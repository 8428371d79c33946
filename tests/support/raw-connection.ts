// A connection on which tests write raw bytes, for requests that no HTTP client sends.
import { connect, type Socket } from 'node:net';
import { inject } from 'vitest';
import { anyAddress, checkHeaders } from './client.ts';

export interface RawAnswer {
  status: number;
  headers: Headers;
  body: string;
}

/** A connection to the server under test. */
export class Connection {
  readonly socket: Socket;
  /** Resolves when the server has closed the connection. */
  readonly closed: Promise<void>;
  #received = Buffer.alloc(0);
  #ended = false;
  #wake: () => void = () => undefined;

  constructor(baseUrl: string = inject('baseUrl')) {
    const { hostname, port } = new URL(baseUrl);
    // Half-open, so that the server's end does not close the connection and tests see who closes
    // it.
    this.socket = connect({ host: hostname, port: Number(port), allowHalfOpen: true });
    this.closed = new Promise((resolve) => {
      const end = (): void => {
        this.#ended = true;
        this.#wake();
        resolve();
      };
      this.socket.on('end', end).on('close', end).on('error', end);
    });
    this.socket.on('data', (chunk: Buffer) => {
      this.#received = Buffer.concat([this.#received, chunk]);
      this.#wake();
    });
  }

  send(data: string | Buffer): this {
    if (this.socket.writable) this.socket.write(data);
    return this;
  }

  /**
   * Reads the next response.
   * @throws Error if the connection ends before it is complete
   */
  async answer(): Promise<RawAnswer> {
    for (;;) {
      const found = this.#parse();
      if (found) return found;
      if (this.#ended)
        throw new Error(`the connection ended after: ${this.#received.toString('latin1').slice(0, 500)}`);
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }

  #parse(): RawAnswer | undefined {
    const end = this.#received.indexOf('\r\n\r\n');
    if (end === -1) return undefined;
    const [first = '', ...lines] = this.#received.subarray(0, end).toString('latin1').split('\r\n');
    const headers = new Headers(lines.map((line) => line.split(/: ?(.*)/s).slice(0, 2) as [string, string]));
    const status = Number(first.split(' ')[1]);
    if (status === 100) {
      this.#received = this.#received.subarray(end + 4);
      return this.#parse();
    }
    const length = Number(headers.get('content-length') ?? 0);
    if (this.#received.length < end + 4 + length) return undefined;
    const body = this.#received.subarray(end + 4, end + 4 + length).toString('utf8');
    this.#received = this.#received.subarray(end + 4 + length);
    checkHeaders(headers);
    return { status, headers, body };
  }

  close(): void {
    this.socket.destroy();
  }
}

/**
 * Sends bytes on a new connection.
 * @returns the first response
 */
export async function exchange(data: string | Buffer, baseUrl?: string): Promise<RawAnswer> {
  const connection = new Connection(baseUrl);
  try {
    return await connection.send(data).answer();
  } finally {
    connection.close();
  }
}

/** Returns the bytes of a request, with the length of the body. */
export function requestText(
  method: string,
  target: string,
  headers: Record<string, string> = {},
  body: string | Buffer = '',
): Buffer {
  const lines = [`${method} ${target} HTTP/1.1`, 'Host: localhost', `X-Forwarded-For: ${anyAddress()}`];
  const given = { ...(body.length > 0 ? { 'Content-Length': String(Buffer.byteLength(body)) } : {}), ...headers };
  for (const [name, value] of Object.entries(given)) lines.push(`${name}: ${value}`);
  return Buffer.concat([Buffer.from(`${lines.join('\r\n')}\r\n\r\n`), Buffer.from(body)]);
}
