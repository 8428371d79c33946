// A row for each table that has none, of values that its constraints allow, found by trying.
import type { Sql } from 'postgres';
import { type Column, isTextual, type TenantTable } from './schema.ts';

/** Tries for one table, before it is given up. */
const patience = 2000;

/** One row of a tenant's for each table that has none, so that every wall has something behind it. */
export async function fillEmptyTables(sql: Sql, tables: readonly TenantTable[], companyId: string): Promise<void> {
  const visited = new Set<TenantTable>();
  const fill = async (table: TenantTable): Promise<void> => {
    if (visited.has(table)) return;
    visited.add(table);
    const [row] = await sql`select from ${sql(table.name)} where ${sql(table.company)} = ${companyId} limit 1`;
    if (row) return;
    const columns = table.columns.filter(isGiven);
    for (const { refersTo } of columns) {
      const there = tables.find(({ name }) => name === refersTo);
      if (there) await fill(there);
    }
    await addRow(sql, table, columns, tables, companyId);
  };
  for (const table of tables) await fill(table);
}

/** False for what can be left to a default, or to be null. */
const isGiven = (column: Column): boolean =>
  column.needed || column.key || (!column.refersTo && (isTextual(column) || column.checks.length > 0));

/** Adds a row, with other values in the columns of each check constraint that refuses it. */
async function addRow(
  sql: Sql,
  table: TenantTable,
  columns: readonly Column[],
  tables: readonly TenantTable[],
  companyId: string,
): Promise<void> {
  const wheels: { column: Column; values: string[]; at: number }[] = [];
  for (const column of columns) wheels.push({ column, values: await valuesFor(sql, column, tables, companyId), at: 0 });
  const names = columns.map(({ name }) => `"${name}"`).join(', ');
  for (let tries = 0; tries < patience; tries += 1) {
    const values = wheels.map(({ values, at }) => values[at]).join(', ');
    const refusal = await sql.unsafe(`insert into ${table.name} (${names}) values (${values})`).then(
      () => undefined,
      (error: { code?: string; constraint_name?: string }) => error,
    );
    if (!refusal) return;
    const turned = wheels.filter(({ column }) => column.checks.includes(refusal.constraint_name ?? ''));
    if (refusal.code !== '23514' || !turn(turned)) throw refusal;
  }
  throw new Error(`no values were found that the check constraints of ${table.name} allow`);
}

/** The next combination. @returns false when there is none */
function turn(wheels: readonly { values: string[]; at: number }[]): boolean {
  for (const wheel of wheels) {
    wheel.at += 1;
    if (wheel.at < wheel.values.length) return true;
    wheel.at = 0;
  }
  return false;
}

/** Values that a column may be given, as SQL, the likeliest first. */
async function valuesFor(
  sql: Sql,
  column: Column,
  tables: readonly TenantTable[],
  companyId: string,
): Promise<string[]> {
  if (column.name === 'company_id') return [`'${companyId}'`];
  if (column.name === 'test_mode') return ['false'];
  if (column.refersTo) return [referenceOf(column, tables, companyId)];
  const possible: string[] = [];
  for (const value of [...namedValues(column), ...samplesOf(column)])
    if (await isValue(sql, value)) possible.push(value);
  if (column.hasDefault && column.checks.length > 0) possible.unshift('default');
  if (!column.needed && !column.key) possible.push('null');
  return possible;
}

/** What a column refers to; all columns of one reference take the same row. */
function referenceOf({ refersTo, refersToColumn }: Column, tables: readonly TenantTable[], companyId: string): string {
  const there = tables.find(({ name }) => name === refersTo);
  const own = there ? `where t.${there.company} = '${companyId}' ${there.hasMode ? 'and not t.test_mode' : ''}` : '';
  return `(select t.${refersToColumn} from ${refersTo} t ${own} order by t::text limit 1)`;
}

const isValue = (sql: Sql, value: string): Promise<boolean> =>
  sql.unsafe(`select ${value}`).then(
    () => true,
    () => false,
  );

const quoted = (text: string): string => `'${text.replaceAll("'", "''")}'`;

function namedValues({ named, type }: Column): string[] {
  return named.map((text) => (type.endsWith('[]') ? `array[${quoted(text)}]::${type}` : `${quoted(text)}::${type}`));
}

const texts = ['A text', 'text', 'a', '1', 'a@example.com', 'https://example.com', '#9CA3AF', 'EUR', '2026-01-01', ''];
const objects = ['{"said": "A text"}', '[{"said": "A text"}]', '["A text"]', '{}', '[]', '"A text"', '1'];

/** Values of a type, as SQL; for a type that is not known, words that might be read as one. */
export function samplesOf({ type }: Pick<Column, 'type'>): string[] {
  const typed = (values: string[]): string[] => values.map((value) => `${quoted(value)}::${type}`);
  if (type.endsWith('[]'))
    return [...typed(['{}']), ...samplesOf({ type: type.slice(0, -2) }).map((each) => `array[${each}]::${type}`)];
  if (type === 'uuid') return ['gen_random_uuid()'];
  if (type === 'boolean') return ['false', 'true'];
  if (type === 'bytea') return [`'\\x01'::bytea`, `sha256('x')`];
  if (/^jsonb?$/.test(type)) return typed(objects);
  if (/^(timestamp|date)/.test(type)) return ['now()', `now() + interval '1 hour'`];
  if (type.endsWith('multirange')) return typed(['{}']);
  if (type.endsWith('range')) return typed(['empty']);
  if (/^(small|big)?int|^numeric|^real|^double/.test(type)) return typed(['1', '0', '100', '-1']);
  if (/^(text|character|citext)/.test(type)) return typed(texts);
  return [...typed(['127.0.0.1', '1 hour', '12:00', 'empty', '1', 'a']), `(enum_range(null::${type}))[1]`];
}
