// Notes on records of any object.
import { v7 as uuidv7 } from 'uuid';
import { insertNote, listNotes as listStored, type NoteRow } from '../db/notes.ts';
import { hasRecord, holdRecord } from '../db/records.ts';
import type { components } from '../generated/api.ts';
import { notFound } from '../runtime/errors.ts';
import type { Handler } from '../runtime/handler.ts';
import { page, pageLimit } from '../runtime/paging.ts';

export const listNotes: Handler<'listNotes'> = async (call) => {
  const { sql, caller, path, query } = call;
  if (!(await call.workspace()).objects.has(path.object)) throw notFound();
  const limit = pageLimit(query.limit, 100);
  const { companyId, testMode, reach } = caller;
  const bound = JSON.stringify(['notes', companyId, testMode, reach, path.object, path.id]);
  const after = query.cursor === undefined ? undefined : call.cursors.decode(query.cursor, bound, 2);
  const [visible, rows] = await Promise.all([
    hasRecord(sql, caller, path.object, path.id),
    listStored(sql, caller, path, after as [string, string] | undefined, limit + 1),
  ]);
  if (!visible) throw notFound();
  const cursorOf = (last: NoteRow) => call.cursors.encode([last.created_at.toISOString(), last.id], bound);
  const { rows: found, next_cursor, has_more } = page(rows, limit, cursorOf);
  return { status: 200, data: { notes: found.map(toNote), next_cursor, has_more } };
};

export const createNote: Handler<'createNote'> = async (call) => {
  const { sql, caller, now, body } = call;
  const { object, id: recordId } = call.path;
  if (!(await call.workspace()).objects.has(object)) throw notFound();
  if (!(await holdRecord(sql, caller, object, recordId))) throw notFound();
  const row = await insertNote(sql, caller, { id: uuidv7(), object, recordId, content: body.content }, now);
  call.record({ action: 'note.create', object, recordId: row.record_id, metadata: { note_id: row.id } });
  return { status: 201, data: { note: toNote(row) } };
};

function toNote(row: NoteRow): components['schemas']['Note'] {
  return {
    id: row.id,
    object: row.object,
    record_id: row.record_id,
    content: row.content,
    created_by: { kind: row.created_by_kind, id: row.created_by_id, name: row.created_by_name },
    created_at: row.created_at.toISOString(),
    updated_at: row.updated_at.toISOString(),
  };
}
