// Plans and applies reverts that are too large for a call, in chunks.
//
// The position of a revert advances in the transaction of its chunk. If a server stops at any
// point, another one goes on at that position after the lease ends.
import { type AuditRow, buildSystemAuditRow, type EventRow } from '../../db/client/change-log.ts';
import type { Sql } from '../../db/client/pool.ts';
import type { TenantScope } from '../../db/client/tenant.ts';
import { findClockAhead, readTenantTime } from '../../db/client/test-clocks.ts';
import { loadWorkspaceRows } from '../../db/objects/workspace.ts';
import { lockImport, updateImport } from '../../db/records/imports.ts';
import * as reverts from '../../db/records/reverts.ts';
import { buildWorkspace } from '../../domain/objects/workspace.ts';
import { isRestoration } from '../../domain/records/reverts.ts';
import { revertLimits } from '../../domain/service/request-limits.ts';
import { addOrigin } from '../../services/records/change-origin.ts';
import type { WriteCall } from '../../services/records/record-target.ts';
import { addConflicts, planChunk } from '../../services/records/revert-planning.ts';
import { revertChunk } from '../../services/records/reverting.ts';
import type { LoadShedder } from '../load-shedder.ts';
import type { TenantJobContext } from '../runner.ts';
import { leaseMs, mostAttempts, retryMs, waitMs } from './chunk-timing.ts';

type Caller = WriteCall['caller'];
type Change = Parameters<WriteCall['db']['record']>[0];

/** Why a revert cannot go on. */
interface RevertFailure {
  code: string;
  message: string;
}

export interface RevertServices {
  loadShedder: LoadShedder;
  /** Returns the caller that a revert reads and writes as, or why its credential no longer allows it. */
  findCaller(
    scope: TenantScope,
    row: reverts.RevertRow,
    by: reverts.RevertApplier,
  ): Promise<{ caller: Caller } | { failure: RevertFailure }>;
  toRows(change: Change, caller: Caller, now: Date): { audit: AuditRow; events: EventRow[] };
  onEvents(): void;
}

/** Records in a chunk, also under load. */
const chunkRecords = 500;
const smallChunk = 100;
/** Merges that a chunk undoes one after the other. */
const chunkMerges = 50;
/** Items that return with the records of a chunk. Each kind of item is one statement. */
const chunkItems = 5000;

/** @returns the number of reverts that were looked at */
export async function runReverts(context: TenantJobContext, services: RevertServices): Promise<number> {
  const { platform, batchSize, now, signal } = context;
  const due = await platform.use((sql) => reverts.findDueReverts(sql, now(), batchSize));
  for (const next of due) if (!signal.aborted) await runOne(context, services, next);
  return due.length;
}

async function runOne(
  context: TenantJobContext,
  services: RevertServices,
  { companyId, testMode, id }: TenantScope & { id: string },
): Promise<void> {
  const scope = { companyId, testMode };
  try {
    const row = await context.transaction(scope, (sql) => takeRevert(sql, scope, id, context.now()));
    if (row) await new RevertRun(context, services, scope, row).run();
  } catch (error) {
    const err = { message: (error as Error).message };
    context.log.warn({ company: companyId, revert: id, err }, 'failed to continue a revert; will retry');
    await context.transaction(scope, (sql) => noteFailure(sql, scope, id, context.now()));
  }
}

/**
 * Leases a revert. If another one of the workspace runs, it waits.
 * @returns undefined if it waits, or if another server has it
 */
async function takeRevert(sql: Sql, scope: TenantScope, id: string, now: Date): Promise<reverts.RevertRow | undefined> {
  const { leased } = await reverts.countActiveReverts(sql, scope);
  const row = await reverts.lockRevert(sql, scope, id);
  if (!row?.dueAt || row.dueAt > now) return undefined;
  if (row.startedAt === null && leased >= revertLimits.running) {
    await reverts.updateRevert(sql, scope, id, { dueAt: new Date(now.getTime() + waitMs) });
    return undefined;
  }
  const change = { startedAt: row.startedAt ?? now, dueAt: new Date(now.getTime() + leaseMs) };
  await reverts.updateRevert(sql, scope, id, change);
  return { ...row, ...change };
}

/** Has a chunk that failed tried again, later each time. */
async function noteFailure(sql: Sql, scope: TenantScope, id: string, now: Date): Promise<void> {
  const row = await reverts.lockRevert(sql, scope, id);
  if (!row?.dueAt) return;
  const attempts = row.attempts + 1;
  await reverts.updateRevert(sql, scope, id, { attempts, dueAt: new Date(now.getTime() + retryMs * attempts) });
}

