// Creates or changes one record under the rules of its object.
import { lockEntity } from '../../db/sales/activity-effects.ts';
import type { StoredRecord } from '../../domain/records/draft.ts';
import { checkRecord } from '../../domain/records/values.ts';
import { isMatch } from '../../domain/records/version.ts';
import { readBuiltinValues } from '../../domain/records/view.ts';
import { notFound, versionMismatch } from '../../runtime/errors.ts';
import { lockForChange } from './locked-records.ts';
import { holdReferences, prepareChange, prepareNew, resolve } from './preparation.ts';
import type { RecordTarget, WriteCall } from './record-target.ts';
import { writeChange, writeNewRecord } from './record-writes.ts';

/** @throws ApiError 422 that lists every problem of the body, 409 for a duplicate */
export async function create(
  call: WriteCall,
  place: RecordTarget,
  body: Record<string, unknown>,
): Promise<StoredRecord> {
  const checked = checkRecord(place.object, body, 'create', place.workspace, call.now);
  return writeNewRecord(call, place, await prepareNew(call, place, await resolve(call, checked)));
}

interface ChangeOptions {
  adapt?: (sent: Record<string, unknown>, before: StoredRecord) => Record<string, unknown>;
  ifMatch?: string | undefined;
}

/**
 * Changes one record. Writes nothing if nothing changes.
 * @param sent the new values
 * @param adapt removes values that must be ignored, given the current record
 * @returns the stored record
 * @throws ApiError 404, 409 if If-Match names another version, 422 that lists every problem of the
 * body
 */
export async function change(
  call: WriteCall,
  place: RecordTarget,
  id: string,
  sent: Record<string, unknown>,
  { adapt = (body) => body, ifMatch }: ChangeOptions = {},
): Promise<StoredRecord> {
  const { caller, now } = call;
  const { sql } = call.db;
  const { workspace, object } = place;
  if (object.object === 'activities') await lockEntity(sql, caller, id);
  const [, before] = await Promise.all([holdReferences(call, place, [sent]), lockForChange(call, object, id)]);
  if (!before) throw notFound();
  if (!isMatch(ifMatch, before.version)) throw versionMismatch(before.version);
  const checked = checkRecord(object, adapt(sent, before), 'update', workspace, now, readBuiltinValues(object, before));
  const prepared = await prepareChange(call, place, before, await resolve(call, checked));
  return prepared ? writeChange(call, place, prepared) : before;
}
