// Loaded into a server with marked conditions: records which request sends which condition.
import { writeFileSync } from 'node:fs';
import { type IncomingMessage, Server, type ServerResponse } from 'node:http';
import { Socket } from 'node:net';

/**
 * The conditions sent during a request, by its header. An empty name stands for those outside of
 * requests.
 */
const sent: Record<string, Set<number>> = {};
let current = '';

const { emit } = Server.prototype;
Server.prototype.emit = function (this: Server, ...args: unknown[]): boolean {
  const [event, request, response] = args as [string, IncomingMessage, ServerResponse];
  if (event === 'request') {
    current = String(request.headers['x-probe'] ?? '');
    response.once('finish', () => {
      current = '';
    });
  }
  return emit.apply(this, args as Parameters<typeof emit>);
} as typeof emit;

const { write } = Socket.prototype;
Socket.prototype.write = function (this: Socket, ...parts: unknown[]): boolean {
  const [data] = parts;
  const text = typeof data === 'string' ? data : Buffer.from(data as Uint8Array).toString('latin1');
  for (const [, place] of text.matchAll(/\/\*~(\d+)~\*\//g)) {
    sent[current] ??= new Set();
    sent[current]?.add(Number(place));
  }
  return write.apply(this, parts as Parameters<typeof write>);
} as typeof write;

process.on('exit', () => {
  const listed = Object.entries(sent).map(([name, places]) => [name, [...places]]);
  writeFileSync(process.env.REACHED_FILE ?? '', JSON.stringify(Object.fromEntries(listed)));
});
