// What every write of records does, of one or of many, by whichever operation: the rows, the automatic tags, the SLA clocks, what activities tell, and the traces.
import { type EntityChange, noteChange, noteContacts, recomputeFollowup } from '../db/activity-effects.ts';
import type { DeletedRecord } from '../db/record-deletion.ts';
import { retag, setAutomaticTags } from '../db/record-tags.ts';
import { insertRecords, type NewRecord, type StoredRecord, updateRecords } from '../db/records.ts';
import { answerClocks, changeClocks, startClocks } from '../db/sla-clocks.ts';
import { changesBetween, creationOf, deletionOf, showRecord, updateOf } from '../domain/record-view.ts';
import { changedContact, contactOf } from '../domain/record-writes.ts';
import { clockChange, clocksEndedWith, clocksOfNew, responsesOf } from '../domain/sla-tracking.ts';
import { moveEvent } from '../domain/status-effects.ts';
import { leadsToRetag, tagsOfChanged, tagsOfNew } from '../domain/tags.ts';
import { builtinOf, type Workspace, type WorkspaceObject } from '../domain/workspace.ts';
import { notFound } from '../runtime/errors.ts';
import type { Call, Change as Trace } from '../runtime/handler.ts';

export type Writing = Pick<Call, 'sql' | 'caller' | 'now' | 'record'>;

/** What the audit log says otherwise, or more, of a write than of any. */
export type Traced = Pick<Trace, 'metadata'> & { action?: string };

/** Where records are written. */
export interface Place {
  workspace: Workspace;
  object: WorkspaceObject;
}

/** A locked record as it is, and as it is to be. */
export interface Change {
  before: StoredRecord;
  merged: StoredRecord;
}

/** @throws ApiError 404 for an object that this workspace does not have, or has switched off */
export async function openObject(call: { path: { object: string }; workspace: Call['workspace'] }): Promise<Place> {
  const workspace = await call.workspace();
  const object = workspace.objects.get(call.path.object);
  if (!object) throw notFound();
  return { workspace, object };
}

/** @returns the records as they are stored, in the order given */
export async function storeNew(
  call: Writing,
  { workspace, object }: Place,
  planned: readonly NewRecord[],
  traced: Traced = {},
): Promise<StoredRecord[]> {
  const { sql, caller, now } = call;
  const [records] = await Promise.all([
    insertRecords(sql, caller, object.object, planned, now),
    setAutomaticTags(sql, caller, object.object, tagsOfNew(object, workspace, planned, now)),
    startClocks(sql, caller, clocksOfNew(object.object, planned, workspace, now)),
  ]);
  let moved: EntityChange[] = [];
  if (object.object === 'activities') {
    const contacts = records.map((record) => contactOf(record.values, workspace));
    moved = await noteContacts(sql, caller, contacts, now);
    await retag(sql, caller, leadsToRetag(workspace, contacts, now));
    await answerClocks(sql, caller, responsesOf(contacts, workspace), now);
  }
  for (const record of records) call.record({ ...creationOf(object, record.id, now), ...traced });
  traceEntities(call, workspace, moved);
  return records;
}

/** @returns the records as they are stored now, in the order given */
export async function storeChanges(
  call: Writing,
  { workspace, object }: Place,
  changes: readonly Change[],
  traced: Traced = {},
): Promise<StoredRecord[]> {
  const { sql, caller, now } = call;
  const merged = changes.map((change) => change.merged);
  const [records] = await Promise.all([
    updateRecords(sql, caller, object.object, merged, now),
    setAutomaticTags(sql, caller, object.object, tagsOfChanged(object, workspace, merged, now)),
  ]);
  const pairs = changes.flatMap(({ before }, index) => {
    const after = records[index];
    return after ? [{ before, after }] : [];
  });
  const moved: EntityChange[] = [];
  if (object.object === 'activities') {
    const contacts = pairs.map(({ before, after }) => changedContact(before.values, after.values, workspace));
    // One after the other: of several of one lead, the last says what comes next.
    for (const contact of contacts) moved.push(...(await noteChange(sql, caller, contact, now)));
    await retag(sql, caller, leadsToRetag(workspace, contacts, now));
    await answerClocks(sql, caller, responsesOf(contacts, workspace), now);
  }
  const clocks = pairs.flatMap(({ before, after }) => clockChange(object.object, before, after, workspace, now) ?? []);
  await changeClocks(sql, caller, clocks, now);
  for (const { before, after } of pairs) {
    const changed = changesBetween(object, showRecord(object, before, workspace), showRecord(object, after, workspace));
    const entered = moveEvent(object.object, before, after, workspace, now);
    call.record({
      ...updateOf(object, after.id, changed, now),
      ...(entered ? { furtherEvents: [entered] } : {}),
      ...traced,
    });
  }
  traceEntities(call, workspace, moved);
  return records;
}

/** The same for one. */
export async function storeNewRecord(
  call: Writing,
  place: Place,
  planned: NewRecord,
  traced?: Traced,
): Promise<StoredRecord> {
  const [record] = await storeNew(call, place, [planned], traced);
  if (!record) throw new Error('an inserted record was not returned');
  return record;
}

/** The same for one. */
export async function storeChange(call: Writing, place: Place, change: Change, traced?: Traced): Promise<StoredRecord> {
  const [record] = await storeChanges(call, place, [change], traced);
  if (!record) throw new Error('an updated record was not returned');
  return record;
}

/** What follows from deletions: leads and deals that lost a follow-up look for their next one, once each, and clocks end. */
export async function noteDeletions(
  call: Writing,
  { workspace, object }: Place,
  gone: readonly DeletedRecord[],
): Promise<void> {
  const { sql, caller, now } = call;
  const moved: EntityChange[] = [];
  if (object.object === 'activities') {
    const contacts = gone
      .filter(({ values }) => values.followup_at !== null)
      .map(({ values }) => contactOf(values, workspace));
    const entities = new Map(contacts.map((contact) => [contact.entityId, contact]));
    for (const entity of entities.values()) moved.push(...(await recomputeFollowup(sql, caller, entity, now)));
    await retag(sql, caller, leadsToRetag(workspace, [...entities.values()], now));
  }
  const clocks = gone.flatMap(({ id }) => clocksEndedWith(object.object, id, workspace) ?? []);
  await changeClocks(sql, caller, clocks, now);
  for (const record of gone) call.record(deletionOf(object, record, now));
  traceEntities(call, workspace, moved);
}

/** The traces of leads and deals that activities changed: one for each, from what it was to what it is. */
function traceEntities(call: Writing, workspace: Workspace, changes: readonly EntityChange[]): void {
  const first = new Map(changes.toReversed().map((change) => [change.entityId, change]));
  const last = new Map(changes.map((change) => [change.entityId, change]));
  for (const [id, { entityType, after }] of last) {
    const object = builtinOf(entityType === 'lead' ? 'leads' : 'deals', workspace);
    const changed = changesBetween(object, { ...first.get(id)?.before }, { ...after });
    if (Object.keys(changed).length > 0) call.record(updateOf(object, id, changed, call.now));
  }
}
