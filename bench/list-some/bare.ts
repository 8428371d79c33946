// The baseline: node:http, one select of a filtered, sorted page, and JSON of the same size.
import { randomUUID } from 'node:crypto';
import { createServer, type ServerResponse } from 'node:http';
import postgres from 'postgres';
import { listen } from '../announce.ts';
import { type LeadRow, leadColumns, statusNames, toLeadResponse } from '../lead-record.ts';

const { DATABASE_URL = '', COMPANY_ID = '' } = process.env;
// As many as the load has. The driver's queue of waiting queries grows while it is never empty,
// which slows the driver down.
const sql = postgres(DATABASE_URL, { max: 32 });
const names = await statusNames(sql, COMPANY_ID);
const columns = sql(leadColumns);
const [status = ''] = [...names].find(([, name]) => name === 'New') ?? [];

async function answer(response: ServerResponse): Promise<void> {
  const rows = await sql<LeadRow[]>`
    select ${columns} from leads
    where company_id = ${COMPANY_ID} and test_mode = false and lead_status_id = ${status}
    order by created_at desc, id desc
    limit 25`;
  const records = rows.map((row) => toLeadResponse(row, names));
  const meta = { request_id: randomUUID(), timestamp: new Date().toISOString() };
  const page = { object: 'leads', records, next_cursor: rows.at(-1)?.id, has_more: true };
  const body = JSON.stringify({ success: true, data: page, meta });
  response.writeHead(200, { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(body) });
  response.end(body);
}

listen(createServer((_request, response) => void answer(response)));
