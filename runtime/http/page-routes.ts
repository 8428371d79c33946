// Pages for people, and what providers call in a form of their own; no part of the API.
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import { isOutage } from '../../db/client/pool.ts';
import { sha256 } from '../credentials/secrets.ts';
import { type RateLimits, secondsUntil } from '../limits/rate-limits.ts';
import type { Log } from '../telemetry/log.ts';
import { readBytes } from './body.ts';
import { clientAddressReader } from './client-address.ts';
import type { Answer } from './responses.ts';

/** A page that was asked for, or a form on it that was sent. */
export interface ScreenRequest {
  method: string;
  /** What the named groups of the path matched. */
  path: Readonly<Record<string, string>>;
  /** undefined: the page is only asked for. */
  form: URLSearchParams | undefined;
  /** What was sent, byte for byte; undefined where nothing was. */
  body: Buffer | undefined;
  /** The path with its query, as it was asked for. */
  address: string;
  query: URLSearchParams;
  headers: IncomingHttpHeaders;
  /** Of the client. */
  ip: string;
  now: Date;
}

export interface PageAnswer {
  status: number;
  html: string;
  /** Other places that forms may lead to. */
  leadsTo?: readonly string[];
  /** The one script that may run there. */
  script?: string;
  /** A cookie to be kept, with its attributes. */
  cookie?: string;
}

export type ScreenAnswer =
  | PageAnswer
  | { redirect: string /** A cookie to be kept, with its attributes. */; cookie?: string }
  /** For a program that asks for no more than that it was heard. */
  | { received: true }
  /** For a program that reads XML. */
  | { xml: string }
  /** Made by a library, which says all of it; nothing of it is kept on the way unless it says so. */
  | { status: number; headers: Readonly<Record<string, string | string[]>>; body: string | Buffer };

export interface Screen {
  /** What the log and the limits call it. */
  name: string;
  /** With named groups. */
  path: RegExp;
  /** The policy of each client address; without one that of pages. */
  limit?: string;
  /** What it is asked by; GET, HEAD and POST unless given. */
  methods?: readonly string[];
  /** Headers that pages of other sites may send, where they may ask it at all in a browser; only for what looks at no cookies. */
  fromAnySite?: readonly string[];
  /** Its body is no form, or its texts may be anything: it checks them itself. */
  unchecked?: true;
  /** The answer of 400, 429 and 503, where a program reads it, or the way goes on elsewhere. */
  refuse?: (status: number, path: ScreenRequest['path']) => ScreenAnswer;
  show(request: ScreenRequest): Promise<ScreenAnswer>;
}

export interface ScreenParts {
  screens: readonly Screen[];
  limits: RateLimits;
  trustedProxies: readonly string[];
  log: Log;
}

/**
 * Nothing is loaded but the page itself, and nobody may frame it. Its script is named by its digest: no other runs, whatever is put into a page;
 * it may ask for pages of this server.
 */
const policy = ({ leadsTo = [], script }: PageAnswer): string =>
  [
    "default-src 'none'",
    ...(script === undefined ? [] : [`script-src 'sha256-${sha256(script).toString('base64')}'`, "connect-src 'self'"]),
    "style-src 'unsafe-inline'",
    'img-src data:',
    "base-uri 'none'",
    `form-action ${["'self'", ...leadsTo].join(' ')}`,
    "frame-ancestors 'none'",
  ].join('; ');

/** What a screen is asked by unless it says otherwise. */
const usual = ['GET', 'HEAD', 'POST'];

/** Others lead to no screen. */
const known = [...usual, 'OPTIONS'];

/** What a browser is told for the pages of other sites (CORS). */
const forAnySite = {
  'access-control-allow-origin': '*',
  'access-control-expose-headers': 'Retry-After, WWW-Authenticate',
};

/** Before a page of another site may send what a form cannot. */
const preflight = (methods: readonly string[], headers: readonly string[]): Answer => ({
  status: 204,
  body: undefined,
  headers: {
    ...forAnySite,
    'access-control-allow-methods': methods.join(', '),
    'access-control-allow-headers': headers.join(', '),
    'access-control-max-age': '7200',
  },
});

const plain = (status: number, text: string): ScreenAnswer => ({
  status,
  html: `<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><title>${text}</title></head><body><h1>${text}</h1></body></html>`,
});

