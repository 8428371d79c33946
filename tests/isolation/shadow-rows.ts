// Copies of a tenant's rows for other tenants and the other mode, which differ only in their owner,
// so that no statement could tell them apart by anything else.
import { createHash } from 'node:crypto';
import type { Sql } from 'postgres';
import { type Column, isTextual, marker, type TenantTable } from './schema.ts';

/**
 * How a copy differs.
 * twin: the same ids. Prose carries the marker, other references and earlier times, while codes
 * stay.
 * renamed: other ids and the same texts.
 * marked: the same ids. Every text carries the marker, including codes and keys.
 */
type Kind = 'twin' | 'renamed' | 'marked';

export interface Shadow {
  companyId: string;
  kind: Kind;
}

/** Words that programs compare with, such as leads or record.created. Everything else is prose. */
const code = '^[a-z][a-z_.:*-]*$';

/**
 * Copies a tenant's live rows.
 * @param to the same tenant for its test mode
 */
export async function copyTenant(
  sql: Sql,
  tables: readonly TenantTable[],
  from: string,
  to: Shadow,
  testMode: boolean,
): Promise<void> {
  const configuration = new Set(tables.filter(({ hasMode }) => !hasMode).map(({ name }) => name));
  for (const table of tables) {
    // Configuration has no modes.
    if (!table.hasMode && (testMode || to.companyId === from)) continue;
    const values = table.columns.map((column) => {
      if (column.name === table.company) return `'${to.companyId}'::uuid`;
      if (column.name === 'test_mode') return String(testMode);
      // If both modes share the keys, one mode gets new ones.
      if (testMode && column.key && column.type === 'uuid' && !hasModeInKey(table))
        return `md5(${copied(column, from, to.kind)}::text)::uuid`;
      // The other mode has the same configuration.
      if (to.companyId === from && to.kind === 'renamed' && configuration.has(column.refersTo ?? ''))
        return `t."${column.name}"`;
      return copied(column, from, to.kind);
    });
    const names = table.columns.map((column) => `"${column.name}"`).join(', ');
    const live = table.hasMode ? 'and not t.test_mode' : '';
    await sql.unsafe(
      `insert into ${table.name} (${names}) select ${values.join(', ')} from ${table.name} t where t.${table.company} = '${from}' ${live} on conflict do nothing`,
    );
  }
}

/** Drops check constraints, so that texts can carry the marker. */
export async function dropChecks(sql: Sql, tables: readonly TenantTable[]): Promise<void> {
  for (const { name, columns } of tables)
    for (const check of new Set(columns.flatMap((column) => column.checks)))
      await sql.unsafe(`alter table ${name} drop constraint "${check}"`);
}

/** Turns all live rows into test rows and vice versa, including keys. */
export async function swapModes(sql: Sql, tables: readonly TenantTable[]): Promise<void> {
  for (const { name, columns } of tables.filter(({ hasMode }) => hasMode)) {
    const names = columns.map((column) => `"${column.name}"`).join(', ');
    await sql.unsafe(`create temporary table moved as select ${names} from ${name}`);
    await sql`update moved set test_mode = not test_mode`;
    await sql.unsafe(`delete from ${name}`);
    await sql.unsafe(`insert into ${name} (${names}) select ${names} from moved`);
    await sql`drop table moved`;
  }
  await sql`update api_keys set environment = case environment when 'live' then 'test' else 'live' end`;
}

const hasModeInKey = (table: TenantTable): boolean =>
  table.columns.some((column) => column.name === 'test_mode' && column.key);

/** Returns the value of a column in a copy, as SQL. */
function copied(column: Column, from: string, kind: Kind): string {
  const value = `t."${column.name}"`;
  const foreign = column.refersToShared;
  if (column.global && column.type === 'bytea') return `sha256(${value} || '${kind}'::bytea)`;
  if (column.global && column.type === 'text') return `${value} || ' ${marker} ${kind}'`;
  if (kind === 'renamed') return column.type === 'uuid' && !foreign ? renamed(value) : value;
  if (column.global && column.type === 'uuid') return renamed(value);
  if (column.refersTo && column.type === 'uuid') return column.key || foreign ? value : rotated(column, value, from);
  if (column.type.startsWith('timestamp') && !column.key) return `${value} - interval '1 hour'`;
  if (!isTextual(column) || column.refersTo) return value;
  if (kind === 'marked') return marked(column, value);
  return column.key || column.checks.length > 0 ? value : markedProse(column, value);
}

