// Message drafts: create, list and withdraw. Only people can approve them.

import { v7 as uuidv7 } from 'uuid';
import { toActor } from '../../db/client/created-by.ts';
import * as db from '../../db/messaging/drafts.ts';
import { findOptOuts } from '../../db/messaging/opt-outs.ts';
import { findActiveNumber } from '../../db/messaging/phone-numbers.ts';
import { isActiveUser } from '../../db/people/users.ts';
import { readAddress } from '../../domain/messaging/addresses.ts';
import { toDraftResponse } from '../../domain/messaging/draft-view.ts';
import { buildDraftEvent, longestText, newDraft } from '../../domain/messaging/drafts.ts';
import { sendTogether } from '../../domain/service/messages.ts';
import { buildProblem, conflict, type FieldProblem, orNotFound } from '../../runtime/errors.ts';
import type { Call, Handler } from '../../runtime/handler.ts';
import { readPage } from '../../runtime/paging.ts';
import { findAboutRecord } from '../../services/records/about-record.ts';

export const listMessageDrafts: Handler<'listMessageDrafts'> = async (call) => {
  const { caller } = call;
  const { query } = call.request;
  const { sql } = call.db;
  const { status, channel, object, record_id: recordId } = query;
  const filter = { status, channel, object, recordId };
  const { rows, ...rest } = await readPage(
    call,
    ['message drafts', status, channel, object, recordId],
    (after, limit) => db.listDrafts(sql, caller, filter, after, limit),
    (last: db.DraftRow) => [last.createdAt.toISOString(), last.id],
  );
  return { status: 200, data: { drafts: await toDraftResponses(call, rows), ...rest } };
};

export const getMessageDraft: Handler<'getMessageDraft'> = async (call) => {
  const row = orNotFound(await db.findDraft(call.db.sql, call.caller, call.request.path.id));
  return { status: 200, data: { draft: await loadDraftResponse(call, row) } };
};

export const createMessageDraft: Handler<'createMessageDraft'> = async (call) => {
  const { caller, now } = call;
  const { body } = call.request;
  const { sql } = call.db;
  const { recipient, sender, about } = await checkDraft(call);
  const draft = newDraft(
    {
      id: uuidv7(),
      channel: body.channel,
      recipient,
      sender,
      body: body.body,
      subject: body.subject?.trim() ?? null,
      note: body.note ?? null,
      object: about.object,
      recordId: about.recordId,
    },
    null,
    now,
  );
  await db.insertDraft(sql, caller, draft, caller);
  call.db.record({
    action: 'message_draft.create',
    object: 'message_drafts',
    recordId: draft.id,
    metadata: { channel: draft.channel },
  });
  const { kind, id, name } = caller.actor;
  const row = { ...draft, createdByKind: kind, createdById: id, createdByName: name };
  return { status: 201, data: { draft: await loadDraftResponse(call, row) } };
};

export const withdrawMessageDraft: Handler<'withdrawMessageDraft'> = async (call) => {
  const { caller, now } = call;
  const { path } = call.request;
  const { sql } = call.db;
  const row = orNotFound(await db.lockDraft(sql, caller, path.id));
  if (row.status !== 'draft')
    throw conflict('not_a_draft', `Only messages with the status draft can be withdrawn. This one is ${row.status}.`, {
      status: row.status,
    });
  const reason = call.request.body?.reason ?? null;
  await db.withdrawDraft(sql, caller, row.id, reason, now);
  call.db.record({
    action: 'message_draft.withdraw',
    object: 'message_drafts',
    recordId: row.id,
    changes: { status: { from: 'draft', to: 'withdrawn' } },
    event: buildDraftEvent(row, 'draft', 'withdrawn', now),
  });
  const after: db.DraftRow = { ...row, status: 'withdrawn', withdrawalReason: reason, updatedAt: now };
  return { status: 200, data: { draft: await loadDraftResponse(call, after) } };
};

/**
 * Validates what the schema cannot express: addresses, and the rules of each channel.
 * @returns the addresses in stored form, and the record of the draft
 * @throws ApiError 400 or 422 with every problem
 */
async function checkDraft(call: Call<'createMessageDraft'>) {
  const { channel, to, from, subject, body, object, record_id: recordId } = call.request.body;
  const { country } = await call.services.loadWorkspace();
  const problems: FieldProblem[] = [];
  const kind = channel === 'email' ? 'email' : 'phone';
  const readInto = (field: string, text: string): string | null => {
    const read = readAddress(kind, field, text, country);
    if ('value' in read) return read.value;
    problems.push(read.problem);
    return null;
  };
  const recipient = readInto('to', to);
  if (channel === 'email' && subject === undefined)
    problems.push(buildProblem('subject', 'REQUIRED', 'subject is required for emails'));
  if (channel !== 'email' && subject !== undefined)
    problems.push(buildProblem('subject', 'CONFLICTING_FIELDS', `subject is not allowed for ${channel}`));
  if (channel === 'sms' && [...body].length > longestText)
    problems.push(buildProblem('body', 'TOO_LONG', `body must have at most ${longestText} characters for sms`));
  const sender = from === undefined ? null : readInto('from', from);
  if (sender !== null && !(await isOwn(call, kind, sender))) {
    const message =
      kind === 'email'
        ? 'from must be the email address of an active user'
        : 'from must be an active phone number of this workspace that can send SMS';
    problems.push(buildProblem('from', 'NOT_FOUND', message));
  }
  if ((object === undefined) !== (recordId === undefined)) {
    const missing = object === undefined ? 'object' : 'record_id';
    problems.push(buildProblem(missing, 'REQUIRED', sendTogether(['object', 'record_id'])));
  }
  const about = await findAboutRecord(call, object === undefined ? {} : call.request.body);
  if ('problem' in about) problems.push(about.problem);
  if (problems.length > 0 || recipient === null || 'problem' in about) throw call.request.rejection(problems);
  return { recipient, sender, about };
}

async function isOwn({ caller, db: { sql } }: Call, kind: 'email' | 'phone', address: string): Promise<boolean> {
  if (kind === 'email') return isActiveUser(sql, caller.companyId, { email: address });
  return (await findActiveNumber(sql, caller, address))?.canSms === true;
}

async function toDraftResponses(call: Pick<Call, 'db' | 'caller'>, rows: readonly db.DraftRow[]) {
  const isOptedOut = await findOptOuts(call.db.sql, call.caller, rows);
  return rows.map((row) => toDraftResponse(row, toActor(row), isOptedOut(row), call.caller.testMode));
}

async function loadDraftResponse(call: Pick<Call, 'db' | 'caller'>, row: db.DraftRow) {
  const isOptedOut = await findOptOuts(call.db.sql, call.caller, [row]);
  return toDraftResponse(row, toActor(row), isOptedOut(row), call.caller.testMode);
}
