// Access to node:http without loading its WebSocket, and to its parser.
import type { Socket } from 'node:net';

/**
 * A named import would evaluate every export of node:http. Its WebSocket loads all of fetch: 2 MB
 * that the server does not use.
 */
export const http = process.getBuiltinModule('node:http');

/** Return value that tells Node's parser to skip the body and everything after it. */
const nothingFollows = (): number => 2;

/**
 * Makes Node ignore the remaining pipelined requests of a connection that is being closed because
 * of them. Otherwise Node creates a request of 3 KB for each, which lives until the connection is
 * gone.
 */
export function dropRest(socket: Socket): void {
  const { parser } = socket as Socket & { parser?: { onIncoming: () => number } | null };
  if (parser) parser.onIncoming = nothingFollows;
}
