// Loaded into a server whose conditions are marked: notes which of them each request sends.
import { writeFileSync } from 'node:fs';
import { type IncomingMessage, Server, type ServerResponse } from 'node:http';
import { Socket } from 'node:net';

/** The conditions that were sent while a request was answered, by what its header says; those beside all requests by an empty name. */
const sent: Record<string, Set<number>> = {};
let current = '';

const { emit } = Server.prototype;
Server.prototype.emit = function (this: Server, ...told: unknown[]): boolean {
  const [event, request, response] = told as [string, IncomingMessage, ServerResponse];
  if (event === 'request') {
    current = String(request.headers['x-probe'] ?? '');
    response.once('finish', () => {
      current = '';
    });
  }
  return emit.apply(this, told as Parameters<typeof emit>);
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
