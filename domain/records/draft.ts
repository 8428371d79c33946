// What a record is on its way: a body being checked, what was made of it, and what is stored.
import type { ComparedRecord } from '../objects/comparisons.ts';
import type { FieldProblem, StoredValue } from '../objects/field-values.ts';
import type { Workspace, WorkspaceObject } from '../objects/workspace.ts';
import type { AppliedTag } from '../settings/record-tags.ts';

/** Something that must exist and be visible; the database is asked for all of a body at once. */
export interface NeededReference {
  /** The field that a NOT_FOUND names. */
  field: string;
  kind: 'user' | 'user_email' | 'lead' | 'deal' | 'customer' | 'account' | 'record';
  /** An id, or the address for user_email: an active user, whose id becomes the value of assigned_to. */
  value: string;
  /** For kind record: the object that the id belongs to. */
  object?: string;
}

export interface CheckedRecord {
  /** By the field's API name, built-in fields only. Only what the body (or, on create, a default) says; on update, null clears. */
  values: Record<string, StoredValue>;
  /** By the field's API name, custom fields only; on update, null clears. */
  custom: Record<string, StoredValue>;
  references: NeededReference[];
  problems: FieldProblem[];
  /** Tags that the body names, with or without conditions; undefined if it does not send `tags`. */
  tagIds?: readonly string[];
  /** On create: built-in fields that nobody sent and that got a default. */
  defaulted: Set<string>;
}

/** A body while it is checked. */
export interface Draft extends CheckedRecord {
  object: WorkspaceObject;
  mode: 'create' | 'update';
  workspace: Workspace;
  now: Date;
  /** On update, the built-in values that the record has. */
  stored: Readonly<Record<string, StoredValue>>;
  /** Fields that the body names, good or not. */
  sent: ReadonlySet<string>;
  /** What the record has, or will have, in a built-in field; undefined where the body's value is refused. */
  joined(name: string): StoredValue | undefined;
}

/** A record to insert. */
export interface NewRecord {
  id: string;
  /** By the field's API name, built-in fields only. */
  values: Readonly<Record<string, StoredValue>>;
  custom: Readonly<Record<string, StoredValue>>;
  /** Tags that are added by hand. */
  manualTagIds?: readonly string[];
}

/** A record as it is stored: of its values the read-only ones too, of its custom fields those that have a value. */
export interface StoredRecord extends ComparedRecord {
  version: number;
  /** Only of a record that was locked to be changed. */
  tags?: readonly AppliedTag[];
}
