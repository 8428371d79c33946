// Tags on leads and customers: list, add and remove.
import { listRecordTags as listStored, type RecordTagRow } from '../../db/records/record-tags.ts';
import { hasRecord } from '../../db/records/records.ts';
import { buildFieldProblem } from '../../domain/objects/field-values.ts';
import { findClosest } from '../../domain/objects/suggestions.ts';
import { findByName } from '../../domain/objects/workspace.ts';
import type { StoredRecord } from '../../domain/records/draft.ts';
import { findManualTags } from '../../domain/settings/record-tags.ts';
import { conflict, notFound, orNotFound, validationFailed } from '../../runtime/errors.ts';
import type { Call, Handler } from '../../runtime/handler.ts';
import { selectPage } from '../../runtime/paging.ts';
import { lockForChange } from '../../services/records/locked-records.ts';
import { prepareTags } from '../../services/records/preparation.ts';
import { openObject, type RecordTarget } from '../../services/records/record-target.ts';
import { writeChange } from '../../services/records/record-writes.ts';

export const listRecordTags: Handler<'listRecordTags'> = async (call) => {
  const { caller } = call;
  const { path } = call.request;
  const { sql } = call.db;
  orNotFound((await call.services.loadWorkspace()).objects.get(path.object));
  const [visible, tags] = await Promise.all([
    hasRecord(sql, caller, path.object, path.id),
    listStored(sql, caller, path),
  ]);
  if (!visible) throw notFound();
  const { rows, ...rest } = selectPage(call, ['tags of a record', path.object, path.id], tags, ({ id }) => id);
  return { status: 200, data: { tags: rows.map(toRecordTagResponse), ...rest } };
};

/**
 * @throws ApiError 404 if the workspace does not have the object, or if the caller cannot see the
 * record
 */
async function lockTagged(
  call: Call<'createRecordTag'> | Call<'deleteRecordTag'>,
): Promise<{ place: RecordTarget; before: StoredRecord; manual: string[] }> {
  const place = await openObject(call);
  const before = orNotFound(await lockForChange(call, place.object, call.request.path.id));
  return { place, before, manual: findManualTags(before.tags ?? []) };
}

export const createRecordTag: Handler<'createRecordTag'> = async (call) => {
  const { path, body } = call.request;
  const { place, before, manual } = await lockTagged(call);
  const { object, tags = [] } = place.object;
  const wanted = findByName(tags, body.name);
  if (wanted && !manual.includes(wanted.id)) {
    const metadata = { tag_id: wanted.id, tag: wanted.name };
    const prepared = prepareTags(call, place, before, [...manual, wanted.id]);
    await writeChange(call, place, prepared, { action: 'record.tag', metadata });
  }
  // It is missing if it was deleted meanwhile.
  const tag = wanted && (await listStored(call.db.sql, call.caller, path)).find(({ id }) => id === wanted.id);
  if (!tag) {
    const allowed = tags.map(({ name }) => name);
    const meant = findClosest(body.name, allowed);
    const rule = `must be the name of a tag of ${object}`;
    throw validationFailed([buildFieldProblem('name', 'INVALID_OPTION', rule, { allowed, meant })], 422);
  }
  return { status: 201, data: { tag: toRecordTagResponse(tag) } };
};

export const deleteRecordTag: Handler<'deleteRecordTag'> = async (call) => {
  const { path } = call.request;
  const { tag_id: tagId } = path;
  const { place, before, manual } = await lockTagged(call);
  if (!before.tags?.some((tag) => tag.tagId === tagId)) throw notFound();
  if (!manual.includes(tagId))
    throw conflict(
      'automatic_tag',
      "This tag was added by its conditions. Change the record or the tag's conditions to remove it.",
    );
  const kept = manual.filter((id) => id !== tagId);
  const prepared = prepareTags(call, place, before, kept);
  await writeChange(call, place, prepared, { action: 'record.untag', metadata: { tag_id: tagId } });
  const left = await listStored(call.db.sql, call.caller, path);
  return { status: 200, data: { id: tagId, deleted: !left.some(({ id }) => id === tagId) } };
};

function toRecordTagResponse({ id, name, color, priority, isManual }: RecordTagRow) {
  return { id, name, color, priority, is_manual: isManual };
}
