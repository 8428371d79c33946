// Notes on records of any object.
import { v7 as uuidv7 } from 'uuid';
import { actorOf } from '../../db/client/created-by.ts';
import { insertNote, listNotes as listStored, type NoteRow } from '../../db/records/notes.ts';
import { showNote } from '../../domain/records/related-rows.ts';
import type { components } from '../../generated/api.ts';
import type { Handler } from '../../runtime/handler.ts';
import { openRecord, pageOfRecord } from '../../services/records/open-record.ts';

export const listNotes: Handler<'listNotes'> = async (call) => {
  const { caller } = call;
  const { path } = call.request;
  const { sql } = call.db;
  const { rows, ...rest } = await pageOfRecord(
    call,
    'notes',
    (after, limit) => listStored(sql, caller, path, after, limit),
    (last: NoteRow) => [last.createdAt.toISOString(), last.id],
  );
  return { status: 200, data: { notes: rows.map(toNote), ...rest } };
};

export const createNote: Handler<'createNote'> = async (call) => {
  const { caller, now } = call;
  const { body } = call.request;
  const { sql } = call.db;
  const { object, id: recordId } = call.request.path;
  await openRecord(call);
  const row = await insertNote(sql, caller, { id: uuidv7(), object, recordId, content: body.content }, now);
  call.db.record({ action: 'note.create', object, recordId: row.recordId, metadata: { note_id: row.id } });
  return { status: 201, data: { note: toNote(row) } };
};

function toNote(row: NoteRow): components['schemas']['Note'] {
  return showNote({ ...row, createdBy: actorOf(row) });
}
