// Array literals of PostgreSQL, for connections whose driver does not know its array types.

export function toListLiteral(items: readonly (string | number)[]): string {
  return `{${items.map((item) => JSON.stringify(item)).join(',')}}`;
}
