// Lead conversion: writes the customer, the account and the deal together.

import { findRecord } from '../../db/records/records.ts';
import { findDealOfLead, findMatches, moveToCustomer } from '../../db/sales/lead-conversion.ts';
import type { Status } from '../../domain/objects/configuration.ts';
import { getBuiltinObject, type Workspace } from '../../domain/objects/workspace.ts';
import type { CheckedRecord, StoredRecord } from '../../domain/records/draft.ts';
import { getTaskObject } from '../../domain/records/tasks.ts';
import { toEtag } from '../../domain/records/version.ts';
import { describeUpdate, type ShownRecord, showRecord } from '../../domain/records/view.ts';
import {
  buildAccount,
  buildCustomer,
  buildMatchKeys,
  checkDeal,
  findConvertedStatus,
} from '../../domain/sales/lead-conversion.ts';
import type { components } from '../../generated/api.ts';
import { type ApiError, buildProblem, conflict, orNotFound, validationFailed } from '../../runtime/errors.ts';
import type { Call, Handler } from '../../runtime/handler.ts';
import { lockForChange } from '../../services/records/locked-records.ts';
import { prepareChange, prepareNew, type ResolvedRecord, resolve } from '../../services/records/preparation.ts';
import type { RecordTarget } from '../../services/records/record-target.ts';
import { type Traced, writeChange, writeNewRecord } from '../../services/records/record-writes.ts';
import { requireMergesFinished } from '../../services/records/unfinished-merges.ts';

type Convert = Call<'convertLead'>;

/** A customer or an account of a converted lead. */
interface Party {
  id: string;
  created: boolean;
}

export const convertLead: Handler<'convertLead'> = async (call) => {
  const workspace = await call.services.loadWorkspace();
  const lead = orNotFound(await lockForChange(call, getBuiltinObject('leads', workspace), call.request.path.id));
  const [deal] = await Promise.all([wantedDeal(call, lead, workspace), requireMergesFinished(call, [lead.id])]);
  if (lead.values.converted_at !== null && lead.values.converted_customer_id !== null)
    throw await alreadyConverted(call, lead);
  const status = findConvertedStatus(lead, workspace);
  if (!status)
    throw conflict('no_converted_status', 'No active lead status has the outcome converted. Create one first.');

  const { customer, account } = await findOrCreateParties(call, lead, workspace);
  const made =
    deal &&
    (await makeDeal(
      call,
      deal,
      { lead_id: lead.id, customer_id: customer.id, account_id: account?.id ?? null },
      workspace,
    ));
  const ids = { customer_id: customer.id, account_id: account?.id ?? null, deal_id: made?.id ?? null };
  const converted = await markConverted(call, lead, status, ids, workspace);
  // After the pre-conditions of the status, which count what the lead has.
  const moved = await moveItems(call, lead.id, customer.id, workspace);
  const data = {
    lead: showRecord(getBuiltinObject('leads', workspace), converted),
    customer,
    account,
    deal: made ?? null,
    moved,
  };
  return { status: 200, etag: toEtag(converted), data };
};

/**
 * Returns the deal in the body, after validation.
 * @throws ApiError 400, 403 or 422 if the body is invalid
 */
async function wantedDeal(
  call: Convert,
  lead: StoredRecord,
  workspace: Workspace,
): Promise<ResolvedRecord | undefined> {
  const { deal: given, create_deal: wanted = given !== undefined } = call.request.body ?? {};
  const shape =
    wanted === false && given !== undefined
      ? [buildProblem('deal', 'CONFLICTING_FIELDS', 'deal is not allowed if create_deal is false')]
      : [];
  const { change, problems = [] } = wanted === true ? checkDeal(lead, given, workspace, call.now) : {};
  const deal = change && (await resolve(call, change));
  if (deal) problems.push(...deal.checked.problems.map((each) => ({ ...each, field: `deal.${each.field}` })));
  // Problems of `deal` are rejected like those of a separate record.
  if (problems.length > 0) throw validationFailed([...problems, ...shape, ...call.request.problems], 422);
  if (shape.length > 0 || call.request.problems.length > 0) throw call.request.rejection(shape);
  if (deal) call.authorize('deals:create');
  return deal;
}

/** Moves notes, tasks and attachments to the customer, unless the body keeps them on the lead. @returns how many of each */
async function moveItems(
  call: Convert,
  leadId: string,
  customerId: string,
  workspace: Workspace,
): Promise<components['schemas']['MovedItems']> {
  if (call.request.body?.keep_on_lead === true) return { notes: 0, tasks: 0, attachments: 0 };
  const { notes, tasks, attachments } = await moveToCustomer(
    call.db.sql,
    call.caller,
    leadId,
    customerId,
    call.currentTime(),
  );
  const object = getTaskObject(workspace);
  const changes = {
    object: { from: 'leads', to: 'customers' },
    record_id: { from: leadId, to: customerId },
  };
  for (const { id, changedAt } of tasks)
    call.db.record({ ...describeUpdate(object, id, changes, changedAt), occurredAt: changedAt });
  const moved = { notes, tasks: tasks.length, attachments };
  const metadata = { customer_id: customerId, moved };
  if (notes + tasks.length + attachments > 0)
    call.db.record({ action: 'lead.move_items', object: 'leads', recordId: leadId, metadata });
  return moved;
}

