// Routes outside the API: pages for people, and endpoints whose format a provider defines.
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import { isOutage } from '../../db/client/pool.ts';
import type { FileBody } from '../files/files.ts';
import { countSecondsUntil, type RateLimits } from '../limits/rate-limits.ts';
import type { Log } from '../telemetry/log.ts';
import { readBytes } from './body.ts';
import { createClientAddressReader } from './client-address.ts';
import { type PageForm, type PageUpload, receivePageForm } from './page-forms.ts';
import { type Answer, buildFileHeaders } from './responses.ts';

export type { PageFile } from './page-forms.ts';

/** A request for a page, or a form submitted from it. */
export interface PageRequest {
  method: string;
  /** The matches of the named groups of the path. */
  path: Readonly<Record<string, string>>;
  /** undefined if no form was sent, and before `receive` was called. */
  form: URLSearchParams | undefined;
  /**
   * Receives a form with a file. Only on routes with `upload`, so that they can reject a request
   * without reading its file.
   */
  receive?: (isAccepted: (form: URLSearchParams) => boolean) => Promise<PageForm>;
  /** The raw bytes; undefined if there is no body. */
  body: Buffer | undefined;
  /** The request target as sent: path and query. */
  address: string;
  query: URLSearchParams;
  headers: IncomingHttpHeaders;
  /** The client's address. */
  ip: string;
  now: Date;
}

export interface PageAnswer {
  status: number;
  html: string;
  /** Further origins that forms may submit or redirect to (CSP form-action). */
  leadsTo?: readonly string[];
  /** True if the page runs the scripts that it links to. By default no script runs. */
  hasScripts?: true;
  /** True if the page shows images of this server. */
  hasImages?: true;
  /** A cookie to be kept, with its attributes. */
  cookie?: string;
}

export type PageResponse =
  | PageAnswer
  | { redirect: string /** A cookie to be kept, with its attributes. */; cookie?: string }
  /** For a program that needs only an acknowledgment. */
  | { received: true }
  /** For a program that reads XML. */
  | { xml: string }
  /** A complete response from a library. Not cacheable unless its headers allow it. */
  | { status: number; headers: Readonly<Record<string, string | string[]>>; body: string | Buffer }
  /** A file to download. */
  | { file: FileBody };

export interface PageRoute {
  /** Name in logs and rate limits. */
  name: string;
  /** Named groups become `path` of the request. */
  path: RegExp;
  /** Rate limit policy per client address; by default that of pages. */
  limit?: string;
  /** Accepted methods; by default GET, HEAD and POST. */
  methods?: readonly string[];
  /**
   * If set, pages of any site may call this route from a browser, with these request headers. Only
   * for routes that ignore cookies.
   */
  fromAnySite?: readonly string[];
  /**
   * Skips the check for NUL characters: the body is not a form, or the route validates its own
   * input.
   */
  unchecked?: true;
  /** Accepts forms with a file, which the route receives itself. */
  upload?: PageUpload;
  /** Builds the response for 400, 429 and 503 if the client is a program or must be redirected. */
  refuse?: (status: number, path: PageRequest['path']) => PageResponse;
  show(request: PageRequest): Promise<PageResponse>;
}

export interface PageRouteParts {
  screens: readonly PageRoute[];
  limits: RateLimits;
  trustedProxies: readonly string[];
  log: Log;
  /** Has the folder of uploads in progress. */
  files: { folder: string };
}

/**
 * Content-Security-Policy of a page: it loads only style sheets and scripts of this server, and
 * cannot be framed. No inline script or style runs, so injected ones do not. Uploaded files are
 * served as octet streams, which browsers do not run as scripts either.
 */
const policy = ({ leadsTo = [], hasScripts, hasImages }: PageAnswer): string =>
  [
    "default-src 'none'",
    ...(hasScripts ? ["script-src 'self'", "connect-src 'self'"] : []),
    "style-src 'self'",
    hasImages ? "img-src 'self' data:" : 'img-src data:',
    "base-uri 'none'",
    `form-action ${["'self'", ...leadsTo].join(' ')}`,
    "frame-ancestors 'none'",
  ].join('; ');

/** Default methods of a screen. */
const defaultMethods = ['GET', 'HEAD', 'POST'];

/** Methods that can match a screen. */
const knownMethods = [...defaultMethods, 'OPTIONS'];

/** CORS response headers. */
const corsHeaders = {
  'access-control-allow-origin': '*',
  'access-control-expose-headers': 'Retry-After, WWW-Authenticate',
};

/** Builds the response to a CORS preflight request. */
const preflight = (methods: readonly string[], headers: readonly string[]): Answer => ({
  status: 204,
  body: undefined,
  headers: {
    ...corsHeaders,
    'access-control-allow-methods': methods.join(', '),
    'access-control-allow-headers': headers.join(', '),
    'access-control-max-age': '7200',
  },
});

const renderPlainPage = (status: number, text: string): PageResponse => ({
  status,
  html: `<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><title>${text}</title></head><body><h1>${text}</h1></body></html>`,
});

