// Validates records before they are written: references, pre-conditions, duplicates.
import { v7 as uuidv7 } from 'uuid';
import { type Duplicate, findDuplicate, findDuplicates } from '../../db/records/duplicates.ts';
import { findReferences } from '../../db/records/references.ts';
import { countFacts } from '../../db/settings/pre-condition-facts.ts';
import type { Status } from '../../domain/objects/configuration.ts';
import {
  buildInvalidFailure,
  buildRepeatedFailure,
  buildTakenFailure,
  buildUnmetFailure,
} from '../../domain/records/batch.ts';
import type { CheckedRecord, NewRecord, StoredRecord } from '../../domain/records/draft.ts';
import { buildDuplicateSets, type DuplicateField, findRepeats } from '../../domain/records/duplicates.ts';
import { computeChangeTime } from '../../domain/records/version.ts';
import { listNamedReferences, mergeUpdate, newRecord, resolveReferences } from '../../domain/records/writes.ts';
import {
  findNeededFacts,
  findUnmetByNew,
  findUnmetPreConditions,
  noFacts,
} from '../../domain/settings/pre-conditions.ts';
import { mergeManualTags } from '../../domain/settings/record-tags.ts';
import { findEnteredStatus, findStatusItem } from '../../domain/settings/status-effects.ts';
import type { components } from '../../generated/api.ts';
import {
  type ApiError,
  alreadyExists,
  type FieldProblem,
  preConditionsNotMet,
  validationFailed,
} from '../../runtime/errors.ts';
import type { RecordTarget, WriteCall } from './record-target.ts';
import { findUniqueConflicts, type RecordWrite } from './unique-fields.ts';

// The steps are classes with a protected member and exported as types only, so that no other code
// can create one.

/** A checked record whose references were resolved. Missing references are among its problems. */
class ResolvedRecord {
  protected readonly isResolved = true;
  readonly checked: CheckedRecord;

  constructor(checked: CheckedRecord) {
    this.checked = checked;
  }
}

/** The result of a duplicate search; undefined: no duplicate. */
class SearchedDuplicate {
  protected readonly isSearched = true;
  readonly found: Duplicate | undefined;

  constructor(found: Duplicate | undefined) {
    this.found = found;
  }
}

/** A new or changed record that is ready to be written. */
class Prepared<Content> {
  protected readonly isPrepared = true;
  readonly content: Content;

  constructor(content: Content) {
    this.content = content;
  }
}

export type { ResolvedRecord, SearchedDuplicate };
export type PreparedRecord = Prepared<NewRecord>;
export type PreparedChange = Prepared<ChangedRecord>;

type Failure = components['schemas']['RecordBatchFailure'];

/**
 * Locks the records that bodies refer to. They are sent in one statement, before the records to
 * change are locked. A deletion locks a record before those that refer to it, so another order
 * would deadlock.
 */
export async function holdReferences(
  { caller, db: { sql } }: Pick<WriteCall, 'db' | 'caller'>,
  { workspace, object }: RecordTarget,
  bodies: readonly unknown[],
): Promise<void> {
  const named = bodies.flatMap((body) => listNamedReferences(object, body));
  await findReferences(
    sql,
    caller,
    named.filter(({ object: of }) => of === undefined || workspace.objects.has(of)),
  );
}

/** Resolves the references of a record. Sends nothing if there are none. */
export async function resolve(call: Pick<WriteCall, 'db' | 'caller'>, checked: CheckedRecord): Promise<ResolvedRecord> {
  resolveReferences(checked, await findReferences(call.db.sql, call.caller, checked.references));
  return new ResolvedRecord(checked);
}

/** Resolves the references of many records in one statement. */
export async function resolveEach<Item>(
  { caller, db: { sql } }: Pick<WriteCall, 'db' | 'caller'>,
  items: readonly (Item & { checked: CheckedRecord })[],
): Promise<(Omit<Item, 'checked'> & { item: ResolvedRecord })[]> {
  const found = await findReferences(
    sql,
    caller,
    items.flatMap(({ checked }) => checked.references),
  );
  return items.map(({ checked, ...rest }) => {
    resolveReferences(checked, found);
    return { ...rest, item: new ResolvedRecord(checked) };
  });
}

/**
 * Searches for a duplicate of a new record. `prepareNew` does so itself. Callers that know all
 * values early can save a round trip by searching concurrently with another statement.
 */
export async function searchDuplicate(
  { caller, db: { sql } }: Pick<WriteCall, 'db' | 'caller'>,
  { object: { object } }: RecordTarget,
  sets: readonly (readonly DuplicateField[])[],
): Promise<SearchedDuplicate> {
  // Duplicate checks exist only for these objects.
  if (object !== 'leads' && object !== 'deals') return new SearchedDuplicate(undefined);
  return new SearchedDuplicate(await findDuplicate(sql, caller, object, sets));
}

