// The HTTP endpoint of the Model Context Protocol: origin checks, scope challenges and errors.
import type { IncomingHttpHeaders } from 'node:http';
import { ApiError } from '../runtime/errors.ts';
import type { ProgramRequest, ProgramResponse, ProgramRoute } from '../runtime/http/program-routes.ts';
import { makeLazy } from '../runtime/lazily.ts';
import type { Catalogue, Library, Offer, Sessions } from './catalogue.ts';

export const mcpPath = '/v1/mcp';

export interface McpParts {
  offer: Offer;
  /** The public address of the server. */
  baseUrl(): string;
  /**
   * The scopes in the challenge of a 401 response. The person chooses further scopes on the consent
   * page.
   */
  firstScopes: string;
}

/** JSON-RPC error codes for requests that are rejected before they are read as messages. */
const serverError = -32_000;
const invalidRequest = -32_600;
/** Methods that perform operations. The quota counts these operations instead of the message. */
const performingMethods = ['tools/call', 'resources/list', 'resources/read'];

interface Message {
  method?: unknown;
  id?: unknown;
  params?: { name?: unknown; arguments?: unknown };
}

export function createMcpRoute(parts: McpParts): ProgramRoute {
  const load = makeLazy(async () => {
    const library = await import('@modelcontextprotocol/server');
    return createServing(library, parts.offer);
  });
  const hasSessions = parts.offer.openSessions !== undefined;
  const audience = () => parts.baseUrl() + mcpPath;
  const challenge = (error: string | undefined, scope: string): string =>
    [
      ...(error === undefined ? [] : [`error="${error}"`]),
      `resource_metadata="${parts.baseUrl()}/.well-known/oauth-protected-resource${mcpPath}"`,
      `scope="${scope}"`,
    ].join(', ');

  /**
   * Responds with an HTTP scope challenge if an app lacks a scope, because the app can ask for more
   * consent. The holder of an API key cannot, so the tool result explains the problem to the model.
   */
  function requireScope({ caller, findAccessError }: ProgramRequest, message: Message, { planCalls }: Catalogue): void {
    if (caller.kind !== 'oauth_client' || message.method !== 'tools/call') return;
    const { name, arguments: given } = message.params ?? {};
    for (const { operationId, path } of planCalls(String(name), given)) {
      const refusal = findAccessError(operationId, path);
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
    // The pipeline may answer a request again with a fresh credential. A session would take that
    // for a second call.
    performs: (body) => !hasSessions && body.includes('"tools/call"'),
    check: (headers) => checkOrigin(headers, new URL(parts.baseUrl())),
    async answer(request) {
      const { handler, catalogue, sessions, isLegacy, answerLegacy } = await load();
      const sent = parseJson(request.body);
      const messages = (Array.isArray(sent) ? sent : [sent]) as (Message | undefined | null)[];
      const requests = messages.filter((each): each is Message => typeof each?.method === 'string' && 'id' in each);
      if (requests.length > 1)
        return jsonRpcError(400, invalidRequest, 'Send each request on its own. Batches are not supported.');
      const [message = {}] = requests;
      requireScope(request, message, catalogue);
      if (!performingMethods.includes(String(message.method))) await request.count();
      const asked = toWebRequest(audience(), request, sent !== undefined);
      const isOlder = sent !== undefined || sessions !== undefined ? await isLegacy(asked, sent) : false;
      if (sessions && isOlder) {
        // The operations that a session performs are not visible here, so the request itself is
        // counted.
        await request.count();
        return toStreamedAnswer(await sessions(asked, sent));
      }
      const sender = { request, method: String(message.method) };
      const response = isOlder
        ? await answerLegacy(asked, sent, sender)
        : await handler.fetch(asked, {
            ...(sent === undefined ? {} : { parsedBody: sent }),
            authInfo: { ...emptyAuth, extra: sender satisfies Sent },
          });
      const body = Buffer.from(await response.arrayBuffer());
      // No operation was performed: the tool does not exist, or its arguments are invalid.
      await request.count();
      return { status: response.status, headers: Object.fromEntries(response.headers), body };
    },
    toErrorResponse(error, requestId) {
      const { code, message, details, status } = error;
      const wrong = error.headers?.['www-authenticate']?.includes('invalid_token') ? 'invalid_token' : undefined;
      const isRevoked = ['no_grant', 'grant_revoked'].includes(String(details?.reason));
      const data = { code, ...(details === undefined ? {} : { details }), request_id: requestId };
      return {
        ...jsonRpcError(status, serverError, message, data),
        headers: {
          ...error.headers,
          'content-type': 'application/json; charset=utf-8',
          ...(status === 401 ? { 'www-authenticate': `Bearer ${challenge(wrong, parts.firstScopes)}` } : {}),
          // Clients ask for consent again only after this error.
          ...(isRevoked ? { 'www-authenticate': `Bearer ${challenge('insufficient_scope', parts.firstScopes)}` } : {}),
        },
      };
    },
  };
}

/** The server reads the caller from `extra` only. The library's own token fields stay empty. */
const emptyAuth = { token: '', clientId: '', scopes: [], extra: {} };

/** Data that travels through the library with a request. */
interface Sent {
  request: ProgramRequest;
  method: string;
}

interface Serving {
  handler: ReturnType<Library['createMcpHandler']>;
  catalogue: Catalogue;
  sessions: Sessions | undefined;
  isLegacy: Library['isLegacyRequest'];
  /** Answers a request of a revision before 2026-07-28 as JSON. */
  answerLegacy(asked: Request, parsedBody: unknown, sender: Sent): Promise<Response>;
}

function createServing(library: Library, offer: Offer): Serving {
  const catalogue = offer.openCatalogue(library);
  const serve: Parameters<typeof library.createMcpHandler>[0] = ({ authInfo = emptyAuth }) => {
    const { request, method } = authInfo.extra as unknown as Sent;
    return catalogue.createServer(request, method);
  };
  // Responses are not streamed, so no connection needs keep-alive messages.
  const handler = library.createMcpHandler(serve, { keepAliveMs: 0, legacy: 'reject' });
  // By default the library answers older revisions with event streams, which not every client can
  // read.
  async function answerLegacy(asked: Request, parsedBody: unknown, { request, method }: Sent): Promise<Response> {
    const transport = new library.WebStandardStreamableHTTPServerTransport({ enableJsonResponse: true });
    const server = catalogue.createServer(request, method);
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

/**
 * Passes on the response of a session, which may be a stream. The server sets `connection` itself.
 */
function toStreamedAnswer({ status, headers, body }: Response): ProgramResponse {
  const { connection: _, ...others } = Object.fromEntries(headers);
  return { status, headers: others, body: body ?? '' };
}

/** Returns undefined if the body is not JSON. The library then responds with its own error. */
function parseJson(body: Buffer): unknown {
  try {
    return JSON.parse(body.toString('utf8'));
  } catch {
    return undefined;
  }
}

/**
 * The library requires that clients accept JSON and event streams. Responses are always JSON, so it
 * is enough if a client accepts JSON.
 */
function widenAccept(accept: string | undefined): string {
  const takesJson = accept === undefined || /application\/(json|\*)|\*\/\*/i.test(accept);
  return takesJson ? 'application/json, text/event-stream' : accept;
}

/**
 * Builds the request that the library reads.
 * @param isRead true if the parsed body is passed separately. The library then reads only a few
 * properties, so a full web Request is not built.
 */
function toWebRequest(url: string, { method, headers, body }: ProgramRequest, isRead: boolean): Request {
  const get = (name: string): string | null =>
    name.toLowerCase() === 'accept' ? widenAccept(headers.accept) : (headers[name.toLowerCase()]?.toString() ?? null);
  if (isRead || method !== 'POST') return { method, url, headers: { get } } as Request;
  const named = ['accept', 'content-type'].flatMap((name) => {
    const value = get(name);
    return value === null ? [] : [[name, value]];
  });
  return new Request(url, { method, headers: Object.fromEntries(named), body: new Uint8Array(body) });
}

function jsonRpcError(status: number, code: number, message: string, data?: object): ProgramResponse {
  return {
    status,
    headers: { 'content-type': 'application/json; charset=utf-8' },
    body: JSON.stringify({ jsonrpc: '2.0', id: null, error: { code, message, ...(data ? { data } : {}) } }),
  };
}

const loopback = /^(localhost|127(\.\d+){3}|\[::1\])$/;

/**
 * Checks the Host and Origin headers against the address of this server. This prevents DNS
 * rebinding: a foreign page could otherwise use the browser's access to the network.
 * @throws ApiError 403
 */
function checkOrigin({ host, origin }: IncomingHttpHeaders, base: URL): void {
  const isOwn = (url: URL): boolean =>
    url.host === base.host || (loopback.test(base.hostname) && loopback.test(url.hostname));
  const asked = URL.parse(`${base.protocol}//${host}`);
  if (!asked || !isOwn(asked))
    throw foreignCaller('host', `The Host header must be ${base.host}, as in BASE_URL. It is ${host}.`);
  if (origin === undefined) return;
  const page = URL.parse(origin);
  if (!page || !isOwn(page)) throw foreignCaller('origin', `Requests from the origin ${origin} are not allowed.`);
}

const foreignCaller = (reason: string, message: string): ApiError =>
  new ApiError('FORBIDDEN_SCOPE', message, { required_scopes: [], reason: `foreign_${reason}` });
