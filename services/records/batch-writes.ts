// Writes batches of records: creates, updates and upserts, for requests and for imports.
import { findMatchesOfEach } from '../../db/records/matches.ts';
import { lockEntities } from '../../db/sales/activity-effects.ts';
import {
  buildAmbiguousFailure,
  buildInvalidFailure,
  buildMissingFailure,
  buildRejectedItem,
  buildRepeatedFailure,
  isObject,
  readItems,
} from '../../domain/records/batch.ts';
import type { CheckedRecord, StoredRecord } from '../../domain/records/draft.ts';
import {
  type Match,
  type MatchedField,
  namedMatches,
  pickChangeableFields,
  readMatch,
} from '../../domain/records/match.ts';
import { checkRecord } from '../../domain/records/values.ts';
import { readBuiltinValues } from '../../domain/records/view.ts';
import type { components } from '../../generated/api.ts';
import { rejectFailedBatch } from './batches.ts';
import { lockEachForChange } from './locked-records.ts';
import {
  type DuplicateCheck,
  holdReferences,
  prepareEach,
  prepareEachChange,
  prepareEachNew,
  resolveEach,
} from './preparation.ts';
import type { RecordTarget, WriteCall } from './record-target.ts';
import { writeChanges, writeNew } from './record-writes.ts';

type Failure = components['schemas']['RecordBatchFailure'];

/** A record that a batch wrote, or that needed no change. */
interface WrittenItem {
  index: number;
  record: StoredRecord;
  outcome: 'created' | 'updated' | 'unchanged';
}

/** The result of a batch. Each item is in one of the two lists. */
export interface BatchResult {
  succeeded: WrittenItem[];
  failed: Failure[];
}

/** @throws ApiError 422 that lists the failures, if the batch is atomic */
export async function createBatch(
  call: WriteCall,
  place: RecordTarget,
  items: readonly unknown[],
  atomic: boolean,
  duplicates: DuplicateCheck = 'in_batch',
): Promise<BatchResult> {
  const { workspace, object } = place;
  const checked = items.map((item, index) => ({
    index,
    checked: isObject(item) ? checkRecord(object, item, 'create', workspace, call.now) : buildRejectedItem(),
  }));
  const failed: Failure[] = [];
  const good = await prepareEachNew(call, place, await resolveEach(call, checked), failed, duplicates);
  rejectFailedBatch(atomic, failed, items.length);
  const records = await writeNew(
    call,
    place,
    good.map(({ prepared }) => prepared),
  );
  const succeeded = good.flatMap(({ index }, position) => {
    const record = records[position];
    return record ? [{ index, record, outcome: 'created' as const }] : [];
  });
  return { succeeded, failed };
}

/** @throws ApiError 422 that lists the failures, if the batch is atomic */
export async function updateBatch(
  call: WriteCall,
  place: RecordTarget,
  items: readonly unknown[],
  atomic: boolean,
): Promise<BatchResult> {
  const { caller, now } = call;
  const { sql } = call.db;
  const { workspace, object } = place;
  const { named, failed } = readItems(items);
  const ids = named.map(({ id }) => id);
  if (object.object === 'activities') await lockEntities(sql, caller, ids);
  const [, records] = await Promise.all([holdReferences(call, place, items), lockEachForChange(call, object, ids)]);
  const locked = new Map(records.map((record) => [record.id, record]));

  const checked = named.flatMap(({ index, id, fields }) => {
    const before = locked.get(id);
    if (before) {
      const change = checkRecord(object, fields, 'update', workspace, now, readBuiltinValues(object, before));
      return [{ index, before, checked: change }];
    }
    failed.push(buildMissingFailure(index));
    return [];
  });
  const good = await prepareEachChange(call, place, await resolveEach(call, checked), failed);
  rejectFailedBatch(atomic, failed, items.length);
  const written = await writeChanges(
    call,
    place,
    good.flatMap(({ prepared }) => prepared ?? []),
  );
  return { succeeded: good.map(toChanged(written)), failed };
}

/** Returns the outcome of a change, which is the record as it was if nothing would change. */
function toChanged(written: readonly StoredRecord[]) {
  const after = new Map(written.map((record) => [record.id, record]));
  return ({ index, before }: { index: number; before: StoredRecord }): WrittenItem => {
    const record = after.get(before.id);
    return record ? { index, record, outcome: 'updated' } : { index, record: before, outcome: 'unchanged' };
  };
}

/** An item whose shape is good, and which record it means. */
interface Meant {
  index: number;
  fields: Record<string, unknown>;
  match: Match;
}

/** An item once it is known whether there is a record. */
interface Found extends Meant {
  before: StoredRecord | undefined;
}

/**
 * Changes the record that each item means, or creates one.
 * @param matchOn valid names of fields, or `id` alone
 * @param creates false: items that mean no record fail
 * @throws ApiError 422 that lists the failures, if the batch is atomic
 */
