// Upserts: change the matching record, or create one if there is none.
import { findMatches } from '../../db/records/matches.ts';
import type { WorkspaceObject } from '../../domain/objects/workspace.ts';
import { severalMatches } from '../../domain/records/batch.ts';
import { type MatchedField, namedMatches, pickChangeableFields, readMatch } from '../../domain/records/match.ts';
import { toEtag } from '../../domain/records/version.ts';
import { showRecord } from '../../domain/records/view.ts';
import { conflict, validationFailed } from '../../runtime/errors.ts';
import type { Handler } from '../../runtime/handler.ts';
import { openObject, type WriteCall } from '../../services/records/record-target.ts';
import { change, create } from '../../services/records/single-record.ts';

export const upsertRecord: Handler<'upsertRecord'> = async (call) => {
  const place = { ...(await openObject(call)), inside: 'record' };
  const { object } = place;
  const { match, fields, problems } = readMatch(object, call.request.body.record, call.request.body.match_on);
  if (problems.length > 0) throw validationFailed(problems, 422);
  const id = 'id' in match ? match.id : await findOnlyMatch(call, object, match.fields);
  const record =
    id === null
      ? await create(call, place, fields)
      : await change(call, place, id, fields, { adapt: (sent, before) => pickChangeableFields(object, sent, before) });
  const data = { object: object.object, record: showRecord(object, record), created: id === null };
  return { status: id === null ? 201 : 200, etag: toEtag(record), data };
};

/**
 * Returns the id of the only record that has the values; null if there is none.
 * @throws ApiError 409 if there are several
 */
async function findOnlyMatch(
  { caller, db: { sql } }: WriteCall,
  { object }: WorkspaceObject,
  fields: readonly MatchedField[],
): Promise<string | null> {
  const [first, ...others] = await findMatches(sql, caller, object, fields, namedMatches);
  if (others.length === 0) return first?.id ?? null;
  throw conflict('several_matches', severalMatches, { ids: [first, ...others].map((record) => record?.id) });
}
