// Rows that are inserted by statements whose texts are made once.
import type { Sql } from './pool.ts';

export interface InsertionParts {
  table: string;
  /** By default those of the first row; all rows have the same then. */
  columns?: readonly string[];
  /** Those that are JSON. */
  documents: readonly string[];
  /** What it answers with, of the row `r`. */
  returning?: string;
}

type Row = Readonly<Record<string, unknown>>;

/**
 * To put a text together each time took longer than to send it. One row goes by its values, which costs least. Many are one parameter: PostgreSQL takes 65,535, and any number of rows is then the same
 * prepared statement; as json, since jsonb would sort all names first.
 */
export class Insertion {
  readonly #parts: InsertionParts;
  #texts: { columns: readonly { name: string; isDocument: boolean }[]; one: string; many: string } | undefined;

  constructor(parts: InsertionParts) {
    this.#parts = parts;
  }

  /** @param rows one at least; what a row does not say is null */
  of(sql: Sql, rows: readonly Row[]) {
    const [first = {}] = rows;
    this.#texts ??= textsOf(this.#parts, this.#parts.columns ?? Object.keys(first));
    const { columns, one, many } = this.#texts;
    if (rows.length > 1) return sql.unsafe(many, [JSON.stringify(rows)], { prepare: true });
    const values = columns.map(({ name, isDocument }) => {
      const value = first[name] ?? null;
      return isDocument && value !== null ? sql.json(value as never) : value;
    });
    return sql.unsafe(one, values as never[], { prepare: true });
  }
}

function textsOf({ table, documents, returning }: InsertionParts, columns: readonly string[]) {
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
