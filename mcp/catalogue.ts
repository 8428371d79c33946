// What assistants are offered behind the route, whatever it is.
import type { McpServer, Server } from '@modelcontextprotocol/server';
import type { EntranceCall, EntranceRequest } from '../runtime/http/program-routes.ts';

/** The library, loaded when it is first needed. */
export type Library = typeof import('@modelcontextprotocol/server');

/**
 * Answers a request that opens a session, belongs to one, or ends it; the answer may be a stream.
 * @param parsedBody undefined: there is no body, or it is no JSON
 */
export type Sessions = (request: Request, parsedBody: unknown) => Promise<Response>;

export interface Catalogue {
  /**
   * Makes the protocol server of one request: its tools, resources and prompts. Lists must not change while it answers.
   * @param method of the message that was sent; others need no answer
   */
  serverFor(request: EntranceRequest, method: string): Server | McpServer;
  /** The operations that a call of a tool would perform; none where it makes no call. */
  ordersOf(tool: string, given: unknown): readonly EntranceCall[];
}

/** What stands behind the route. Its functions run once, at the first request. */
export interface Offer {
  openCatalogue(library: Library): Catalogue;
  /** Serves clients of revisions before 2026-07-28 in sessions; without it each of their requests is served by the catalogue, alone. */
  openSessions?(library: Library): Sessions;
}
