// Moves what was too much for the transaction of a merge, or of its undo.
import type { AuditRow, EventRow } from '../../db/client/change-log.ts';
import type { Sql } from '../../db/client/pool.ts';
import type { TenantScope } from '../../db/client/tenant.ts';
import { readTenantTime } from '../../db/client/test-clocks.ts';
import { loadWorkspaceRows } from '../../db/objects/workspace.ts';
import { retag } from '../../db/records/applied-tags.ts';
import { groupMoved, moveItems, type Pair, pickItems, trashLinks } from '../../db/records/merge-moves.ts';
import * as progress from '../../db/records/merge-progress.ts';
import type { MovedCounts } from '../../db/records/merges.ts';
import { type MovedReference, moveReferences, pickReferences } from '../../db/records/reference-clearing.ts';
import { buildWorkspace, getBuiltinObject } from '../../domain/objects/workspace.ts';
import { describeMovedChild, describeRepointing } from '../../domain/records/view.ts';
import { findRecordsToRetag, listRetaggedNames } from '../../domain/settings/tags.ts';
import type { TenantJobContext } from '../runner.ts';
import { noteConsequence } from './consequences.ts';
import { updateFollowups } from './followups.ts';

/** Merges that are looked at to find out whose turn it is. */
const scanLimit = 2000;
/** Chunks of one tenant in a row: few, so that a very large merge does not delay other tenants. */
const mostInRow = 20;

/**
 * Continues all merges that are due. Each chunk is a transaction that moves rows and stores which, so
 * a crash loses one chunk, and any server continues. Several servers may run it at the same time:
 * each takes merges that no other works on.
 */
export async function runMerges(context: TenantJobContext): Promise<void> {
  for (let isMore = true; isMore && !context.signal.aborted; ) {
    isMore = false;
    const tenants = await context.platform.use((sql) => progress.findDueMerges(sql, scanLimit));
    for (const scope of tenants) isMore = (await runTenantMerges(context, scope)) || isMore;
  }
}

/**
 * Continues the merges of one tenant by some chunks. A merge that fails is tried again later, and
 * delays no other tenant.
 * @returns true if more may be due
 */
async function runTenantMerges(context: TenantJobContext, scope: TenantScope): Promise<boolean> {
  const { transaction, batchSize, log, signal } = context;
  let id: string | undefined;
  try {
    for (let chunks = 0; chunks < mostInRow && !signal.aborted; chunks += 1) {
      const isMore = await transaction(scope, async (sql, emit, audit) => {
        const merge = await progress.takeDueMerge(sql, scope);
        id = merge?.id;
        if (!merge) return false;
        // Smaller after a failure, which can be the timeout.
        const limit = Math.ceil(batchSize / 4 ** Math.min(merge.attempts, 4));
        const now = await readTenantTime(sql, scope);
        await new MergeChunk(sql, scope, merge, limit, now, emit, audit).move();
        return true;
      });
      if (!isMore) return false;
    }
    return true;
  } catch (error) {
    const merge = id;
    const failure = { company: scope.companyId, merge, err: { message: (error as Error).message } };
    log.warn(failure, 'failed to continue a merge; will retry');
    if (merge !== undefined) await transaction(scope, (sql) => progress.retryMerge(sql, scope, merge));
    return false;
  }
}

/** One transaction of a merge that is taken. */
class MergeChunk {
  readonly #sql: Sql;
  readonly #scope: TenantScope;
  readonly #merge: progress.DueMerge;
  readonly #pair: Pair;
  readonly #isUndo: boolean;
  readonly #limit: number;
  readonly #now: Date;
  readonly #emit: (event: EventRow) => void;
  readonly #audit: (row: AuditRow) => void;

  constructor(
    sql: Sql,
    scope: TenantScope,
    merge: progress.DueMerge,
    limit: number,
    now: Date,
    emit: (event: EventRow) => void,
    audit: (row: AuditRow) => void,
  ) {
    const { object, sourceId, targetId, undoneAt } = merge;
    this.#isUndo = undoneAt !== null;
    const [from, to] = this.#isUndo ? [targetId, sourceId] : [sourceId, targetId];
    this.#sql = sql;
    this.#scope = scope;
    this.#merge = merge;
    this.#pair = { object, from, to };
    this.#limit = limit;
    this.#now = now;
    this.#emit = emit;
    this.#audit = audit;
  }

