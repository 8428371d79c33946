// The record that something is about, where a body names one.

import { holdRecord } from '../db/records/records.ts';
import { isVisible } from '../domain/records/reading.ts';
import { problem, validationFailed } from '../runtime/errors.ts';
import type { Call } from '../runtime/handler.ts';

/**
 * Keeps the record from being deleted until the transaction ends.
 * @returns nulls where the body names none
 * @throws ApiError 422 for an object or a record that the caller does not see
 */
export async function aboutRecord(
  call: Pick<Call, 'sql' | 'caller' | 'workspace'>,
  { object, record_id: recordId }: { object?: string; record_id?: string },
): Promise<{ object: string | null; recordId: string | null }> {
  if (recordId === undefined) return { object: null, recordId: null };
  const name = object ?? 'leads';
  const { sql, caller } = call;
  const known = await call.workspace();
  if (!known.objects.has(name) || !isVisible(name, known, caller))
    throw validationFailed([problem('object', 'NOT_FOUND', `there is no object ${name}`)], 422);
  if (!(await holdRecord(sql, caller, name, recordId)))
    throw validationFailed([problem('record_id', 'NOT_FOUND', `there is no record with this id in ${name}`)], 422);
  return { object: name, recordId: recordId.toLowerCase() };
}
