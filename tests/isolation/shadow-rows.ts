// Copies of a tenant's rows under other tenants and in the other mode.
// What is behind the walls differs from what is before them in nothing that a statement could tell apart,
// except in whose it is.
import { createHash } from 'node:crypto';
import type { Sql } from 'postgres';
import { type Column, isTextual, marker, type TenantTable } from './schema.ts';

/**
 * How a copy differs:
 * twin: has the same ids; prose carries the marker, other references and earlier times, while codes stay as they are;
 * renamed: has other ids and the same texts;
 * marked: has the same ids; every text carries the marker, codes and keys too.
 */
type Kind = 'twin' | 'renamed' | 'marked';

export interface Shadow {
  companyId: string;
  kind: Kind;
}

/** Words that programs compare with, e.g. leads or record.created; anything else is prose. */
const code = '^[a-z][a-z_.:*-]*$';

/** Copies a tenant's live rows. @param to the same tenant for its test mode */
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
      // Where both modes share the keys, those of one are made anew.
      if (testMode && column.key && column.type === 'uuid' && !hasModeInKey(table))
        return `md5(${copied(column, from, to.kind)}::text)::uuid`;
      // Another mode has the same configuration.
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

/** Lets texts carry the marker that a check constraint would refuse. */
export async function dropChecks(sql: Sql, tables: readonly TenantTable[]): Promise<void> {
  for (const { name, columns } of tables)
    for (const check of new Set(columns.flatMap((column) => column.checks)))
      await sql.unsafe(`alter table ${name} drop constraint "${check}"`);
}

/** Makes all live rows test rows, and test rows live ones; each key follows its rows. */
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

/** The value of a column in a copy, as SQL. */
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

/** Another id, always the same one, that comes before all of ours. */
const renamed = (value: string): string => `('00000000' || right(md5(${value}::text), 24))::uuid`;

/** The id of somebody in the doubles who has one of the tenant's own people as the original. */
export function renamedId(id: string): string {
  const digits = createHash('md5').update(id).digest('hex').slice(8);
  return `00000000-${digits.slice(0, 4)}-${digits.slice(4, 8)}-${digits.slice(8, 12)}-${digits.slice(12)}`;
}

/** The next of the rows that could be referred to. */
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

/** Who asks, and who is beside it. */
export interface Whose {
  companyId: string;
  testMode: boolean;
  shadows: readonly Shadow[];
}

const modeIs = (testMode: boolean): string => (testMode ? 't.test_mode' : 'not t.test_mode');

/** True for rows t of a table that are the shadows', or the tenant's own in the other mode. */
export function foreignRows({ company, hasMode }: TenantTable, { companyId, testMode, shadows }: Whose): string {
  const others = shadows.map((shadow) => `'${shadow.companyId}'::uuid`).join(', ');
  const otherMode = hasMode ? ` or t.${company} = '${companyId}' and ${modeIs(!testMode)}` : '';
  return `(t.${company} in (${others})${otherMode})`;
}

/** One digest of all rows of the shadows: any change of any of them changes it. */
export async function digestOf(sql: Sql, tables: readonly TenantTable[], whose: Whose): Promise<Map<string, string>> {
  const parts = tables.map(
    (table) => `select '${table.name}' as name, coalesce(md5(string_agg(t::text, '' order by t::text)), '') as digest
      from ${table.name} t where ${foreignRows(table, whose)}`,
  );
  const rows = await sql.unsafe<{ name: string; digest: string }[]>(parts.join(' union all '));
  return new Map(rows.map((row) => [row.name, row.digest]));
}

/**
 * What became of the tenant's own SLA clocks: no answer shows them. By record and kind, how many there are, how many of them were
 * answered, and how many have ended.
 */
export async function clocksOf(
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

/** What of others has got into the tenant's own rows. */
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