/**
 * @throws ApiError 422 that lists every problem, or the unmet pre-conditions of the status; 409
 * that names the duplicate, or the record that has a unique value
 */
export async function prepareNew(
  call: WriteCall,
  place: RecordTarget,
  { checked }: ResolvedRecord,
  searched?: SearchedDuplicate,
): Promise<PreparedRecord> {
  const { workspace, object } = place;
  if (checked.problems.length > 0) throw validationFailed(problemsInside(place, checked.problems), 422);
  const record = newRecord(object, uuidv7(), checked, workspace, call.now);
  const unmet = findUnmetByNew(object, record, checked, workspace, call.now);
  if (unmet.length > 0) throw preConditionsNotMet(problemsInside(place, unmet));
  const sets = buildDuplicateSets(object, workspace, checked.values, checked.custom);
  refuseDuplicate(place, searched ?? (await searchDuplicate(call, place, sets)));
  await refuseTaken(call, place, [record]);
  return new Prepared(record);
}

function refuseDuplicate(place: RecordTarget, { found }: SearchedDuplicate): void {
  if (!found) return;
  const { id, visible, matchedFields } = found;
  throw alreadyExists(existing(place, matchedFields), matchedFields, visible ? id : null);
}

/** @throws ApiError 409 naming the record that has a value of one of the records in a unique field */
async function refuseTaken(
  call: WriteCall,
  place: RecordTarget,
  records: readonly RecordWrite['after'][],
  before?: StoredRecord,
): Promise<void> {
  const writes = records.map((after, index) => ({ index, after, ...(before ? { before } : {}) }));
  for (const conflict of (await findUniqueConflicts(call, place, writes)).values())
    if (conflict.kind === 'taken') throw takenError(place, conflict);
}

/** Returns the 409 that names the record that has a value of a unique field. */
export function takenError(
  place: RecordTarget,
  { fields, existingId }: { fields: string[]; existingId: string | null },
): ApiError {
  return alreadyExists(existing(place, fields), fields, existingId);
}

const existing = ({ object }: RecordTarget, fields: readonly string[]): string =>
  `A ${object.label.toLowerCase()} with this ${fields.join(' and ')} already exists.`;

function problemsInside({ inside }: RecordTarget, problems: FieldProblem[]): FieldProblem[] {
  return inside === undefined ? problems : problems.map((each) => ({ ...each, field: `${inside}.${each.field}` }));
}

interface NewItem {
  index: number;
  item: ResolvedRecord;
}

interface ChangedItem extends NewItem {
  /** The record, locked. */
  before: StoredRecord;
}

interface PreparedNew {
  index: number;
  prepared: PreparedRecord;
}

interface PreparedUpdate {
  index: number;
  before: StoredRecord;
  /** Undefined if nothing would change. */
  prepared: PreparedChange | undefined;
}

/**
 * Which duplicates new records of a batch must not be: of earlier items; of stored records, too, as in a
 * single create; or none.
 */
export type DuplicateCheck = 'in_batch' | 'stored' | 'none';

/**
 * Prepares the new records of a batch. A problem with one record, such as a repeated item, does not
 * affect the others.
 * @param failed receives the records that cannot be written
 */
export async function prepareEachNew(
  call: WriteCall,
  place: RecordTarget,
  items: readonly NewItem[],
  failed: Failure[],
  check: DuplicateCheck = 'in_batch',
): Promise<PreparedNew[]> {
  return (await prepareEach(call, place, { creates: items, changes: [] }, failed, check)).creates;
}

/**
 * Prepares the changes of a batch, whose records are locked. A change that cannot be written does
 * not affect the others.
 * @param failed receives the changes that cannot be written
 * @returns the others. Those that would change nothing are without a change
 */
export async function prepareEachChange(
  call: WriteCall,
  place: RecordTarget,
  items: readonly ChangedItem[],
  failed: Failure[],
): Promise<PreparedUpdate[]> {
  return (await prepareEach(call, place, { creates: [], changes: items }, failed)).changes;
}

/**
 * Prepares the new records and the changes of a batch, as prepareEachNew and prepareEachChange do.
 * No two of them get the same value of a unique field.
 */
