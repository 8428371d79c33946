// What a record can no longer have when it is restored, and what a restoration leaves behind.
import type { StoredValue } from '../objects/field-values.ts';
import type { Workspace, WorkspaceObject } from '../objects/workspace.ts';
import { findFirstStatus, getDefaultPipeline } from '../settings/pipelines.ts';
import { listStatuses } from '../settings/status-effects.ts';
import type { NeededReference, StoredRecord } from './draft.ts';
import { type EntityType, toEntityObject } from './entity-types.ts';
import { type Changes, describeUpdate, diffRecords, showRecord } from './view.ts';
import { mergeUpdate } from './writes.ts';

/** Something that a restored record has lost. */
export interface RestoreWarning {
  code: 'owner_inactive' | 'status_gone' | 'option_gone' | 'reference_gone' | 'link_gone';
  field: string;
  message: string;
}

/** A record that a deleted record refers to by a field. */
export interface OwnReference {
  field: string;
  object: string;
  to: string;
}

const referenceFields: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  leads: { converted_customer_id: 'customers' },
  customers: { account_id: 'accounts', lead_id: 'leads' },
  deals: { account_id: 'accounts', customer_id: 'customers', lead_id: 'leads' },
};

/** Returns the records that a deleted record refers to. The record of a task is among them, and that of an activity is not. */
export function listOwnReferences(object: string, { values }: StoredRecord): OwnReference[] {
  const fields = object === 'tasks' ? { record_id: String(values.object) } : (referenceFields[object] ?? {});
  return Object.entries(fields).flatMap(([field, of]) => {
    const to = values[field] ?? null;
    return to === null ? [] : [{ field, object: of, to: String(to) }];
  });
}

/** Returns the record that an activity was logged on. The activity cannot exist without it. */
export function findEntity(object: string, { values }: StoredRecord): { object: string; id: string } | undefined {
  if (object !== 'activities') return undefined;
  return { object: toEntityObject(values.entity_type as EntityType), id: String(values.entity_id) };
}

/** Returns the owner of a record, to be looked up. */
export function findOwner({ values }: StoredRecord): NeededReference | undefined {
  const owner = values.assigned_to ?? null;
  return owner === null ? undefined : { field: 'assigned_to', kind: 'user', value: String(owner) };
}

/**
 * Leaves out what a record can no longer have.
 * @param missing its references to records that are not there
 * @returns the changed record, with its next version, if something had to be left out
 */
export function adaptRestored(
  object: WorkspaceObject,
  record: StoredRecord,
  workspace: Workspace,
  { isOwnerGone, missing }: { isOwnerGone: boolean; missing: readonly OwnReference[] },
  now: Date,
): { changed: StoredRecord | undefined; warnings: RestoreWarning[] } {
  const warnings: RestoreWarning[] = [];
  const values: Record<string, StoredValue> = {};
  if (isOwnerGone) {
    values.assigned_to = null;
    warnings.push(warn('owner_inactive', 'assigned_to', 'The assigned user is no longer active. assigned_to is null.'));
  }
  const statusField = statusFields[object.object];
  const status = statusField === undefined ? null : (record.values[statusField] ?? null);
  const statuses = listStatuses(object.object, workspace);
  if (statusField !== undefined && status !== null && !statuses.some(({ id }) => id === status)) {
    const pipeline = workspace.pipelines.find(({ id }) => id === record.values.pipeline);
    const first = findFirstStatus(object.object, workspace, pipeline?.id);
    values[statusField] = first?.id ?? null;
    warnings.push(
      warn('status_gone', statusField, `The ${statusField} was deleted. The record has ${first?.name ?? 'none'}.`),
    );
    if (object.object === 'deals' && !pipeline) {
      const { name } = getDefaultPipeline(workspace);
      warnings.push(warn('option_gone', 'pipeline', `The pipeline was deleted. The deal is in ${name}.`));
    }
  }
  const source = record.values.source ?? null;
  if (source !== null && !workspace.sources.some(({ id }) => id === source)) {
    values.source = null;
    warnings.push(warn('option_gone', 'source', 'The source was deleted. source is null.'));
  }
  for (const { field } of missing) {
    values[field] = null;
    if (object.object === 'tasks') values.object = null;
    warnings.push(warn('reference_gone', field, `The record that ${field} refers to was deleted. ${field} is null.`));
  }
  if (warnings.length === 0) return { changed: undefined, warnings };
  const merged = mergeUpdate(object, record, { values, custom: {} }, workspace, now, false);
  return { changed: merged && { ...merged, version: record.version + 1 }, warnings };
}

const statusFields: Readonly<Record<string, string>> = { leads: 'lead_status', deals: 'stage' };

const warn = (code: RestoreWarning['code'], field: string, message: string): RestoreWarning => ({
  code,
  field,
  message,
});

/** Says how many links of a record could not be restored. */
export function buildLinkWarning(count: number): RestoreWarning[] {
  if (count === 0) return [];
  return [warn('link_gone', 'links', `Links that could not be restored: ${count}.`)];
}

/** Returns the values of a deleted record that are no more, as changes for its history. */
export function diffRestored(object: WorkspaceObject, before: StoredRecord, after: StoredRecord | undefined): Changes {
  return after ? diffRecords(object, showRecord(object, before), showRecord(object, after)) : {};
}

/** Describes a reference that was restored together with the record that it refers to. */
export function describeFilling(
  object: WorkspaceObject,
  { id, field, to, changedAt }: { id: string; field: string; to: string; changedAt: Date },
  tags?: Changes[string],
) {
  // A field that the workspace has disabled is not published.
  const changes = object.fields.has(field) ? { [field]: { from: null, to } } : {};
  return describeUpdate(object, id, tags ? { ...changes, tags } : changes, changedAt);
}
