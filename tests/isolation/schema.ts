// The tables with tenants' rows, as the database describes them, so that new ones are covered.
import type { Sql } from 'postgres';

/** In every text of shadow tenants, and nowhere else. */
export const marker = 'QX7marker';

export interface Column {
  name: string;
  type: string;
  /** Neither nullable nor filled by a default. */
  needed: boolean;
  /** Part of the primary key. */
  key: boolean;
  /** Has a default. */
  hasDefault: boolean;
  /** Names and texts of the check constraints on the column. */
  checks: string[];
  named: string[];
  /** Looked up without a company, or refers to such a column: unique across tenants. */
  global: boolean;
  /** The table and column that it refers to. */
  refersTo: string | null;
  refersToColumn: string | null;
  /** Refers to a shared table, such as roles. */
  refersToShared: boolean;
}

export interface TenantTable {
  name: string;
  /** The column with the company. */
  company: 'company_id' | 'id';
  hasMode: boolean;
  /** Writable columns. */
  columns: Column[];
}

/** Returns all tables with tenants' rows, `companies` first. */
export async function tenantTables(sql: Sql): Promise<TenantTable[]> {
  const rows = await sql<(Column & { table: string })[]>`
    select c.relname as table, a.attname as name, format_type(a.atttypid, a.atttypmod) as type,
      a.attnotnull and not a.atthasdef as needed,
      exists (select from pg_index i where i.indrelid = c.oid and i.indisprimary and a.attnum = any(i.indkey)) as key,
      a.atthasdef as "hasDefault",
      array(
        select k.conname::text from pg_constraint k where k.conrelid = c.oid and k.contype = 'c' and a.attnum = any(k.conkey)
      ) as checks,
      array(
        select distinct literal[1]
        from pg_constraint k, regexp_matches(pg_get_constraintdef(k.oid), '''([^'']*)''', 'g') as literal
        where k.conrelid = c.oid and k.contype = 'c' and a.attnum = any(k.conkey)
      ) as named,
      exists (
        select from pg_index i
        where i.indrelid = c.oid and pg_get_indexdef(i.indexrelid, 1, true) <> 'company_id' and (i.indisunique or a.atttypid = 'uuid'::regtype)
          -- In an expression, too.
          and (a.attnum = any(i.indkey) or exists (
            select from pg_depend d where d.classid = 'pg_class'::regclass and d.objid = i.indexrelid and d.refobjid = c.oid and d.refobjsubid = a.attnum))
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
    column.refersToShared = column.refersTo !== null && !tables.has(column.refersTo);
    const there = tables.get(column.refersTo ?? '')?.columns.find(({ name }) => name === column.refersToColumn);
    column.global ||= there?.global === true && column.refersTo !== 'companies';
  }
  return found;
}

/** Returns true if values of the type can carry the marker. */
export function isTextual(column: Column): boolean {
  return /^(text|jsonb|text\[\]|character varying.*)$/.test(column.type);
}

/** Returns text columns, as `table.column`, in which no value of a tenant has the marker. */
export async function unmarkedColumns(sql: Sql, tables: readonly TenantTable[], companyId: string): Promise<string[]> {
  const without: string[] = [];
  for (const { name, company, columns } of tables)
    for (const column of columns.filter((each) => isTextual(each) && !each.refersTo)) {
      const [row] = await sql.unsafe(
        `select from ${name} where ${company} = $1 and "${column.name}"::text like $2 limit 1`,
        [companyId, `%${marker}%`],
      );
      if (!row) without.push(`${name}.${column.name}`);
    }
  return without;
}