/** Returns a 409 with the results of the conversion that the caller can see. */
async function alreadyConverted({ caller, db: { sql } }: Convert, lead: StoredRecord): Promise<ApiError> {
  const { converted_at, converted_customer_id } = lead.values;
  const customer = await findRecord(sql, caller, 'customers', String(converted_customer_id));
  return conflict('already_converted', 'This lead is already converted.', {
    converted_at,
    customer_id: customer?.id ?? null,
    account_id: customer?.values.account_id ?? null,
    deal_id: await findDealOfLead(sql, caller, lead.id),
  });
}

/** Finds or creates the customer and, if the lead names a company, the account. */
async function findOrCreateParties(
  call: Convert,
  lead: StoredRecord,
  workspace: Workspace,
): Promise<{ customer: Party; account: Party | null }> {
  const { caller } = call;
  const { sql } = call.db;
  const keys = buildMatchKeys(lead, workspace);
  const { customer: known, accountId } = await findMatches(sql, caller, keys);
  if (known?.accountId)
    return { customer: { id: known.id, created: false }, account: { id: known.accountId, created: false } };
  let account: Party | null = null;
  if (accountId !== undefined) account = { id: accountId, created: false };
  else if (keys.company !== null) {
    call.authorize('accounts:create');
    account = await makeParty(call, 'accounts', buildAccount(lead, keys.company, workspace), workspace);
  }
  if (!known) {
    const content = buildCustomer(lead, account?.id ?? null, workspace);
    return { customer: await makeParty(call, 'customers', content, workspace), account };
  }
  const place = { workspace, object: getBuiltinObject('customers', workspace) };
  const before = account && (await lockForChange(call, place.object, known.id));
  if (account && before) {
    await writeOwn(call, place, before, { account_id: account.id });
  }
  return { customer: { id: known.id, created: false }, account };
}

async function makeParty(
  call: Convert,
  name: 'customers' | 'accounts',
  content: Pick<CheckedRecord, 'values' | 'custom'>,
  workspace: Workspace,
): Promise<Party> {
  const place = { workspace, object: getBuiltinObject(name, workspace) };
  const prepared = await prepareNew(call, place, await resolve(call, ours(content)));
  return { id: (await writeNewRecord(call, place, prepared)).id, created: true };
}

/** Returns content that the conversion itself builds from stored values. */
const ours = ({ values, custom }: Pick<CheckedRecord, 'values' | 'custom'>): CheckedRecord => ({
  values,
  custom,
  references: [],
  problems: [],
  defaulted: new Set(),
});

/** @throws ApiError 422 if the record does not meet the pre-conditions of the status */
async function writeOwn(
  call: Convert,
  place: RecordTarget,
  before: StoredRecord,
  values: CheckedRecord['values'],
  traced?: Traced,
): Promise<StoredRecord> {
  const prepared = await prepareChange(call, place, before, await resolve(call, ours({ values, custom: {} })));
  return prepared ? writeChange(call, place, prepared, traced) : before;
}

/**
 * @throws ApiError 422 if the deal does not meet the pre-conditions of its stage, 409 for a
 * duplicate
 */
async function makeDeal(
  call: Convert,
  deal: ResolvedRecord,
  links: Record<'lead_id' | 'customer_id' | 'account_id', string | null>,
  workspace: Workspace,
): Promise<ShownRecord> {
  const place = { workspace, object: getBuiltinObject('deals', workspace), inside: 'deal' };
  Object.assign(deal.checked.values, links);
  return showRecord(place.object, await writeNewRecord(call, place, await prepareNew(call, place, deal)));
}

/** @throws ApiError 422 if the lead does not meet the pre-conditions of the status */
function markConverted(
  call: Convert,
  lead: StoredRecord,
  status: Status,
  ids: { customer_id: string; account_id: string | null; deal_id: string | null },
  workspace: Workspace,
): Promise<StoredRecord> {
  const values = {
    lead_status: status.id,
    converted_customer_id: ids.customer_id,
    converted_at: lead.values.converted_at ?? call.now.toISOString(),
  };
  const place = { workspace, object: getBuiltinObject('leads', workspace) };
  return writeOwn(call, place, lead, values, { action: 'lead.convert', metadata: ids });
}
