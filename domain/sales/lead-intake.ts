// The body of lead intake: names instead of ids, with the same rules as for every lead.

import { buildFieldProblem } from '../objects/field-values.ts';
import type { Workspace, WorkspaceObject } from '../objects/workspace.ts';
import type { CheckedRecord } from '../records/draft.ts';
import { buildDuplicateSets, type DuplicateField } from '../records/duplicates.ts';
import { checkCustomFields, checkRecord } from '../records/values.ts';
import { readTagNames } from '../settings/record-tags.ts';

export interface CheckedLead extends CheckedRecord {
  /** The assignee's address; null: the first active user that the caller can see. */
  assigneeEmail: string | null;
  /** The tags in the body. */
  tagIds: readonly string[];
  /**
   * The values that a duplicate would have. The email counts by itself, regardless of the fields
   * that the tenant selected.
   */
  duplicates: DuplicateField[][];
}

/**
 * The fields of a lead that intake accepts. A mandatory field outside of them is not required here.
 */
const intakeFields = new Set([
  'first_name',
  'last_name',
  'email',
  'mobile',
  'extension',
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

/**
 * Returns problems for fields of leads that intake does not accept in this place, with the right
 * place. The OpenAPI document also rejects them, but does not know that place.
 */
function misplaced(body: Record<string, unknown>, leads: WorkspaceObject): CheckedLead['problems'] {
  return Object.keys(body).flatMap((name) => {
    const field = leads.fields.get(name);
    if (!field || field.readOnly || intakeFields.has(name)) return [];
    const hint = field.custom
      ? `Send this field as custom_fields.${name}.`
      : 'Use POST /v1/objects/leads/records to set this field.';
    return [buildFieldProblem(name, 'UNKNOWN_FIELD', 'is not a field of this request', { hint })];
  });
}

/** Checks a body of any shape, because the OpenAPI document's check may have rejected it. */
export function checkLead(body: Record<string, unknown>, workspace: Workspace, now: Date): CheckedLead {
  const leads = workspace.objects.get('leads');
  if (!leads) throw new Error('every workspace has leads');
  const { tags, custom_fields: customFields, metadata: _, ...fields } = body;
  const checked = checkRecord(leads, fields, 'create', workspace, now);
  const intake = checkCustomFields(leads, isObject(customFields) ? customFields : {}, 'custom_fields');
  // The OpenAPI document rejects anything that is not a list of names.
  const tagged = readTagNames(leads, Array.isArray(tags) ? tags : []);
  const assignee = checked.references.find((reference) => reference.kind === 'user_email');
  return {
    values: checked.values,
    defaulted: checked.defaulted,
    custom: intake.custom,
    // The only one is the assignee's address.
    references: [],
    duplicates: buildDuplicateSets(leads, workspace, checked.values, intake.custom, 'email'),
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
