// The first start: a workspace with realistic records, and printed lines that work when pasted.
import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { isPossiblePhoneNumber } from 'libphonenumber-js';
import postgres from 'postgres';
import { afterAll, beforeAll, describe, expect, inject, test, vi } from 'vitest';
import { type EmbeddedDatabase, startEmbedded } from '../../app/embedded-postgres/database.ts';
import { loadWorkspaceRows } from '../../db/objects/workspace.ts';
import { buildDemoData, demoSeed, leadCount } from '../../domain/demo/data.ts';
import { exampleIds } from '../../domain/demo/ids.ts';
import { demoAdmin, demoCompanyId } from '../../domain/demo/workspace.ts';
import { buildWorkspace, type Field } from '../../domain/objects/workspace.ts';
import { expectStatus } from '../support/client.ts';
import { findOperation } from '../support/document.ts';
import { startServer, type TestServer } from '../support/servers.ts';

const dataDir = resolve(process.env.TEST_DATA_DIR ?? '.test-data', `demo-${process.pid}`);
const keptFile = join(dataDir, 'demo.json');

interface Start {
  server: TestServer;
  /** What the server printed besides its log. */
  printed: string;
}

/** Starts a server in the data folder, and waits for its printed lines. */
async function start(env: Record<string, string> = {}): Promise<Start> {
  const server = await startServer({ DATA_DIR: dataDir, DEMO: '1', ...env });
  const printed = await vi.waitFor(() => {
    const lines = server.output().split('\n');
    const printed = lines.filter((line) => !line.startsWith('{')).join('\n');
    expect(printed).toMatch(/curl .*\n/);
    return printed;
  });
  return { server, printed };
}

async function startAndStop(env: Record<string, string> = {}): Promise<string> {
  const { server, printed } = await start(env);
  await server.stop();
  return printed.replaceAll(server.url, 'http://server');
}

/** Counts the rows of every tenant table. */
async function countRows(url: string): Promise<Record<string, number>> {
  const sql = postgres(url, { max: 1 });
  const tables = await sql<{ name: string }[]>`
    select c.relname as name from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attname = 'company_id'
    where c.relkind in ('r', 'p') and c.relnamespace = 'public'::regnamespace and c.relname !~ '^(search|request_log)' order by 1`;
  const counts: Record<string, number> = {};
  for (const { name } of tables) {
    const [row] = await sql<{ count: number }[]>`select count(*)::int as count from ${sql(name)}`;
    counts[name] = row?.count ?? 0;
  }
  await sql.end();
  return counts;
}

async function countRowsAfterStop(): Promise<Record<string, number>> {
  const stopped = await startEmbedded(dataDir, () => undefined);
  const counts = await countRows(stopped.url);
  await stopped.stop();
  return counts;
}

let database: EmbeddedDatabase;
let sql: postgres.Sql;
let running: Start;
const first = { printed: '', rows: {} as Record<string, number> };
const second = { printed: '', rows: {} as Record<string, number> };

beforeAll(async () => {
  mkdirSync(dataDir, { recursive: true });
  first.printed = await startAndStop();
  first.rows = await countRowsAfterStop();
  second.printed = await startAndStop();
  second.rows = await countRowsAfterStop();
  database = await startEmbedded(dataDir, () => undefined);
  sql = postgres(database.url, { max: 1, onnotice: () => undefined });
  running = await start({ DATABASE_URL: database.url });
});

afterAll(async () => {
  await running?.server.stop();
  await sql?.end();
  await database?.stop();
  rmSync(dataDir, { recursive: true, force: true });
});

const printedKey = (printed: string) => /svc_test_[0-9a-f]{32}/.exec(printed)?.[0];

