// Records and their configuration for tests, and the audit rows and events of writes.

import { randomUUID } from 'node:crypto';
import { type Answer, type call, expectStatus, type Json } from './client.ts';
import { recordedEvents } from './events.ts';
import { database, type Tenant } from './tenants.ts';

interface FieldOptions {
  type?: string;
  required?: boolean;
  enabled?: boolean;
  unique?: boolean;
  /** Values of a select. */
  options?: { value: string; label?: string; retired?: boolean }[];
}

/** Creates a custom field. */
export async function newCustomField(
  tenant: Tenant,
  object: string,
  name: string,
  options: FieldOptions = {},
): Promise<void> {
  const values = options.options?.map((option) => ({ label: option.value, ...option }));
  const sql = database();
  await sql`
    insert into custom_fields (company_id, object, name, label, type, required, options, enabled, is_unique, created_at, updated_at)
    values (${tenant.companyId}, ${object}, ${name}, ${name}, ${options.type ?? 'text'}, ${options.required ?? false},
      ${values ? sql.json(values) : null}, ${options.enabled ?? true}, ${options.unique ?? false},
      now(), now())`;
}

/**
 * Creates a custom object.
 * @returns its API name
 */
export async function newCustomObject(tenant: Tenant, slug: string): Promise<string> {
  await database()`
    insert into custom_objects (company_id, slug, label, plural, created_at, updated_at)
    values (${tenant.companyId}, ${slug}, ${slug}, ${slug}, now(), now())`;
  return `object:${slug}`;
}

export function recordsPath(object: string, id?: string): string {
  const path = `/v1/objects/${encodeURIComponent(object)}/records`;
  return id === undefined ? path : `${path}/${id}`;
}

/** Returns the body of a lead with a unique email, and more fields. */
export function lead(more: object = {}): { first_name: string; email: string } {
  return { first_name: 'Sara', email: `${randomUUID()}@x.example`, ...more };
}

/**
 * Creates a record.
 * @returns the record
 */
export async function createRecord(key: string, object: string, body: object): Promise<Json> {
  const answer = await expectStatus(201, 'POST', recordsPath(object), { key, body, idempotencyKey: true });
  return answer.body.data.record;
}

/**
 * Creates any number of records in batches.
 * @returns them in the given order
 */
export async function createRecords(key: string, object: string, bodies: readonly object[]): Promise<Json[]> {
  const created: Json[] = [];
  for (let start = 0; start < bodies.length; start += 50) {
    const body = bodies.slice(start, start + 50);
    const { data } = (
      await expectStatus(200, 'POST', `${recordsPath(object)}:batch`, { key, body, idempotencyKey: true })
    ).body;
    if (data.failed_count > 0) throw new Error(`items failed: ${JSON.stringify(data.failed[0])}`);
    created.push(...data.succeeded.map((item: Json) => item.record));
  }
  return created;
}

/** Reads a record. */
export async function readRecord(key: string, object: string, id: string): Promise<Json> {
  return (await expectStatus(200, 'GET', recordsPath(object, id), { key })).body.data.record;
}

/**
 * Updates a record.
 * @returns the record
 */
export async function patchRecord(key: string, object: string, id: string, body: object): Promise<Json> {
  return (await expectStatus(200, 'PATCH', recordsPath(object, id), { key, body })).body.data.record;
}

/** Returns the records of all pages of a list. */
export async function walk(key: string, object: string, query: Record<string, string | number> = {}): Promise<Json[]> {
  const records: Json[] = [];
  let cursor: string | null = null;
  do {
    const { body } = await expectStatus(200, 'GET', recordsPath(object), {
      key,
      query: { ...query, ...(cursor === null ? {} : { cursor }) },
    });
    records.push(...body.data.records);
    cursor = body.data.next_cursor;
  } while (cursor !== null);
  return records;
}

/**
 * Expects a rejected call.
 * @returns its problems as `field CODE`
 */
export async function refusedFields(
  status: number,
  method: string,
  path: string,
  options: Parameters<typeof call>[2],
): Promise<string[]> {
  const { body } = await expectStatus(status, method, path, options);
  if (body.error.code !== 'VALIDATION_ERROR') throw new Error(`refused with ${body.error.code}`);
  return listProblems(body.error);
}

/** Returns the problems of an error as `field CODE`. */
export function listProblems(error: Json): string[] {
  return error.details.fields.map((each: Json) => `${each.field} ${each.code}`);
}

/** Returns the audit rows of a call. */
export async function audited(answer: Answer): Promise<Json[]> {
  return database()`
    select action, record_id, changes, metadata from audit_logs where request_id = ${answer.headers.get('x-request-id')}`;
}

export interface LeftBehind {
  audit: Json[];
  events: Json[];
}

/** Returns the audit rows and events of a record, oldest first. */
export async function leftBehind(recordId: string): Promise<LeftBehind> {
  const sql = database();
  const audit = await sql`
    select action, object, changes, metadata, actor_kind, test_mode from audit_logs where record_id = ${recordId} order by seq`;
  const events = await sql`
    select event, data, test_mode from ${recordedEvents(sql, recordId)} order by id`;
  return { audit: [...audit], events: [...events] };
}
