// The baseline: node:http and one select by key over a pool of prepared statements.
import { randomUUID } from 'node:crypto';
import { createServer, type ServerResponse } from 'node:http';
import postgres from 'postgres';
import { listen } from '../announce.ts';
import { buildLeadResponse, type LeadRow, leadColumns, statusNames } from '../lead-record.ts';

const { DATABASE_URL = '', COMPANY_ID = '' } = process.env;
// As many as the load has. The driver's queue of waiting queries grows while it is never empty,
// which slows the driver down.
const sql = postgres(DATABASE_URL, { max: 32 });
const names = await statusNames(sql, COMPANY_ID);
const columns = sql(leadColumns);

async function answer(id: string, response: ServerResponse): Promise<void> {
  const [row] = await sql<LeadRow[]>`
    select ${columns} from leads where company_id = ${COMPANY_ID} and test_mode = false and id = ${id}`;
  const body = row ? buildLeadResponse(row, names, randomUUID(), new Date()) : '{"success":false}';
  response.writeHead(row ? 200 : 404, {
    'Content-Type': 'application/json',
    'Content-Length': Buffer.byteLength(body),
  });
  response.end(body);
}

listen(
  createServer((request, response) => {
    const url = request.url ?? '';
    void answer(url.slice(url.lastIndexOf('/') + 1), response);
  }),
);