export async function prepareEach(
  call: WriteCall,
  place: RecordTarget,
  items: { creates: readonly NewItem[]; changes: readonly ChangedItem[] },
  failed: Failure[],
  check: DuplicateCheck = 'in_batch',
): Promise<{ creates: PreparedNew[]; changes: PreparedUpdate[] }> {
  const checked = checkEachNew(call, place, items.creates, failed, check);
  const creates = check === 'stored' ? await withoutDuplicates(call, place, checked, failed) : checked;
  const changes = await checkEachChange(call, place, items.changes, failed);
  const conflicts = await findUniqueConflicts(call, place, [
    ...creates.map(({ index, prepared }) => ({ index, after: prepared.content })),
    ...changes.flatMap(({ index, before, prepared }) =>
      prepared ? [{ index, before, after: prepared.content.merged }] : [],
    ),
  ]);
  for (const [index, conflict] of conflicts)
    failed.push(
      conflict.kind === 'repeated'
        ? buildRepeatedFailure(index, conflict.earlier)
        : buildTakenFailure(index, existing(place, conflict.fields), conflict.fields, conflict.existingId),
    );
  const isFree = ({ index }: { index: number }): boolean => !conflicts.has(index);
  return { creates: creates.filter(isFree), changes: changes.filter(isFree) };
}

function checkEachNew(
  { now }: WriteCall,
  { workspace, object }: RecordTarget,
  items: readonly NewItem[],
  failed: Failure[],
  check: DuplicateCheck,
): PreparedNew[] {
  const good = items.flatMap(({ index, item: { checked } }) => {
    if (checked.problems.length > 0) {
      failed.push(buildInvalidFailure(index, checked.problems));
      return [];
    }
    const record = newRecord(object, uuidv7(), checked, workspace, now);
    const unmet = findUnmetByNew(object, record, checked, workspace, now);
    if (unmet.length === 0) return [{ index, checked, record }];
    failed.push(buildUnmetFailure(index, unmet));
    return [];
  });
  const repeats =
    check === 'none'
      ? new Map<number, number>()
      : findRepeats(
          object,
          workspace,
          good.map(({ checked }) => checked),
        );
  return good.flatMap(({ index, record }, position) => {
    const earlier = repeats.get(position);
    if (earlier === undefined) return [{ index, prepared: new Prepared(record) }];
    failed.push(buildRepeatedFailure(index, good[earlier]?.index ?? 0));
    return [];
  });
}

/** Fails new records that stored ones duplicate. */
async function withoutDuplicates(
  { caller, db: { sql } }: WriteCall,
  place: RecordTarget,
  creates: readonly PreparedNew[],
  failed: Failure[],
): Promise<PreparedNew[]> {
  const { workspace, object } = place;
  if (object.object !== 'leads' && object.object !== 'deals') return [...creates];
  const sets = creates.map(({ prepared: { content } }) =>
    buildDuplicateSets(object, workspace, content.values, content.custom),
  );
  const duplicates = await findDuplicates(sql, caller, object.object, sets);
  return creates.filter(({ index }, position) => {
    const found = duplicates[position];
    if (!found) return true;
    const { id, visible, matchedFields } = found;
    failed.push(buildTakenFailure(index, existing(place, matchedFields), matchedFields, visible ? id : null));
    return false;
  });
}

/**
 * @param before the record, locked
 * @returns undefined if nothing would change
 * @throws ApiError 422 that lists every problem, or the unmet pre-conditions of the new status; 409
 * that names the record that has a unique value
 */
export async function prepareChange(
  call: WriteCall,
  place: RecordTarget,
  before: StoredRecord,
  { checked }: ResolvedRecord,
): Promise<PreparedChange | undefined> {
  if (checked.problems.length > 0) throw validationFailed(problemsInside(place, checked.problems), 422);
  const change = buildChange(place, before, checked, call.currentTime());
  if (!change) return undefined;
  const { merged } = change;
  const unmet = (await unmetByChanges(call, place, [{ before, merged }])).get(before.id);
  if (unmet) throw preConditionsNotMet(problemsInside(place, unmet));
  await refuseTaken(call, place, [merged], before);
  return new Prepared(change);
}

/** Prepares a change of only the manual tags of a locked record. */
export function prepareTags(
  call: Pick<WriteCall, 'currentTime'>,
  { workspace, object }: RecordTarget,
  before: StoredRecord,
  manualTagIds: readonly string[],
): PreparedChange {
  const merged = mergeUpdate(object, before, { values: {}, custom: {} }, workspace, call.currentTime(), true);
  if (!merged) throw new Error('a change of tags is a change of the record');
  return new Prepared({ before, merged, manualTagIds });
}

/**
 * Prepares the return of former values to locked records. Rules about values do not apply, because
 * the records had these values before.
 * @returns the changes, and the records that cannot be changed because another record has their
 * value of a unique field
 */
