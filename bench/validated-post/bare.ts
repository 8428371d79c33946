// The baseline: node:http, JSON.parse and the same response, nothing else.
import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { listen } from '../announce.ts';
import { toLead } from './lead.ts';

listen(
  createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const now = new Date();
      const lead = toLead(JSON.parse(Buffer.concat(chunks).toString()), now);
      const meta = { request_id: randomUUID(), timestamp: now.toISOString() };
      const body = JSON.stringify({ success: true, data: { lead }, meta });
      response.writeHead(201, { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(body) });
      response.end(body);
    });
  }),
);
