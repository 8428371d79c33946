// The activities of a record.
import { listActivitiesAbout } from '../../db/sales/record-activities.ts';
import { showActivity } from '../../domain/sales/activities.ts';
import type { Handler } from '../../runtime/handler.ts';
import { readRecordPage } from '../../services/records/open-record.ts';

export const listRecordActivities: Handler<'listRecordActivities'> = async (call) => {
  const { caller } = call;
  const { path } = call.request;
  const { sql } = call.db;
  const workspace = await call.services.loadWorkspace();
  const { rows, ...rest } = await readRecordPage(
    call,
    'activities',
    (after, limit) => listActivitiesAbout(sql, caller, path, after, limit),
    (last) => last.keys,
  );
  const activities = rows.map(({ record }) => showActivity(record, caller.testMode, workspace));
  return { status: 200, data: { activities, ...rest } };
};
