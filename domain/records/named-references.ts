// The records that a body refers to, read before it is checked, for locks that come first.
import { toUuid } from '../objects/field-values.ts';
import type { WorkspaceObject } from '../objects/workspace.ts';
import type { NeededReference } from './draft.ts';

/** References to records that a body names in a readable form. What is wrong with the body is said where it is checked. */
export function namedReferences(object: WorkspaceObject, body: unknown): NeededReference[] {
  if (typeof body !== 'object' || body === null) return [];
  const fields = body as Readonly<Record<string, unknown>>;
  const references: NeededReference[] = [];
  for (const [name, given] of Object.entries(fields)) {
    const field = object.fields.get(name);
    const id = field?.reference && typeof given === 'string' ? toUuid(given) : undefined;
    if (field?.reference && field.reference !== 'user' && id !== undefined && !field.readOnly)
      references.push({ field: name, kind: field.reference, value: id });
  }
  if (object.object !== 'tasks') return references;
  const id = typeof fields.record_id === 'string' ? toUuid(fields.record_id) : undefined;
  if (id !== undefined && typeof fields.object === 'string')
    references.push({ field: 'record_id', kind: 'record', value: id, object: fields.object });
  return references;
}