const refusals: Readonly<Record<number, string>> = {
  400: 'The request contains a NUL character, which is not allowed. Remove it and send the request again.',
  429: 'Too many requests. Try again in a minute.',
  503: 'The service is temporarily unavailable. Try again shortly.',
};

const plainRefusal = (status: number): ScreenAnswer => plain(status, refusals[status] ?? '');

/** Whether a name or value contains the one character that forms can spell and the database cannot hold. */
function hasNul(fields: URLSearchParams): boolean {
  for (const [name, value] of fields) if (name.includes('\0') || value.includes('\0')) return true;
  return false;
}

/** Makes a function that answers for a screen; undefined where a path is none. */
export function answerScreens({ screens, limits, trustedProxies, log }: ScreenParts) {
  const addressOf = clientAddressReader(trustedProxies);
  return (
    method: string,
    pathText: string,
    request: IncomingMessage,
    invite: () => void,
  ): { name: string; answer: () => Promise<Answer> } | undefined => {
    if (!known.includes(method)) return undefined;
    for (const screen of screens) {
      const { name, path, methods = usual, fromAnySite } = screen;
      const asked = method === 'OPTIONS' ? fromAnySite : undefined;
      const match = asked || methods.includes(method) ? path.exec(pathText) : null;
      if (!match) continue;
      if (asked) return { name, answer: async () => preflight(methods, asked) };
      const own = () => answer(screen, { ...match.groups }, method, request, invite);
      return { name, answer: fromAnySite ? async () => readableAnywhere(await own()) : own };
    }
    return undefined;
  };

  async function answer(
    screen: Screen,
    path: Record<string, string>,
    method: string,
    request: IncomingMessage,
    invite: () => void,
  ): Promise<Answer> {
    const ip = addressOf(request.socket.remoteAddress ?? '', request.headers['x-forwarded-for'] as string | undefined);
    const verdict = await limits.takePublic({ id: screen.name, publicLimit: screen.limit ?? 'screen' }, ip, Date.now());
    const { refuse = plainRefusal } = screen;
    const refused = (status: number, seconds: number): Answer => {
      const answer = sent(refuse(status, path));
      // Where the way goes on elsewhere, nobody has to wait.
      return answer.status === status
        ? { ...answer, headers: { ...answer.headers, 'retry-after': String(seconds) } }
        : answer;
    };
    if (!verdict.allowed) return refused(429, secondsUntil(verdict, Date.now()));
    const body = method === 'POST' ? await readBytes(request, invite) : undefined;
    const form = body && new URLSearchParams(String(body));
    try {
      const address = request.url ?? '';
      const query = new URLSearchParams(address.split('?')[1] ?? '');
      if (!screen.unchecked && (hasNul(query) || (form && hasNul(form)))) return sent(refuse(400, path));
      const asked = { method, path, form, body, address, query, headers: request.headers, ip };
      return sent(await screen.show({ ...asked, now: new Date() }));
    } catch (error) {
      if (!isOutage(error)) throw error;
      log.warn({ screen: screen.name, err: { message: (error as Error).message } }, 'failed to render a page');
      return refused(503, 1);
    }
  }
}

const readableAnywhere = (answer: Answer): Answer => ({ ...answer, headers: { ...answer.headers, ...forAnySite } });

function sent(answer: ScreenAnswer): Answer {
  // With no-referrer, browsers send the origin null with forms of our own pages.
  const headers = { 'cache-control': 'no-store', 'referrer-policy': 'same-origin' };
  if ('received' in answer)
    return {
      status: 200,
      body: JSON.stringify(answer),
      headers: { ...headers, 'content-type': 'application/json; charset=utf-8' },
    };
  if ('xml' in answer)
    return { status: 200, body: answer.xml, headers: { ...headers, 'content-type': 'text/xml; charset=utf-8' } };
  if ('redirect' in answer)
    return {
      status: 303,
      body: '',
      headers: {
        ...headers,
        location: answer.redirect,
        'content-type': 'text/plain',
        ...keptBy(answer),
      },
    };
  if ('body' in answer) return { ...answer, headers: { ...headers, ...answer.headers } };
  const { status, html } = answer;
  return {
    status,
    body: html,
    headers: {
      ...headers,
      'content-type': 'text/html; charset=utf-8',
      'content-security-policy': policy(answer),
      ...keptBy(answer),
    },
  };
}

const keptBy = ({ cookie }: { cookie?: string }): Record<string, string> =>
  cookie === undefined ? {} : { 'set-cookie': cookie };
