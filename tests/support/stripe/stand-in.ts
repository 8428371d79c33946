// A simulation of Stripe's HTTP API, as far as this project uses it, with events and faults.
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import Stripe from 'stripe';
import { anyAddress } from '../client.ts';
import { Books, Refused } from './books.ts';
import { type Form, readForm } from './form.ts';
import { pages } from './pages.ts';
import { CardRefused, routes } from './routes.ts';

const webhookSecret = 'whsec_standin';

/** The fault of one future request that matches. */
export interface Fault {
  /** Method and path, for example POST /v1/subscriptions/. */
  of: RegExp;
  /**
   * lost: no effect and no response. cut: effect but no response. refused: 500 without effect.
   * failed: 500 after the effect. slow: a late response. invalid: 400 without effect.
   */
  how: 'lost' | 'cut' | 'refused' | 'failed' | 'slow' | 'invalid';
  /** Stripe's error code of an invalid request. */
  code?: string;
  /** The number of matching requests to pass first. */
  skip?: number;
  /** Runs before the response. */
  act?: () => unknown;
}

interface Kept {
  request: string;
  status: number;
  body: string;
}

export class StripeStandIn {
  readonly books: Books;
  /** All events so far, sent or not. */
  readonly events: Stripe.Event[] = [];
  /** Events that no server received. */
  readonly unheard: Stripe.Event[] = [];
  /** The requests: method, path, Idempotency-Key and metadata. */
  readonly asked: { call: string; key: string | undefined; form: Form }[] = [];
  /** The URL for events. undefined: they are not sent. */
  eventsTo: string | undefined;
  faults: Fault[] = [];
  /** Requests that the restricted key may not make. */
  forbidden: RegExp | undefined;
  readonly #server: Server;
  readonly #kept = new Map<string, Kept>();
  readonly #sending = new Set<Promise<unknown>>();

  private constructor() {
    this.books = new Books((type, object) => this.#emit(type, object));
    this.#server = createServer((request, response) => void this.#answer(request, response));
  }

  static async start(): Promise<StripeStandIn> {
    const standIn = new StripeStandIn();
    await new Promise<void>((resolve) => standIn.#server.listen(0, '127.0.0.1', resolve));
    return standIn;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** Settings of a server that uses this simulation. */
  get settings(): Record<string, string> {
    return { STRIPE_SECRET_KEY: 'sk_test_standin', STRIPE_WEBHOOK_SECRET: webhookSecret, STRIPE_API_BASE: this.url };
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  /** Resolves when every event has been sent. */
  async eventsSent(): Promise<void> {
    while (this.#sending.size > 0) await Promise.all(this.#sending);
  }

  #emit(type: string, object: object): void {
    const data = { object: JSON.parse(JSON.stringify(object)) };
    const id = `evt_${this.events.length + 1}_${Math.random().toString(36).slice(2)}`;
    const event = { id, object: 'event', type, created: Math.floor(Date.now() / 1000), data } as Stripe.Event;
    this.events.push(event);
    if (this.eventsTo) this.#track(send(this.eventsTo, event).catch(() => this.unheard.push(event)));
  }

  #track(work: Promise<unknown>): void {
    this.#sending.add(work);
    void work.finally(() => this.#sending.delete(work));
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { method = '', url = '/' } = request;
    const { pathname, searchParams } = new URL(url, this.url);
    let text = '';
    for await (const chunk of request) text += chunk;
    const page = pages(this.books, this.url, method, pathname, new URLSearchParams(text));
    if (page) {
      response.writeHead(page.status, { 'content-type': 'text/html', ...(page.to ? { location: page.to } : {}) });
      response.end(page.html);
      return;
    }
    const call = `${method} ${pathname}`;
    const key = request.headers['idempotency-key'] as string | undefined;
    const form = readForm(method === 'GET' ? String(searchParams) : text);
    this.asked.push({ call, key, form });
    const kept = key === undefined ? undefined : this.#kept.get(key);
    const fault = kept ? undefined : this.#findFault(call);
    if (fault?.how === 'slow') await sleep(500);
    if (fault?.how === 'lost') {
      await fault.act?.();
      request.socket.destroy();
      return;
    }
    const { status, body } = kept ? replayed(kept, `${call} ${text}`) : this.#carryOut(call, form, fault);
    if (key !== undefined && !kept) this.#kept.set(key, { request: `${call} ${text}`, status, body });
    await fault?.act?.();
    if (fault?.how === 'cut') {
      request.socket.destroy();
      return;
    }
    response.writeHead(status, { 'content-type': 'application/json', 'request-id': 'req_standin' });
    response.end(body);
  }

  #findFault(call: string): Fault | undefined {
    const fault = this.faults.find(({ of }) => of.test(call));
    if (fault?.skip) {
      fault.skip -= 1;
      return undefined;
    }
    if (fault) this.faults = this.faults.filter((each) => each !== fault);
    return fault;
  }

  #carryOut(call: string, form: Form, fault: Fault | undefined): { status: number; body: string } {
    const broken = { status: 500, body: JSON.stringify({ error: { type: 'api_error', message: 'broken' } }) };
    if (fault?.how === 'refused') return broken;
    if (fault?.how === 'invalid') {
      const error = { type: 'invalid_request_error', code: fault.code, message: 'invalid' };
      return { status: 400, body: JSON.stringify({ error }) };
    }
    if (this.forbidden?.test(call)) {
      const error = {
        type: 'invalid_request_error',
        message: 'The provided key does not have the required permissions',
      };
      return { status: 403, body: JSON.stringify({ error }) };
    }
    const outcome = carriedOut(this.books, call, form, this.url);
    return fault?.how === 'failed' ? broken : outcome;
  }
}

/** Rejects another request under the same key, as Stripe does. */
function replayed({ request, status, body }: Kept, asked: string): { status: number; body: string } {
  if (request === asked) return { status, body };
  const error = {
    type: 'idempotency_error',
    message: 'Keys for idempotent requests can only be used with the same parameters',
  };
  return { status: 400, body: JSON.stringify({ error }) };
}

function carriedOut(books: Books, call: string, form: Form, base: string): { status: number; body: string } {
  for (const { of, answer } of routes) {
    const match = of.exec(call);
    if (!match) continue;
    try {
      return { status: 200, body: JSON.stringify(answer(books, form, match.groups?.id ?? '', base)) };
    } catch (error) {
      if (error instanceof CardRefused)
        return {
          status: 402,
          body: JSON.stringify({ error: { type: 'card_error', code: error.code, message: 'no' } }),
        };
      if (!(error instanceof Refused)) throw error;
      const { message, code } = error;
      return { status: 400, body: JSON.stringify({ error: { type: 'invalid_request_error', code, message } }) };
    }
  }
  return { status: 404, body: JSON.stringify({ error: { type: 'invalid_request_error', message: `no ${call}` } }) };
}

/** Sends an event as Stripe does, signed by the helper of its package. */
export function send(to: string, event: object, more: { secret?: string; timestamp?: number } = {}): Promise<Response> {
  const payload = JSON.stringify(event);
  const header = new Stripe('sk_test_standin').webhooks.generateTestHeaderString({
    payload,
    secret: more.secret ?? webhookSecret,
    ...(more.timestamp === undefined ? {} : { timestamp: more.timestamp }),
  });
  // From a random address, because each has its own rate limit.
  const headers = { 'content-type': 'application/json', 'stripe-signature': header, 'x-forwarded-for': anyAddress() };
  return fetch(`${to}/v1/billing/provider-events`, { method: 'POST', headers, body: payload });
}
