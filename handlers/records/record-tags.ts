// Tags on leads and customers: which a record has, and those that somebody puts on or takes off.
import { retag } from '../../db/records/applied-tags.ts';
import {
  addRecordTag,
  listRecordTags as listStored,
  type RecordTagRow,
  removeRecordTag,
} from '../../db/records/record-tags.ts';
import { hasRecord } from '../../db/records/records.ts';
import { fieldProblem } from '../../domain/objects/field-values.ts';
import { closest } from '../../domain/objects/suggestions.ts';
import { findByName } from '../../domain/objects/workspace.ts';
import { tagsOfChanged } from '../../domain/settings/tags.ts';
import { conflict, found, notFound, validationFailed } from '../../runtime/errors.ts';
import type { Handler } from '../../runtime/handler.ts';
import { pageOfWhole } from '../../runtime/paging.ts';
import { openRecord } from '../../services/records/open-record.ts';

export const listRecordTags: Handler<'listRecordTags'> = async (call) => {
  const { caller } = call;
  const { path } = call.request;
  const { sql } = call.db;
  found((await call.services.loadWorkspace()).objects.get(path.object));
  const [visible, tags] = await Promise.all([
    hasRecord(sql, caller, path.object, path.id),
    listStored(sql, caller, path),
  ]);
  if (!visible) throw notFound();
  const { rows, ...rest } = pageOfWhole(call, ['tags of a record', path.object, path.id], tags, ({ id }) => id);
  return { status: 200, data: { tags: rows.map(toRecordTagResponse), ...rest } };
};

export const createRecordTag: Handler<'createRecordTag'> = async (call) => {
  const { caller } = call;
  const { path, body } = call.request;
  const { sql } = call.db;
  const { object, id } = path;
  const { workspace } = await openRecord(call);
  const known = workspace.tags.filter((each) => each.object === object);
  const wanted = findByName(known, body.name);
  const put = wanted && (await addRecordTag(sql, caller, path, wanted.id));
  if (!put) {
    const allowed = known.map(({ name }) => name);
    const meant = closest(body.name, allowed);
    const rule = `must be the name of a tag of ${object}`;
    throw validationFailed([fieldProblem('name', 'INVALID_OPTION', rule, { allowed, meant })], 422);
  }
  const { changed, ...tag } = put;
  if (changed)
    call.db.record({ action: 'record.tag', object, recordId: id, metadata: { tag_id: tag.id, tag: tag.name } });
  return { status: 201, data: { tag: toRecordTagResponse(tag) } };
};

export const deleteRecordTag: Handler<'deleteRecordTag'> = async (call) => {
  const { caller, now } = call;
  const { path } = call.request;
  const { sql } = call.db;
  const { object: name, id, tag_id: tagId } = path;
  const { workspace, object } = await openRecord(call);
  const { wasManual } = found(await removeRecordTag(sql, caller, path, tagId));
  if (!wasManual)
    throw conflict(
      'automatic_tag',
      "This tag was added by its conditions. Change the record or the tag's conditions to remove it.",
    );
  const tagsOf = (records: Parameters<typeof tagsOfChanged>[2]) => tagsOfChanged(object, workspace, records, now);
  await retag(sql, caller, { object: name, ids: [id], tagsOf });
  const left = await listStored(sql, caller, path);
  call.db.record({ action: 'record.untag', object: name, recordId: id, metadata: { tag_id: tagId } });
  return { status: 200, data: { id: tagId, deleted: !left.some((tag) => tag.id === tagId) } };
};

function toRecordTagResponse({ id, name, color, priority, isManual }: RecordTagRow) {
  return { id, name, color, priority, is_manual: isManual };
}
