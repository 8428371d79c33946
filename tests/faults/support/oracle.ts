// The expected contents of the tables: every acknowledged change once, with audit row and event.

import { createHash } from 'node:crypto';
import type { Sql } from '../../../db/client/pool.ts';
import { recordedEvents } from '../../support/events.ts';
import type { Write } from './writers.ts';

/** Rows of one company as comparable lines of text. */
type Lines = string[];

interface Expected {
  records: Map<string, { text: string; version: number }>;
  audit: Lines;
  events: Lines;
  kept: Lines;
}

const digest = (text: string): string => createHash('sha256').update(text).digest('hex');

/** Returns the rows that follow from the acknowledged responses. */
function expectedAfter(writes: readonly Write[]): Expected {
  const expected: Expected = { records: new Map(), audit: [], events: [], kept: [] };
  const { records } = expected;
  for (const write of writes) {
    const { method, path, key, kind, answer } = write;
    if (!answer) continue;
    expected.kept.push(`${method} ${path} ${key} ${answer.status} ${digest(answer.text)}`);
    if (answer.status >= 300) continue;
    const { data, meta } = JSON.parse(answer.text);
    const trace = (change: 'create' | 'update' | 'delete', id: string): void => {
      expected.audit.push(`${kind === 'lead' ? 'lead' : 'account'}.${change} ${id} ${meta.request_id} ${digest(key)}`);
      expected.events.push(`record.${change}d ${id} ${meta.request_id}`);
    };
    if (kind === 'lead') {
      records.set(data.lead.id, { text: key, version: 1 });
      trace('create', data.lead.id);
    } else if (kind === 'create') {
      records.set(data.record.id, { text: `${key} null`, version: 1 });
      trace('create', data.record.id);
    } else if (kind === 'batch') {
      for (const { index, record } of data.succeeded) {
        records.set(record.id, { text: `${key} ${index} null`, version: 1 });
        trace('create', record.id);
      }
    } else if (kind === 'update') {
      const before = records.get(data.record.id);
      const [name] = before?.text.split(' ') ?? [];
      records.set(data.record.id, { text: `${name} ${key}`, version: (before?.version ?? 0) + 1 });
      trace('update', data.record.id);
    } else if (kind === 'delete') {
      records.delete(data.id);
      trace('delete', data.id);
    }
  }
  return expected;
}

/** Reads the stored rows. */
async function readStored(
  sql: Sql,
  companyId: string,
): Promise<Record<'records' | 'audit' | 'events' | 'kept', Lines>> {
  const [records, audit, events, kept] = await Promise.all([
    sql<{ line: string }[]>`
      select concat_ws(' ', id, name, coalesce(description, 'null'), version) as line from accounts where company_id = ${companyId}
      union all select concat_ws(' ', id, first_name, version) from leads where company_id = ${companyId}`,
    sql<{ line: string }[]>`
      select concat_ws(' ', action, record_id, request_id, encode(idempotency_key_hash, 'hex')) as line
      from audit_logs where company_id = ${companyId}`,
    sql<{ line: string }[]>`
      select concat_ws(' ', event, data->>'record_id', request_id) as line from ${recordedEvents(sql as never)} where company_id = ${companyId}`,
    sql<{ line: string }[]>`
      select concat_ws(' ', endpoint, key, status, encode(sha256(convert_to(body, 'UTF8')), 'hex')) as line
      from idempotency_records where company_id = ${companyId}`,
  ]);
  const lines = (rows: readonly { line: string }[]): Lines => rows.map((row) => row.line);
  return { records: lines(records), audit: lines(audit), events: lines(events), kept: lines(kept) };
}

/** Compares as multisets, so a doubled line is a difference. */
function difference(what: string, expected: Lines, actual: Lines): string[] {
  const counts = new Map<string, number>();
  for (const line of expected) counts.set(line, (counts.get(line) ?? 0) + 1);
  for (const line of actual) counts.set(line, (counts.get(line) ?? 0) - 1);
  return [...counts].flatMap(([line, count]) =>
    count === 0 ? [] : [`${what} ${count > 0 ? 'lost' : 'that no response accounts for, or doubled'}: ${line}`],
  );
}

/**
 * Compares acknowledged writes with the tables of a company that only these writers wrote to.
 * @returns the problems, one line each
 */
export async function check(sql: Sql, companyId: string, writes: readonly Write[]): Promise<string[]> {
  const expected = expectedAfter(writes);
  const actual = await readStored(sql, companyId);
  const records = [...expected.records].map(([id, { text, version }]) => `${id} ${text} ${version}`);
  return [
    ...writes.filter((write) => !write.answer).map(({ kind, key }) => `${kind} ${key} has no final answer`),
    ...difference('a record', records, actual.records),
    ...difference('an audit row', expected.audit, actual.audit),
    ...difference('an event', expected.events, actual.events),
    ...difference('a stored response', expected.kept, actual.kept),
  ];
}
