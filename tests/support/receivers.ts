// Webhook receivers: real HTTP servers on this machine whose behavior tests set.
import {
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type Server,
  type ServerResponse,
} from 'node:http';
import type { AddressInfo } from 'node:net';

export interface Received {
  headers: IncomingHttpHeaders;
  path: string;
  body: string;
}

/** Handles a request after it was read. Without a response, the receiver answers 200. */
export type Behaviour = (received: Received, response: ServerResponse) => void;

const take: Behaviour = (_, response) => void response.end('ok');

export class Receiver {
  readonly requests: Received[] = [];
  behave: Behaviour = take;
  readonly #server: Server;
  #port = 0;
  #open = 0;
  /** The maximum number of concurrent requests. */
  mostAtOnce = 0;

  private constructor() {
    this.#server = createServer((request, response) => void this.#receive(request, response));
  }

  static async start(behave: Behaviour = take): Promise<Receiver> {
    const receiver = new Receiver();
    receiver.behave = behave;
    await receiver.listen();
    return receiver;
  }

  /** Listens again on the same port. */
  async listen(): Promise<void> {
    await new Promise<void>((resolve) => this.#server.listen(this.#port, '127.0.0.1', resolve));
    this.#port = (this.#server.address() as AddressInfo).port;
  }

  get url(): string {
    return `http://127.0.0.1:${this.#port}/hook`;
  }

  get bodies(): { id: string; event: string; data: Record<string, unknown> }[] {
    return this.requests.map(({ body }) => JSON.parse(body));
  }

  /** Closes all current connections. */
  drop(): void {
    this.#server.closeAllConnections();
  }

  async stop(): Promise<void> {
    const closed = new Promise((resolve) => this.#server.close(resolve));
    this.#server.closeAllConnections();
    await closed;
  }

  async #receive(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    this.#open += 1;
    this.mostAtOnce = Math.max(this.mostAtOnce, this.#open);
    response.on('close', () => {
      this.#open -= 1;
    });
    try {
      for await (const chunk of request) chunks.push(chunk as Buffer);
    } catch {
      return;
    }
    const received = {
      headers: request.headers,
      path: request.url ?? '',
      body: Buffer.concat(chunks).toString('utf8'),
    };
    this.requests.push(received);
    this.behave(received, response);
  }
}

/** Returns a behavior that answers with a status and headers. */
export function answering(status: number, headers: Record<string, string> = {}): Behaviour {
  return (_, response) => void response.writeHead(status, headers).end();
}