describe('a start with the demo', () => {
  test('prints its address, the docs, a test key, a sign-in and a curl with that key', () => {
    const key = printedKey(first.printed);
    expect(key).toBeDefined();
    expect(first.printed).toContain('Headless CRM is ready at http://server\n');
    expect(first.printed).toContain('Docs:      http://server/docs\n  Console:   http://server/console\n');
    expect(first.printed).toContain(`Demo key:  ${key}  (test mode, with ${leadCount} sample leads)\n`);
    expect(first.printed).toMatch(new RegExp(`Sign in:   ${demoAdmin.email} / [0-9a-f]{16}\n`));
    expect(first.printed).toContain(
      `Try:       curl -s 'http://server/v1/objects/leads/records?limit=3' -H 'x-api-key: ${key}'\n`,
    );
  });

  test('prints the same at the second start, and adds no row', () => {
    expect(second.printed).toBe(first.printed);
    expect(second.rows).toEqual(first.rows);
  });

  test('prints BASE_URL if it is set', async () => {
    const printed = await startAndStop({ DATABASE_URL: database.url, BASE_URL: 'https://crm.example.com' });
    expect(printed).toContain('ready at https://crm.example.com\n');
    expect(printed).toContain("curl -s 'https://crm.example.com/v1/objects/leads/records?limit=3'");
    expect(printed).toContain('at https://crm.example.com/auth/v1/token?grant_type=password,');
  });

  test('stores the printed lines in a file that only its user can read', () => {
    expect(statSync(keptFile).mode & 0o777).toBe(0o600);
    expect(JSON.parse(readFileSync(keptFile, 'utf8')).key).toBe(printedKey(first.printed));
  });

  test('serves the docs at the printed address', async () => {
    const [, docs = ''] = /Docs: +(\S+)/.exec(running.printed) ?? [];
    expect((await fetch(docs)).status).toBe(200);
  });

  test('accepts the printed key with every scope of a workspace and none of the platform', async () => {
    const { body } = await expectStatus(403, 'POST', '/v1/check-email', {
      baseUrl: running.server.url,
      key: printedKey(running.printed),
      body: { email: demoAdmin.email },
    });
    expect(body.error.code).toBe('FORBIDDEN_SCOPE');
  });

  test.runIf(findOperation('GET', '/v1/objects/leads/records'))(
    'returns three leads for the printed curl',
    async () => {
      const [, url = '', key] = /curl -s '([^']+)' -H 'x-api-key: ([^']+)'/.exec(running.printed) ?? [];
      const { pathname, search } = new URL(url);
      const { body } = await expectStatus(200, 'GET', pathname + search, { baseUrl: running.server.url, key });
      expect(body.data.records).toHaveLength(3);
    },
  );

  test.runIf(findOperation('POST', '/auth/v1/token'))('opens a session for the printed sign-in', async () => {
    const [, email, password] = /Sign in: {3}(\S+) \/ (\S+)/.exec(running.printed) ?? [];
    await expectStatus(200, 'POST', '/auth/v1/token?grant_type=password', {
      baseUrl: running.server.url,
      body: { email, password },
    });
  });

  test('downloads the attachment that the OpenAPI document names', async () => {
    const options = { baseUrl: running.server.url, key: printedKey(running.printed) };
    const { body } = await expectStatus(200, 'GET', `/v1/attachments/${exampleIds.attachment}`, options);
    const { sha256, size_bytes, download_url } = body.data.attachment;
    const file = await (await fetch(download_url)).text();
    expect([file.length, createHash('sha256').update(file).digest('hex')]).toEqual([size_bytes, sha256]);
    expect(file).toMatch(/^%PDF-1\.4\n(.*\n)*%%EOF\n$/);
  });

  test('creates a new key but no second workspace if the key is revoked or the file is lost', async () => {
    const again = () => startAndStop({ DATABASE_URL: database.url });
    await sql`update api_keys set revoked_at = now() where company_id = ${demoCompanyId}`;
    const afterRevocation = await again();
    expect(printedKey(afterRevocation)).not.toBe(printedKey(first.printed));
    rmSync(keptFile);
    const afterLoss = await again();
    expect(printedKey(afterLoss)).not.toBe(printedKey(afterRevocation));
    expect(await again()).toBe(afterLoss);
    const { api_keys: keys, api_key_usage: usage, api_key_places: places, ...rest } = await countRows(database.url);
    expect({ keys, usage, places }).toEqual({ keys: 5, usage: 5, places: 5 });
    // The sign-in of another test adds a session, an audit row and a daily count of calls.
    const ofOthers = /^(audit_logs|sessions|refresh_tokens|api_key_days)/;
    const kept = Object.entries(rest).filter(([table]) => !ofOthers.test(table));
    expect(first.rows).toMatchObject(Object.fromEntries(kept));
  });

  test('creates one demo when two servers start at the same time', async () => {
    await sql`create database twice template template0`;
    const twice = {
      DATABASE_URL: database.url.replace(/[^/]+$/, 'twice'),
      DATA_DIR: `${dataDir}-twice`,
      SECRET_KEY: inject('secretKey'),
    };
    const printed = await Promise.all([startAndStop(twice), startAndStop(twice)]);
    rmSync(twice.DATA_DIR, { recursive: true, force: true });
    expect(printed[0]).toBe(printed[1]);
    const { leads, users, api_keys, sign_ins } = await countRows(twice.DATABASE_URL);
    expect({ leads, users, api_keys, sign_ins }).toEqual({ leads: leadCount, users: 5, api_keys: 3, sign_ins: 1 });
  });

  test('prints no password that a user changed', async () => {
    await sql`update sign_ins set password_hash = 'another' where company_id = ${demoCompanyId}`;
    expect(await startAndStop({ DATABASE_URL: database.url })).toContain(
      `Sign in:   ${demoAdmin.email} / (the password that you set)\n`,
    );
  });
});