/** Returns another id, always the same for a value, that sorts before all real ones. */
const renamed = (value: string): string => `('00000000' || right(md5(${value}::text), 24))::uuid`;

/** Returns the id of a user of the renamed shadow, by the id of the original. */
export function renamedId(id: string): string {
  const digits = createHash('md5').update(id).digest('hex').slice(8);
  return `00000000-${digits.slice(0, 4)}-${digits.slice(4, 8)}-${digits.slice(8, 12)}-${digits.slice(12)}`;
}

/** Returns the next row that could be referred to. */
function rotated(column: Column, value: string, from: string): string {
  const others = `select ${column.refersToColumn} from ${column.refersTo} where company_id = '${from}'`;
  const next = `(${others} and ${column.refersToColumn} > ${value} order by 1 limit 1)`;
  return `case when ${value} is not null then coalesce(${next}, (${others} order by 1 limit 1)) end`;
}

function marked({ type }: Column, value: string): string {
  if (type === 'jsonb') return `jsonb_build_object('${marker}', '${marker}', 'was', coalesce(${value}, 'null'))`;
  if (type === 'text[]') return `coalesce(${value}, '{}') || '${marker}'::text`;
  return `coalesce(${value}, '') || '${marker}'`;
}

function markedProse({ type }: Column, value: string): string {
  if (type === 'jsonb') return `regexp_replace(${value}::text, '": "([^"\\\\]*)"', '": "\\1 ${marker}"', 'g')::jsonb`;
  if (type === 'text[]')
    return `array(select case when each ~ '${code}' then each else each || ' ${marker}' end from unnest(${value}) each)`;
  return `case when ${value} ~ '${code}' then ${value} else ${value} || ' ${marker}' end`;
}

/** The tenant that sends the requests, and its shadows. */
export interface Whose {
  companyId: string;
  testMode: boolean;
  shadows: readonly Shadow[];
}

const modeIs = (testMode: boolean): string => (testMode ? 't.test_mode' : 'not t.test_mode');

/** Returns a condition for rows t of the shadows, or of the tenant in the other mode. */
export function foreignRows({ company, hasMode }: TenantTable, { companyId, testMode, shadows }: Whose): string {
  const others = shadows.map((shadow) => `'${shadow.companyId}'::uuid`).join(', ');
  const otherMode = hasMode ? ` or t.${company} = '${companyId}' and ${modeIs(!testMode)}` : '';
  return `(t.${company} in (${others})${otherMode})`;
}

/** Returns a digest of all foreign rows by table, which changes with any of them. */
export async function digestRows(sql: Sql, tables: readonly TenantTable[], whose: Whose): Promise<Map<string, string>> {
  const parts = tables.map(
    (table) => `select '${table.name}' as name, coalesce(md5(string_agg(t::text, '' order by t::text)), '') as digest
      from ${table.name} t where ${foreignRows(table, whose)}`,
  );
  const rows = await sql.unsafe<{ name: string; digest: string }[]>(parts.join(' union all '));
  return new Map(rows.map((row) => [row.name, row.digest]));
}

/**
 * Returns the state of the tenant's SLA clocks, which no response shows: by record and kind, the
 * numbers of all, satisfied and ended clocks.
 */
export async function readClocks(
  sql: Sql,
  { companyId, testMode }: Omit<Whose, 'shadows'>,
): Promise<ReadonlyMap<string, string>> {
  const rows = await sql<{ clock: string; fate: string }[]>`
    select concat_ws(' ', object, record_id, kind) as clock, concat_ws(' ', count(*), count(satisfied_at), count(ended_at)) as fate
    from sla_clocks
    where company_id = ${companyId} and test_mode = ${testMode}
    group by 1`;
  return new Map(rows.map(({ clock, fate }) => [clock, fate]));
}

/** Returns the tenant's rows that contain text of shadows. */
export async function markedRows(
  sql: Sql,
  tables: readonly TenantTable[],
  { companyId, testMode }: Whose,
): Promise<string[]> {
  const parts = tables.map(
    ({ name, company, hasMode }) =>
      `select '${name} has ' || left(t::text, 300) as row from ${name} t
      where t.${company} = '${companyId}' ${hasMode ? `and ${modeIs(testMode)}` : ''} and t::text like '%${marker}%'`,
  );
  const rows = await sql.unsafe<{ row: string }[]>(parts.join(' union all '));
  return rows.map(({ row }) => row);
}
