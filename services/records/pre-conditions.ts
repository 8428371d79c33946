// The pre-conditions of the statuses that changes move records into.
import { countFacts } from '../../db/settings/pre-condition-facts.ts';
import type { Status } from '../../domain/objects/configuration.ts';
import type { StoredRecord } from '../../domain/records/draft.ts';
import { neededFacts, noFacts, unmetPreConditions } from '../../domain/settings/pre-conditions.ts';
import { enteredStatus, statusItem } from '../../domain/settings/status-effects.ts';
import type { FieldProblem } from '../../runtime/errors.ts';
import type { Place, Writing } from './record-target.ts';

/** A locked record as it is, and as it is to be. */
export interface ChangedRecord {
  before: StoredRecord;
  merged: StoredRecord;
}

/** What changes do not fulfil of the statuses that they enter, by the ids of the records; facts are counted once for each status. */
export async function unmetByChanges(
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
