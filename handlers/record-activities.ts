// The activities of a record.
import { listActivitiesOf } from '../db/record-activities.ts';
import { hasRecord } from '../db/records.ts';
import { showActivity } from '../domain/activities.ts';
import { notFound } from '../runtime/errors.ts';
import type { Handler } from '../runtime/handler.ts';
import { page, pageLimit } from '../runtime/paging.ts';

export const listRecordActivities: Handler<'listRecordActivities'> = async (call) => {
  const { sql, caller, path, query } = call;
  const workspace = await call.workspace();
  if (!workspace.objects.has(path.object)) throw notFound();
  const limit = pageLimit(query.limit, 100);
  const { companyId, testMode, reach } = caller;
  const bound = JSON.stringify(['record activities', companyId, testMode, reach, path.object, path.id]);
  const after = query.cursor === undefined ? undefined : call.cursors.decode(query.cursor, bound, 2);
  const [visible, rows] = await Promise.all([
    hasRecord(sql, caller, path.object, path.id),
    listActivitiesOf(sql, caller, path, after, limit + 1),
  ]);
  if (!visible) throw notFound();
  const { rows: found, next_cursor, has_more } = page(rows, limit, (last) => call.cursors.encode(last.keys, bound));
  const activities = found.map(({ record }) => showActivity(record, testMode, workspace));
  return { status: 200, data: { activities, next_cursor, has_more } };
};
