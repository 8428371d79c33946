// Batches of upserts: each item changes the record that is meant, or creates one; all that stand are written together.
import { v7 as uuidv7 } from 'uuid';
import { lockEntities } from '../db/activity-effects.ts';
import { findMatchesOfEach, type MatchedField } from '../db/record-matches.ts';
import { findReferences } from '../db/record-references.ts';
import { lockRecords, type NewRecord, type StoredRecord } from '../db/records.ts';
import { repeatsOf } from '../domain/duplicates-in-batch.ts';
import { unmetByNew } from '../domain/pre-conditions.ts';
import {
  ambiguous,
  batchData,
  invalid,
  isObject,
  missing,
  refusedItem,
  repeated,
  unfulfilled,
} from '../domain/record-batch.ts';
import { changeable, type Match, matchProblems, namedMatches, readMatch } from '../domain/record-match.ts';
import { type CheckedRecord, checkRecord } from '../domain/record-values.ts';
import { builtinValues, showRecord } from '../domain/record-view.ts';
import { mergedRecord, newRecord, resolveReferences } from '../domain/record-writes.ts';
import type { components } from '../generated/api.ts';
import { validationFailed } from '../runtime/errors.ts';
import type { Call, Handler } from '../runtime/handler.ts';
import { settle } from '../writes/batches.ts';
import { unmetByChanges } from '../writes/pre-conditions.ts';
import { openObject, type Place, storeChanges, storeNew } from '../writes/store.ts';

type Failure = components['schemas']['RecordBatchFailure'];
type Upsert = Call<'upsertRecordBatch'>;

/** An item whose shape is good, and which record it means. */
interface Meant {
  index: number;
  fields: Record<string, unknown>;
  match: Match;
}

/** An item once it is known whether there is a record. */
interface Checked {
  index: number;
  before: StoredRecord | undefined;
  item: CheckedRecord;
}

export const upsertRecordBatch: Handler<'upsertRecordBatch'> = async (call) => {
  const place = await openObject(call);
  const { workspace, object } = place;
  const unmatchable = matchProblems(object, call.body.match_on);
  if (unmatchable.length > 0) throw validationFailed(unmatchable, 422);
  const failed: Failure[] = [];
  const checked = await checkEach(
    call,
    place,
    await recordsOf(call, place, readEach(call, place, failed), failed),
    failed,
  );
  const creates = checked.flatMap(({ index, before, item }) => (before ? [] : [{ index, item }]));
  const planned = plan(call, place, creates, failed);
  const changes = checked.flatMap(({ index, before, item }) =>
    before ? [{ index, before, merged: mergedRecord(object, before, item, workspace, call.now) }] : [],
  );
  const effective = changes.flatMap(({ before, merged }) => (merged ? [{ before, merged }] : []));
  const unmet = await unmetByChanges(call, place, effective);
  for (const { index, before } of changes) {
    const problems = unmet.get(before.id);
    if (problems) failed.push(unfulfilled(index, problems));
  }
  settle(call.body.atomic === true, failed, call.body.records.length);

  const created = await storeNew(
    call,
    place,
    planned.map(({ record }) => record),
  );
  const written = await storeChanges(
    call,
    place,
    effective.filter(({ before }) => !unmet.has(before.id)),
  );
  const after = new Map(written.map((record) => [record.id, record]));
  const show = (record: StoredRecord) => showRecord(object, record, workspace);
  const succeeded = [
    ...planned.flatMap(({ index }, position) => {
      const record = created[position];
      return record ? [{ index, record: show(record), created: true }] : [];
    }),
    ...changes.flatMap(({ index, before }) =>
      unmet.has(before.id) ? [] : [{ index, record: show(after.get(before.id) ?? before), created: false }],
    ),
  ];
  return { status: 200, data: batchData(object.object, succeeded, failed) };
};