describe('a start without the demo', () => {
  test('prints a curl that creates a workspace if the database is embedded', async () => {
    const other = `${dataDir}-empty`;
    mkdirSync(other, { recursive: true });
    const { server, printed } = await start({ DATA_DIR: other, DEMO: '0' });
    expect(printed).toContain(`Docs:      ${server.url}/docs\n`);
    expect(printed).not.toContain('svc_');
    const [, url = '', body] =
      /curl -s '([^']+)' -H 'content-type: application\/json' -d '([^']+)'/.exec(printed) ?? [];
    const { pathname } = new URL(url);
    await expectStatus(201, 'POST', pathname, { baseUrl: server.url, rawBody: body ?? '' });
    await server.stop();
    rmSync(other, { recursive: true, force: true });
  });

  test('writes only JSON lines if the database is external', () => {
    const lines = readFileSync(inject('logFile'), 'utf8').split('\n').slice(0, -1);
    for (const line of lines) expect(() => JSON.parse(line)).not.toThrow();
  });
});

describe('the demo workspace', () => {
  test('creates some hundred leads with related records in test mode, and five users in three branches', async () => {
    expect(first.rows).toMatchObject({ leads: leadCount, custom_objects: 1, branches: 3, users: 5, user_roles: 5 });
    expect(first.rows).toMatchObject({ teams: 2, sla_policies: 1, stored_files: 2 });
    const least = {
      deals: 100,
      customers: 80,
      accounts: 60,
      tasks: 120,
      activities: 500,
      custom_records: 15,
      record_tags: 100,
      notes: 10,
      messages: 0,
      attachments: 0,
    };
    for (const [table, count] of Object.entries(least)) expect(first.rows[table]).toBeGreaterThan(count);
    for (const table of ['leads', ...Object.keys(least)])
      expect(await sql`select from ${sql(table)} where not test_mode or company_id <> ${demoCompanyId}`).toHaveLength(
        0,
      );
  });

  test('stores only values that the fields accept', async () => {
    const workspace = buildWorkspace(await loadWorkspaceRows(sql, demoCompanyId));
    const tables: Record<string, string> = { 'object:visits': 'custom_records' };
    const problems: string[] = [];
    for (const object of workspace.objects.values()) {
      const rows = await sql<
        { row: Row }[]
      >`select to_jsonb(t) as row from ${sql(tables[object.object] ?? object.object)} t`;
      expect(rows.length).toBeGreaterThan(0);
      for (const { row } of rows) {
        for (const field of object.fields.values()) {
          const value = toResponseValue(field, row, object.kind === 'custom');
          const problem = findProblem(field, value);
          if (problem) problems.push(`${object.object}.${field.name}: ${problem} (${String(value)})`);
        }
        if (object.oneOf.length > 0 && object.oneOf.every((name) => row[name] === null))
          problems.push(`${object.object}: one of ${object.oneOf}`);
        const published = [...object.fields.values()].filter((field) => field.custom || object.kind === 'custom');
        const unknown = Object.keys(row.custom).filter((name) => !published.some((field) => field.name === name));
        if (unknown.length > 0) problems.push(`${object.object}: unknown ${unknown}`);
      }
    }
    expect(problems).toEqual([]);
  });

  test('keeps references, contacts, follow-ups and outcomes consistent', async () => {
    const wrong = await sql`
      select 'task' as what, id from tasks t where record_id not in (
        select id from leads union all select id from deals union all select id from customers union all select id from accounts)
      union all select 'tag', record_id from record_tags where record_id not in (select id from leads union all select id from customers)
      union all select 'deal', d.id from deals d join statuses s on s.id = d.stage_id
        where (s.outcome = 'won') <> (d.won_at is not null) or (s.outcome = 'lost') <> (d.lost_at is not null)
          or (s.outcome = 'lost') <> (d.lost_reason is not null)
          or num_nonnulls(d.won_at, d.lost_at) > 0 and coalesce(d.won_at, d.lost_at) <> d.stage_changed_at
          or (d.customer_id is null and d.lead_id is null)
      union all select 'lead', l.id from leads l join statuses s on s.id = l.lead_status_id left join customers c on c.id = l.converted_customer_id
        where (s.outcome = 'converted') <> (l.converted_at is not null) or (l.converted_at is null) <> (c.id is null)
          or c.lead_id <> l.id or c.created_at <> l.converted_at
      union all select 'completed task', id from tasks where (status = 'completed') <> (completed_at is not null)
      union all select 'contact', e.id from (
          select id, 'lead' as type, last_contacted_at, next_followup_at from leads
          union all select id, 'deal', last_contacted_at, next_followup_at from deals) e
        left join lateral (
          select max(performed_at) as contacted, (array_agg(followup_at order by performed_at desc))[1] as due
          from activities a where a.entity_type = e.type and a.entity_id = e.id) a on true
        where e.last_contacted_at is distinct from a.contacted or e.next_followup_at is distinct from a.due
      union all select 'activity', a.id from activities a
        where not exists (select from leads where id = a.entity_id and a.entity_type = 'lead' and created_at <= a.performed_at)
          and not exists (select from deals where id = a.entity_id and a.entity_type = 'deal' and created_at <= a.performed_at)`;
    expect(wrong).toEqual([]);
  });
});

