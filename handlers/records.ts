// Records of every object, one at a time and as lists.
import { v7 as uuidv7 } from 'uuid';
import { lockEntity, noteChange, noteContacts, recomputeFollowup } from '../db/activity-effects.ts';
import { findDuplicate } from '../db/duplicates.ts';
import { findExpansion } from '../db/record-expansion.ts';
import { findMatches, type MatchedField } from '../db/record-matches.ts';
import { findReferences } from '../db/record-references.ts';
import {
  countRecords,
  deleteRecord as deleteStored,
  findRecord,
  insertRecords,
  listRecords as listStored,
  lockRecord,
  type StoredRecord,
  updateRecord as updateStored,
} from '../db/records.ts';
import { duplicateSets } from '../domain/duplicates.ts';
import { parseFilter } from '../domain/filter.ts';
import { changeable, namedMatches, readMatch } from '../domain/record-match.ts';
import { parseReading, showRead, wantedBy } from '../domain/record-reading.ts';
import { checkRecord } from '../domain/record-values.ts';
import { etagOf, isMatch } from '../domain/record-version.ts';
import { builtinValues, creationOf, deletionOf, showRecord, updateOf } from '../domain/record-view.ts';
import { changedContact, contactOf, mergedRecord, newRecord, resolveReferences } from '../domain/record-writes.ts';
import { maxCounted } from '../domain/request-limits.ts';
import { parseSort } from '../domain/sort.ts';
import type { Workspace, WorkspaceObject } from '../domain/workspace.ts';
import {
  alreadyExists,
  conflict,
  type FieldProblem,
  notFound,
  validationFailed,
  versionMismatch,
} from '../runtime/errors.ts';
import type { Call, Handler } from '../runtime/handler.ts';
import { page, pageLimit } from '../runtime/paging.ts';

/** Where a record is written. */
interface Place {
  workspace: Workspace;
  object: WorkspaceObject;
  /** Where the fields stand in the body; at its root unless it is given. */
  inside?: string;
}

/** @throws ApiError 404 for an object that this workspace does not have, or has switched off */
async function open(call: { path: { object: string }; workspace: Call['workspace'] }): Promise<Place> {
  const workspace = await call.workspace();
  const object = workspace.objects.get(call.path.object);
  if (!object) throw notFound();
  return { workspace, object };
}

export const listRecords: Handler<'listRecords'> = async (call) => {
  const { caller, query } = call;
  const { workspace, object } = await open(call);
  const sort = parseSort(query.sort, object);
  const filter = parseFilter(query.filter, object, workspace);
  const { reading, problems: unread } = parseReading(query, object);
  const problems = [...sort.problems, ...filter.problems, ...unread];
  if (problems.length > 0) throw validationFailed(problems, 400);

  const limit = pageLimit(query.limit);
  const bound = JSON.stringify([
    caller.companyId,
    caller.testMode,
    caller.reach,
    object.object,
    sort.keys,
    filter.filter,
  ]);
  const keys = sort.keys.length + (sort.keys.some((key) => key.field === 'id') ? 0 : 1);
  const after = query.cursor === undefined ? undefined : call.cursors.decode(query.cursor, bound, keys);
  const { sql } = call;
  const [rows, counted] = await Promise.all([
    listStored(sql, caller, object.object, { sort: sort.keys, filter: filter.filter, after, limit: limit + 1 }),
    query.count ? countRecords(sql, caller, object.object, filter.filter, maxCounted) : undefined,
  ]);
  const { rows: found, next_cursor, has_more } = page(rows, limit, (last) => call.cursors.encode(last.keys, bound));
  const stored = found.map(({ record }) => record);
  const expansion = await findExpansion(sql, caller, wantedBy(reading, stored, workspace, caller));
  const records = stored.map((record) => showRead(object, record, reading, expansion, workspace));
  const total =
    counted === undefined ? {} : { total: Math.min(counted, maxCounted), total_capped: counted > maxCounted };
  return { status: 200, data: { object: object.object, records, next_cursor, has_more, ...total } };
};

export const getRecord: Handler<'getRecord'> = async (call) => {
  const { sql, caller } = call;
  const { workspace, object } = await open(call);
  const { reading, problems } = parseReading(call.query, object);
  if (problems.length > 0) throw validationFailed(problems, 400);
  const record = await findRecord(sql, caller, object.object, call.path.id);
  if (!record) throw notFound();
  const expansion = await findExpansion(sql, caller, wantedBy(reading, [record], workspace, caller));
  const shown = showRead(object, record, reading, expansion, workspace);
  return { status: 200, etag: etagOf(record), data: { object: object.object, record: shown } };
};

export const createRecord: Handler<'createRecord'> = async (call) => {
  const place = await open(call);
  const { workspace, object } = place;
  const record = await create(call, place, call.body);
  return {
    status: 201,
    etag: etagOf(record),
    data: { object: object.object, record: showRecord(object, record, workspace) },
  };
};

export const updateRecord: Handler<'updateRecord'> = async (call) => {
  const place = await open(call);
  const { workspace, object } = place;
  const record = await change(call, place, call.path.id, () => call.body, call.header['If-Match']);
  return {
    status: 200,
    etag: etagOf(record),
    data: { object: object.object, record: showRecord(object, record, workspace) },
  };
};