/** The items of which it can be told which record they mean; each record may be meant once. */
function readEach({ body }: Upsert, { workspace, object }: Place, failed: Failure[]): Meant[] {
  const first = new Map<string, number>();
  const meant: Meant[] = [];
  for (const [index, item] of body.records.entries()) {
    if (!isObject(item)) {
      failed.push(invalid(index, refusedItem().problems));
      continue;
    }
    const { match, fields, problems } = readMatch(object, item, body.match_on, workspace, '');
    const key = JSON.stringify(match);
    const earlier = first.get(key);
    const isNew = 'id' in match && match.id === null;
    if (problems.length > 0) failed.push(invalid(index, problems));
    else if (earlier !== undefined && !isNew) failed.push(repeated(index, earlier));
    else {
      first.set(key, index);
      meant.push({ index, fields, match });
    }
  }
  return meant;
}

/** The record of each item, locked; undefined where one is to be created. Items whose record is not there or not the only one fail. */
async function recordsOf(
  { sql, caller }: Upsert,
  { object }: Place,
  meant: readonly Meant[],
  failed: Failure[],
): Promise<(Meant & { before: StoredRecord | undefined })[]> {
  const sets = new Map<Meant, readonly MatchedField[]>();
  for (const each of meant) if ('fields' in each.match) sets.set(each, each.match.fields);
  const found = await findMatchesOfEach(sql, caller, object.object, [...sets.values()], namedMatches);
  const matches = new Map([...sets.keys()].map((each, position) => [each, found[position] ?? []]));
  const ids = new Map<Meant, string | null>();
  for (const each of meant) {
    const [only, ...others] = matches.get(each) ?? [];
    if (only && others.length > 0)
      failed.push(
        ambiguous(
          each.index,
          [only, ...others].map(({ id }) => id),
        ),
      );
    else ids.set(each, 'id' in each.match ? each.match.id : (only?.id ?? null));
  }
  const wanted = [...ids.values()].flatMap((id) => id ?? []);
  if (object.object === 'activities') await lockEntities(sql, caller, wanted);
  const locked = new Map((await lockRecords(sql, caller, object.object, wanted)).map((record) => [record.id, record]));
  return [...ids].flatMap(([each, id]) => {
    const before = id === null ? undefined : locked.get(id);
    if (id === null || before) return [{ ...each, before }];
    failed.push(missing(each.index));
    return [];
  });
}

/** The items without problems. */
async function checkEach(
  { sql, caller, now }: Upsert,
  { workspace, object }: Place,
  items: readonly (Meant & { before: StoredRecord | undefined })[],
  failed: Failure[],
): Promise<Checked[]> {
  const checked = items.map(({ index, fields, before }) => ({
    index,
    before,
    item: before
      ? checkRecord(object, changeable(object, fields, before), 'update', workspace, now, builtinValues(object, before))
      : checkRecord(object, fields, 'create', workspace, now),
  }));
  const found = await findReferences(
    sql,
    caller,
    checked.flatMap(({ item }) => item.references),
  );
  return checked.filter(({ index, item }) => {
    resolveReferences(item, found);
    if (item.problems.length > 0) failed.push(invalid(index, item.problems));
    return item.problems.length === 0;
  });
}

/** The records to create, without those that their status asks more of or that repeat each other. */
function plan(
  { now }: Upsert,
  { workspace, object }: Place,
  creates: readonly { index: number; item: CheckedRecord }[],
  failed: Failure[],
): { index: number; record: NewRecord }[] {
  const planned = creates.flatMap(({ index, item }) => {
    const record = newRecord(object, uuidv7(), item, workspace, now);
    const unmet = unmetByNew(object, record, item, workspace, now);
    if (unmet.length === 0) return [{ index, item, record }];
    failed.push(unfulfilled(index, unmet));
    return [];
  });
  const repeats = repeatsOf(
    object,
    workspace,
    planned.map(({ item }) => item),
  );
  return planned.filter(({ index }, position) => {
    const earlier = repeats.get(position);
    if (earlier !== undefined) failed.push(repeated(index, planned[earlier]?.index ?? 0));
    return earlier === undefined;
  });
}
