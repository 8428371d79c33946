// The forms of a record while it is written: the checked body, the new record, and the stored one.
import type { ComparedRecord } from '../objects/comparisons.ts';
import type { FieldProblem, StoredValue } from '../objects/field-values.ts';
import type { Workspace, WorkspaceObject } from '../objects/workspace.ts';
import type { AppliedTag } from '../settings/record-tags.ts';

/**
 * A record or user that must exist and be visible. All references of a body are looked up together.
 */
export interface NeededReference {
  /** The field in a NOT_FOUND error. */
  field: string;
  kind: 'user' | 'user_email' | 'lead' | 'deal' | 'customer' | 'account' | 'record';
  /**
   * An id, or an address for user_email: an active user, whose id becomes the value of assigned_to.
   */
  value: string;
  /** For kind record: the object of the id. */
  object?: string;
}

export interface CheckedRecord {
  /**
   * By the field's API name, built-in fields only. Only fields in the body or, on create, defaults;
   * on update, null clears.
   */
  values: Record<string, StoredValue>;
  /** By the field's API name, custom fields only; on update, null clears. */
  custom: Record<string, StoredValue>;
  references: NeededReference[];
  problems: FieldProblem[];
  /** Tags that the body names, with or without conditions; undefined if it does not send `tags`. */
  tagIds?: readonly string[];
  /** On create: built-in fields with a default that were not sent. */
  defaulted: Set<string>;
}

/** A body while it is checked. */
export interface Draft extends CheckedRecord {
  object: WorkspaceObject;
  mode: 'create' | 'update';
  workspace: Workspace;
  now: Date;
  /** On update: the stored built-in values of the record. */
  stored: Readonly<Record<string, StoredValue>>;
  /** The pipeline that a deal is in after the write; undefined if the body names an unknown one. */
  pipelineId: string | undefined;
  /** Fields in the body, valid or not. */
  sent: ReadonlySet<string>;
  /**
   * Returns the current or future value of a built-in field; undefined if the body's value is
   * invalid.
   */
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

/**
 * A stored record. Its values include read-only ones; of its custom fields, only those with a
 * value.
 */
export interface StoredRecord extends ComparedRecord {
  version: number;
  /** Only of a record that was locked for a change. */
  tags?: readonly AppliedTag[];
}
