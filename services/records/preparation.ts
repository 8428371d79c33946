// Validates records before they are written: references, pre-conditions, duplicates.
import { v7 as uuidv7 } from 'uuid';
import { type Duplicate, findDuplicate } from '../../db/records/duplicates.ts';
import { findReferences } from '../../db/records/references.ts';
import { countFacts } from '../../db/settings/pre-condition-facts.ts';
import type { Status } from '../../domain/objects/configuration.ts';
import { invalid, repeated, unfulfilled } from '../../domain/records/batch.ts';
import type { CheckedRecord, NewRecord, StoredRecord } from '../../domain/records/draft.ts';
import { type DuplicateField, duplicateSets, repeatsOf } from '../../domain/records/duplicates.ts';
import { mergedRecord, namedReferences, newRecord, resolveReferences } from '../../domain/records/writes.ts';
import { neededFacts, noFacts, unmetByNew, unmetPreConditions } from '../../domain/settings/pre-conditions.ts';
import { enteredStatus, statusItem } from '../../domain/settings/status-effects.ts';
import type { components } from '../../generated/api.ts';
import { alreadyExists, type FieldProblem, preConditionsNotMet, validationFailed } from '../../runtime/errors.ts';
import type { Place, Writing } from './record-target.ts';

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
  { caller, db: { sql } }: Pick<Writing, 'db' | 'caller'>,
  { workspace, object }: Place,
  bodies: readonly unknown[],
): Promise<void> {
  const named = bodies.flatMap((body) => namedReferences(object, body));
  await findReferences(
    sql,
    caller,
    named.filter(({ object: of }) => of === undefined || workspace.objects.has(of)),
  );
}

/** Resolves the references of a record. Sends nothing if there are none. */
export async function resolve(call: Pick<Writing, 'db' | 'caller'>, checked: CheckedRecord): Promise<ResolvedRecord> {
  resolveReferences(checked, await findReferences(call.db.sql, call.caller, checked.references));
  return new ResolvedRecord(checked);
}

/** Resolves the references of many records in one statement. */
export async function resolveEach<Item>(
  { caller, db: { sql } }: Pick<Writing, 'db' | 'caller'>,
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
  { caller, db: { sql } }: Pick<Writing, 'db' | 'caller'>,
  { object: { object } }: Place,
  sets: readonly (readonly DuplicateField[])[],
): Promise<SearchedDuplicate> {
  // Duplicate checks exist only for these objects.
  if (object !== 'leads' && object !== 'deals') return new SearchedDuplicate(undefined);
  return new SearchedDuplicate(await findDuplicate(sql, caller, object, sets));
}

/**
 * @throws ApiError 422 that lists every problem, or the unmet pre-conditions of the status; 409
 * that names the duplicate
 */
export async function prepareNew(
  call: Writing,
  place: Place,
  { checked }: ResolvedRecord,
  searched?: SearchedDuplicate,
): Promise<PreparedRecord> {
  const { workspace, object } = place;
  if (checked.problems.length > 0) throw validationFailed(problemsInside(place, checked.problems), 422);
  const record = newRecord(object, uuidv7(), checked, workspace, call.now);
  const unmet = unmetByNew(object, record, checked, workspace, call.now);
  if (unmet.length > 0) throw preConditionsNotMet(problemsInside(place, unmet));
  const sets = duplicateSets(object, workspace, checked.values, checked.custom);
  refuseDuplicate(place, searched ?? (await searchDuplicate(call, place, sets)));
  return new Prepared(record);
}

function refuseDuplicate({ object }: Place, { found }: SearchedDuplicate): void {
  if (!found) return;
  const { id, visible, matchedFields } = found;
  const message = `A ${object.label.toLowerCase()} with this ${matchedFields.join(' and ')} already exists.`;
  throw alreadyExists(message, matchedFields, visible ? id : null);
}

function problemsInside({ inside }: Place, problems: FieldProblem[]): FieldProblem[] {
  return inside === undefined ? problems : problems.map((each) => ({ ...each, field: `${inside}.${each.field}` }));
}

/**
 * Prepares the new records of a batch. A problem with one record, such as a repeated item, does not
 * affect the others.
 * @param failed receives the records that cannot be written
 */