export async function prepareReversals(
  call: WriteCall,
  place: RecordTarget,
  reversals: readonly {
    before: StoredRecord;
    decision: Pick<CheckedRecord, 'values' | 'custom'> & { tagIds: readonly string[] | undefined };
  }[],
): Promise<{ prepared: PreparedChange[]; taken: string[] }> {
  const now = call.currentTime();
  const changes = reversals.flatMap(
    // Tags with conditions are not added by hand, so they can be all that differs.
    ({ before, decision: { tagIds, ...stored } }) =>
      changeToStored(before, stored, mergeManualTags(place.object, before.tags, tagIds), now) ?? [],
  );
  const writes = changes.map(({ before, merged }, index) => ({ index, before, after: merged }));
  const conflicts = await findUniqueConflicts(call, place, writes);
  return {
    prepared: changes.filter((_, index) => !conflicts.has(index)).map((change) => new Prepared(change)),
    taken: changes.filter((_, index) => conflicts.has(index)).map(({ before }) => before.id),
  };
}

/**
 * Prepares a change of values that other records of the object had, so that only uniqueness is checked.
 * @param before the record, locked
 * @returns undefined if nothing would change
 */
export async function prepareStored(
  call: WriteCall,
  place: RecordTarget,
  before: StoredRecord,
  stored: Pick<StoredRecord, 'values' | 'custom'>,
  manualTagIds: readonly string[] | undefined,
): Promise<PreparedChange | undefined> {
  const change = changeToStored(before, stored, manualTagIds, call.currentTime());
  if (!change) return undefined;
  await refuseTaken(call, place, [change.merged], before);
  return new Prepared(change);
}

/** Joins values that records of the object had with a record; undefined if nothing would change. */
function changeToStored(
  before: StoredRecord,
  { values, custom }: Pick<StoredRecord, 'values' | 'custom'>,
  manualTagIds: readonly string[] | undefined,
  now: Date,
): ChangedRecord | undefined {
  if (Object.keys(values).length + Object.keys(custom).length === 0 && !manualTagIds) return undefined;
  const merged = {
    ...before,
    updatedAt: computeChangeTime(before, now),
    values: { ...before.values, ...values },
    custom: { ...before.custom, ...custom },
  };
  return { before, merged, ...(manualTagIds ? { manualTagIds } : {}) };
}

/** Joins an update with the record, which is locked; undefined if nothing would change. */
function buildChange(
  { workspace, object }: RecordTarget,
  before: StoredRecord,
  checked: CheckedRecord,
  now: Date,
): ChangedRecord | undefined {
  const manualTagIds = mergeManualTags(object, before.tags, checked.tagIds);
  const merged = mergeUpdate(object, before, checked, workspace, now, manualTagIds !== undefined);
  return merged && { before, merged, ...(manualTagIds ? { manualTagIds } : {}) };
}

async function checkEachChange(
  call: WriteCall,
  place: RecordTarget,
  items: readonly ChangedItem[],
  failed: Failure[],
): Promise<PreparedUpdate[]> {
  const now = call.currentTime();
  const good = items.flatMap(({ index, before, item: { checked } }) => {
    if (checked.problems.length === 0) return [{ index, before, change: buildChange(place, before, checked, now) }];
    failed.push(buildInvalidFailure(index, checked.problems));
    return [];
  });
  const changes = good.flatMap(({ change }) => change ?? []);
  const unmet = await unmetByChanges(call, place, changes);
  return good.flatMap(({ index, before, change }) => {
    const problems = unmet.get(before.id);
    if (!problems) return [{ index, before, prepared: change && new Prepared(change) }];
    failed.push(buildUnmetFailure(index, problems));
    return [];
  });
}

/** A locked record before and after the change. */
interface ChangedRecord {
  before: StoredRecord;
  merged: StoredRecord;
  /** The tags that it then has by hand, if they change. */
  manualTagIds?: readonly string[];
}

/**
 * Returns the unmet pre-conditions of the new statuses, by record id. Facts are counted once per
 * status.
 */
async function unmetByChanges(
  { caller, now, db: { sql } }: Pick<WriteCall, 'db' | 'caller' | 'now'>,
  { workspace, object }: RecordTarget,
  changes: readonly ChangedRecord[],
): Promise<Map<string, FieldProblem[]>> {
  const entering = new Map<Status, ChangedRecord[]>();
  for (const change of changes) {
    const entered = findEnteredStatus(object.object, change.before.values, change.merged.values);
    const status = findStatusItem(object.object, entered, workspace);
    if (status) entering.set(status, [...(entering.get(status) ?? []), change]);
  }
  const unmet = new Map<string, FieldProblem[]>();
  for (const [status, entrants] of entering) {
    const ids = entrants.map(({ merged }) => merged.id);
    const needed = findNeededFacts(status, workspace, now);
    const counted = needed && (await countFacts(sql, caller, object.object, ids, needed));
    for (const { merged } of entrants) {
      const facts = counted?.get(merged.id) ?? noFacts;
      const problems = findUnmetPreConditions(object, status, merged, facts, workspace, now);
      if (problems.length > 0) unmet.set(merged.id, problems);
    }
  }
  return unmet;
}
