// Webhook receivers, in a separate process: by path they respond immediately, late or never.
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { listen } from './announce.ts';
import { moment } from './moments.ts';

/** Response time of the slow receivers in milliseconds. */
const late = 5000;
/** When each record first arrived at a fast receiver, and the number of requests. */
let arrivals = new Map<string, number>();
let requests = 0;

listen(
  createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => receive(request, Buffer.concat(chunks), response));
  }),
);

function receive(request: IncomingMessage, body: Buffer, response: ServerResponse): void {
  const path = request.url ?? '';
  if (path === '/arrivals') {
    const text = JSON.stringify({ requests, arrivals: [...arrivals] });
    [requests, arrivals] = [0, new Map()];
    response.setHeader('content-length', Buffer.byteLength(text)).end(text);
    return;
  }
  if (path.startsWith('/dead')) return;
  if (path.startsWith('/slow')) {
    setTimeout(() => response.end('late'), late);
    return;
  }
  requests += 1;
  const { record_id } = JSON.parse(body.toString()).data;
  if (!arrivals.has(record_id)) arrivals.set(record_id, moment());
  response.end('ok');
}
