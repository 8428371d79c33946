// Names of columns: snake_case in the database and in the API, camelCase in rows.

/** `record_id` as `recordId`. */
type CamelCase<Name extends string> = Name extends `${infer First}_${infer Rest}`
  ? `${First}${Capitalize<CamelCase<Rest>>}`
  : Name;

/** Fields of an index signature are left out: their names are not known. */
export type CamelKeys<Fields> = {
  [Name in keyof Fields as string extends Name ? never : CamelCase<Name & string>]: Fields[Name];
};

// Names come from statements and from the OpenAPI document, never from tenants, so the caches stay
// small.
const toCamelCase = cached((name) => name.replace(/_([a-z\d])/g, (_, letter: string) => letter.toUpperCase()));
const toSnakeCase = cached((name) => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`));

/**
 * The driver's `transform`. Columns of rows become camelCase, and keys of objects in statements
 * become columns. Values stay as they are, including the keys inside JSON. No column has a digit
 * after an underscore, because that name could not be converted back.
 */
export const rowNames = { column: { from: toCamelCase, to: toSnakeCase } };

/**
 * Returns the fields of a request body under the names that rows have. Nested objects stay as they
 * are.
 */
export function toCamelKeys<Fields extends object>(fields: Fields): CamelKeys<Fields> {
  const renamed = Object.entries(fields).map(([name, value]) => [toCamelCase(name), value]);
  return Object.fromEntries(renamed) as CamelKeys<Fields>;
}

function cached(rename: (name: string) => string): (name: string) => string {
  const known = new Map<string, string>();
  return (name) => {
    const before = known.get(name);
    if (before !== undefined) return before;
    const renamed = rename(name);
    known.set(name, renamed);
    return renamed;
  };
}
