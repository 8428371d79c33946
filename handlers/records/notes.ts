// Notes on records of any object.
import { v7 as uuidv7 } from 'uuid';
import { toActor } from '../../db/client/created-by.ts';
import {
  deleteNote as deleteStored,
  insertNote,
  listNotesOfObjects,
  listNotes as listStored,
  lockNote,
  type NotePlace,
  type NoteRow,
  type OwnedNoteRow,
  updateNote as updateStored,
} from '../../db/records/notes.ts';
import { toNoteResponse } from '../../domain/records/notes.ts';
import { isVisible } from '../../domain/records/reading.ts';
import { buildProblem, orNotFound, validationFailed } from '../../runtime/errors.ts';
import type { Call, Handler } from '../../runtime/handler.ts';
import { clampPageLimit } from '../../runtime/paging.ts';
import { openRecord, readRecordPage } from '../../services/records/open-record.ts';

export const listNotes: Handler<'listNotes'> = async (call) => {
  const { caller } = call;
  const { path } = call.request;
  const { sql } = call.db;
  const { rows, ...rest } = await readRecordPage(
    call,
    'notes',
    (after, limit) => listStored(sql, caller, path, after, limit),
    (last: NoteRow) => [last.createdAt.toISOString(), last.id],
  );
  return { status: 200, data: { notes: rows.map(toResponse), ...rest } };
};

export const createNote: Handler<'createNote'> = async (call) => {
  const { caller, now } = call;
  const { body } = call.request;
  const { sql } = call.db;
  const { object, id: recordId } = call.request.path;
  await openRecord(call);
  const row = await insertNote(sql, caller, { id: uuidv7(), object, recordId, content: body.content }, now);
  call.db.record({ action: 'note.create', object, recordId: row.recordId, metadata: { note_id: row.id } });
  return { status: 201, data: { note: toResponse(row) } };
};

export const updateNote: Handler<'updateNote'> = async (call) => {
  const { caller } = call;
  const { content } = call.request.body;
  const before = await lockOwn(call);
  if (content === before.content) return { status: 200, data: { note: toResponse(before) } };
  const after = { ...before, content, updatedAt: new Date(Math.max(+before.updatedAt + 1, +call.currentTime())) };
  await updateStored(call.db.sql, caller, after);
  recordChange(call, 'note.update', before);
  return { status: 200, data: { note: toResponse(after) } };
};

export const deleteNote: Handler<'deleteNote'> = async (call) => {
  const before = await lockOwn(call);
  await deleteStored(call.db.sql, call.caller, before.id);
  recordChange(call, 'note.delete', before);
  return { status: 200, data: { id: before.id, deleted: true } };
};

/**
 * Locks the note of the path, and its record against deletion.
 * @throws ApiError 404 if the record has no such note; 403 for a note of others without
 * settings:configure
 */
async function lockOwn(call: Call<'updateNote'> | Call<'deleteNote'>): Promise<OwnedNoteRow> {
  const { caller, request } = call;
  await openRecord(call);
  const note = orNotFound(await lockNote(call.db.sql, caller, request.path, request.path.note_id));
  const { actor, userId } = caller;
  const isOwn =
    (note.createdByKind === actor.kind && note.createdById === actor.id) ||
    (userId !== null && note.createdByUser === userId);
  if (!isOwn) call.authorize('settings:configure');
  return note;
}

/** The text stays out of the audit log. */
function recordChange({ db }: Pick<Call, 'db'>, action: 'note.update' | 'note.delete', note: NoteRow): void {
  db.record({ action, object: note.object, recordId: note.recordId, metadata: { note_id: note.id } });
}

export const listWorkspaceNotes: Handler<'listWorkspaceNotes'> = async (call) => {
  const { caller } = call;
  const { query } = call.request;
  const { cursors } = call.services;
  const workspace = await call.services.loadWorkspace();
  const objects = [...workspace.objects.keys()].filter((object) => isVisible(object, workspace, caller));
  const [from, to] = [query.from, query.to].map((time) => (time === undefined ? undefined : new Date(time)));
  if (from && to && from > to)
    throw validationFailed([buildProblem('to', 'OUT_OF_RANGE', 'to must not be before from')], 400);
  const filter = { objects, createdBy: query.created_by, from, to };
  const limit = clampPageLimit(query.limit);
  const { companyId, testMode, reach } = caller;
  const list = JSON.stringify([companyId, testMode, reach, 'notes', query.created_by, query.from, query.to]);
  const start = query.cursor === undefined ? undefined : (cursors.decode(query.cursor, list) as unknown as NotePlace);
  // One more than the page has, which tells whether there is another.
  const { rows, reached } = await listNotesOfObjects(call.db.sql, caller, filter, start, limit + 1);
  const shown = rows.slice(0, limit);
  const last = shown.at(-1);
  const next = rows.length > limit && last ? ([last.createdAt.toISOString(), last.id] as const) : reached;
  return {
    status: 200,
    data: {
      notes: shown.map(toResponse),
      next_cursor: next ? cursors.encode([...next], list) : null,
      has_more: next !== undefined,
    },
  };
};

const toResponse = (row: NoteRow) => toNoteResponse(row, toActor(row));
