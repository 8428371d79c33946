// The tables that hold tenants' rows, as the database itself describes them: a new table is covered the day it is made.
import type { Sql } from 'postgres';

/** In every text of other tenants, and nowhere else. */
export const marker = 'QX7marker';

export interface Column {
  name: string;
  type: string;
  /** Neither null nor filled in by a default. */
  needed: boolean;
  /** In the primary key. */
  key: boolean;
  /** In a check constraint, with one of the texts that it allows. */
  allowed: string | null;
  /** Looked up without a company, or refers to such a column: no two tenants have the same. */
  global: boolean;
  /** The table that it refers to, and the column there. */
  refersTo: string | null;
  refersToColumn: string | null;
}

export interface TenantTable {
  name: string;
  /** The column that says whose row it is. */
  company: 'company_id' | 'id';
  hasMode: boolean;
  /** Those that can be written. */
  columns: Column[];
}

/** All tables with rows of tenants, `companies` first. */
export async function tenantTables(sql: Sql): Promise<TenantTable[]> {
  const rows = await sql<(Column & { table: string })[]>`
    select c.relname as table, a.attname as name, format_type(a.atttypid, a.atttypmod) as type,
      a.attnotnull and not a.atthasdef as needed,
      exists (select from pg_index i where i.indrelid = c.oid and i.indisprimary and a.attnum = any(i.indkey)) as key,
      (
        select (regexp_match(pg_get_constraintdef(k.oid), '''([^'']*)'''))[1]
        from pg_constraint k where k.conrelid = c.oid and k.contype = 'c' and a.attnum = any(k.conkey) limit 1
      ) as allowed,
      exists (
        select from pg_index i join pg_attribute first on first.attrelid = c.oid and first.attnum = i.indkey[0]
        where i.indrelid = c.oid and a.attnum = any(i.indkey) and first.attname <> 'company_id' and (i.indisunique or a.atttypid = 'uuid'::regtype)
      ) as global,
      target.relname as "refersTo", there.attname as "refersToColumn"
    from pg_class c
    join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped and a.attidentity = '' and a.attgenerated = ''
    left join lateral (
      select k.confrelid, k.confkey[array_position(k.conkey, a.attnum)] as number
      from pg_constraint k where k.conrelid = c.oid and k.contype = 'f' and a.attnum = any(k.conkey) and k.conparentid = 0
      order by cardinality(k.conkey) desc limit 1
    ) reference on true
    left join pg_class target on target.oid = reference.confrelid
    left join pg_attribute there on there.attrelid = target.oid and there.attnum = reference.number
    where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
      and (c.relname = 'companies' or exists (
        select from pg_attribute own where own.attrelid = c.oid and own.attname = 'company_id' and not own.attisdropped))
    order by c.relname <> 'companies', c.relname, a.attnum`;
  const tables = new Map<string, TenantTable>();
  for (const { table, ...column } of rows) {
    const company = table === 'companies' ? 'id' : 'company_id';
    const known = tables.get(table) ?? { name: table, company, hasMode: false, columns: [] };
    known.columns.push(column);
    known.hasMode ||= column.name === 'test_mode';
    tables.set(table, known);
  }
  const found = [...tables.values()];
  for (const column of found.flatMap((table) => table.columns)) {
    const there = tables.get(column.refersTo ?? '')?.columns.find(({ name }) => name === column.refersToColumn);
    column.global ||= there?.global === true && column.refersTo !== 'companies';
  }
  return found;
}

/** True for types whose values can carry a marker. */
export function isTextual(column: Column): boolean {
  return /^(text|jsonb|text\[\]|character varying.*)$/.test(column.type);
}

/** One row of a tenant's for each table that has none, so that every wall has something behind it. @returns their names */
export async function fillEmptyTables(sql: Sql, tables: readonly TenantTable[], companyId: string): Promise<string[]> {
  const filled: string[] = [];
  for (const table of tables) {
    const [row] = await sql`select from ${sql(table.name)} where ${sql(table.company)} = ${companyId} limit 1`;
    if (row) continue;
    const columns = table.columns.filter(
      (column) => column.needed || column.key || (isTextual(column) && !column.refersTo),
    );
    const values = columns.map((column) => anyValue(column, companyId));
    await sql.unsafe(
      `insert into ${table.name} (${columns.map((column) => `"${column.name}"`).join(', ')}) select ${values.join(', ')}`,
    );
    filled.push(table.name);
  }
  return filled;
}

/** A value of a column, as SQL. */
function anyValue(column: Column, companyId: string): string {
  if (column.name === 'company_id') return `'${companyId}'`;
  if (column.name === 'test_mode') return 'false';
  if (column.refersTo && column.refersTo !== 'companies') {
    const own = column.refersTo === 'roles' ? '' : `where company_id = '${companyId}'`;
    return `(select ${column.refersToColumn} from ${column.refersTo} ${own} order by 1 limit 1)`;
  }
  if (column.allowed !== null) return `'${column.allowed}'`;
  if (column.type === 'uuid') return 'gen_random_uuid()';
  if (column.type === 'boolean') return 'false';
  if (column.type === 'jsonb') return `'{"said": "A text"}'`;
  if (column.type === 'bytea') return `'\\x01'`;
  if (column.type.endsWith('[]')) return `'{}'`;
  if (/^(timestamp|date)/.test(column.type)) return 'now()';
  return /int|numeric/.test(column.type) ? '1' : `'A text'`;
}

/** Columns of texts, as `table.column`, in which no value of a tenant has the marker, though any text could. */
export async function unmarkedColumns(sql: Sql, tables: readonly TenantTable[], companyId: string): Promise<string[]> {
  const without: string[] = [];
  for (const { name, company, columns } of tables)
    for (const column of columns.filter((each) => isTextual(each) && each.allowed === null && !each.refersTo)) {
      const [row] = await sql.unsafe(
        `select from ${name} where ${company} = $1 and "${column.name}"::text like $2 limit 1`,
        [companyId, `%${marker}%`],
      );
      if (!row) without.push(`${name}.${column.name}`);
    }
  return without;
}
