// Many records at once: each stands or falls alone, and all that stand are written together.
import { v7 as uuidv7 } from 'uuid';
import { noteContacts } from '../db/activity-effects.ts';
import { findReferences } from '../db/record-references.ts';
import { insertRecords } from '../db/records.ts';
import { answerClocks, startClocks } from '../db/sla-clocks.ts';
import { repeatsOf } from '../domain/duplicates-in-batch.ts';
import { type CheckedRecord, checkRecord } from '../domain/record-values.ts';
import { creationOf, showRecord } from '../domain/record-view.ts';
import { contactOf, newRecord, resolveReferences } from '../domain/record-writes.ts';
import { clocksOfNew, responsesOf } from '../domain/sla-tracking.ts';
import { notFound, problem } from '../runtime/errors.ts';
import type { Handler } from '../runtime/handler.ts';

export const createRecordBatch: Handler<'createRecordBatch'> = async (call) => {
  const { sql, caller, now } = call;
  const workspace = await call.workspace();
  const object = workspace.objects.get(call.path.object);
  if (!object) throw notFound();
  const items: readonly unknown[] = Array.isArray(call.body) ? call.body : call.body.records;
  const checked = items.map((item) =>
    isObject(item) ? checkRecord(object, item, 'create', workspace, now) : notAnObject(),
  );
  const found = await findReferences(
    sql,
    caller,
    checked.flatMap((item) => item.references),
  );
  for (const item of checked) resolveReferences(item, found);

  const repeats = repeatsOf(object, workspace, checked);
  const stored = [...checked.entries()]
    .filter(([index, item]) => item.problems.length === 0 && !repeats.has(index))
    .map(([index, item]) => ({ index, record: newRecord(object, uuidv7(), item, workspace, now) }));
  const planned = stored.map((item) => item.record);
  const [records] = await Promise.all([
    insertRecords(sql, caller, object.object, planned, now),
    startClocks(sql, caller, clocksOfNew(object.object, planned, workspace, now)),
  ]);
  if (object.object === 'activities') {
    const contacts = records.map((record) => contactOf(record.values, workspace));
    await noteContacts(sql, caller, contacts, now);
    await answerClocks(sql, caller, responsesOf(contacts, workspace), now);
  }
  for (const record of records) call.record(creationOf(object, record.id, now));

  const failed = [...checked.entries()].flatMap(([index, item]) => failureOf(index, item, repeats.get(index)) ?? []);
  const succeeded = stored.flatMap(({ index }, position) => {
    const record = records[position];
    return record ? [{ index, record: showRecord(object, record, workspace) }] : [];
  });
  return {
    status: 200,
    data: {
      object: object.object,
      succeeded_count: succeeded.length,
      failed_count: failed.length,
      succeeded,
      failed,
    },
  };
};

function isObject(item: unknown): item is Record<string, unknown> {
  return item !== null && typeof item === 'object' && !Array.isArray(item);
}

function notAnObject(): CheckedRecord {
  const message = 'An item must be an object of field values';
  return { values: {}, custom: {}, references: [], problems: [problem('', 'INVALID_TYPE', message)] };
}

function failureOf(index: number, item: CheckedRecord, repeated: number | undefined) {
  const [first] = item.problems;
  if (first)
    return { index, code: 'VALIDATION_ERROR' as const, message: first.message, details: { fields: item.problems } };
  if (repeated === undefined) return undefined;
  return {
    index,
    code: 'DUPLICATE_IN_BATCH' as const,
    message: `Duplicates the item at index ${repeated} of this batch.`,
  };
}
