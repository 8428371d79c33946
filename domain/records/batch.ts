// Batches of records: parsing of items, failures, and the format of the response.
import type { components } from '../../generated/api.ts';
import { buildFieldProblem, type FieldProblem, toUuid } from '../objects/field-values.ts';
import type { CheckedRecord } from './draft.ts';

type Failure = components['schemas']['RecordBatchFailure'];

export function isObject(item: unknown): item is Record<string, unknown> {
  return item !== null && typeof item === 'object' && !Array.isArray(item);
}

const notAnObject = (): FieldProblem => ({
  field: '',
  code: 'INVALID_TYPE',
  message: 'Each item must be an object of field values.',
});

/** Returns the result of checking an item that is not an object. */
export function buildRejectedItem(): CheckedRecord {
  return { values: {}, custom: {}, references: [], problems: [notAnObject()], defaulted: new Set() };
}

export function buildInvalidFailure(index: number, problems: FieldProblem[]): Failure {
  return { index, code: 'VALIDATION_ERROR', message: problems[0]?.message ?? '', details: { fields: problems } };
}

/** Returns the failure of an item that does not meet the pre-conditions of its status. */
export function buildUnmetFailure(index: number, problems: FieldProblem[]): Failure {
  const { details, ...failure } = buildInvalidFailure(index, problems);
  return { ...failure, details: { reason: 'pre_conditions_not_met', ...details } };
}

export function buildRepeatedFailure(index: number, earlier: number): Failure {
  return { index, code: 'DUPLICATE_IN_BATCH', message: `Duplicates the item at index ${earlier} of this batch.` };
}

/** Returns the failure of an item whose value of a unique field belongs to another record. */
export function buildTakenFailure(
  index: number,
  message: string,
  fields: string[],
  existingId: string | null,
): Failure {
  return { index, code: 'ALREADY_EXISTS', message, details: { matched_fields: fields, existing_id: existingId } };
}

/** Returns the failure of an item that several records match. */
export function buildAmbiguousFailure(index: number, ids: readonly string[]): Failure {
  return { index, code: 'CONFLICT', message: severalMatches, details: { reason: 'several_matches', ids: [...ids] } };
}

export const severalMatches = 'Several records match. Match on fields that are unique.';

/** Returns the failure of an item whose ID is unknown, malformed or not visible. */
export function buildMissingFailure(index: number): Failure {
  return { index, code: 'NOT_FOUND', message: 'There is no such resource.' };
}

/** A record of a batch by its id, with the other properties of the item. */
export interface NamedItem {
  index: number;
  id: string;
  fields: Record<string, unknown>;
}

/** Reads the ids of items. Each record may occur once. */
export function readItems(items: readonly unknown[]): { named: NamedItem[]; failed: Failure[] } {
  const named: NamedItem[] = [];
  const failed: Failure[] = [];
  const first = new Map<string, number>();
  for (const [index, item] of items.entries()) {
    if (!isObject(item)) {
      failed.push(buildInvalidFailure(index, [notAnObject()]));
      continue;
    }
    const { id: given, ...fields } = item;
    if (typeof given !== 'string') {
      const problem =
        given === undefined || given === null
          ? buildFieldProblem('id', 'REQUIRED', 'is required')
          : buildFieldProblem('id', 'INVALID_TYPE', 'must be a string');
      failed.push(buildInvalidFailure(index, [problem]));
      continue;
    }
    const id = toUuid(given);
    const earlier = id && first.get(id);
    if (id === undefined) failed.push(buildMissingFailure(index));
    else if (earlier !== undefined) failed.push(buildRepeatedFailure(index, Number(earlier)));
    else {
      first.set(id, index);
      named.push({ index, id, fields });
    }
  }
  return { named, failed };
}

/** Returns the data of a batch's response. */
export function buildBatchData<Success extends { index: number }>(
  object: string,
  succeeded: readonly Success[],
  failed: readonly Failure[],
) {
  return { object, ...buildBatchResult(succeeded, failed) };
}

/** Returns successes and failures, both in the order of the items. */
export function buildBatchResult<Success extends { index: number }, Failed extends { index: number }>(
  succeeded: readonly Success[],
  failed: readonly Failed[],
) {
  return {
    succeeded_count: succeeded.length,
    failed_count: failed.length,
    succeeded: succeeded.toSorted((a, b) => a.index - b.index),
    failed: failed.toSorted((a, b) => a.index - b.index),
  };
}
