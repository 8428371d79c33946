// The body of lead intake: names instead of ids, on top of the rules that every lead follows.

import { fieldProblem } from '../objects/field-values.ts';
import type { Workspace, WorkspaceObject } from '../objects/workspace.ts';
import type { CheckedRecord } from '../records/draft.ts';
import { type DuplicateField, duplicateSets } from '../records/duplicates.ts';
import { checkCustomFields, checkRecord } from '../records/values.ts';
import { readTagNames } from '../settings/record-tags.ts';

export interface CheckedLead extends CheckedRecord {
  /** Whom to assign it to; null: the first active user in reach. */
  assigneeEmail: string | null;
  /** Tags that its sender names. */
  tagIds: readonly string[];
  /** What a duplicate would have; the email counts by itself, whatever fields the tenant selected. */
  duplicates: DuplicateField[][];
}

/** The fields of a lead that intake has a place for; a tenant's mandatory field outside them cannot be asked for here. */
const intakeFields = new Set([
  'first_name',
  'last_name',
  'email',
  'mobile',
  'company_name',
  'job_title',
  'website',
  'city',
  'state',
  'country',
  'postal_code',
  'inquiry_details',
  'notes',
  'source',
  'priority',
  'origin',
  'lead_status',
  'assigned_to_email',
]);

/** Fields of leads that stand where intake has no place for them, each with the place that there is; the document refuses them too, and does not know it. */
function misplaced(body: Record<string, unknown>, leads: WorkspaceObject): CheckedLead['problems'] {
  return Object.keys(body).flatMap((name) => {
    const field = leads.fields.get(name);
    if (!field || field.readOnly || intakeFields.has(name)) return [];
    const hint = field.custom
      ? `Send this field as custom_fields.${name}.`
      : 'Use POST /v1/objects/leads/records to set this field.';
    return [fieldProblem(name, 'UNKNOWN_FIELD', 'is not a field of this request', { hint })];
  });
}

/** Checks a body, whatever its shape: the document's own check may have refused it already. */
export function checkLead(body: Record<string, unknown>, workspace: Workspace, now: Date): CheckedLead {
  const leads = workspace.objects.get('leads');
  if (!leads) throw new Error('every workspace has leads');
  const { tags, custom_fields: customFields, metadata: _, ...fields } = body;
  const checked = checkRecord(leads, fields, 'create', workspace, now);
  const intake = checkCustomFields(leads, isObject(customFields) ? customFields : {}, 'custom_fields');
  // The document's own check refuses what is no list of names.
  const tagged = readTagNames(leads, Array.isArray(tags) ? tags : []);
  const assignee = checked.references.find((reference) => reference.kind === 'user_email');
  return {
    values: checked.values,
    defaulted: checked.defaulted,
    custom: intake.custom,
    // Its only one is the assignee's address.
    references: [],
    duplicates: duplicateSets(leads, workspace, checked.values, intake.custom, 'email'),
    problems: [
      ...checked.problems.filter(({ field, code }) => intakeFields.has(field) || code === 'READ_ONLY'),
      ...misplaced(fields, leads),
      ...intake.problems,
      ...tagged.problems,
    ],
    assigneeEmail: assignee?.value ?? null,
    tagIds: tagged.tagIds,
  };
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
