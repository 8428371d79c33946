// Moving deals through their stages and leads through their statuses.
import { findReferences } from '../db/record-references.ts';
import { lockRecord, type StoredRecord } from '../db/records.ts';
import { etagOf } from '../domain/record-version.ts';
import { actionOf, type ShownRecord, showRecord } from '../domain/record-view.ts';
import { mergedRecord, resolveReferences } from '../domain/record-writes.ts';
import { statusItem } from '../domain/status-effects.ts';
import { checkMove, statusField } from '../domain/status-moves.ts';
import { builtinOf, type Status, type Workspace } from '../domain/workspace.ts';
import { conflict, notFound, preConditionsNotMet, validationFailed } from '../runtime/errors.ts';
import type { Call, Handler } from '../runtime/handler.ts';
import { unmetByChanges } from '../writes/pre-conditions.ts';
import { storeChange } from '../writes/store.ts';

type MoveCall = Call<'updateDealStage'> | Call<'updateLeadStatus'>;

interface Move {
  record: ShownRecord;
  etag: string;
  previous: { id: string; name: string } | null;
  status: { id: string; name: string; outcome: string };
  changed: boolean;
}

export const updateDealStage: Handler<'updateDealStage'> = async (call) => {
  const { record, etag, previous, status, changed } = await move(call, 'deals');
  return { status: 200, etag, data: { deal: record, previous_stage: previous, stage: status, changed } };
};

export const updateLeadStatus: Handler<'updateLeadStatus'> = async (call) => {
  const { record, etag, previous, status, changed } = await move(call, 'leads');
  return { status: 200, etag, data: { lead: record, previous_status: previous, status, changed } };
};

async function move(call: MoveCall, name: 'deals' | 'leads'): Promise<Move> {
  const { sql, caller, now, body } = call;
  const workspace = await call.workspace();
  const object = builtinOf(name, workspace);
  const before = await lockRecord(sql, caller, name, call.path.id);
  if (!before) throw notFound();
  const { status, change, ...checked } = checkMove(object, { ...body }, before, workspace, now);
  resolveReferences(change, await findReferences(sql, caller, change.references));
  const inFields = change.problems.map((each) => ({ ...each, field: `fields.${each.field}` }));
  const problems = [...checked.problems, ...inFields];
  const named = new Set(problems.map(({ field }) => field));
  const others = [...checked.shape, ...call.problems].filter(({ field }) => !named.has(field));
  // What fields holds is refused as the same change by the records API would be.
  if (problems.length > 0) throw validationFailed([...problems, ...others], 422);
  if (others.length > 0 || !status) throw call.refusal(checked.shape);

  const previous = statusItem(name, before.values[statusField[name]], workspace);
  if (previous?.id !== status.id && !status.isActive) {
    const reason = name === 'deals' ? 'stage_inactive' : 'status_inactive';
    throw conflict(reason, `${status.name} is not active: nothing can be moved there.`);
  }
  const merged = mergedRecord(object, before, change, workspace, now);
  if (merged) {
    const unmet = (await unmetByChanges(call, { workspace, object }, [{ before, merged }])).get(before.id);
    if (unmet) throw preConditionsNotMet(unmet);
  }
  const stored = await store(call, name, before, merged, workspace);
  return {
    record: showRecord(object, stored, workspace),
    etag: etagOf(stored),
    previous: previous ? { id: previous.id, name: previous.name } : null,
    status: shownStatus(status),
    changed: previous?.id !== status.id,
  };
}

/** Writes what the move changes, if anything; the reason is kept in the audit log either way. */
async function store(
  call: MoveCall,
  name: 'deals' | 'leads',
  before: StoredRecord,
  merged: StoredRecord | undefined,
  workspace: Workspace,
): Promise<StoredRecord> {
  const object = builtinOf(name, workspace);
  const { reason } = call.body;
  const metadata = reason === undefined ? {} : { metadata: { reason } };
  if (!merged) {
    if (reason !== undefined)
      call.record({ action: actionOf(object, 'update'), object: name, recordId: before.id, ...metadata });
    return before;
  }
  return storeChange(call, { workspace, object }, { before, merged }, metadata);
}

const shownStatus = ({ id, name, outcome }: Status) => ({ id, name, outcome });
