// Moves deals through their stages and leads through their statuses.

import type { Status } from '../../domain/objects/configuration.ts';
import { getBuiltinObject } from '../../domain/objects/workspace.ts';
import type { StoredRecord } from '../../domain/records/draft.ts';
import { computeChangeTime, toEtag } from '../../domain/records/version.ts';
import { buildAuditActionName, type ShownRecord, showRecord } from '../../domain/records/view.ts';
import { checkMove, statusField } from '../../domain/sales/status-moves.ts';
import { findStatusItem } from '../../domain/settings/status-effects.ts';
import { conflict, orNotFound, validationFailed } from '../../runtime/errors.ts';
import type { Call, Handler } from '../../runtime/handler.ts';
import { lockForChange } from '../../services/records/locked-records.ts';
import { holdReferences, type PreparedChange, prepareChange, resolve } from '../../services/records/preparation.ts';
import type { RecordTarget } from '../../services/records/record-target.ts';
import { writeChange } from '../../services/records/record-writes.ts';

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
  const { now } = call;
  const { body } = call.request;
  const workspace = await call.services.loadWorkspace();
  const object = getBuiltinObject(name, workspace);
  const [, locked] = await Promise.all([
    holdReferences(call, { workspace, object }, [body.fields]),
    lockForChange(call, object, call.request.path.id),
  ]);
  const before = orNotFound(locked);
  const { status, change, ...checked } = checkMove(object, { ...body }, before, workspace, now);
  const item = await resolve(call, change);
  const inFields = item.checked.problems.map((each) => ({ ...each, field: `fields.${each.field}` }));
  const problems = [...checked.problems, ...inFields];
  const named = new Set(problems.map(({ field }) => field));
  const others = [...checked.shape, ...call.request.problems].filter(({ field }) => !named.has(field));
  // Problems of `fields` are rejected like the same change by the records API.
  if (problems.length > 0) throw validationFailed([...problems, ...others], 422);
  if (others.length > 0 || !status) throw call.request.rejection(checked.shape);

  const previous = findStatusItem(name, before.values[statusField[name]], workspace);
  if (previous?.id !== status.id && !status.isActive) {
    const reason = name === 'deals' ? 'stage_inactive' : 'status_inactive';
    throw conflict(reason, `The status ${status.name} is inactive. Activate it first, or choose another one.`);
  }
  const place = { workspace, object };
  const stored = await write(call, place, before, await prepareChange(call, place, before, item));
  return {
    record: showRecord(object, stored),
    etag: toEtag(stored),
    previous: previous ? { id: previous.id, name: previous.name } : null,
    status: toStatusResponse(status),
    changed: previous?.id !== status.id,
  };
}

/** Writes the changes of the move, if any. The reason is stored in the audit log either way. */
async function write(
  call: MoveCall,
  place: RecordTarget,
  before: StoredRecord,
  prepared: PreparedChange | undefined,
): Promise<StoredRecord> {
  const { object } = place;
  const { reason } = call.request.body;
  const metadata = reason === undefined ? {} : { metadata: { reason } };
  if (prepared) return writeChange(call, place, prepared, metadata);
  if (reason !== undefined) {
    const noted = {
      action: buildAuditActionName(object, 'update'),
      object: object.object,
      recordId: before.id,
      ...metadata,
    };
    call.db.record({ ...noted, occurredAt: computeChangeTime(before, call.currentTime()) });
  }
  return before;
}

const toStatusResponse = ({ id, name, outcome }: Status) => ({ id, name, outcome });
