// The route of the Model Context Protocol: who may call from where, and what of it is HTTP.
import type { IncomingHttpHeaders } from 'node:http';
import { ApiError } from '../runtime/errors.ts';
import type { Entrance, EntranceAnswer, EntranceRequest } from '../runtime/http/program-routes.ts';
import { lazily } from '../runtime/lazily.ts';
import type { Catalogue, Library, Offer, Sessions } from './catalogue.ts';

export const mcpPath = '/v1/mcp';

export interface McpParts {
  offer: Offer;
  /** The address that callers know the server by. */
  baseUrl(): string;
  /** What an app asks for first: people choose the rest when they are asked for consent. */
  firstScopes: string;
}

/** Of JSON-RPC: what a server says of requests that it did not read as messages. */
const serverError = -32_000;
const invalidRequest = -32_600;
/** Methods that perform operations: they are counted as those. */
const performing = ['tools/call', 'resources/list', 'resources/read'];

interface Message {
  method?: unknown;
  id?: unknown;
  params?: { name?: unknown; arguments?: unknown };
}

export function mcpEntrance(parts: McpParts): Entrance {
  const load = lazily(async () => {
    const library = await import('@modelcontextprotocol/server');
    return serving(library, parts.offer);
  });
  const hasSessions = parts.offer.openSessions !== undefined;
  const audience = () => parts.baseUrl() + mcpPath;
  const challenge = (error: string | undefined, scope: string): string =>
    [
      ...(error === undefined ? [] : [`error="${error}"`]),
      `resource_metadata="${parts.baseUrl()}/.well-known/oauth-protected-resource${mcpPath}"`,
      `scope="${scope}"`,
    ].join(', ');

  /** An app can ask for more consent, and is told so in the way of HTTP; the holder of a key cannot, and the model is told. */
  function requireScope({ caller, refusalOf }: EntranceRequest, message: Message, { ordersOf }: Catalogue): void {
    if (caller.kind !== 'oauth_client' || message.method !== 'tools/call') return;
    const { name, arguments: given } = message.params ?? {};
    for (const { operationId, path } of ordersOf(String(name), given)) {
      const refusal = refusalOf(operationId, path);
      const scopes = (refusal?.details?.required_scopes as string[] | undefined) ?? [];
      if (refusal?.code !== 'FORBIDDEN_SCOPE' || scopes.length === 0) continue;
      throw new ApiError('FORBIDDEN_SCOPE', refusal.message, refusal.details, {
        headers: { 'www-authenticate': `Bearer ${challenge('insufficient_scope', scopes.join(' '))}` },
      });
    }
  }

  return {
    name: 'callMcp',
    methods: hasSessions ? ['GET', 'POST', 'DELETE'] : ['POST'],
    audience,
    // A session would take the second answer of a call for a second call.
    performs: (body) => !hasSessions && body.includes('"tools/call"'),
    check: (headers) => checkOrigin(headers, new URL(parts.baseUrl())),
    async answer(request) {
      const { handler, catalogue, sessions, isLegacy, answerLegacy } = await load();
      const sent = parse(request.body);
      const messages = (Array.isArray(sent) ? sent : [sent]) as (Message | undefined | null)[];
      const requests = messages.filter((each): each is Message => typeof each?.method === 'string' && 'id' in each);
      if (requests.length > 1)
        return told(400, invalidRequest, 'Send each request on its own. Batches are not supported.');
      const [message = {}] = requests;
      requireScope(request, message, catalogue);
      if (!performing.includes(String(message.method))) await request.count();
      const asked = webRequest(audience(), request, sent !== undefined);
      const isOlder = sent !== undefined || sessions !== undefined ? await isLegacy(asked, sent) : false;
      if (sessions && isOlder) {
        // What a session performs is not known to be one of our operations.
        await request.count();
        return streamed(await sessions(asked, sent));
      }
      const sender = { request, method: String(message.method) };
      const response = isOlder
        ? await answerLegacy(asked, sent, sender)
        : await handler.fetch(asked, {
            ...(sent === undefined ? {} : { parsedBody: sent }),
            authInfo: { ...nobody, extra: sender satisfies Sent },
          });
      const body = Buffer.from(await response.arrayBuffer());
      // It performed none: there is no such tool, or its arguments make no call.
      await request.count();
      return { status: response.status, headers: Object.fromEntries(response.headers), body };
    },
    tell(error, requestId) {
      const { code, message, details, status } = error;
      const wrong = error.headers?.['www-authenticate']?.includes('invalid_token') ? 'invalid_token' : undefined;
      const isRevoked = ['no_grant', 'grant_revoked'].includes(String(details?.reason));
      const data = { code, ...(details === undefined ? {} : { details }), request_id: requestId };
      return {
        ...told(status, serverError, message, data),
        headers: {
          ...error.headers,
          'content-type': 'application/json; charset=utf-8',
          ...(status === 401 ? { 'www-authenticate': `Bearer ${challenge(wrong, parts.firstScopes)}` } : {}),
          // Clients take this error alone for a reason to ask for consent again.
          ...(isRevoked ? { 'www-authenticate': `Bearer ${challenge('insufficient_scope', parts.firstScopes)}` } : {}),
        },
      };
    },
  };
}