export function prepareEachNew(
  { now }: Writing,
  { workspace, object }: Place,
  items: readonly { index: number; item: ResolvedRecord }[],
  failed: Failure[],
): { index: number; prepared: PreparedRecord }[] {
  const good = items.flatMap(({ index, item: { checked } }) => {
    if (checked.problems.length > 0) {
      failed.push(invalid(index, checked.problems));
      return [];
    }
    const record = newRecord(object, uuidv7(), checked, workspace, now);
    const unmet = unmetByNew(object, record, checked, workspace, now);
    if (unmet.length === 0) return [{ index, checked, record }];
    failed.push(unfulfilled(index, unmet));
    return [];
  });
  const repeats = repeatsOf(
    object,
    workspace,
    good.map(({ checked }) => checked),
  );
  return good.flatMap(({ index, record }, position) => {
    const earlier = repeats.get(position);
    if (earlier === undefined) return [{ index, prepared: new Prepared(record) }];
    failed.push(repeated(index, good[earlier]?.index ?? 0));
    return [];
  });
}

/**
 * @param before the record, locked
 * @returns undefined if nothing would change
 * @throws ApiError 422 that lists every problem, or the unmet pre-conditions of the new status
 */
export async function prepareChange(
  call: Writing,
  place: Place,
  before: StoredRecord,
  { checked }: ResolvedRecord,
): Promise<PreparedChange | undefined> {
  if (checked.problems.length > 0) throw validationFailed(problemsInside(place, checked.problems), 422);
  const merged = mergedRecord(place.object, before, checked, place.workspace, call.currentTime());
  if (!merged) return undefined;
  const unmet = (await unmetByChanges(call, place, [{ before, merged }])).get(before.id);
  if (unmet) throw preConditionsNotMet(problemsInside(place, unmet));
  return new Prepared({ before, merged });
}

/**
 * Prepares the changes of a batch of locked records. A problem with one record does not affect the
 * others.
 * @param failed receives the records that cannot be written
 * @returns the other records, without a change if nothing would change
 */
export async function prepareEachChange(
  call: Writing,
  place: Place,
  items: readonly { index: number; before: StoredRecord; item: ResolvedRecord }[],
  failed: Failure[],
): Promise<{ index: number; before: StoredRecord; prepared: PreparedChange | undefined }[]> {
  const now = call.currentTime();
  const good = items.flatMap(({ index, before, item: { checked } }) => {
    if (checked.problems.length === 0)
      return [{ index, before, merged: mergedRecord(place.object, before, checked, place.workspace, now) }];
    failed.push(invalid(index, checked.problems));
    return [];
  });
  const changes = good.flatMap(({ before, merged }) => (merged ? [{ before, merged }] : []));
  const unmet = await unmetByChanges(call, place, changes);
  return good.flatMap(({ index, before, merged }) => {
    const problems = unmet.get(before.id);
    if (!problems) return [{ index, before, prepared: merged && new Prepared({ before, merged }) }];
    failed.push(unfulfilled(index, problems));
    return [];
  });
}

/** A locked record before and after the change. */
interface ChangedRecord {
  before: StoredRecord;
  merged: StoredRecord;
}

/**
 * Returns the unmet pre-conditions of the new statuses, by record id. Facts are counted once per
 * status.
 */
async function unmetByChanges(
  { caller, now, db: { sql } }: Pick<Writing, 'db' | 'caller' | 'now'>,
  { workspace, object }: Place,
  changes: readonly ChangedRecord[],
): Promise<Map<string, FieldProblem[]>> {
  const entering = new Map<Status, ChangedRecord[]>();
  for (const change of changes) {
    const entered = enteredStatus(object.object, change.before.values, change.merged.values);
    const status = statusItem(object.object, entered, workspace);
    if (status) entering.set(status, [...(entering.get(status) ?? []), change]);
  }
  const unmet = new Map<string, FieldProblem[]>();
  for (const [status, entrants] of entering) {
    const ids = entrants.map(({ merged }) => merged.id);
    const needed = neededFacts(status, workspace, now);
    const counted = needed && (await countFacts(sql, caller, object.object, ids, needed));
    for (const { merged } of entrants) {
      const facts = counted?.get(merged.id) ?? noFacts;
      const problems = unmetPreConditions(object, status, merged, facts, workspace, now);
      if (problems.length > 0) unmet.set(merged.id, problems);
    }
  }
  return unmet;
}
