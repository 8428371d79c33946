// What a record's body means for a tenant's object: every problem found, every value in the form it is stored in.
import type { components } from '../generated/api.ts';
import type { Workspace, WorkspaceObject } from './workspace.ts';

export type FieldProblem = components['schemas']['FieldError'];

/** A value as it is stored: numbers, booleans, text; dates as YYYY-MM-DD, times as ISO 8601 in UTC; ids for configured lists. */
export type StoredValue = string | number | boolean | null;

/** Something that must exist and be visible; the handler asks the database for all of a body at once. */
export interface NeededReference {
  field: string;
  kind: 'user' | 'user_email' | 'lead' | 'customer' | 'account' | 'record';
  /** An id, or the address for user_email. */
  value: string;
  /** For kind record: the object that the id belongs to. */
  object?: string;
}

export interface CheckedRecord {
  /** By the field's API name, built-in fields only. Only what the body (or, on create, a default) says. */
  values: Record<string, StoredValue>;
  /** By the field's API name, custom fields only; null clears. */
  custom: Record<string, StoredValue>;
  references: NeededReference[];
  problems: FieldProblem[];
}

/**
 * Checks a flat body of field values.
 * @param mode create: required fields must be there, defaults are filled in; update: only what is sent is checked
 * @param stored on update, the values the record has, for rules that join fields (e.g. one of email, mobile)
 */
export function checkRecord(
  _object: WorkspaceObject,
  _body: Record<string, unknown>,
  _mode: 'create' | 'update',
  _workspace: Workspace,
  _now: Date,
  _stored?: Record<string, StoredValue>,
): CheckedRecord {
  throw new Error('not written yet');
}