describe('generated records', () => {
  const moments = [
    new Date('2026-11-20T23:55:01.234Z'),
    new Date('2027-03-07T04:00:00Z'),
    new Date('2028-02-29T12:30:00Z'),
  ];

  test('generates the same records for the same seed and time, and others for another seed', () => {
    const [now] = moments as [Date];
    expect(buildDemoData(demoSeed, now)).toEqual(buildDemoData(demoSeed, now));
    expect(buildDemoData(demoSeed + 1, now).leads).not.toEqual(buildDemoData(demoSeed, now).leads);
  });

  test.each(moments)('orders times within the half year before %s', (now) => {
    for (let seed = 1; seed <= 10; seed += 1) {
      const { leads, accounts, customers, deals, tasks, activities, visits } = buildDemoData(seed, now);
      const records = [leads, accounts, customers, deals, tasks, activities, visits].flat();
      const oldest = new Date(now.getTime() - 181 * 86_400_000);
      expect(records.filter((record) => record.created_at < oldest || record.created_at > now)).toEqual([]);
      expect(records.filter((record) => record.updated_at < record.created_at || record.updated_at > now)).toEqual([]);
      expect(activities.filter((activity) => activity.performed_at > now)).toEqual([]);
      expect(activities.filter((each) => each.followup_at && each.followup_at <= each.performed_at)).toEqual([]);
      expect(tasks.filter((task) => task.scheduled_at <= task.created_at)).toEqual([]);
      expect(new Set(records.map((record) => record.id)).size).toBe(records.length);
    }
  });

  test('uses each address once, and only fictional names and numbers', () => {
    const { leads, customers, accounts } = buildDemoData(demoSeed, moments[0] as Date);
    const emails = leads.flatMap((lead) => lead.email ?? []);
    expect(new Set(emails).size).toBe(emails.length);
    const addresses = [...emails, ...[...customers, ...accounts].map((record) => record.email)];
    expect(addresses.filter((address) => !address.endsWith('.example'))).toEqual([]);
    const numbers = [
      ...leads.map((lead) => lead.mobile),
      ...customers.flatMap(({ mobile, phone }) => [mobile, phone]),
      ...accounts.map((account) => account.phone),
    ];
    expect(numbers.filter((number) => number !== null && !forFiction.test(number))).toEqual([]);
  });
});

