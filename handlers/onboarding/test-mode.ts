// Resets test mode in steps, each in its own transaction.
import { dropBacklog } from '../../db/automation/webhook-backlog.ts';
import { deleteSomeDeliveries } from '../../db/automation/webhook-deliveries.ts';
import { loadWorkspaceRows } from '../../db/objects/workspace.ts';
import { removeClock } from '../../db/onboarding/test-clock.ts';
import {
  claimReset,
  cutFeed,
  type Deleted,
  deleteSomeEvents,
  deleteSomeOthers,
  deleteSomeRecords,
  deleteSomeResponses,
  emptySomeTrash,
  endReset,
  keepReset,
  kindsOnRecords,
  otherKinds,
} from '../../db/onboarding/test-mode.ts';
import { conflict, orNotFound } from '../../runtime/errors.ts';
import type { Call, Handler } from '../../runtime/handler.ts';

type ResetCall = Call<'resetTestMode'>;

/** The records of one step, each with everything that belongs to it, and the rows of one step. */
const steps = { records: 200, rows: 2000 } as const;

/**
 * Activities and tasks first: those of one lead may be too many for one step. Then each object
 * before the objects that it refers to.
 */
const order = ['activities', 'tasks', 'deals', 'customers', 'leads', 'accounts'];

export const resetTestMode: Handler<'resetTestMode'> = async (call) => {
  const { caller, arrivedAt: now } = call;
  const objects = await selectObjects(call);
  const isClaimed = await call.db.inSeparateTransaction(async (sql, note) => {
    const claimed = await claimReset(sql, caller.companyId, now);
    // The audit row is written with the claim: deletions stay even if the call is aborted.
    if (claimed) note({ action: 'test_mode.reset_begin', metadata: { objects: call.request.body?.objects ?? null } });
    return claimed;
  });
  if (!isClaimed)
    throw conflict('reset_in_progress', 'Another call is already removing the test data. Try again shortly.');
  try {
    const deleted = await deleteAll(call, objects);
    call.db.record({ action: 'test_mode.reset', metadata: { deleted } });
    return { status: 200, data: { deleted, reset_at: now.toISOString() } };
  } finally {
    await call.db.inSeparateTransaction((sql) => endReset(sql, caller.companyId));
  }
};

/** @throws ApiError 404 if the workspace does not have an object of this name */
async function selectObjects(call: ResetCall): Promise<string[]> {
  const { objects } = await call.services.loadWorkspace();
  const asked = call.request.body?.objects;
  if (asked)
    return order
      .concat(asked)
      .filter((name, at, all) => asked.includes(name) && all.indexOf(name) === at)
      .map((name) => orNotFound(objects.get(name)).object);
  // Includes disabled objects.
  const { customObjects } = await loadWorkspaceRows(call.db.sql, call.caller.companyId);
  return [...order, ...customObjects.map(({ slug }) => `object:${slug}`)];
}

async function deleteAll(call: ResetCall, objects: readonly string[]): Promise<Deleted> {
  const { caller, arrivedAt } = call;
  const isWhole = call.request.body?.objects === undefined;
  const kinds = [...objects, ...kindsOnRecords, ...(isWhole ? [...otherKinds, 'deliveries'] : []), 'events'];
  const deleted: Deleted = Object.fromEntries(kinds.map((kind) => [kind, 0]));
  const add = (more: Deleted): void => {
    for (const [name, count] of Object.entries(more)) deleted[name] = (deleted[name] ?? 0) + count;
  };
  // Before the records: their deletion would also delete messages and reports, uncounted.
  if (isWhole) await untilDone((sql) => deleteSomeOthers(sql, caller, steps.rows));
  for (const object of objects) {
    await untilDone((sql) => deleteSomeRecords(sql, caller, object, steps.records));
    // Not counted: these were deleted before.
    await untilDone(async (sql) => ((await emptySomeTrash(sql, caller, object, steps.records)) > 0 ? {} : undefined));
  }
  if (isWhole) {
    await untilNone((sql) => deleteSomeResponses(sql, caller, arrivedAt, steps.rows));
    add({ deliveries: await untilNone((sql) => deleteSomeDeliveries(sql, caller, steps.rows, arrivedAt)) });
  }
  const until = await call.db.inSeparateTransaction(async (sql) => {
    await dropBacklog(sql, caller);
    return cutFeed(sql, caller);
  });
  add({ events: await untilNone((sql) => deleteSomeEvents(sql, caller, until, steps.rows)) });
  // Last, so that nothing that is deleted becomes due or waits because of it.
  if (isWhole)
    await call.db.inSeparateTransaction(async (sql, note) => {
      const before = await removeClock(sql, caller.companyId, arrivedAt);
      if (before > 0) note({ action: 'test_clock.reset', metadata: { offset_seconds: before } });
    });
  return deleted;

  /** Repeats a step and adds up its deletions, until there is nothing left. */
  async function untilDone(step: (sql: ResetCall['db']['sql']) => Promise<Deleted | undefined>): Promise<void> {
    for (;;) {
      const more = await call.db.inSeparateTransaction(async (sql) => {
        await keepReset(sql, caller.companyId);
        return step(sql);
      });
      if (!more) return;
      add(more);
    }
  }

  /**
   * Repeats a step until there is nothing left.
   * @returns the total
   */
  async function untilNone(step: (sql: ResetCall['db']['sql']) => Promise<number>): Promise<number> {
    let total = 0;
    for (let last = steps.rows as number; last === steps.rows; total += last)
      last = await call.db.inSeparateTransaction(async (sql) => {
        await keepReset(sql, caller.companyId);
        return step(sql);
      });
    return total;
  }
}
