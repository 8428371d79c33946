// Plans reverts: reads the operations, and checks the records that they changed.
import type { Sql } from '../../db/client/pool.ts';
import type { Scope } from '../../db/client/visibility.ts';
import { findAppliedTags } from '../../db/records/applied-tags.ts';
import { findRecords } from '../../db/records/records.ts';
import { findReferences } from '../../db/records/references.ts';
import {
  extendDigest,
  findChangedByOthers,
  findRestorable,
  findReversals,
  findUncheckedItems,
  type RevertChange,
  type RevertRow,
  readOperations,
  storePlan,
  storeReversals,
  updateRevert,
} from '../../db/records/reverts.ts';
import type { Workspace, WorkspaceObject } from '../../domain/objects/workspace.ts';
import type { NeededReference, StoredRecord } from '../../domain/records/draft.ts';
import {
  addOperation,
  classifyOperation,
  computeStep,
  decide,
  listNeededReferences,
  listStepScopes,
  type Operation,
  type RecordReversal,
  type RecordState,
  type RevertConflict,
  type RevertDecision,
} from '../../domain/records/reverts.ts';

/** Audit rows that a chunk of the plan reads, of a request and of an actor's time, and records that it checks. */
const chunkRows = 500;
const stretchRows = 5000;
/** Conflicts that a revert shows. */
const mostConflicts = 100;
/** Milliseconds for which a plan can be applied. */
const planKeptMs = 3_600_000;

/**
 * Plans the next chunk of a locked revert, and stores how far the plan is.
 * @param scale the share of a full chunk, after a failure
 * @returns the revert as it is then; its status is no longer `planning` at the end of the plan
 */
export async function planChunk(
  sql: Sql,
  scope: Scope,
  workspace: Workspace,
  row: RevertRow,
  now: Date,
  scale = 1,
): Promise<RevertRow> {
  const { change, conflicts } =
    row.phase === 'read'
      ? await readChunk(sql, scope, row, scale)
      : await checkChunk(sql, scope, workspace, row, now, scale);
  const counted = addConflicts(row, conflicts);
  const next = { ...row, ...change, ...counted, attempts: 0 };
  const planned = next.phase === 'done' ? endOfPlan(next, now) : {};
  const { conflicts: shown, ...rest } = counted;
  await updateRevert(sql, scope, row.id, { ...change, ...rest, attempts: 0, ...planned }, { conflicts: shown });
  return { ...next, ...planned };
}

/** Adds conflicts to those that a revert counts and shows. */
export function addConflicts(
  { conflictCount, conflicts }: Pick<RevertRow, 'conflictCount' | 'conflicts'>,
  more: readonly RevertConflict[],
): Pick<RevertRow, 'conflictCount' | 'conflicts'> {
  return {
    conflictCount: conflictCount + more.length,
    conflicts: [...conflicts, ...more].slice(0, mostConflicts),
  };
}

function endOfPlan({ appliedBy }: RevertRow, now: Date): RevertChange {
  const position = { nextStep: 0, nextObject: '', nextRecord: null };
  if (appliedBy) return { ...position, status: 'running', dueAt: now };
  const expiresAt = new Date(now.getTime() + planKeptMs);
  return { ...position, status: 'planned', dueAt: null, expiresAt, itemsUntil: expiresAt, startedAt: null };
}

interface PlannedChunk {
  change: RevertChange;
  conflicts: RevertConflict[];
}

/** Reads the next operations, and adds them to the reversals of their records. */
async function readChunk(sql: Sql, scope: Scope, row: RevertRow, scale: number): Promise<PlannedChunk> {
  const rows = Math.ceil((row.source.actor ? stretchRows : chunkRows) * scale);
  const { operations, reached } = await readOperations(sql, scope, row, rows);
  const conflicts: RevertConflict[] = [];
  const ofRecords: Operation[] = [];
  for (const operation of operations) {
    const kind = classifyOperation(operation);
    const { object, recordId: record_id, action } = operation;
    if (kind === 'record') ofRecords.push(operation);
    else if (kind === 'other') conflicts.push({ object, record_id, field: null, reason: 'not_revertible', action });
  }
  const toKey = (object: string | null, recordId: string | null): string => `${object} ${recordId}`;
  const keys = new Map(
    ofRecords.map(({ object, recordId }) => [
      toKey(object, recordId),
      { object: object ?? '', recordId: recordId ?? '' },
    ]),
  );
  const known = await findReversals(sql, scope, row.id, [...keys.values()]);
  const reversals = new Map(known.map((each) => [toKey(each.object, each.recordId), each]));
  for (const operation of ofRecords) {
    const key = toKey(operation.object, operation.recordId);
    reversals.set(key, addOperation(reversals.get(key), operation));
  }
  const added = await storeReversals(sql, scope, row.id, [...reversals.values()]);
  const change: RevertChange = {
    operations: row.operations + ofRecords.length + conflicts.length,
    records: row.records + added,
    ...(reached ? { readAt: reached.occurredAt, readId: reached.id } : { phase: 'check' }),
  };
  return { change, conflicts };
}

