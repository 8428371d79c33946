// The interface between the MCP endpoint and the tools, resources and prompts that it serves.
import type { McpServer, Server } from '@modelcontextprotocol/server';
import type { ProgramCall, ProgramRequest } from '../runtime/http/program-routes.ts';

/** The MCP library. It is loaded on first use. */
export type Library = typeof import('@modelcontextprotocol/server');

/**
 * Answers a request that starts, uses or ends an MCP session. The response may be a stream.
 * @param parsedBody undefined if there is no body, or if it is not JSON
 */
export type Sessions = (request: Request, parsedBody: unknown) => Promise<Response>;

export interface Catalogue {
  /**
   * Creates the protocol server of one request, with its tools, resources and prompts. Its lists
   * must not change while it handles the request.
   * @param method the method of the message; the server needs no handler for other methods
   */
  createServer(request: ProgramRequest, method: string): Server | McpServer;
  /** Returns the operations that a tool call would perform. Empty if the call is invalid. */
  planCalls(tool: string, given: unknown): readonly ProgramCall[];
}

/** Creates what the MCP endpoint serves. Each function runs once, at the first request. */
export interface Offer {
  openCatalogue(library: Library): Catalogue;
  /**
   * Serves clients of revisions before 2026-07-28 in sessions. Without it, the catalogue serves
   * each of their requests separately.
   */
  openSessions?(library: Library): Sessions;
}
