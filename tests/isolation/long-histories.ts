// Extends a tenant's history: thousands of copies of each of its rows.
import type { Sql } from 'postgres';
import type { Column, TenantTable } from './schema.ts';

/**
 * Tables without copies: queues, lists that plans and users keep short, and single rows of a
 * company.
 */
const short = new Set(
  [
    'companies subscriptions feeds api_quota api_quota_blocks test_mode_resets test_clocks test_subscriptions search_changes',
    'search_blocks search_signatures outbox_events webhook_backlog custom_objects custom_fields field_overrides',
    'custom_value_hashes branches teams users user_places user_roles user_calendars user_working_hours sign_ins',
    'profile_permissions workforces campaigns api_keys api_key_usage api_key_places oauth_grants',
    'webhook_subscriptions phone_numbers purged_companies scheduling_pool_members scheduling_turns',
    'workforce_run_steps reference_clearings link_types saved_views saved_reports pipelines company_logos',
  ].flatMap((names) => names.split(' ')),
);

/** Returns true for a reference to something of which there are copies. */
const isOfMany = ({ name, refersTo }: Column): boolean =>
  /^(record|entity|customer|account|lead|booking|draft|run|file|subscription|clock|reservation)_id$/.test(name) ||
  (refersTo !== null && !short.has(refersTo) && !/^(statuses|sources|.*_types)$/.test(refersTo));

/** Returns true for the owner or creator of a row. Copies belong to other users. */
const isOfSomebody = ({ name }: Column): boolean => /^(assigned_to|created_by_user|created_by_id)$/.test(name);

/** Returns true for times at which something is due. */
const isAhead = (column: Column): boolean => /^(due_at|next_|leased_|claimed_|looked_|expires_)/.test(column.name);

/**
 * Copies live rows until each table has the wanted number. Copies belong to other users and to
 * copies of related rows.
 * @returns the tables that have the wanted number
 */
export async function prolong(
  sql: Sql,
  tables: readonly TenantTable[],
  companyId: string,
  rows: number,
): Promise<string[]> {
  const long: string[] = [];
  await sql`set session_replication_role = replica`;
  for (const table of tables.filter(({ name }) => !short.has(name))) {
    const own = `t.${table.company} = '${companyId}' ${table.hasMode ? 'and not t.test_mode' : ''}`;
    const [counted] = await sql.unsafe<{ count: number }[]>(
      `select count(*)::int as count from ${table.name} t where ${own}`,
    );
    if (!counted?.count) continue;
    const unique = await uniqueColumns(sql, table.name);
    const values = table.columns.map((column) => copied(table, column, unique));
    const names = table.columns.map((column) => `"${column.name}"`).join(', ');
    const { count } = await sql.unsafe(
      `insert into ${table.name} (${names}) select ${values.join(', ')}
       from ${table.name} t, generate_series(1, ${Math.ceil(rows / counted.count)}) n where ${own} on conflict do nothing`,
    );
    if (count >= rows) long.push(table.name);
  }
  await sql`
    update feeds f set last_position = (select max(position) from feed_events e where e.company_id = f.company_id and e.test_mode = f.test_mode)
    where company_id = ${companyId} and not test_mode`;
  return long;
}

async function uniqueColumns(sql: Sql, table: string): Promise<ReadonlySet<string>> {
  const rows = await sql<{ name: string }[]>`
    select distinct a.attname as name from pg_index i join pg_attribute a on a.attrelid = i.indrelid and a.attnum = any(i.indkey)
    where i.indisunique and i.indrelid = ${table}::regclass`;
  return new Set(rows.map(({ name }) => name));
}

function copied(table: TenantTable, column: Column, unique: ReadonlySet<string>): string {
  const value = `t."${column.name}"`;
  const isUnique = unique.has(column.name);
  const another = `md5(${value}::text || n)::uuid`;
  if (column.name === table.company || column.name === 'test_mode' || column.refersToShared) return value;
  if (column.type === 'uuid' && (isUnique || isOfMany(column) || isOfSomebody(column))) return another;
  if (column.type.startsWith('timestamp'))
    return isAhead(column) ? `${value} + interval '300 days'` : `${value} - n * interval '1 minute'`;
  if (column.type === 'text' && isOfSomebody(column)) return `${value} || '-' || n`;
  if (!isUnique || column.named.length > 0) return value;
  if (column.type === 'text') return `${value} || '-' || n`;
  if (column.type === 'bytea') return `sha256(${value} || n::text::bytea)`;
  if (column.type === 'bigint') return `(select max("${column.name}") from ${table.name}) + row_number() over ()`;
  return value;
}
