// What assistants are offered behind the route, whatever it is.
import type { McpServer, Server } from '@modelcontextprotocol/server';
import type { EntranceOrder, EntranceRequest } from '../runtime/entrances.ts';

/** The library, loaded when it is first needed. */
export type Library = typeof import('@modelcontextprotocol/server');

export interface Catalogue {
  /**
   * Makes the protocol server of one request: its tools, resources and prompts. Lists must not change while it answers.
   * @param method of the message that was sent; others need no answer
   */
  serverFor(request: EntranceRequest, method: string): Server | McpServer;
  /** The operations that a call of a tool would perform; none where it makes no call. */
  ordersOf(tool: string, given: unknown): readonly EntranceOrder[];
}

/** Runs once, at the first request. */
export type OpenCatalogue = (library: Library) => Catalogue;