/** Numbers that the regulators of the five countries reserve for fiction. */
const forFiction =
  /^(\+49(3023125|6990009|4066969|8999998|2214710)\d{3}|\+49(17139200|176040690)\d{2}|\+44(7700900|2079460|1(13|17|21|61)4960)\d{3}|\+33(19900|26191|35301|46571|53649|63998)\d{4}|\+3532091\d{5}|\+46(7017406(0[5-9]|[1-9]\d)|(8465004|3139006|4062804)\d{2}))$/;

type Row = Record<string, unknown> & { custom: Record<string, unknown> };

/** Returns the value of a field as the API does. */
function toResponseValue(field: Field, row: Row, isCustomObject: boolean): unknown {
  if (field.custom || isCustomObject) return row.custom[field.name] ?? null;
  if (!field.lookup) return field.name === 'created_by' ? row.created_by_id : row[field.name];
  const id = row[`${field.name}_id`];
  return field.items?.find((item) => item.id === id)?.name ?? null;
}

/** Returns why a field rejects a value, or undefined. */
function findProblem(field: Field, value: unknown): string | undefined {
  if (value === undefined) return 'not stored';
  if (value === null || value === '') return field.required ? 'required' : undefined;
  if (field.options) return field.options.some((option) => option.value === value) ? undefined : 'not an option';
  switch (field.type) {
    case 'number':
    case 'currency':
      if (typeof value !== 'number') return 'not a number';
      if ((field.integer || field.type === 'currency') && !Number.isSafeInteger(value)) return 'not whole';
      return value < (field.min ?? -Infinity) || value > (field.max ?? Infinity) ? 'out of range' : undefined;
    case 'boolean':
      return typeof value === 'boolean' ? undefined : 'not a boolean';
    default:
      return typeof value === 'string' ? problemOfText(field, value) : 'not a text';
  }
}

function problemOfText(field: Field, text: string): string | undefined {
  if (text.trim() !== text || text.length > (field.maxLength ?? 255)) return 'too long, or blank around it';
  switch (field.type) {
    case 'email':
      return /^[a-z0-9.-]+@[a-z0-9-]+\.example$/.test(text) ? undefined : 'not an address';
    case 'phone':
      return /^\+\d+$/.test(text) && isPossiblePhoneNumber(text) ? undefined : 'not a number in E.164';
    case 'url':
      return new URL(text).protocol === 'https:' ? undefined : 'not an address on the web';
    case 'date':
      return /^\d{4}-\d{2}-\d{2}$/.test(text) ? undefined : 'not a date';
    case 'datetime':
      return Number.isNaN(Date.parse(text)) ? 'not a moment' : undefined;
    default:
      return undefined;
  }
}
