// Reverts: planned, applied and read. A job puts the records back.
import { findChangeSet } from '../../db/records/change-sets.ts';
import { findImport, lockImport, updateImport } from '../../db/records/imports.ts';
import {
  findRevert,
  listReverts as listStored,
  lockRevert,
  type RevertRow,
  updateRevert,
} from '../../db/records/reverts.ts';
import { buildFieldProblem, type FieldProblem } from '../../domain/objects/field-values.ts';
import { findClosest } from '../../domain/objects/suggestions.ts';
import type { RevertSource } from '../../domain/records/reverts.ts';
import { revertLimits } from '../../domain/service/request-limits.ts';
import { conflict, orNotFound, validationFailed } from '../../runtime/errors.ts';
import type { Call, Handler } from '../../runtime/handler.ts';
import { readPage } from '../../runtime/paging.ts';
import { requireCompanyReach } from '../../services/people/company-reach.ts';
import { toViewer } from '../../services/records/change-sets.ts';
import { nothingToUndo, requireEnded } from '../../services/records/import-undo.ts';
import { beginRevert, requireRoom, toApplier, toRevert } from '../../services/records/revert-calls.ts';

export const listReverts: Handler<'listReverts'> = async (call) => {
  const { caller, now } = call;
  const { rows, ...rest } = await readPage(
    call,
    ['reverts'],
    (after: readonly [string, string] | undefined, limit) => listStored(call.db.sql, caller, after, limit),
    (last: RevertRow) => [last.createdAt.toISOString(), last.id],
  );
  return { status: 200, data: { reverts: rows.map((row) => toRevert(row, caller.testMode, now)), ...rest } };
};

export const getRevert: Handler<'getRevert'> = async (call) => {
  const { caller, now } = call;
  const row = orNotFound(await findRevert(call.db.sql, caller, call.request.path.id));
  return { status: 200, data: { revert: toRevert(row, caller.testMode, now) } };
};

export const createRevert: Handler<'createRevert'> = async (call) => {
  const { caller, now } = call;
  const source = await readSource(call);
  const objects = call.request.body.objects ?? null;
  const row = await beginRevert(call, { source, objects, module: 'reverts', onConflict: null, appliedBy: null });
  call.db.record({ action: 'revert.create', metadata: { revert_id: row.id, ...nameSource(source) } });
  return { status: 201, data: { revert: toRevert(row, caller.testMode, now) } };
};

/** Returns the operations for the audit log. */
const nameSource = ({ requestId, importId, revertId, changeSetId, actor }: RevertSource): Record<string, unknown> => ({
  ...(requestId === undefined ? {} : { reverted_request_id: requestId }),
  ...(importId === undefined ? {} : { reverted_import_id: importId }),
  ...(revertId === undefined ? {} : { reverted_revert_id: revertId }),
  ...(changeSetId === undefined ? {} : { reverted_change_set_id: changeSetId }),
  ...(actor ? { reverted_actor_id: actor.id, from: actor.from, to: actor.to } : {}),
});

/** @throws ApiError 400 if no operations are named, 422 for other problems */
async function readSource(call: Call<'createRevert'>): Promise<RevertSource> {
  const { body } = call.request;
  const kinds = (['request_id', 'import_id', 'revert_id', 'change_set_id'] as const).filter(
    (name) => body[name] !== undefined,
  );
  const ofActor = (['actor_id', 'from', 'to'] as const).filter((name) => body[name] !== undefined);
  if (kinds.length + ofActor.length === 0)
    throw validationFailed(
      [
        buildFieldProblem(
          'request_id',
          'REQUIRED',
          'or import_id, revert_id, change_set_id, or actor_id with from and to is required',
        ),
      ],
      400,
    );
  const [, ...more] = [...kinds, ...ofActor.slice(0, 1)];
  const problems = more.map((name) =>
    buildFieldProblem(name, 'CONFLICTING_FIELDS', 'cannot be sent with the other operations'),
  );
  if (ofActor.length > 0)
    for (const name of ['actor_id', 'from', 'to'] as const)
      if (body[name] === undefined)
        problems.push(buildFieldProblem(name, 'REQUIRED', 'is required for the operations of an actor'));
  problems.push(...(await objectProblems(call)));
  if (problems.length > 0)
    throw validationFailed(problems, problems.every(({ code }) => code === 'REQUIRED') ? 400 : 422);
  if (body.actor_id !== undefined && body.from !== undefined && body.to !== undefined)
    return { actor: readActor(body.actor_id, body.from, body.to, call.now) };
  if (body.change_set_id !== undefined) return readChangeSet(call, body.change_set_id.toLowerCase());
  await requireStored(call);
  return {
    ...(body.request_id === undefined ? {} : { requestId: body.request_id.toLowerCase() }),
    ...(body.import_id === undefined ? {} : { importId: body.import_id.toLowerCase() }),
    ...(body.revert_id === undefined ? {} : { revertId: body.revert_id.toLowerCase() }),
  };
}

