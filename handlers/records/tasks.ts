// Tasks on records. They are also records of the object `tasks`.
import { holdRecord, listRecords } from '../../db/records/records.ts';
import type { Filter } from '../../domain/objects/filter.ts';
import { checkTask, getTaskObject, showTask } from '../../domain/records/tasks.ts';
import { toEtag } from '../../domain/records/version.ts';
import { notFound, orNotFound } from '../../runtime/errors.ts';
import type { Handler } from '../../runtime/handler.ts';
import { readRecordPage } from '../../services/records/open-record.ts';
import { prepareNew, resolve } from '../../services/records/preparation.ts';
import { writeNewRecord } from '../../services/records/record-writes.ts';

export const listRecordTasks: Handler<'listRecordTasks'> = async (call) => {
  const { caller, now } = call;
  const { path } = call.request;
  const { sql } = call.db;
  const workspace = await call.services.loadWorkspace();
  const conditions: Filter[] = [
    { field: 'object', op: 'eq', value: path.object },
    { field: 'record_id', op: 'eq', value: path.id },
  ];
  const sort = [{ field: 'created_at', descending: true }];
  const { rows, ...rest } = await readRecordPage(
    call,
    'tasks',
    (after, limit) => listRecords(sql, caller, 'tasks', { sort, filter: { and: conditions }, after, limit }),
    (last) => last.keys,
  );
  return { status: 200, data: { tasks: rows.map(({ record }) => showTask(record, workspace, now)), ...rest } };
};

export const createRecordTask: Handler<'createRecordTask'> = async (call) => {
  const { caller, now } = call;
  const { path } = call.request;
  const { sql } = call.db;
  const workspace = await call.services.loadWorkspace();
  orNotFound(workspace.objects.get(path.object));
  const object = getTaskObject(workspace);
  const checked = checkTask(call.request.body, path, workspace, now);
  const [visible, item] = await Promise.all([holdRecord(sql, caller, path.object, path.id), resolve(call, checked)]);
  if (!visible) throw notFound();
  const { problems } = item.checked;
  if (call.request.problems.length > 0 || problems.length > 0) throw call.request.rejection(problems);

  const place = { workspace, object };
  const stored = await writeNewRecord(call, place, await prepareNew(call, place, item));
  return { status: 201, etag: toEtag(stored), data: { task: showTask(stored, workspace, now) } };
};
