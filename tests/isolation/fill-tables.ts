// Adds a row to each empty table, with values that its constraints accept, found by trying.
import type { Sql } from 'postgres';
import { type Column, isTextual, type TenantTable } from './schema.ts';

/** Attempts per table. */
const maxAttempts = 2000;

/**
 * Adds a row of the tenant to each empty table, so that every isolation check has something to
 * protect.
 */
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

/** False for columns that have a default or accept null. */
const isGiven = (column: Column): boolean =>
  column.needed || column.key || (!column.refersTo && (isTextual(column) || column.checks.length > 0));

/** Adds a row, and tries other values in the columns of each violated check constraint. */
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
  for (let tries = 0; tries < maxAttempts; tries += 1) {
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

/**
 * Advances to the next combination.
 * @returns false after the last one
 */
function turn(wheels: readonly { values: string[]; at: number }[]): boolean {
  for (const wheel of wheels) {
    wheel.at += 1;
    if (wheel.at < wheel.values.length) return true;
    wheel.at = 0;
  }
  return false;
}

/** Returns possible values of a column as SQL, the most likely first. */
async function valuesFor(
  sql: Sql,
  column: Column,
  tables: readonly TenantTable[],
  companyId: string,
): Promise<string[]> {
  if (column.name === 'company_id') return [`'${companyId}'`];
  if (column.name === 'test_mode') return ['false'];
  if (column.refersTo) return [buildReference(column, tables, companyId)];
  const possible: string[] = [];
  for (const value of [...namedValues(column), ...listSamples(column)])
    if (await isValue(sql, value)) possible.push(value);
  if (column.hasDefault && column.checks.length > 0) possible.unshift('default');
  if (!column.needed && !column.key) possible.push('null');
  return possible;
}

/** Returns what a column refers to. All columns of one reference take the same row. */
function buildReference(
  { refersTo, refersToColumn }: Column,
  tables: readonly TenantTable[],
  companyId: string,
): string {
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

/** Returns sample values of a type as SQL. For an unknown type, words that it might accept. */
export function listSamples({ type }: Pick<Column, 'type'>): string[] {
  const typed = (values: string[]): string[] => values.map((value) => `${quoted(value)}::${type}`);
  if (type.endsWith('[]'))
    return [...typed(['{}']), ...listSamples({ type: type.slice(0, -2) }).map((each) => `array[${each}]::${type}`)];
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
