// The do-not-call list: read and add. Entries cannot be removed.
import { v7 as uuidv7 } from 'uuid';
import { toActor } from '../../db/client/created-by.ts';
import { addDnc, type DncRow, listDnc } from '../../db/messaging/do-not-call.ts';
import { readAddress } from '../../domain/messaging/addresses.ts';
import { buildPatterns } from '../../domain/messaging/number-search.ts';
import type { components } from '../../generated/api.ts';
import { validationFailed } from '../../runtime/errors.ts';
import type { Handler } from '../../runtime/handler.ts';
import { readPage } from '../../runtime/paging.ts';

export const listDncEntries: Handler<'listDncEntries'> = async (call) => {
  const { caller } = call;
  const { query } = call.request;
  const { sql } = call.db;
  const { search } = query;
  const patterns =
    search === undefined ? undefined : buildPatterns(search, (await call.services.loadWorkspace()).country);
  const { rows, ...rest } = await readPage(
    call,
    ['do-not-call', patterns?.join(' ')],
    (after, limit) => listDnc(sql, caller, patterns, after, limit),
    (last: DncRow) => [last.createdAt.toISOString(), last.id],
  );
  return { status: 200, data: { entries: rows.map(toDncEntryResponse), ...rest } };
};

export const createDncEntry: Handler<'createDncEntry'> = async (call) => {
  const { caller, now } = call;
  const { body } = call.request;
  const { sql } = call.db;
  const { country } = await call.services.loadWorkspace();
  const read = readAddress('phone', 'phone_number', body.phone_number, country);
  if ('problem' in read) throw validationFailed([read.problem], 400);
  const { entry, isNew } = await addDnc(
    sql,
    caller,
    {
      id: uuidv7(),
      phoneNumber: read.value,
      source: 'api',
      createdAt: now,
      reason: body.reason ?? null,
      notes: body.notes ?? null,
    },
    caller.actor,
  );
  if (isNew)
    call.db.record({
      action: 'dnc_entry.create',
      object: 'dnc_entries',
      recordId: entry.id,
      metadata: { source: 'api' },
    });
  return { status: isNew ? 201 : 200, data: { entry: toDncEntryResponse(entry), already_present: !isNew } };
};

function toDncEntryResponse(row: DncRow): components['schemas']['DncEntry'] {
  return {
    id: row.id,
    phone_number: row.phoneNumber,
    reason: row.reason,
    notes: row.notes,
    source: row.source,
    created_by: toActor(row),
    created_at: row.createdAt.toISOString(),
  };
}