export const upsertRecord: Handler<'upsertRecord'> = async (call) => {
  const place = { ...(await open(call)), inside: 'record' };
  const { workspace, object } = place;
  const { match, fields, problems } = readMatch(object, call.body.record, call.body.match_on, workspace);
  if (problems.length > 0) throw validationFailed(problems, 422);
  const id = 'id' in match ? match.id : await onlyMatch(call, object, match.fields);
  const record =
    id === null
      ? await create(call, place, fields)
      : await change(call, place, id, (before) => changeable(object, fields, before));
  const data = { object: object.object, record: showRecord(object, record, workspace), created: id === null };
  return { status: id === null ? 201 : 200, etag: etagOf(record), data };
};

/**
 * The id of the one record that has the values; null when there is none.
 * @throws ApiError 409 when there are several
 */
async function onlyMatch(
  { sql, caller }: Writing,
  { object }: WorkspaceObject,
  fields: readonly MatchedField[],
): Promise<string | null> {
  const [first, ...others] = await findMatches(sql, caller, object, fields, namedMatches);
  if (others.length === 0) return first?.id ?? null;
  throw conflict(
    'several_matches',
    'Several records have these values. Match on something that only one of them has.',
    {
      ids: [first, ...others].map((record) => record?.id),
    },
  );
}

function problemsInside({ inside }: Place, problems: FieldProblem[]): FieldProblem[] {
  return inside === undefined ? problems : problems.map((each) => ({ ...each, field: `${inside}.${each.field}` }));
}

type Writing = Pick<Call, 'sql' | 'caller' | 'now' | 'record'>;

/** @throws ApiError 422 listing every problem of the body, 409 for a duplicate */
async function create(call: Writing, place: Place, body: Record<string, unknown>): Promise<StoredRecord> {
  const { sql, caller, now } = call;
  const { workspace, object } = place;
  const checked = checkRecord(object, body, 'create', workspace, now);
  resolveReferences(checked, await findReferences(sql, caller, checked.references));
  if (checked.problems.length > 0) throw validationFailed(problemsInside(place, checked.problems), 422);
  await refuseDuplicate(call, object, duplicateSets(object, workspace, checked.values, checked.custom));

  const [record] = await insertRecords(
    sql,
    caller,
    object.object,
    [newRecord(object, uuidv7(), checked, workspace, now)],
    now,
  );
  if (!record) throw new Error('an inserted record was not returned');
  if (object.object === 'activities') await noteContacts(sql, caller, [contactOf(record.values, workspace)], now);
  call.record(creationOf(object, record.id, now));
  return record;
}

/** @throws ApiError 409 naming the record that has the same values in the selected fields */
async function refuseDuplicate(
  { sql, caller }: Writing,
  object: WorkspaceObject,
  sets: ReturnType<typeof duplicateSets>,
): Promise<void> {
  if (object.object !== 'leads' && object.object !== 'deals') return;
  const duplicate = await findDuplicate(sql, caller, object.object, sets);
  if (!duplicate) return;
  const { matchedFields } = duplicate;
  throw alreadyExists(
    `A ${object.label.toLowerCase()} with this ${matchedFields.join(' and ')} exists.`,
    matchedFields,
    duplicate.visible ? duplicate.id : null,
  );
}

/**
 * Changes one record; writes nothing where nothing changes.
 * @param bodyFor what is to change, once it is known what there is
 * @returns the record as it is stored now
 * @throws ApiError 404, 409 for another version than the header names, 422 listing every problem of the body
 */
async function change(
  call: Writing,
  place: Place,
  id: string,
  bodyFor: (before: StoredRecord) => Record<string, unknown>,
  ifMatch?: string,
): Promise<StoredRecord> {
  const { sql, caller, now } = call;
  const { workspace, object } = place;
  if (object.object === 'activities') await lockEntity(sql, caller, id);
  const before = await lockRecord(sql, caller, object.object, id);
  if (!before) throw notFound();
  if (!isMatch(ifMatch, before.version)) throw versionMismatch(before.version);
  const checked = checkRecord(object, bodyFor(before), 'update', workspace, now, builtinValues(object, before));
  resolveReferences(checked, await findReferences(sql, caller, checked.references));
  if (checked.problems.length > 0) throw validationFailed(problemsInside(place, checked.problems), 422);
  const merged = mergedRecord(object, before, checked, workspace, now);
  if (!merged) return before;

  const after = await updateStored(sql, caller, object.object, merged, now);
  if (object.object === 'activities')
    await noteChange(sql, caller, changedContact(before.values, after.values, workspace), now);
  call.record(updateOf(object, showRecord(object, before, workspace), showRecord(object, after, workspace), now));
  return after;
}

export const deleteRecord: Handler<'deleteRecord'> = async (call) => {
  const { sql, caller, now } = call;
  const { workspace, object } = await open(call);
  if (object.object === 'activities') await lockEntity(sql, caller, call.path.id);
  const gone = await deleteStored(sql, caller, object.object, call.path.id);
  if (!gone) throw notFound();
  // The refusal undoes the deletion.
  if (!isMatch(call.header['If-Match'], gone.version)) throw versionMismatch(gone.version);
  if (object.object === 'activities' && gone.values.followup_at !== null)
    await recomputeFollowup(sql, caller, contactOf(gone.values, workspace), now);
  call.record(deletionOf(object, gone, now));
  return { status: 200, data: { object: object.object, id: gone.id, deleted: true } };
};
