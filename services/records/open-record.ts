// Opens the record of a path for writing related items, and reads pages of them.
import { hasRecord, holdRecord } from '../../db/records/records.ts';
import type { Workspace, WorkspaceObject } from '../../domain/objects/workspace.ts';
import { notFound, orNotFound } from '../../runtime/errors.ts';
import type { Call } from '../../runtime/handler.ts';
import { type CursorValue, type Page, readPage } from '../../runtime/paging.ts';

type RecordCall = Pick<Call, 'db' | 'caller' | 'services'> & { request: { path: { object: string; id: string } } };

/**
 * Locks the record against deletion until the transaction ends.
 * @throws ApiError 404 if the object does not exist in this workspace, or the caller cannot see the
 * record
 */
export async function openRecord(call: RecordCall): Promise<{ workspace: Workspace; object: WorkspaceObject }> {
  const { caller } = call;
  const { path } = call.request;
  const { sql } = call.db;
  const workspace = await call.services.loadWorkspace();
  const object = orNotFound(workspace.objects.get(path.object));
  if (!(await holdRecord(sql, caller, path.object, path.id))) throw notFound();
  return { workspace, object };
}

/**
 * Reads a page of items that belong to the record. Its visibility is checked in the same round
 * trip.
 * @param what a name of the list that is unique for the record
 * @throws ApiError 404 as above, 400 for a cursor of another list
 */
export async function readRecordPage<Row, const Keys extends readonly CursorValue[]>(
  call: RecordCall & Parameters<typeof readPage>[0],
  what: string,
  read: (after: Keys | undefined, limit: number) => Promise<Row[]>,
  getKeys: (row: Row) => Keys,
): Promise<Page<Row>> {
  const { caller } = call;
  const { path } = call.request;
  const { sql } = call.db;
  orNotFound((await call.services.loadWorkspace()).objects.get(path.object));
  const readVisible = async (after: Keys | undefined, limit: number): Promise<Row[]> => {
    const [visible, rows] = await Promise.all([hasRecord(sql, caller, path.object, path.id), read(after, limit)]);
    if (!visible) throw notFound();
    return rows;
  };
  return readPage(call, [what, path.object, path.id], readVisible, getKeys);
}