/** Decides about the next records as they are now, and adds the decisions to the digest. */
async function checkChunk(
  sql: Sql,
  scope: Scope,
  workspace: Workspace,
  row: RevertRow,
  now: Date,
  scale: number,
): Promise<PlannedChunk> {
  const limit = Math.ceil(chunkRows * scale);
  const reversals = await findUncheckedItems(sql, scope, row, limit);
  const conflicts: RevertConflict[] = [];
  const scopes = new Set(row.scopes);
  const decided: unknown[] = [];
  let [pending, skipped] = [row.pending, row.skipped];
  for (const [name, items] of Map.groupBy(reversals, ({ object }) => object)) {
    const object = workspace.objects.get(name);
    const decisions = await decideEach(sql, scope, row, object, items, now);
    const planned = items.map((item, index) => {
      const { kind, conflicts: found, ...rest } = decisions[index] as RevertDecision;
      const step = kind === 'none' ? null : computeStep(kind, name);
      if (kind !== 'none' && object) for (const needed of listStepScopes(kind, object)) scopes.add(needed);
      if (step !== null) pending += 1;
      else if (found.length > 0) skipped += 1;
      conflicts.push(...found);
      decided.push([name, item.recordId, kind, rest, item.fields, found]);
      return { object: name, recordId: item.recordId, step, conflicts: found };
    });
    await storePlan(sql, scope, row.id, planned);
  }
  const last = reversals.at(-1);
  const change: RevertChange = {
    pending,
    skipped,
    scopes: [...scopes].sort(),
    ...(last ? { digest: extendDigest(row.digest, decided), nextObject: last.object, nextRecord: last.recordId } : {}),
    ...(reversals.length < limit ? { phase: 'done' } : {}),
  };
  return { change, conflicts };
}

/** Decides about records of one object without locking them. */
async function decideEach(
  sql: Sql,
  scope: Scope,
  row: RevertRow,
  object: WorkspaceObject | undefined,
  items: readonly RecordReversal[],
  now: Date,
): Promise<RevertDecision[]> {
  if (!object) return items.map((item) => decide(item, noState, undefined, () => true));
  const ids = items.map(({ recordId }) => recordId);
  const [found, tags] = await Promise.all([
    findRecords(sql, scope, object.object, ids),
    object.tags ? findAppliedTags(sql, scope, object.object, ids) : new Map<string, never[]>(),
  ]);
  const records = new Map(found.map((record) => [record.id, { ...record, tags: tags.get(record.id) ?? [] }]));
  const isThere = await findTargets(sql, scope, object, items, records);
  const references = items.flatMap(({ recordId, fields }) =>
    listNeededReferences(object, fields, records.get(recordId)),
  );
  const willBeThere = await findToBeRestored(
    sql,
    scope,
    row,
    references.filter((reference) => !isThere(reference)),
  );
  const hasTarget = (reference: NeededReference): boolean => isThere(reference) || willBeThere(reference);
  const states = await findStates(sql, scope, row, object, items, records, now);
  return items.map((item) => decide(item, states(item), object, hasTarget));
}

const noState: RecordState = { record: undefined, isInTrash: false, isChangedByOthers: false };

/** Looks up the records and users to which former values refer. They cannot be deleted until the transaction ends. */
export async function findTargets(
  sql: Sql,
  scope: Scope,
  object: WorkspaceObject,
  items: readonly Pick<RecordReversal, 'recordId' | 'fields'>[],
  records: ReadonlyMap<string, StoredRecord>,
): Promise<(reference: NeededReference) => boolean> {
  const references = items.flatMap(({ recordId, fields }) =>
    listNeededReferences(object, fields, records.get(recordId)),
  );
  const found = await findReferences(sql, scope, references);
  return (reference) => found(reference) !== undefined;
}

/** Looks up records to which former values refer, and which the same revert restores before. */
async function findToBeRestored(
  sql: Sql,
  scope: Scope,
  { id }: Pick<RevertRow, 'id'>,
  references: readonly NeededReference[],
): Promise<(reference: NeededReference) => boolean> {
  const getObjectName = ({ kind, object }: NeededReference): string => object ?? `${kind}s`;
  const keys = references.map((reference) => ({ object: getObjectName(reference), recordId: reference.value }));
  const reversals = await findReversals(sql, scope, id, keys);
  const restored = new Set(
    reversals.flatMap(({ object, recordId, existedBefore, existsAfter }) =>
      existedBefore === true && existsAfter === false ? [`${object} ${recordId}`] : [],
    ),
  );
  return (reference) => restored.has(`${getObjectName(reference)} ${reference.value}`);
}

/** Returns the state of each record: if it is there, in the trash, and if others have written to it since. */
export async function findStates(
  sql: Sql,
  scope: Scope,
  row: Pick<RevertRow, 'id' | 'source'>,
  { object }: WorkspaceObject,
  items: readonly RecordReversal[],
  records: ReadonlyMap<string, StoredRecord>,
  now: Date,
): Promise<(item: RecordReversal) => RecordState> {
  const gone = items.filter(({ recordId }) => !records.has(recordId)).map(({ recordId }) => recordId);
  const inTrash = await findRestorable(sql, scope, object, gone, now);
  // Only these would be lost with what others wrote.
  const created = items.filter(({ existedBefore, recordId }) => existedBefore === false && records.has(recordId));
  const deleted = items.filter(({ recordId }) => inTrash.has(recordId));
  const changed = await findChangedByOthers(sql, scope, row, [
    ...created.map(({ recordId, firstAt }) => ({ id: recordId, since: firstAt })),
    ...deleted.map(({ recordId, lastAt }) => ({ id: recordId, since: lastAt })),
  ]);
  return ({ recordId }) => ({
    record: records.get(recordId),
    isInTrash: inTrash.has(recordId),
    isChangedByOthers: changed.has(recordId),
  });
}
