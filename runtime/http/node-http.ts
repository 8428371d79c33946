// Node's HTTP, for whoever needs more of it than its types.
import type { Socket } from 'node:net';

/** An import by name reads all that node:http exports, its WebSocket among it, which loads the whole of fetch: 2 MB that nobody uses. */
export const http = process.getBuiltinModule('node:http');

/** What the parser takes for: nothing comes behind this. */
const nothingFollows = (): number => 2;

/**
 * Has Node drop what else came with a request whose connection is cut because of it: it would make requests of all of it, 3 KB each, which
 * live until the connection has gone.
 */
export function dropRest(socket: Socket): void {
  const { parser } = socket as Socket & { parser?: { onIncoming: () => number } | null };
  if (parser) parser.onIncoming = nothingFollows;
}
