// The baseline: node:http and one pipelined transaction that writes the same four rows as a create.
import { createHash, randomUUID } from 'node:crypto';
import { createServer, type ServerResponse } from 'node:http';
import postgres from 'postgres';
import { v7 as uuidv7 } from 'uuid';
import { listen } from '../announce.ts';
import { buildLeadResponse, type LeadRow, statusNames } from '../lead-record.ts';

const { DATABASE_URL = '', COMPANY_ID = '', KEY_ID = '' } = process.env;
const sql = postgres(DATABASE_URL, { max: 10 });
const names = await statusNames(sql, COMPANY_ID);
const [status = ''] = names.keys();
const actor = { kind: 'api_key', id: KEY_ID, name: 'Bench' };

async function create(text: string, key: string, response: ServerResponse): Promise<void> {
  const given = JSON.parse(text);
  const now = new Date();
  const id = uuidv7();
  const requestId = randomUUID();
  const row: LeadRow = {
    last_name: null,
    email: null,
    mobile: null,
    company_name: null,
    job_title: null,
    website: null,
    city: null,
    state: null,
    country: null,
    postal_code: null,
    inquiry_details: null,
    notes: null,
    origin: null,
    source_id: null,
    assigned_to: null,
    converted_customer_id: null,
    ...given,
    id,
    created_at: now,
    updated_at: now,
    lead_status_id: status,
    last_contacted_at: null,
    next_followup_at: null,
    converted_at: null,
  };
  const body = buildLeadResponse(row, names, requestId, now);
  const event = { object: 'leads', record_id: id, occurred_at: now.toISOString() };
  const hash = (value: string) => createHash('sha256').update(value).digest();
  await sql.begin((transaction) => [
    transaction`
      insert into leads (company_id, test_mode, id, first_name, last_name, email, mobile, website, city, inquiry_details, notes, priority,
        lead_status_id, created_by_kind, created_by_id, created_by_name, created_at, updated_at)
      values (${COMPANY_ID}, false, ${id}, ${given.first_name}, ${given.last_name}, ${given.email}, ${given.mobile}, ${given.website}, ${given.city},
        ${given.inquiry_details}, ${given.notes}, ${given.priority}, ${status}, ${actor.kind}, ${actor.id}, ${actor.name}, ${now}, ${now})`,
    transaction`
      insert into audit_logs (company_id, id, occurred_at, actor_kind, actor_id, api_key_id, key_name, request_id, ip, action, object, record_id,
        test_mode, idempotency_key_hash)
      values (${COMPANY_ID}, ${uuidv7()}, ${now}, ${actor.kind}, ${actor.id}, ${actor.id}, ${actor.name}, ${requestId}, '127.0.0.1',
        'lead.create', 'leads', ${id}, false, ${hash(key)})`,
    transaction`
      insert into outbox_events (company_id, id, test_mode, event, occurred_at, actor, request_id, data)
      values (${COMPANY_ID}, ${uuidv7()}, false, 'record.created', ${now}, ${transaction.json(actor)}, ${requestId}, ${transaction.json(event)})`,
    transaction`
      insert into idempotency_records (company_id, test_mode, endpoint, key, request_hash, status, body, created_at)
      values (${COMPANY_ID}, false, 'POST /v1/objects/leads/records', ${key}, ${hash(text)}, 201, ${body}, ${now})`,
  ]);
  response.writeHead(201, { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(body) });
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
