// The requests of the database measurements, in the format of the records API.
import { request, sendOne } from './load.ts';
import type { Workspace } from './workspace.ts';

const path = '/v1/objects/leads/records';

const lead = {
  first_name: 'Amira',
  last_name: 'Haddad',
  website: 'https://bluelake.example/about',
  city: 'Dubai',
  inquiry_details: 'Asked for a price list for twelve seats, and whether the data can stay in Europe.',
  notes: 'Prefers a call in the morning.',
  priority: 2,
};

/** Returns a request that creates a lead, different for each number. */
export function createRequest(key: string, run: string, number: number): Buffer {
  const mobile = `+97150${String(1_000_000 + (number % 9_000_000))}`;
  const body = JSON.stringify({ ...lead, email: `lead-${run}-${number}@bluelake.example`, mobile });
  return request('POST', path, { 'x-api-key': key, 'Idempotency-Key': `bench-${run}-${number}` }, body);
}

/** Returns a request that changes a lead, different for each number. */
export function updateRequest(key: string, id: string, run: string, number: number): Buffer {
  const headers = { 'x-api-key': key, 'Idempotency-Key': `bench-${run}-${number}` };
  return request('PATCH', `${path}/${id}`, headers, JSON.stringify({ city: `City ${number}` }));
}

/** Returns a request that creates a batch of leads, different for each number. */
export function batchRequest(key: string, run: string, number: number, count = 100): Buffer {
  const body = JSON.stringify(
    Array.from({ length: count }, (_, index) => ({
      ...lead,
      email: `lead-${run}-${number + index}@bluelake.example`,
      mobile: `+97150${String(1_000_000 + ((number + index) % 9_000_000))}`,
    })),
  );
  return request('POST', `${path}:batch`, { 'x-api-key': key, 'Idempotency-Key': `bench-${run}-${number}` }, body);
}

export function readRequest(key: string, id: string): Buffer {
  return request('GET', `${path}/${id}`, { 'x-api-key': key });
}

/** Returns a request that reads records by a list of ids. */
export function readManyRequest(key: string, ids: readonly string[]): Buffer {
  return request('POST', `${path}:batch-get`, { 'x-api-key': key }, JSON.stringify({ ids }));
}

export function listRequest(key: string, limit = 25): Buffer {
  return request('GET', `${path}?limit=${limit}`, { 'x-api-key': key });
}

/** Returns a list request whose statement is planned for its filter. */
export function filteredListRequest(key: string): Buffer {
  const filter = encodeURIComponent(JSON.stringify({ field: 'city', op: 'eq', value: 'Dubai' }));
  return request('GET', `${path}?limit=25&filter=${filter}`, { 'x-api-key': key });
}

/**
 * Creates a lead.
 * @param number different for each lead
 * @returns its id
 */
export async function createLead(port: number, workspace: Workspace, number = 1): Promise<string> {
  const { status, body } = await sendOne(port, createRequest(workspace.key, 'first', number));
  if (status !== 201) throw new Error(`a lead could not be created: ${body}`);
  return JSON.parse(body).data.record.id;
}

/** Returns the same read as an MCP tool call. */
export function toolRequest(key: string, id: string): Buffer {
  const version = '2026-07-28';
  const _meta = {
    'io.modelcontextprotocol/protocolVersion': version,
    'io.modelcontextprotocol/clientInfo': { name: 'bench', version: '1.0.0' },
    'io.modelcontextprotocol/clientCapabilities': {},
  };
  const params = { name: 'get_record', arguments: { object: 'leads', id }, _meta };
  const headers = {
    'x-api-key': key,
    accept: 'application/json, text/event-stream',
    'mcp-protocol-version': version,
    'mcp-method': 'tools/call',
    'mcp-name': 'get_record',
  };
  return request('POST', '/v1/mcp', headers, JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params }));
}
