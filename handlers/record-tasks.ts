// Tasks on records: the rows are those of the object tasks.
import { v7 as uuidv7 } from 'uuid';
import { findReferences } from '../db/record-references.ts';
import { hasRecord, holdRecord, listRecords } from '../db/records.ts';
import type { Filter } from '../domain/filter.ts';
import { checkTask, showTask, tasksOf } from '../domain/record-tasks.ts';
import { etagOf } from '../domain/record-version.ts';
import { newRecord, resolveReferences } from '../domain/record-writes.ts';
import { notFound } from '../runtime/errors.ts';
import type { Handler } from '../runtime/handler.ts';
import { page, pageLimit } from '../runtime/paging.ts';
import { storeNewRecord } from '../writes/store.ts';

export const listRecordTasks: Handler<'listRecordTasks'> = async (call) => {
  const { sql, caller, path, query, now } = call;
  const workspace = await call.workspace();
  if (!workspace.objects.has(path.object)) throw notFound();
  const limit = pageLimit(query.limit, 100);
  const { companyId, testMode, reach } = caller;
  const bound = JSON.stringify(['record tasks', companyId, testMode, reach, path.object, path.id]);
  const after = query.cursor === undefined ? undefined : call.cursors.decode(query.cursor, bound, 2);
  const conditions: Filter[] = [
    { field: 'object', op: 'eq', value: path.object },
    { field: 'record_id', op: 'eq', value: path.id },
  ];
  const sort = [{ field: 'created_at', descending: true }];
  const [visible, rows] = await Promise.all([
    hasRecord(sql, caller, path.object, path.id),
    listRecords(sql, caller, 'tasks', { sort, filter: { and: conditions }, after, limit: limit + 1 }),
  ]);
  if (!visible) throw notFound();
  const { rows: found, next_cursor, has_more } = page(rows, limit, (last) => call.cursors.encode(last.keys, bound));
  return {
    status: 200,
    data: { tasks: found.map(({ record }) => showTask(record, workspace, now)), next_cursor, has_more },
  };
};

export const createRecordTask: Handler<'createRecordTask'> = async (call) => {
  const { sql, caller, now, path } = call;
  const workspace = await call.workspace();
  if (!workspace.objects.has(path.object)) throw notFound();
  const object = tasksOf(workspace);
  const checked = checkTask(call.body, path, workspace, now);
  const [visible, found] = await Promise.all([
    holdRecord(sql, caller, path.object, path.id),
    findReferences(sql, caller, checked.references),
  ]);
  if (!visible) throw notFound();
  resolveReferences(checked, found);
  if (call.problems.length > 0 || checked.problems.length > 0) throw call.refusal(checked.problems);

  const task = newRecord(object, uuidv7(), checked, workspace, now);
  const stored = await storeNewRecord(call, { workspace, object }, task);
  return { status: 201, etag: etagOf(stored), data: { task: showTask(stored, workspace, now) } };
};
