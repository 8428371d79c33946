// A simulation of Twilio's message API: records accepted messages, and fails on command.
import { randomBytes } from 'node:crypto';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';

export interface TakenText {
  sid: string;
  to: string;
  from: string;
  body: string;
  created: Date;
}

/** The outcome of the next messages. undefined: they are accepted. */
export type Behaviour = (text: Omit<TakenText, 'sid' | 'created'>) =>
  | { status: number; code?: number }
  /** swallow: accepts the message without a response. lose: neither accepts nor responds. */
  | 'swallow'
  | 'lose'
  | undefined;

export class TestTwilio {
  readonly accountId = 'AC0123456789';
  readonly authToken = 'hush:hush';
  /** Accepted messages in order. */
  readonly taken: TakenText[] = [];
  /** The number of message lookups. */
  lookups = 0;
  /** Calls with wrong credentials. */
  strangers = 0;
  behave: Behaviour = () => undefined;
  readonly #server = createServer((request, response) => void this.#answer(request, response));

  static async start(): Promise<TestTwilio> {
    const twilio = new TestTwilio();
    await new Promise<void>((resolve) => twilio.#server.listen(0, '127.0.0.1', resolve));
    return twilio;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  /**
   * Returns a MESSAGING_URL.
   * @param port of a proxy in front of it
   */
  url(port = this.port): string {
    return `twilio://${this.accountId}:${encodeURIComponent(this.authToken)}@127.0.0.1:${port}?insecure=1`;
  }

  to(number: string): TakenText[] {
    return this.taken.filter(({ to }) => to === number);
  }

  stop(): Promise<void> {
    this.#server.closeAllConnections();
    return new Promise((resolve) => this.#server.close(() => resolve()));
  }

  async #answer(request: import('node:http').IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? '', 'http://twilio');
    const credentials = `Basic ${Buffer.from(`${this.accountId}:${this.authToken}`).toString('base64')}`;
    if (request.headers.authorization !== credentials) {
      this.strangers += 1;
      return send(response, 401, { code: 20003, status: 401 });
    }
    if (url.pathname !== `/2010-04-01/Accounts/${this.accountId}/Messages.json`)
      return send(response, 404, { code: 20404, status: 404 });
    if (request.method === 'GET') {
      this.lookups += 1;
      const asked = (each: TakenText): boolean =>
        each.to === url.searchParams.get('To') && each.from === url.searchParams.get('From');
      return send(response, 200, { messages: this.taken.filter(asked).toReversed().map(toResponse) });
    }
    const form = new URLSearchParams(await text(request));
    const said = { to: form.get('To') ?? '', from: form.get('From') ?? '', body: form.get('Body') ?? '' };
    const outcome = this.behave(said);
    if (typeof outcome === 'object')
      return send(response, outcome.status, { ...outcome, message: `not to ${said.to}` });
    if (outcome === 'lose') return;
    const taken = { sid: `SM${randomBytes(16).toString('hex')}`, ...said, created: new Date() };
    this.taken.push(taken);
    if (outcome !== 'swallow') send(response, 201, toResponse(taken));
  }
}

const toResponse = ({ created, ...taken }: TakenText) => ({
  ...taken,
  status: 'queued',
  date_sent: null,
  date_created: created.toUTCString(),
});

function send(response: ServerResponse, status: number, body: object): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
}