/** Ends a revert that must not go on, after its chunk was rolled back. */
class StoppedError extends Error {
  readonly failure: RevertFailure;

  constructor(failure: RevertFailure) {
    super(failure.message);
    this.failure = failure;
  }
}

/** Returns the first of the items: as many as a chunk can take if they are records to restore. */
async function limitRestorations(
  sql: Sql,
  scope: TenantScope,
  items: reverts.RevertItem[],
): Promise<reverts.RevertItem[]> {
  const [first] = items;
  if (!first || !isRestoration(first.step ?? 0)) return items;
  const ids = items.map(({ recordId }) => recordId);
  const sizes = await reverts.findTrashedSizes(sql, scope, first.object, ids);
  let [merges, children] = [0, 0];
  const end = items.findIndex(({ recordId }, index) => {
    const size = sizes.get(recordId);
    merges += size?.isMerged ? 1 : 0;
    children += size?.items ?? 0;
    return index > 0 && (merges > chunkMerges || children > chunkItems);
  });
  return end === -1 ? items : items.slice(0, end);
}

/** One server's run of a revert, until its end or the server's. */
class RevertRun {
  readonly #context: TenantJobContext;
  readonly #services: RevertServices;
  readonly #scope: TenantScope;
  #row: reverts.RevertRow;

  constructor(context: TenantJobContext, services: RevertServices, scope: TenantScope, row: reverts.RevertRow) {
    this.#context = context;
    this.#services = services;
    this.#scope = scope;
    this.#row = row;
  }

