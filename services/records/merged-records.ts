// Names the record that a merged one is part of now, in the 404 of the merged one.
import { findSurvivor } from '../../db/records/merges.ts';
import { hasRecord } from '../../db/records/records.ts';
import { toUuid } from '../../domain/objects/field-values.ts';
import { isVisible } from '../../domain/records/reading.ts';
import { ApiError } from '../../runtime/errors.ts';
import type { Call } from '../../runtime/handler.ts';

type PathCall = Pick<Call, 'caller' | 'db' | 'services'> & { request: { path: { id: string; object?: string } } };

/**
 * Wraps the handler of a record's path. If the record is not there because it was merged, the 404
 * has `merged_into`, unless the caller cannot see that record.
 * @param fixed the object, if the path does not name it
 */
export function reportMerged<Given extends PathCall, Answer>(
  handler: (call: Given) => Promise<Answer>,
  fixed?: string,
): (call: Given) => Promise<Answer> {
  return async (call) => {
    try {
      return await handler(call);
    } catch (error) {
      if (!(error instanceof ApiError) || error.code !== 'NOT_FOUND' || error.details) throw error;
      const into = await findMergedInto(call, fixed ?? call.request.path.object ?? '');
      throw into === undefined ? error : new ApiError('NOT_FOUND', error.message, { merged_into: into });
    }
  };
}

async function findMergedInto(call: PathCall, object: string): Promise<string | undefined> {
  const { caller } = call;
  const { sql } = call.db;
  const id = toUuid(call.request.path.id);
  const workspace = await call.services.loadWorkspace();
  if (id === undefined || !isVisible(object, workspace, caller)) return undefined;
  const survivor = await findSurvivor(sql, caller, object, id);
  return survivor !== undefined && (await hasRecord(sql, caller, object, survivor)) ? survivor : undefined;
}
