// The record that a body refers to by `object` and `record_id`.

import { holdRecord } from '../../db/records/records.ts';
import { isVisible } from '../../domain/records/reading.ts';
import { buildProblem, type FieldProblem, validationFailed } from '../../runtime/errors.ts';
import type { Call } from '../../runtime/handler.ts';

type ReadingCall = Pick<Call, 'db' | 'caller' | 'services'>;
interface Named {
  object?: string;
  record_id?: string;
}
interface About {
  object: string | null;
  recordId: string | null;
}

/**
 * Locks the record against deletion until the transaction ends.
 * @returns nulls if the body names no record; a problem if the caller cannot see the object or the
 * record
 */
export async function findAboutRecord(
  call: ReadingCall,
  { object, record_id: recordId }: Named,
): Promise<About | { problem: FieldProblem }> {
  if (recordId === undefined) return { object: null, recordId: null };
  const name = object ?? 'leads';
  const { caller } = call;
  const { sql } = call.db;
  const known = await call.services.loadWorkspace();
  if (!known.objects.has(name) || !isVisible(name, known, caller))
    return { problem: buildProblem('object', 'NOT_FOUND', `object must be the name of an object of this workspace`) };
  if (!(await holdRecord(sql, caller, name, recordId)))
    return { problem: buildProblem('record_id', 'NOT_FOUND', `record_id must be the id of a record of ${name}`) };
  return { object: name, recordId: recordId.toLowerCase() };
}

/** Like findAboutRecord. @throws ApiError 422 if the caller cannot see the object or the record */
export async function requireAboutRecord(call: ReadingCall, body: Named): Promise<About> {
  const found = await findAboutRecord(call, body);
  if ('problem' in found) throw validationFailed([found.problem], 422);
  return found;
}
