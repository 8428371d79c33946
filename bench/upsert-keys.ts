// P21: batches of upserts by a unique field and by others, against by email, in a large workspace.
import postgres from 'postgres';
import { request, sendOne } from './load.ts';
import type { Result, Value } from './report.ts';
import { median, type Settings } from './rounds.ts';
import { startServer } from './sides.ts';
import { folder, openWorkspace } from './workspace.ts';

/** Leads of the workspace. */
const rows = Number(process.env.UPSERT_ROWS ?? 100_000);
const items = 100;
/** Batches of each key and kind in a round, after some that are not measured. */
const batches = 20;
const warmUp = 5;
const statementRows = 20_000;
const path = '/v1/objects/leads';

/** What records are matched on, and at most how many times as long it may take as by email. */
const keys = [
  { field: 'email', target: undefined },
  { field: 'erp', target: 1.3 },
  { field: 'plain', target: 2 },
] as const;
type Field = (typeof keys)[number]['field'];
/** Whether the records are there: all of them, or every other one. The last has no values in custom fields. */
const kinds = ['updates', 'updates and creates', 'updates and creates without keys'] as const;
type Kind = (typeof kinds)[number];

export async function upsertKeys(settings: Settings): Promise<Result> {
  const workspace = await openWorkspace(folder);
  try {
    const seconds = await fill(workspace.env.DATABASE_URL ?? '', workspace.bareEnv.COMPANY_ID ?? '');
    process.stdout.write(`  ${rows.toLocaleString('en')} leads in ${seconds.toFixed(0)} s\n`);
    const server = await startServer('ours', workspace.env);
    try {
      const send = async (method: string, to: string, body: object): Promise<number> => {
        const headers = { 'x-api-key': workspace.key, 'Idempotency-Key': `bench-${nextNumber()}` };
        const bytes = request(method, to, headers, JSON.stringify(body));
        const start = performance.now();
        const answer = await sendOne(server.port, bytes);
        const milliseconds = performance.now() - start;
        if (answer.status !== 200) throw new Error(`${method} ${to} answered ${answer.status}: ${answer.body}`);
        const { data } = JSON.parse(answer.body);
        if (data.failed_count) throw new Error(`items failed: ${JSON.stringify(data.failed[0])}`);
        return milliseconds;
      };
      const switched = await send('PATCH', `${path}/fields/erp`, { unique: true });
      const times = new Map<string, number[]>();
      for (let round = 0; round < settings.rounds; round += 1)
        for (const kind of kinds)
          for (let turn = -warmUp; turn < batches; turn += 1)
            // By turns, so that a busy machine is unfair to none of them.
            for (const { field } of turn % 2 ? selectKeys(kind).toReversed() : selectKeys(kind)) {
              const spent = await send('POST', `${path}/records:batch-upsert`, buildBatch(field, kind));
              const place = `${field} ${kind}`;
              if (turn >= 0) times.set(place, [...(times.get(place) ?? []), spent]);
            }
      const values: Value[] = kinds.flatMap((kind) => {
        const computeMedian = (field: Field) => median(times.get(`${field} ${kind}`) ?? []);
        const email = computeMedian('email');
        return selectKeys(kind).flatMap(({ field, target }): Value[] => [
          { name: `batch of ${items} ${kind} by ${field}`, value: computeMedian(field), unit: 'ms' },
          ...(target === undefined
            ? []
            : [{ name: `the same against by email`, value: computeMedian(field) / email, unit: 'times', target }]),
        ]);
      });
      return {
        name: 'upsert-keys',
        figure: 'P21',
        what: `batch-upserts of ${items} by different fields, among ${rows.toLocaleString('en')} leads`,
        settings: { ...settings, rows, items, batches },
        sides: [],
        ratios: [],
        values: [...values, { name: 'the check when a field becomes unique', value: switched, unit: 'ms' }],
      };
    } finally {
      await server.stop();
    }
  } finally {
    await workspace.stop();
  }
}

const selectKeys = (kind: Kind) => (kind === 'updates and creates without keys' ? keys.slice(0, 1) : keys);

let number = 0;
function nextNumber(): number {
  number += 1;
  return number;
}

/** Returns the same records for every key that they are matched by. */
function buildBatch(field: Field, kind: Kind): object {
  const first = Math.floor(Math.random() * rows);
  const records = Array.from({ length: items }, (_, index) => {
    const isNew = kind !== 'updates' && index % 2 === 1;
    // Apart from each other, so that no two are on one page.
    const n = isNew ? rows + nextNumber() : ((first + index * 997) % rows) + 1;
    const own = kind === 'updates and creates without keys' ? {} : { erp: `E${n}`, plain: `P${n}` };
    return { first_name: 'Lead', email: `lead${n}@x.example`, ...own, city: `City ${nextNumber()}` };
  });
  return { match_on: [field], records };
}

/** Adds the fields and the leads. @returns the seconds that it took */
async function fill(url: string, companyId: string): Promise<number> {
  const start = performance.now();
  const sql = postgres(url, { max: 1, onnotice: () => undefined });
  for (const name of ['erp', 'plain'])
    await sql`
      insert into custom_fields (company_id, object, name, label, type, created_at, updated_at)
      values (${companyId}, 'leads', ${name}, ${name}, 'text', now(), now())`;
  for (let from = 1; from <= rows; from += statementRows)
    await sql`
      insert into leads (company_id, test_mode, id, first_name, email, custom, priority, lead_status_id, created_by_kind, created_by_id, created_at, updated_at)
      select ${companyId}, false, gen_random_uuid(), 'Lead', 'lead' || n || '@x.example',
        jsonb_build_object('erp', 'E' || n, 'plain', 'P' || n), 3,
        (select id from statuses where company_id = ${companyId} and object = 'leads' order by order_position limit 1), 'system', 'bench',
        timestamptz '2025-01-01' + n * interval '1 second', timestamptz '2025-01-01' + n * interval '1 second'
      from generate_series(${from}::bigint, ${Math.min(rows, from + statementRows - 1)}::bigint) n`;
  await sql`vacuum analyze`;
  await sql.end();
  return (performance.now() - start) / 1000;
}