  async run(): Promise<void> {
    const { signal } = this.#context;
    if (this.#row.attempts >= mostAttempts)
      return this.#end({ code: 'INTERNAL_ERROR', message: 'A chunk of records could not be reverted.' });
    try {
      while (!signal.aborted && (this.#row.status === 'planning' || this.#row.status === 'running')) {
        const isUnderLoad = await this.#services.loadShedder.waitForTurn(signal);
        const found = await this.#findCaller();
        if ('failure' in found) return await this.#end(found.failure);
        const outcome =
          this.#row.status === 'planning'
            ? await this.#plan(found.caller)
            : await this.#apply(found.caller, isUnderLoad);
        if (outcome === 'gone') return;
        if (outcome === 'ended') return await this.#end();
      }
    } catch (error) {
      if (!(error instanceof StoppedError)) throw error;
      return this.#end(error.failure);
    }
    // Another server can continue immediately.
    if (signal.aborted && this.#row.status !== 'planned')
      await this.#context.transaction(this.#scope, (sql) =>
        reverts.updateRevert(sql, this.#scope, this.#row.id, { dueAt: this.#context.now() }),
      );
  }

  /** Plans are made as their creator, and applied as the caller that applied them. */
  #findCaller(): ReturnType<RevertServices['findCaller']> {
    return this.#services.findCaller(this.#scope, this.#row, this.#row.appliedBy ?? this.#row);
  }

  async #plan(caller: Caller): Promise<'planned' | 'gone'> {
    const { id } = this.#row;
    const row = await this.#context.transaction(this.#scope, async (sql) => {
      const locked = await reverts.lockRevert(sql, this.#scope, id);
      if (!locked || !this.#isUnmoved(locked)) return undefined;
      const workspace = buildWorkspace(await loadWorkspaceRows(sql, this.#scope.companyId));
      const now = this.#context.now();
      const planned = await planChunk(sql, caller, workspace, locked, now, 1 / 4 ** locked.attempts);
      if (planned.status !== 'planned') await reverts.updateRevert(sql, this.#scope, id, { dueAt: this.#leaseEnd() });
      return planned;
    });
    if (!row) return 'gone';
    this.#row = row;
    return 'planned';
  }

  /** Returns true if no other server has gone on with it. */
  #isUnmoved(locked: reverts.RevertRow): boolean {
    const serializePlace = ({ status, phase, readId, nextStep, nextObject, nextRecord }: reverts.RevertRow): string =>
      JSON.stringify([status, phase, readId, nextStep, nextObject, nextRecord]);
    return serializePlace(locked) === serializePlace(this.#row);
  }

  #leaseEnd(): Date {
    return new Date(this.#context.now().getTime() + leaseMs);
  }

  async #apply(caller: Caller, isUnderLoad: boolean): Promise<'written' | 'gone' | 'ended'> {
    const scope = this.#scope;
    const { id } = this.#row;
    const most = Math.ceil((isUnderLoad ? smallChunk : chunkRecords) / 4 ** this.#row.attempts);
    const row = await this.#context.transaction(scope, async (sql, emit, audit) => {
      const locked = await reverts.lockRevert(sql, scope, id);
      if (!locked || !this.#isUnmoved(locked)) return undefined;
      const found = await reverts.findItemsToRevert(sql, scope, locked, most);
      const items = await limitRestorations(sql, scope, found);
      const last = items.at(-1);
      if (!last) return null;
      const workspace = buildWorkspace(await loadWorkspaceRows(sql, scope.companyId));
      // Records are written at the time of their tenant, although the job itself is on the real time.
      const clockAheadSeconds = await findClockAhead(sql, scope);
      const currentTime = (): Date => new Date(this.#context.now().getTime() + clockAheadSeconds * 1000);
      const now = currentTime();
      const changes: Change[] = [];
      const sent: Promise<unknown>[] = [];
      const writing: WriteCall = {
        caller,
        now,
        currentTime,
        db: {
          sql,
          record: (change) => changes.push(change),
          awaitAtCommit(result) {
            result.catch(() => undefined);
            sent.push(result);
          },
        },
      };
      const result = await revertChunk(writing, workspace, locked, items);
      if (locked.onConflict === 'fail' && result.conflicts.length > 0) throw stoppedByConflict;
      await Promise.all(sent);
      for (const change of changes) {
        const made = this.#services.toRows(addOrigin(change, 'revert', id), { ...caller, clockAheadSeconds }, now);
        audit(made.audit);
        for (const event of made.events) emit(event);
      }
      const counts = {
        done: locked.done + items.length,
        reverted: locked.reverted + result.reverted,
        skipped: locked.skipped + result.skipped,
      };
      const place = { nextStep: last.step ?? 0, nextObject: last.object, nextRecord: last.recordId };
      const { conflicts, conflictCount } = addConflicts(locked, result.conflicts);
      const change = { ...counts, ...place, conflictCount, attempts: 0, dueAt: this.#leaseEnd() };
      await reverts.updateRevert(sql, scope, id, change, { conflicts });
      return { ...locked, ...change, conflicts };
    });
    if (row === undefined) return 'gone';
    if (row === null) return 'ended';
    this.#row = row;
    this.#services.onEvents();
    return 'written';
  }

  /** Ends the revert, and with it the undo of an import. */
  async #end(failure?: RevertFailure): Promise<void> {
    const scope = this.#scope;
    const { id } = this.#row;
    await this.#context.transaction(scope, async (sql, emit, audit) => {
      const row = await reverts.lockRevert(sql, scope, id);
      if (!row || !this.#isUnmoved(row)) return;
      const now = this.#context.now();
      const status = failure ? 'failed' : 'completed';
      const change = { status, completedAt: now, dueAt: null, itemsUntil: now } as const;
      await reverts.updateRevert(sql, scope, id, change, failure ? { error: failure } : {});
      const metadata = {
        revert_id: id,
        reverted: row.reverted,
        skipped: row.skipped,
        ...(failure ? { reason: failure.code } : {}),
      };
      const action = `revert.${failure ? 'fail' : 'complete'}`;
      audit(buildSystemAuditRow(scope, 'reverts', action, { metadata }, now));
      const { importId } = row.source;
      if (importId === undefined || row.appliedBy === null) return;
      const undone = await lockImport(sql, scope, importId);
      if (undone?.status !== 'undoing') return;
      // An undo that failed can be tried again.
      const after = failure ? { status: undone.statusBeforeUndo ?? undone.status } : { status: 'undone' as const };
      await updateImport(sql, scope, undone.id, after);
      if (failure) return;
      const counts = { reverted: row.reverted, skipped: row.skipped };
      const ofImport = { import_id: undone.id, ...counts };
      audit(
        buildSystemAuditRow(
          scope,
          'imports',
          'import.undo_complete',
          { object: undone.object, metadata: ofImport },
          now,
        ),
      );
      const occurredAt = await readTenantTime(sql, scope);
      emit({
        ...scope,
        event: 'import.undone',
        occurredAt,
        actor: { kind: 'system', id: 'imports', name: null },
        requestId: null,
        data: { object: undone.object, ...ofImport, occurred_at: occurredAt.toISOString() },
      });
    });
    this.#services.onEvents();
  }
}

const stoppedByConflict = new StoppedError({
  code: 'CONFLICT',
  message: 'A record was changed after the plan was made. What was reverted before stays reverted.',
});
