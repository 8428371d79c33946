// The baseline: node:http and one transaction that writes the rows of a batch.
import { createHash, randomUUID } from 'node:crypto';
import { createServer, type ServerResponse } from 'node:http';
import postgres from 'postgres';
import { v7 as uuidv7 } from 'uuid';
import { listen } from '../announce.ts';
import { type LeadRow, statusNames, toLeadResponse } from '../lead-record.ts';

const { DATABASE_URL = '', COMPANY_ID = '', KEY_ID = '' } = process.env;
const sql = postgres(DATABASE_URL, { max: 10 });
const names = await statusNames(sql, COMPANY_ID);
const [status = ''] = names.keys();
const actor = { kind: 'api_key', id: KEY_ID, name: 'Bench' };
const hash = (value: string) => createHash('sha256').update(value).digest();

async function create(text: string, key: string, response: ServerResponse): Promise<void> {
  const now = new Date();
  const requestId = randomUUID();
  const rows = (JSON.parse(text) as Record<string, string | number>[]).map((given) => ({
    ...given,
    company_id: COMPANY_ID,
    test_mode: false,
    id: uuidv7(),
    lead_status_id: status,
    created_by_kind: actor.kind,
    created_by_id: actor.id,
    created_by_name: actor.name,
    created_at: now,
    updated_at: now,
  }));
  const audits = rows.map(({ id }) => ({
    company_id: COMPANY_ID,
    id: uuidv7(),
    occurred_at: now,
    actor_kind: actor.kind,
    actor_id: actor.id,
    api_key_id: actor.id,
    key_name: actor.name,
    request_id: requestId,
    ip: '127.0.0.1',
    action: 'lead.create',
    object: 'leads',
    record_id: id,
    test_mode: false,
    idempotency_key_hash: hash(key),
  }));
  const events = rows.map(({ id }) => ({
    company_id: COMPANY_ID,
    id: uuidv7(),
    test_mode: false,
    event: 'record.created',
    occurred_at: now,
    actor: sql.json(actor),
    request_id: requestId,
    data: sql.json({ object: 'leads', record_id: id, occurred_at: now.toISOString() }),
  }));
  const succeeded = rows.map((row, index) => ({ index, record: toLeadResponse(row as unknown as LeadRow, names) }));
  const meta = { request_id: requestId, timestamp: now.toISOString() };
  const body = JSON.stringify({ success: true, data: { object: 'leads', succeeded, failed: [] }, meta });
  await sql.begin((transaction) => [
    transaction`insert into leads ${transaction(rows as never)}`,
    transaction`insert into audit_logs ${transaction(audits as never)}`,
    transaction`insert into outbox_events ${transaction(events as never)}`,
    transaction`
      insert into idempotency_records (company_id, test_mode, endpoint, key, request_hash, status, body, created_at)
      values (${COMPANY_ID}, false, 'POST /v1/objects/leads/records:batch', ${key}, ${hash(text)}, 200, ${body}, ${now})`,
  ]);
  response.writeHead(200, { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(body) });
  response.end(body);
}

listen(
  createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      void create(Buffer.concat(chunks).toString(), String(request.headers['idempotency-key']), response);
    });
  }),
);