export async function upsertBatch(
  call: WriteCall,
  place: RecordTarget,
  items: readonly unknown[],
  matchOn: readonly string[],
  atomic: boolean,
  { creates: mayCreate = true, duplicates = 'in_batch' }: { creates?: boolean; duplicates?: DuplicateCheck } = {},
): Promise<BatchResult> {
  const failed: Failure[] = [];
  const matched = await lockItemRecords(call, place, readEach(place, items, matchOn, failed), failed);
  const found = mayCreate ? matched : onlyChanges(call, place, matched, failed);
  const resolved = await resolveEach(
    call,
    found.map(({ index, before, fields }) => ({ index, before, checked: check(call, place, fields, before) })),
  );
  const { creates, changes } = await prepareEach(
    call,
    place,
    {
      creates: resolved.filter(({ before }) => !before),
      changes: resolved.flatMap(({ index, before, item }) => (before ? [{ index, before, item }] : [])),
    },
    failed,
    duplicates,
  );
  rejectFailedBatch(atomic, failed, items.length);

  const created = await writeNew(
    call,
    place,
    creates.map(({ prepared }) => prepared),
  );
  const written = await writeChanges(
    call,
    place,
    changes.flatMap(({ prepared }) => prepared ?? []),
  );
  const succeeded = [
    ...creates.flatMap(({ index }, position) => {
      const record = created[position];
      return record ? [{ index, record, outcome: 'created' as const }] : [];
    }),
    ...changes.map(toChanged(written)),
  ];
  return { succeeded, failed };
}

/** Fails items that mean no record: for their values, if these are why. */
function onlyChanges(
  call: WriteCall,
  { workspace, object }: RecordTarget,
  found: readonly Found[],
  failed: Failure[],
): Found[] {
  return found.filter(({ index, fields, before }) => {
    if (before) return true;
    const { problems } = checkRecord(object, fields, 'update', workspace, call.now);
    failed.push(problems.length > 0 ? buildInvalidFailure(index, problems) : buildMissingFailure(index));
    return false;
  });
}

function check(
  { now }: WriteCall,
  { workspace, object }: RecordTarget,
  fields: Record<string, unknown>,
  before: StoredRecord | undefined,
): CheckedRecord {
  if (!before) return checkRecord(object, fields, 'create', workspace, now);
  const stored = readBuiltinValues(object, before);
  return checkRecord(object, pickChangeableFields(object, fields, before), 'update', workspace, now, stored);
}

/** Reads the items. Those that name the same record as an earlier one fail. */
function readEach(
  { object }: RecordTarget,
  items: readonly unknown[],
  matchOn: readonly string[],
  failed: Failure[],
): Meant[] {
  const first = new Map<string, number>();
  const meant: Meant[] = [];
  for (const [index, item] of items.entries()) {
    if (!isObject(item)) {
      failed.push(buildInvalidFailure(index, buildRejectedItem().problems));
      continue;
    }
    const { match, fields, problems } = readMatch(object, item, matchOn, '');
    const key = JSON.stringify(match);
    const earlier = first.get(key);
    const isNew = 'id' in match && match.id === null;
    if (problems.length > 0) failed.push(buildInvalidFailure(index, problems));
    else if (earlier !== undefined && !isNew) failed.push(buildRepeatedFailure(index, earlier));
    else {
      first.set(key, index);
      meant.push({ index, fields, match });
    }
  }
  return meant;
}

/**
 * Locks the record of each item. It is undefined if the item creates one. An item fails if no
 * record or more than one matches.
 */
async function lockItemRecords(
  call: WriteCall,
  place: RecordTarget,
  meant: readonly Meant[],
  failed: Failure[],
): Promise<Found[]> {
  const { caller } = call;
  const { sql } = call.db;
  const { object } = place;
  const sets = new Map<Meant, readonly MatchedField[]>();
  for (const each of meant) if ('fields' in each.match) sets.set(each, each.match.fields);
  const found = await findMatchesOfEach(sql, caller, object.object, [...sets.values()], namedMatches);
  const matches = new Map([...sets.keys()].map((each, position) => [each, found[position] ?? []]));
  const ids = new Map<Meant, string | null>();
  for (const each of meant) {
    const [only, ...others] = matches.get(each) ?? [];
    if (only && others.length > 0)
      failed.push(
        buildAmbiguousFailure(
          each.index,
          [only, ...others].map(({ id }) => id),
        ),
      );
    else ids.set(each, 'id' in each.match ? each.match.id : (only?.id ?? null));
  }
  const wanted = [...ids.values()].flatMap((id) => id ?? []);
  if (object.object === 'activities') await lockEntities(sql, caller, wanted);
  const [, records] = await Promise.all([
    holdReferences(
      call,
      place,
      meant.map(({ fields }) => fields),
    ),
    lockEachForChange(call, object, wanted),
  ]);
  const locked = new Map(records.map((record) => [record.id, record]));
  return [...ids].flatMap(([each, id]) => {
    const before = id === null ? undefined : locked.get(id);
    if (id === null || before) return [{ ...each, before }];
    failed.push(buildMissingFailure(each.index));
    return [];
  });
}
