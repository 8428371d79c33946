// The sort parameter: field names, separated by commas, a leading minus for descending.

import { maxSortKeys } from '../service/request-limits.ts';
import type { FieldProblem } from './field-values.ts';
import { buildUnknownFieldProblem, findQueryableField } from './queryable.ts';
import type { WorkspaceObject } from './workspace.ts';

export interface SortKey {
  field: string;
  descending: boolean;
}

const defaultSort: readonly SortKey[] = [{ field: 'created_at', descending: true }];

/** Reads the parameter. Without it, returns the default order. */
export function parseSort(
  text: string | undefined,
  object: WorkspaceObject,
): { keys: readonly SortKey[]; problems: FieldProblem[] } {
  if (text === undefined) return { keys: defaultSort, problems: [] };
  const problems: FieldProblem[] = [];
  const keys: SortKey[] = [];
  const parts = text.split(',').map((part) => part.trim());
  if (parts.length > maxSortKeys) {
    const message = `sort must have at most ${maxSortKeys} fields.`;
    return { keys, problems: [{ field: 'sort', code: 'TOO_LONG', message }] };
  }
  for (const part of parts) {
    const descending = part.startsWith('-');
    const field = descending ? part.slice(1) : part;
    if (field === '') {
      const message =
        'sort must be field names separated by commas, each with an optional leading minus for descending order.';
      problems.push({ field: 'sort', code: 'INVALID_FORMAT', message });
    } else if (!findQueryableField(object, field)) {
      problems.push(buildUnknownFieldProblem('sort', field, object));
    } else if (keys.some((key) => key.field === field)) {
      problems.push({ field, code: 'DUPLICATE', message: `sort: ${field} must not occur more than once.` });
    } else keys.push({ field, descending });
  }
  return { keys, problems };
}
