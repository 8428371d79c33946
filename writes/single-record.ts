// One record, created or changed by the rules of its object: what is wrong is refused before anything is written.
import { v7 as uuidv7 } from 'uuid';
import { lockEntity } from '../db/activity-effects.ts';
import { findDuplicate } from '../db/duplicates.ts';
import { findReferences } from '../db/record-references.ts';
import { lockRecord, type StoredRecord } from '../db/records.ts';
import { duplicateSets } from '../domain/duplicates.ts';
import { unmetByNew } from '../domain/pre-conditions.ts';
import { checkRecord } from '../domain/record-values.ts';
import { isMatch } from '../domain/record-version.ts';
import { builtinValues } from '../domain/record-view.ts';
import { mergedRecord, newRecord, resolveReferences } from '../domain/record-writes.ts';
import type { WorkspaceObject } from '../domain/workspace.ts';
import {
  alreadyExists,
  type FieldProblem,
  notFound,
  preConditionsNotMet,
  validationFailed,
  versionMismatch,
} from '../runtime/errors.ts';
import { unmetByChanges } from './pre-conditions.ts';
import { type Place, storeChange, storeNewRecord, type Writing } from './store.ts';

interface SinglePlace extends Place {
  /** Where the fields stand in the body; at its root unless it is given. */
  inside?: string;
}

function problemsInside({ inside }: SinglePlace, problems: FieldProblem[]): FieldProblem[] {
  return inside === undefined ? problems : problems.map((each) => ({ ...each, field: `${inside}.${each.field}` }));
}

/** @throws ApiError 422 listing every problem of the body, 409 for a duplicate */
export async function create(call: Writing, place: SinglePlace, body: Record<string, unknown>): Promise<StoredRecord> {
  const { sql, caller, now } = call;
  const { workspace, object } = place;
  const checked = checkRecord(object, body, 'create', workspace, now);
  resolveReferences(checked, await findReferences(sql, caller, checked.references));
  if (checked.problems.length > 0) throw validationFailed(problemsInside(place, checked.problems), 422);
  const planned = newRecord(object, uuidv7(), checked, workspace, now);
  const unmet = unmetByNew(object, planned, checked, workspace, now);
  if (unmet.length > 0) throw preConditionsNotMet(problemsInside(place, unmet));
  await refuseDuplicate(call, object, duplicateSets(object, workspace, checked.values, checked.custom));
  return storeNewRecord(call, place, planned);
}

/** @throws ApiError 409 naming the record that has the same values in the selected fields */
async function refuseDuplicate(
  { sql, caller }: Writing,
  object: WorkspaceObject,
  sets: ReturnType<typeof duplicateSets>,
): Promise<void> {
  if (object.object !== 'leads' && object.object !== 'deals') return;
  const duplicate = await findDuplicate(sql, caller, object.object, sets);
  if (!duplicate) return;
  const { matchedFields } = duplicate;
  throw alreadyExists(
    `A ${object.label.toLowerCase()} with this ${matchedFields.join(' and ')} exists.`,
    matchedFields,
    duplicate.visible ? duplicate.id : null,
  );
}

/**
 * Changes one record; writes nothing where nothing changes.
 * @param bodyFor what is to change, once it is known what there is
 * @returns the record as it is stored now
 * @throws ApiError 404, 409 for another version than the header names, 422 listing every problem of the body
 */
export async function change(
  call: Writing,
  place: SinglePlace,
  id: string,
  bodyFor: (before: StoredRecord) => Record<string, unknown>,
  ifMatch?: string,
): Promise<StoredRecord> {
  const { sql, caller, now } = call;
  const { workspace, object } = place;
  if (object.object === 'activities') await lockEntity(sql, caller, id);
  const before = await lockRecord(sql, caller, object.object, id);
  if (!before) throw notFound();
  if (!isMatch(ifMatch, before.version)) throw versionMismatch(before.version);
  const checked = checkRecord(object, bodyFor(before), 'update', workspace, now, builtinValues(object, before));
  resolveReferences(checked, await findReferences(sql, caller, checked.references));
  if (checked.problems.length > 0) throw validationFailed(problemsInside(place, checked.problems), 422);
  const merged = mergedRecord(object, before, checked, workspace, now);
  if (!merged) return before;

  const unmet = (await unmetByChanges(call, place, [{ before, merged }])).get(id);
  if (unmet) throw preConditionsNotMet(problemsInside(place, unmet));
  return storeChange(call, place, { before, merged });
}