/** The library knows who calls by what goes along alone: its own fields for tokens stay empty. */
const nobody = { token: '', clientId: '', scopes: [], extra: {} };

/** What goes along with a request through the library. */
interface Sent {
  request: EntranceRequest;
  method: string;
}

interface Serving {
  handler: ReturnType<Library['createMcpHandler']>;
  catalogue: Catalogue;
  sessions: Sessions | undefined;
  isLegacy: Library['isLegacyRequest'];
  /** Answers a request of a revision before 2026-07-28, as JSON. */
  answerLegacy(asked: Request, parsedBody: unknown, sender: Sent): Promise<Response>;
}

function serving(library: Library, offer: Offer): Serving {
  const catalogue = offer.openCatalogue(library);
  const serve: Parameters<typeof library.createMcpHandler>[0] = ({ authInfo = nobody }) => {
    const { request, method } = authInfo.extra as unknown as Sent;
    return catalogue.serverFor(request, method);
  };
  // Answers are sent as a whole: nothing needs to keep a connection awake.
  const handler = library.createMcpHandler(serve, { keepAliveMs: 0, legacy: 'reject' });
  // By default the library answers older revisions with event streams, which not every client reads.
  async function answerLegacy(asked: Request, parsedBody: unknown, { request, method }: Sent): Promise<Response> {
    const transport = new library.WebStandardStreamableHTTPServerTransport({ enableJsonResponse: true });
    const server = catalogue.serverFor(request, method);
    await server.connect(transport);
    try {
      return await transport.handleRequest(asked, { parsedBody });
    } finally {
      await server.close();
    }
  }
  const sessions = offer.openSessions?.(library);
  return { handler, catalogue, sessions, isLegacy: library.isLegacyRequest, answerLegacy };
}

/** What a session answers, as it comes. Connections are the server's own business. */
function streamed({ status, headers, body }: Response): EntranceAnswer {
  const { connection: _, ...told } = Object.fromEntries(headers);
  return { status, headers: told, body: body ?? '' };
}

/** undefined: it is no JSON, which the library says in its own way. */
function parse(body: Buffer): unknown {
  try {
    return JSON.parse(body.toString('utf8'));
  } catch {
    return undefined;
  }
}

/** The library asks clients to take JSON and event streams. Answers are JSON, so that a client that takes JSON takes all of them. */
function accepted(accept: string | undefined): string {
  const takesJson = accept === undefined || /application\/(json|\*)|\*\/\*/i.test(accept);
  return takesJson ? 'application/json, text/event-stream' : accept;
}

/**
 * The request as the library reads it.
 * @param isRead whether the body goes along as it was read: of the rest the library asks so little that a request of the web is made only
 *   where it is not
 */
function webRequest(url: string, { method, headers, body }: EntranceRequest, isRead: boolean): Request {
  const get = (name: string): string | null =>
    name.toLowerCase() === 'accept' ? accepted(headers.accept) : (headers[name.toLowerCase()]?.toString() ?? null);
  if (isRead || method !== 'POST') return { method, url, headers: { get } } as Request;
  const named = ['accept', 'content-type'].flatMap((name) => {
    const value = get(name);
    return value === null ? [] : [[name, value]];
  });
  return new Request(url, { method, headers: Object.fromEntries(named), body: new Uint8Array(body) });
}

function told(status: number, code: number, message: string, data?: object): EntranceAnswer {
  return {
    status,
    headers: { 'content-type': 'application/json; charset=utf-8' },
    body: JSON.stringify({ jsonrpc: '2.0', id: null, error: { code, message, ...(data ? { data } : {}) } }),
  };
}

const loopback = /^(localhost|127(\.\d+){3}|\[::1\])$/;

/**
 * Lets in what calls this server by its own name, and of pages only its own: another page could use the place that a browser has in a network.
 * @throws ApiError 403
 */
function checkOrigin({ host, origin }: IncomingHttpHeaders, base: URL): void {
  const isOwn = (url: URL): boolean =>
    url.host === base.host || (loopback.test(base.hostname) && loopback.test(url.hostname));
  const asked = URL.parse(`${base.protocol}//${host}`);
  if (!asked || !isOwn(asked))
    throw foreign('host', `The Host header must be ${base.host}, as in BASE_URL. It is ${host}.`);
  if (origin === undefined) return;
  const page = URL.parse(origin);
  if (!page || !isOwn(page)) throw foreign('origin', `Requests from the origin ${origin} are not allowed.`);
}

const foreign = (reason: string, message: string): ApiError =>
  new ApiError('FORBIDDEN_SCOPE', message, { required_scopes: [], reason: `foreign_${reason}` });
