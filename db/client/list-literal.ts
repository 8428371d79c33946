// Lists as PostgreSQL writes them, for connections that have not asked for its types.

export function listLiteral(items: readonly (string | number)[]): string {
  return `{${items.map((item) => JSON.stringify(item)).join(',')}}`;
}
