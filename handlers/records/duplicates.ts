// Finds duplicates of a record before it is created.
import { listRecords } from '../../db/records/records.ts';
import { buildDuplicateFilter, findMatchedFields, readQuestion } from '../../domain/records/duplicate-search.ts';
import { orNotFound, validationFailed } from '../../runtime/errors.ts';
import type { Handler } from '../../runtime/handler.ts';

/** The maximum of duplicates in a response. */
const mostMatches = 20;

export const checkRecordDuplicates: Handler<'checkRecordDuplicates'> = async (call) => {
  const { caller, now } = call;
  const { body } = call.request;
  const { sql } = call.db;
  const workspace = await call.services.loadWorkspace();
  const object = orNotFound(workspace.objects.get(call.request.path.object));
  const { sets, problems } = readQuestion(object, body.record, body.fields, workspace, now);
  if (problems.length > 0) throw validationFailed(problems, 422);
  const filter = buildDuplicateFilter(sets);
  const sort = [{ field: 'created_at', descending: false }];
  const records = filter
    ? await listRecords(sql, caller, object.object, { sort, filter, after: undefined, limit: mostMatches })
    : [];
  const matches = records.map(({ record }) => ({
    id: record.id,
    matched_fields: findMatchedFields(object, sets, record),
  }));
  const compared = [...new Set(sets.flatMap((set) => set.map(({ field }) => field)))];
  return { status: 200, data: { object: object.object, compared_fields: compared, matches } };
};
