// Texts with fields of a record in double braces, e.g. {{first_name}}.
import type { FieldProblem, StoredValue } from './field-values.ts';
import { buildUnknownFieldProblem } from './queryable.ts';
import type { WorkspaceObject } from './workspace.ts';

const pattern = /\{\{\s*([a-z][a-z0-9_]*)\s*\}\}/g;

/**
 * Returns a problem for each name in braces that is not a field of the object.
 * @param field the field of the text, for the message
 */
export function findPlaceholderProblems(field: string, text: string, object: WorkspaceObject): FieldProblem[] {
  const names = new Set([...text.matchAll(pattern)].map(([, name = '']) => name));
  return [...names]
    .filter((name) => !object.fields.has(name))
    .map((name) => ({ ...buildUnknownFieldProblem(field, name, object), field, code: 'INVALID_OPTION' as const }));
}

/**
 * Fills the placeholders of a text. A field without a value becomes an empty text. Placeholders in
 * values are not filled.
 */
export function fillPlaceholders(
  text: string,
  object: WorkspaceObject,
  values: Readonly<Record<string, StoredValue | undefined>>,
): string {
  return text.replace(pattern, (_, name: string) => {
    const value = values[name] ?? null;
    const items = object.fields.get(name)?.items;
    return value === null ? '' : (items?.find(({ id }) => id === value)?.name ?? String(value));
  });
}
