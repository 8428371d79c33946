// Batches of upserts: each item changes the matching record, or creates one.
import { findMatchesOfEach } from '../../db/records/matches.ts';
import { lockEntities } from '../../db/sales/activity-effects.ts';
import { ambiguous, batchData, invalid, isObject, missing, refusedItem, repeated } from '../../domain/records/batch.ts';
import type { CheckedRecord, StoredRecord } from '../../domain/records/draft.ts';
import {
  changeable,
  type Match,
  type MatchedField,
  matchProblems,
  namedMatches,
  readMatch,
} from '../../domain/records/match.ts';
import { checkRecord } from '../../domain/records/values.ts';
import { builtinValues, showRecord } from '../../domain/records/view.ts';
import type { components } from '../../generated/api.ts';
import { validationFailed } from '../../runtime/errors.ts';
import type { Call, Handler } from '../../runtime/handler.ts';
import { settle } from '../../services/records/batches.ts';
import { lockEachForChange } from '../../services/records/locked-records.ts';
import { holdReferences, prepareEach, resolveEach } from '../../services/records/preparation.ts';
import { openObject, type Place } from '../../services/records/record-target.ts';
import { writeChanges, writeNew } from '../../services/records/record-writes.ts';

type Failure = components['schemas']['RecordBatchFailure'];
type Upsert = Call<'upsertRecordBatch'>;

/** A well-formed item, and how it identifies its record. */
interface Meant {
  index: number;
  fields: Record<string, unknown>;
  match: Match;
}

/** An item after the lookup of its record. */
interface Found extends Meant {
  before: StoredRecord | undefined;
}

export const upsertRecordBatch: Handler<'upsertRecordBatch'> = async (call) => {
  const place = await openObject(call);
  const { object } = place;
  const unmatchable = matchProblems(object, call.request.body.match_on);
  if (unmatchable.length > 0) throw validationFailed(unmatchable, 422);
  const failed: Failure[] = [];
  const found = await recordsOf(call, place, readEach(call, place, failed), failed);
  const items = await resolveEach(
    call,
    found.map(({ index, before, fields }) => ({ index, before, checked: check(call, place, fields, before) })),
  );
  const { creates, changes } = await prepareEach(
    call,
    place,
    {
      creates: items.filter(({ before }) => !before),
      changes: items.flatMap(({ index, before, item }) => (before ? [{ index, before, item }] : [])),
    },
    failed,
  );
  settle(call.request.body.atomic === true, failed, call.request.body.records.length);

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
  const after = new Map(written.map((record) => [record.id, record]));
  const show = (record: StoredRecord) => ({ record: showRecord(object, record), version: record.version });
  const succeeded = [
    ...creates.flatMap(({ index }, position) => {
      const record = created[position];
      return record ? [{ index, ...show(record), created: true }] : [];
    }),
    ...changes.map(({ index, before }) => ({ index, ...show(after.get(before.id) ?? before), created: false })),
  ];
  return { status: 200, data: batchData(object.object, succeeded, failed) };
};

function check(
  { now }: Upsert,
  { workspace, object }: Place,
  fields: Record<string, unknown>,
  before: StoredRecord | undefined,
): CheckedRecord {
  if (!before) return checkRecord(object, fields, 'create', workspace, now);
  const stored = builtinValues(object, before);
  return checkRecord(object, changeable(object, fields, before), 'update', workspace, now, stored);
}

/** Returns the items that identify a record. Each record may occur once. */
function readEach({ request: { body } }: Upsert, { object }: Place, failed: Failure[]): Meant[] {
  const first = new Map<string, number>();
  const meant: Meant[] = [];
  for (const [index, item] of body.records.entries()) {
    if (!isObject(item)) {
      failed.push(invalid(index, refusedItem().problems));
      continue;
    }
    const { match, fields, problems } = readMatch(object, item, body.match_on, '');
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

/**
 * Returns the record of each item, locked; undefined if one will be created. Items fail if their
 * record does not exist, or if several match.
 */
async function recordsOf(call: Upsert, place: Place, meant: readonly Meant[], failed: Failure[]): Promise<Found[]> {
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
        ambiguous(
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
    failed.push(missing(each.index));
    return [];
  });
}