  /** Moves some references or items. If nothing is left, the merge is completed. */
  async move(): Promise<void> {
    const [sql, scope, { id, moved, remaining }] = [this.#sql, this.#scope, this.#merge];
    const rows = await (this.#isUndo ? progress.takeMoved(sql, scope, id, this.#limit) : this.#pickRows());
    // Only a reset of test mode deletes the record while the merge runs, and with it what still hangs
    // on the other one.
    if (rows.length === 0 || !(await progress.hasDestination(sql, scope, this.#pair))) {
      await progress.completeMerge(sql, scope, id);
      // Bookings that had not moved back counted for the other record.
      if (this.#isUndo) await this.#updateFollowups();
      return;
    }
    const counts = await this.#moveRows(rows);
    await progress.noteProgress(sql, scope, id, {
      moved: this.#isUndo ? moved : addCounts(moved, counts, 1),
      remaining: addCounts(remaining, countRows(rows), -1),
    });
  }

  async #updateFollowups(): Promise<void> {
    const { object, from, to } = this.#pair;
    const records = [from, to].map((id) => ({ object, id }));
    await updateFollowups(this.#sql, this.#scope, records, this.#merge.causedBy, this.#now, this.#emit, this.#audit);
  }

  /** Returns references, or items if there are no more references. */
  async #pickRows(): Promise<progress.MovedRow[]> {
    const { object, from } = this.#pair;
    const references = await pickReferences(this.#sql, this.#scope, object, from, this.#limit);
    if (references.length > 0) return references.map((each) => ({ kind: 'references', ...each }));
    return pickItems(this.#sql, this.#scope, this.#pair, this.#limit);
  }

  /** Moves rows, unless they changed meanwhile or cannot move. @returns how many moved */
  async #moveRows(rows: readonly progress.MovedRow[]): Promise<Partial<MovedCounts>> {
    const references = rows.flatMap(({ kind, id, field }) =>
      kind === 'references' ? [{ id, field: field as MovedReference['field'] }] : [],
    );
    // Leads are locked before the customers to which they were converted, and others after the record
    // to which they refer.
    const [ofLeads, others] = [true, false].map((isOfLead) =>
      references.filter(({ field }) => (field === 'converted_customer_id') === isOfLead),
    ) as [typeof references, typeof references];
    let moved = ofLeads.length > 0 ? await this.#moveReferences(ofLeads) : 0;
    const items = rows.filter(({ kind }) => kind !== 'references');
    if (others.length + items.length > 0) await progress.lockDestination(this.#sql, this.#scope, this.#pair);
    if (others.length > 0) moved += await this.#moveReferences(others);
    const counts = items.length > 0 ? await this.#moveItems(groupMoved(items)) : {};
    return { ...counts, references: moved };
  }

  async #moveReferences(picked: readonly Pick<MovedReference, 'id' | 'field'>[]): Promise<number> {
    const [sql, scope, pair] = [this.#sql, this.#scope, this.#pair];
    const { id, causedBy } = this.#merge;
    const acting = { ...scope, actor: causedBy.actor };
    const moved = await moveReferences(sql, acting, pair.object, pair, picked, this.#now);
    const workspace = buildWorkspace(await loadWorkspaceRows(sql, scope.companyId));
    for (const [name, changed] of Map.groupBy(moved, ({ object }) => object)) {
      const object = getBuiltinObject(name, workspace);
      const retagged = await retag(sql, scope, findRecordsToRetag(object, workspace, changed, this.#now));
      const tags = listRetaggedNames(object, retagged);
      for (const each of changed) {
        const change = describeRepointing(object, each, pair, tags.get(each.id));
        noteConsequence(scope, change, each.changedAt, causedBy, this.#emit, this.#audit, { merge_id: id });
      }
    }
    await this.#keep(moved.map((each) => ({ kind: 'references', id: each.id, field: each.field })));
    return moved.length;
  }

  async #moveItems(picked: ReturnType<typeof groupMoved>): Promise<Partial<MovedCounts>> {
    const [sql, scope, pair] = [this.#sql, this.#scope, this.#pair];
    const { actor, requestId } = this.#merge.causedBy;
    const { activities, tasks, ...plain } = await moveItems(sql, { ...scope, actor }, pair, picked, this.#now);
    for (const [object, field, records] of [
      ['activities', 'entity_id', activities],
      ['tasks', 'record_id', tasks],
    ] as const)
      for (const each of records) {
        const { name, data, changes } = describeMovedChild({ ...each, object, field }, pair);
        this.#emit({ ...scope, event: name, occurredAt: each.changedAt, actor, requestId, data, changes });
      }
    if (!this.#isUndo) {
      const left = picked.links.filter((id) => !plain.links.includes(id));
      if (left.length > 0) await trashLinks(sql, scope, pair, left);
    }
    const moved = { ...plain, activities: activities.map(({ id }) => id), tasks: tasks.map(({ id }) => id) };
    const rows = Object.entries(moved).flatMap(([kind, ids]) => ids.map((id) => ({ kind, id })));
    await this.#keep(rows);
    return countRows(rows);
  }

  /** Stores what moved, for the undo. */
  async #keep(moved: readonly progress.MovedRow[]): Promise<void> {
    if (!this.#isUndo) await progress.keepMoved(this.#sql, this.#scope, this.#merge.id, moved);
  }
}

/** Counts references and items by what the API calls them. It does not show all kinds of items. */
function countRows(rows: readonly progress.MovedRow[]): Partial<MovedCounts> {
  const count = (table: string): number => rows.filter(({ kind }) => kind === table).length;
  return {
    notes: count('notes'),
    tasks: count('tasks'),
    activities: count('activities'),
    messages: count('messages'),
    attachments: count('attachments'),
    links: count('links'),
    bookings: count('bookings'),
    drafts: count('message_drafts'),
    references: count('references'),
  };
}

function addCounts(counts: MovedCounts, changes: Partial<MovedCounts>, sign: 1 | -1): MovedCounts {
  const added = Object.entries(changes) as [keyof MovedCounts, number][];
  // More can be left than was counted.
  return { ...counts, ...Object.fromEntries(added.map(([kind, by]) => [kind, Math.max(0, counts[kind] + sign * by)])) };
}
