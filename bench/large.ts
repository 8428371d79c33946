// A database with one large workspace, one of 10,000 leads and a hundred others.
// It is kept, because filling it takes minutes.
import { resolve } from 'node:path';
import postgres from 'postgres';
import { startEmbedded } from '../app/embedded-postgres/database.ts';
import { openBackgroundPool, openBackgroundTenantPool } from '../app/pools.ts';
import { migrate } from '../db/client/migrate.ts';
import { rowNames } from '../db/client/row-names.ts';
import { SearchIndexer } from '../jobs/reports/search.ts';
import { buildTenantContext } from '../jobs/runner.ts';
import { openLog } from '../runtime/telemetry/log.ts';
import { addCompany, addKey, folder } from './workspace.ts';

export interface LargeDatabase {
  /** Keys of the two workspaces that are compared. */
  keys: { large: string; small: string };
  rows: { large: number; small: number };
  /** Environment of a server on this database. */
  env: Record<string, string>;
  stop(): Promise<void>;
}

const smallRows = 10_000;
const otherCompanies = 100;
const otherRows = 1000;
/** Rows per statement. An interrupted run continues after the last one. */
const batch = 20_000;

/** Returns the number of leads of the large workspace. */
function wantedRows(): number {
  const rows = Number(process.env.SEED_ROWS ?? 1_000_000);
  if (!Number.isSafeInteger(rows) || rows <= smallRows)
    throw new Error(`SEED_ROWS must be a whole number above ${smallRows}`);
  return rows;
}

/**
 * Opens the database and adds what it lacks.
 * @param note called with what was added
 */
export async function openLarge(note: (text: string) => void): Promise<LargeDatabase> {
  const dataDir = resolve(`${folder}-large`);
  const database = await startEmbedded(dataDir, () => undefined);
  const sql = postgres(database.url, { max: 1, onnotice: () => undefined, transform: rowNames });
  try {
    await migrate(database.url);
    const rows = { large: wantedRows(), small: smallRows };
    let added = 0;
    const noteAdded = (text: string): void => {
      added += 1;
      note(text);
    };
    const large = await fill(sql, 'Large', rows.large, noteAdded);
    const small = await fill(sql, 'Small', rows.small, noteAdded);
    for (let number = 1; number <= otherCompanies; number += 1)
      await fill(sql, `Other ${number}`, otherRows, noteAdded);
    // A migration of a kept database can leave texts to index too.
    if (added > 0 || (await textsWait(sql))) {
      await makeSearchable(database.url);
      await sql`vacuum analyze`;
    }
    const keys = { large: (await addKey(sql, large)).key, small: (await addKey(sql, small)).key };
    return {
      keys,
      rows,
      env: { DATABASE_URL: database.url, DATA_DIR: dataDir, LOG_LEVEL: process.env.LOG_LEVEL ?? 'info' },
      stop: () => database.stop(),
    };
  } catch (error) {
    await database.stop();
    throw error;
  } finally {
    await sql.end();
  }
}

async function textsWait(sql: postgres.Sql): Promise<boolean> {
  const [row] = await sql<{ waiting: number }[]>`select count(*)::int as waiting from search_changes`;
  return (row?.waiting ?? 0) > smallRows;
}

/**
 * Indexes all texts now. Otherwise the server's job would do so for minutes during the measurement.
 */
async function makeSearchable(url: string): Promise<void> {
  const settings = { url, prepare: true, spread: false };
  const pools = { platform: await openBackgroundPool(settings), tenants: openBackgroundTenantPool(settings) };
  const { log } = openLog('warn');
  const shared = { batchSize: 20_000, log, now: () => new Date(), signal: new AbortController().signal };
  const context = buildTenantContext(shared, pools, 5000);
  const indexer = new SearchIndexer();
  while (await indexer.run(context));
  await Promise.all(Object.values(pools).map((pool) => pool.close(1)));
}

/**
 * Finds or creates a company, and adds leads up to the wanted number.
 * @returns its id
 */
async function fill(sql: postgres.Sql, name: string, wanted: number, note: (text: string) => void): Promise<string> {
  const [found] = await sql<{ id: string }[]>`select id from companies where name = ${name}`;
  const companyId = found?.id ?? (await addCompany(sql, name));
  const [counted] = await sql<{ rows: number }[]>`
    select count(*)::int as rows from leads where company_id = ${companyId} and test_mode = false`;
  const begin = counted?.rows ?? 0;
  if (begin > wanted) throw new Error(`${name} has ${begin} leads already; remove ${folder}-large to have fewer`);
  if (begin === wanted) return companyId;
  const start = performance.now();
  for (let from = begin + 1; from <= wanted; from += batch)
    await addLeads(sql, companyId, from, Math.min(wanted, from + batch - 1));
  note(`${name}: ${wanted - begin} leads in ${((performance.now() - start) / 1000).toFixed(1)} s`);
  return companyId;
}

/**
 * Adds leads by number, so that no run creates a lead twice: with common names and companies, and
 * unique addresses.
 */
async function addLeads(sql: postgres.Sql, companyId: string, from: number, to: number): Promise<void> {
  await sql`
    with status as (
      select id, row_number() over (order by order_position) - 1 as place, count(*) over () as places
      from statuses where company_id = ${companyId} and object = 'leads' and is_active
    ), numbered as (
      select n, abs(hashint8(n)::bigint) as random, abs(hashint8(n + 1000000007)::bigint) as other
      from generate_series(${from}::bigint, ${to}::bigint) n
    )
    insert into leads (company_id, test_mode, id, first_name, last_name, email, mobile, company_name, job_title, website, city, country,
      inquiry_details, notes, priority, lead_status_id, created_by_kind, created_by_id, created_by_name, created_at, updated_at)
    select ${companyId}, false, gen_random_uuid(),
      (array['Sara','Amira','Tomas','Wei','Olga','James','Fatima','Lena','Omar','Priya','Mateo','Chloe','Yusuf','Ingrid','Kenji','Aisha'])[1 + random % 16],
      (array['Haddad','Novak','Berg','Ivanova','Okafor','Smith','Tanaka','Rossi','Silva','Kim','Nguyen','Moreau','Larsen','Kaya','Patel','Costa'])[1 + other % 16]
        || (array['','','','son','-Lee','-Roy','man','ov'])[1 + (random / 16) % 8],
      'lead' || n || '@' || (array['bluelake','northwind','contoso','globex','acme'])[1 + random % 5] || random % 20011 || '.example',
      '+9715' || lpad((random % 100000000)::text, 8, '0'),
      (array['Blue Lake','Northwind','Contoso','Globex','Acme','Initech','Umbrella','Stark'])[1 + other % 8] || ' '
        || (array['Trading','Systems','Foods','Logistics','Partners'])[1 + (random / 7) % 5] || ' ' || random % 20011,
      (array['Manager','Director','Engineer','Buyer','Owner'])[1 + (other / 16) % 5], 'https://example.com/' || n, 'Dubai', 'AE',
      'Asked for a price list.', 'Prefers a call in the morning.', 1 + random % 4, status.id, 'system', 'bench', 'Bench',
      timestamptz '2025-01-01' + n * interval '20 seconds', timestamptz '2025-01-01' + n * interval '20 seconds'
    from numbered join status on status.place = random % status.places
    order by n`;
}