async function objectProblems({ request, services }: Call<'createRevert'>): Promise<FieldProblem[]> {
  const { objects = [] } = request.body;
  const allowed = [...(await services.loadWorkspace()).objects.keys()];
  return objects.flatMap((name, index) =>
    allowed.includes(name)
      ? []
      : [
          buildFieldProblem(`objects[${index}]`, 'INVALID_OPTION', 'must be the name of an object', {
            allowed,
            meant: findClosest(name, allowed),
          }),
        ],
  );
}

/** @throws ApiError 422 if the times are not in order, or too far apart */
function readActor(id: string, fromText: string, toText: string, now: Date): NonNullable<RevertSource['actor']> {
  const from = new Date(fromText);
  const to = new Date(Math.min(new Date(toText).getTime(), now.getTime()));
  if (new Date(toText) < from)
    throw validationFailed([buildFieldProblem('to', 'OUT_OF_RANGE', 'must not be before from')], 422);
  if (to.getTime() - from.getTime() > revertLimits.days * 86_400_000) {
    const rule = `must be at most ${revertLimits.days} days after from`;
    throw validationFailed([buildFieldProblem('to', 'OUT_OF_RANGE', rule)], 422);
  }
  return { id, from: from.toISOString(), to: to.toISOString() };
}

/** @throws ApiError 422 if the caller can see no such change set, 409 if it was not applied */
async function readChangeSet(call: Call<'createRevert'>, changeSetId: string): Promise<RevertSource> {
  const row = await findChangeSet(call.db.sql, await toViewer(call, call.caller, false), changeSetId);
  if (!row)
    throw validationFailed([buildFieldProblem('change_set_id', 'NOT_FOUND', 'must be the ID of a change set')], 422);
  if (row.status !== 'applied' || row.requestId === null)
    throw conflict('not_applied', 'The change set was not applied, so there is nothing to revert.', {
      status: row.status,
    });
  return { changeSetId, requestId: row.requestId };
}

/** @throws ApiError 422 if the import or the revert does not exist */
async function requireStored({ request, caller, db: { sql } }: Call<'createRevert'>): Promise<void> {
  const { import_id: importId, revert_id: revertId } = request.body;
  if (importId !== undefined && !(await findImport(sql, caller, importId)))
    throw validationFailed([buildFieldProblem('import_id', 'NOT_FOUND', 'must be the ID of an import')], 422);
  if (revertId !== undefined && !(await findRevert(sql, caller, revertId)))
    throw validationFailed([buildFieldProblem('revert_id', 'NOT_FOUND', 'must be the ID of a revert')], 422);
}

export const applyRevert: Handler<'applyRevert'> = async (call) => {
  const { caller, now } = call;
  const { sql } = call.db;
  const { digest, conflicts: onConflict } = call.request.body;
  const row = orNotFound(await lockRevert(sql, caller, call.request.path.id));
  requireApplicable(row, digest, onConflict, now);
  for (const scope of row.scopes) call.authorize(scope);
  const appliedBy = toApplier(call, ['reverts:create', ...row.scopes]);
  requireCompanyReach({
    caller: { ...caller, reach: caller.computeReach?.(['reverts:create', ...row.scopes]) ?? caller.reach },
  });
  const { importId } = row.source;
  if (importId !== undefined && row.objects === null) await beginImportUndo(call, importId);
  const change = { status: 'running', module: 'reverts', onConflict, dueAt: now, itemsUntil: null } as const;
  await updateRevert(sql, caller, row.id, change, { appliedBy });
  await requireRoom(call);
  call.db.record({ action: 'revert.apply', metadata: { revert_id: row.id, conflicts: onConflict } });
  return { status: 202, data: { revert: toRevert({ ...row, ...change, appliedBy }, caller.testMode, now) } };
};

/** Has an import be undone with its revert. @throws ApiError 409 if it has not ended, or is undone already */
async function beginImportUndo({ caller, db: { sql } }: Call, importId: string): Promise<void> {
  const undone = orNotFound(await lockImport(sql, caller, importId));
  requireEnded(undone);
  if (undone.status === 'undoing' || undone.status === 'undone') throw nothingToUndo();
  const wroteNothing = undone.dryRun || undone.created + undone.updated === 0;
  if (!wroteNothing) await updateImport(sql, caller, importId, { status: 'undoing', statusBeforeUndo: undone.status });
}

/** @throws ApiError 409 if the plan cannot be applied */
function requireApplicable(row: RevertRow, digest: string, onConflict: 'skip' | 'fail', now: Date): void {
  const { status, expiresAt, conflictCount } = row;
  if (status === 'planning')
    throw conflict('still_planning', 'The plan is not complete yet. Read the revert until it is planned.');
  if (status === 'running' || status === 'completed' || status === 'failed')
    throw conflict('already_applied', 'The revert was applied already.', { status });
  if (status === 'expired' || (expiresAt !== null && expiresAt <= now))
    throw conflict('expired', 'The plan has expired. Create a new revert.');
  if (digest !== row.digest)
    throw conflict('digest_mismatch', 'The digest is not that of the plan. Read the revert again.');
  if (onConflict === 'fail' && conflictCount > 0)
    throw conflict('conflicts', 'The plan has conflicts. Send `"conflicts": "skip"` to skip them.', {
      conflicts: conflictCount,
    });
}
