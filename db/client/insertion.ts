// Insert statements whose texts are built once.
import type { Sql } from './pool.ts';

export interface InsertionParts {
  table: string;
  /** By default those of the first row; then all rows must have the same. */
  columns?: readonly string[];
  /** The columns that are JSON. */
  documents: readonly string[];
  /** The `returning` list; the row is `r`. */
  returning?: string;
}

type Row = Readonly<Record<string, unknown>>;

/**
 * Building a text for each call took longer than sending it. A single row is sent as separate
 * values, which costs least. Many rows are one parameter, because PostgreSQL accepts at most
 * 65,535, and because any number of rows is then the same prepared statement. The parameter is
 * json, since jsonb would sort all names first.
 */
export class Insertion {
  readonly #parts: InsertionParts;
  #texts: { columns: readonly { name: string; isDocument: boolean }[]; one: string; many: string } | undefined;

  constructor(parts: InsertionParts) {
    this.#parts = parts;
  }

  /** @param rows at least one; missing columns are null */
  of(sql: Sql, rows: readonly Row[]) {
    const [first = {}] = rows;
    this.#texts ??= buildTexts(this.#parts, this.#parts.columns ?? Object.keys(first));
    const { columns, one, many } = this.#texts;
    if (rows.length > 1) return sql.unsafe(many, [JSON.stringify(rows)], { prepare: true });
    const values = columns.map(({ name, isDocument }) => {
      const value = first[name] ?? null;
      return isDocument && value !== null ? sql.json(value as never) : value;
    });
    return sql.unsafe(one, values as never[], { prepare: true });
  }
}

function buildTexts({ table, documents, returning }: InsertionParts, columns: readonly string[]) {
  const names = columns.map((name) => `"${name}"`).join(', ');
  const places = columns.map((_, index) => `$${index + 1}`).join(', ');
  const target = `insert into ${table} as r (${names})`;
  const answer = returning === undefined ? '' : ` returning ${returning}`;
  return {
    columns: columns.map((name) => ({ name, isDocument: documents.includes(name) })),
    one: `${target} values (${places})${answer}`,
    many: `${target} select ${names} from json_populate_recordset(null::${table}, $1::text::json)${answer}`,
  };
}