const refusals: Readonly<Record<number, string>> = {
  400: 'The request contains a NUL character, which is not allowed. Remove it and send the request again.',
  429: 'Too many requests. Try again in a minute.',
  503: 'The service is temporarily unavailable. Try again shortly.',
};

const plainRefusal = (status: number): PageResponse => renderPlainPage(status, refusals[status] ?? '');

/**
 * Returns true if a name or value contains NUL, the one character that a form can encode and
 * PostgreSQL cannot store.
 */
function hasNul(fields: URLSearchParams): boolean {
  for (const [name, value] of fields) if (name.includes('\0') || value.includes('\0')) return true;
  return false;
}

/**
 * Returns a function that finds the screen for a request, or undefined if there is none.
 * @param withoutTimeout receives an upload without the request timeout
 */
export function routePageRequests(
  { screens, limits, trustedProxies, log, files }: PageRouteParts,
  withoutTimeout: <T>(request: IncomingMessage, receive: () => Promise<T>) => Promise<T>,
) {
  const getClientAddress = createClientAddressReader(trustedProxies);
  return (
    method: string,
    pathText: string,
    request: IncomingMessage,
    invite: () => void,
  ): { name: string; answer: () => Promise<Answer> } | undefined => {
    if (!knownMethods.includes(method)) return undefined;
    for (const screen of screens) {
      const { name, path, methods = defaultMethods, fromAnySite } = screen;
      const asked = method === 'OPTIONS' ? fromAnySite : undefined;
      const match = asked || methods.includes(method) ? path.exec(pathText) : null;
      if (!match) continue;
      if (asked) return { name, answer: async () => preflight(methods, asked) };
      const own = () => answer(screen, { ...match.groups }, method, request, invite);
      return { name, answer: fromAnySite ? async () => withCors(await own()) : own };
    }
    return undefined;
  };

  async function answer(
    screen: PageRoute,
    path: Record<string, string>,
    method: string,
    request: IncomingMessage,
    invite: () => void,
  ): Promise<Answer> {
    const ip = getClientAddress(
      request.socket.remoteAddress ?? '',
      request.headers['x-forwarded-for'] as string | undefined,
    );
    const verdict = await limits.takePublic({ id: screen.name, publicLimit: screen.limit ?? 'screen' }, ip, Date.now());
    const { refuse = plainRefusal } = screen;
    const refused = (status: number, seconds: number): Answer => {
      const answer = toResponse(refuse(status, path));
      // A redirect needs no Retry-After.
      return answer.status === status
        ? { ...answer, headers: { ...answer.headers, 'retry-after': String(seconds) } }
        : answer;
    };
    if (!verdict.allowed) return refused(429, countSecondsUntil(verdict, Date.now()));
    const { upload } = screen;
    const forms: PageForm[] = [];
    const receive = async (isAccepted: (form: URLSearchParams) => boolean): Promise<PageForm> => {
      const received = await withoutTimeout(request, () =>
        receivePageForm(request, files.folder, upload as PageUpload, isAccepted, invite),
      );
      forms.push(received);
      return hasNul(received.form) ? { ...received, form: new URLSearchParams() } : received;
    };
    const body = method === 'POST' && !upload ? await readBytes(request, invite) : undefined;
    const form = body && new URLSearchParams(String(body));
    try {
      const address = request.url ?? '';
      const query = new URLSearchParams(address.split('?')[1] ?? '');
      if (!screen.unchecked && (hasNul(query) || (form && hasNul(form)))) return toResponse(refuse(400, path));
      const asked = {
        ...{ method, path, form, body, address, query, headers: request.headers, ip },
        ...(method === 'POST' && upload ? { receive } : {}),
      };
      return toResponse(await screen.show({ ...asked, now: new Date() }));
    } catch (error) {
      if (!isOutage(error)) throw error;
      log.warn({ screen: screen.name, err: { message: (error as Error).message } }, 'failed to render a page');
      return refused(503, 1);
    } finally {
      for (const { discard } of forms) await discard();
    }
  }
}

const withCors = (answer: Answer): Answer => ({ ...answer, headers: { ...answer.headers, ...corsHeaders } });

function toResponse(answer: PageResponse): Answer {
  // With no-referrer, browsers would send `Origin: null` with forms of our own pages.
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
        ...cookieHeader(answer),
      },
    };
  if ('file' in answer) return { status: 200, body: answer.file, headers: buildFileHeaders(answer.file) };
  if ('body' in answer) return { ...answer, headers: { ...headers, ...answer.headers } };
  const { status, html } = answer;
  return {
    status,
    body: html,
    headers: {
      ...headers,
      'content-type': 'text/html; charset=utf-8',
      'content-security-policy': policy(answer),
      ...cookieHeader(answer),
    },
  };
}

const cookieHeader = ({ cookie }: { cookie?: string }): Record<string, string> =>
  cookie === undefined ? {} : { 'set-cookie': cookie };
