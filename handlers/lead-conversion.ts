// Converting a lead: the customer, the account and the deal that it becomes, written together.
import { v7 as uuidv7 } from 'uuid';
import { findDuplicate } from '../db/duplicates.ts';
import { findDealOfLead, findMatches } from '../db/lead-conversion.ts';
import { findReferences } from '../db/record-references.ts';
import { findRecord, lockRecord, type NewRecord, type StoredRecord } from '../db/records.ts';
import { duplicateSets } from '../domain/duplicates.ts';
import {
  accountOf,
  type CheckedDeal,
  checkDeal,
  convertedStatus,
  customerOf,
  matchKeys,
} from '../domain/lead-conversion.ts';
import { unmetByNew } from '../domain/pre-conditions.ts';
import { etagOf } from '../domain/record-version.ts';
import { type ShownRecord, showRecord } from '../domain/record-view.ts';
import { mergedRecord, newRecord, resolveReferences } from '../domain/record-writes.ts';
import { builtinOf, type Status, type Workspace } from '../domain/workspace.ts';
import {
  type ApiError,
  alreadyExists,
  conflict,
  notFound,
  preConditionsNotMet,
  problem,
  validationFailed,
} from '../runtime/errors.ts';
import type { Call, Handler } from '../runtime/handler.ts';
import { unmetByChanges } from '../writes/pre-conditions.ts';
import { storeChange, storeNewRecord } from '../writes/store.ts';

type Convert = Call<'convertLead'>;

/** A customer or an account that a lead becomes. */
interface Party {
  id: string;
  created: boolean;
}

export const convertLead: Handler<'convertLead'> = async (call) => {
  const { sql, caller } = call;
  const workspace = await call.workspace();
  const lead = await lockRecord(sql, caller, 'leads', call.path.id);
  if (!lead) throw notFound();
  const deal = await wantedDeal(call, lead, workspace);
  if (lead.values.converted_at !== null && lead.values.converted_customer_id !== null)
    throw await alreadyConverted(call, lead);
  const status = convertedStatus(lead, workspace);
  if (!status) throw conflict('no_converted_status', 'No active lead status has the outcome converted.');

  const { customer, account } = await partiesOf(call, lead, workspace);
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
  const data = {
    lead: showRecord(builtinOf('leads', workspace), converted, workspace),
    customer,
    account,
    deal: made ?? null,
  };
  return { status: 200, etag: etagOf(converted), data };
};

/**
 * The deal that the body asks for, checked.
 * @throws ApiError 400, 403 or 422 for a body that is wrong
 */
async function wantedDeal(call: Convert, lead: StoredRecord, workspace: Workspace): Promise<CheckedDeal | undefined> {
  const { deal: given, create_deal: wanted = given !== undefined } = call.body ?? {};
  const shape =
    wanted === false && given !== undefined
      ? [problem('deal', 'CONFLICTING_FIELDS', 'deal is sent although create_deal is false')]
      : [];
  const deal = wanted === true ? checkDeal(lead, given, workspace, call.now) : undefined;
  const problems = deal?.problems ?? [];
  if (deal) {
    resolveReferences(deal.change, await findReferences(call.sql, call.caller, deal.change.references));
    problems.push(...inDeal(deal.change.problems));
  }
  // What deal holds is refused as a record of its own would be.
  if (problems.length > 0) throw validationFailed([...problems, ...shape, ...call.problems], 422);
  if (shape.length > 0 || call.problems.length > 0) throw call.refusal(shape);
  if (deal) call.authorize('deals:create');
  return deal;
}

const inDeal = (problems: CheckedDeal['problems']) =>
  problems.map((each) => ({ ...each, field: `deal.${each.field}` }));

/** 409 with what the lead became, as far as the caller can see it. */
async function alreadyConverted({ sql, caller }: Convert, lead: StoredRecord): Promise<ApiError> {
  const { converted_at, converted_customer_id } = lead.values;
  const customer = await findRecord(sql, caller, 'customers', String(converted_customer_id));
  return conflict('already_converted', 'This lead was converted before.', {
    converted_at,
    customer_id: customer?.id ?? null,
    account_id: customer?.values.account_id ?? null,
    deal_id: await findDealOfLead(sql, caller, lead.id),
  });
}

/** Finds or makes the customer and, where the lead names a company, the account. */
async function partiesOf(
  call: Convert,
  lead: StoredRecord,
  workspace: Workspace,
): Promise<{ customer: Party; account: Party | null }> {
  const { sql, caller } = call;
  const keys = matchKeys(lead, workspace);
  const { customer: known, accountId } = await findMatches(sql, caller, keys);
  if (known?.accountId)
    return { customer: { id: known.id, created: false }, account: { id: known.accountId, created: false } };
  let account: Party | null = null;
  if (accountId !== undefined) account = { id: accountId, created: false };
  else if (keys.company !== null) {
    call.authorize('accounts:create');
    const planned = { id: uuidv7(), ...accountOf(lead, keys.company, workspace) };
    account = { id: (await insert(call, 'accounts', planned, workspace)).id, created: true };
  }
  if (!known) {
    const planned = { id: uuidv7(), ...customerOf(lead, account?.id ?? null, workspace) };
    return { customer: { id: (await insert(call, 'customers', planned, workspace)).id, created: true }, account };
  }
  const before = account && (await lockRecord(sql, caller, 'customers', known.id));
  if (account && before) {
    const merged = { ...before, values: { ...before.values, account_id: account.id } };
    await storeChange(call, { workspace, object: builtinOf('customers', workspace) }, { before, merged });
  }
  return { customer: { id: known.id, created: false }, account };
}

function insert(
  call: Convert,
  name: 'customers' | 'accounts' | 'deals',
  record: NewRecord,
  workspace: Workspace,
): Promise<StoredRecord> {
  return storeNewRecord(call, { workspace, object: builtinOf(name, workspace) }, record);
}

/** @throws ApiError 422 when its stage asks for more, 409 for a duplicate */
async function makeDeal(
  call: Convert,
  { change }: CheckedDeal,
  links: Record<'lead_id' | 'customer_id' | 'account_id', string | null>,
  workspace: Workspace,
): Promise<ShownRecord> {
  const { sql, caller, now } = call;
  const deals = builtinOf('deals', workspace);
  Object.assign(change.values, links);
  const planned = newRecord(deals, uuidv7(), change, workspace, now);
  const unmet = unmetByNew(deals, planned, change, workspace, now);
  if (unmet.length > 0) throw preConditionsNotMet(inDeal(unmet));
  const duplicate = await findDuplicate(
    sql,
    caller,
    'deals',
    duplicateSets(deals, workspace, change.values, change.custom),
  );
  if (duplicate) {
    const { matchedFields, visible, id } = duplicate;
    throw alreadyExists(`A deal with this ${matchedFields.join(' and ')} exists.`, matchedFields, visible ? id : null);
  }
  return showRecord(deals, await insert(call, 'deals', planned, workspace), workspace);
}

/** @throws ApiError 422 when the status asks more of the lead */
async function markConverted(
  call: Convert,
  lead: StoredRecord,
  status: Status,
  ids: { customer_id: string; account_id: string | null; deal_id: string | null },
  workspace: Workspace,
): Promise<StoredRecord> {
  const { now } = call;
  const leads = builtinOf('leads', workspace);
  const values = {
    lead_status: status.id,
    converted_customer_id: ids.customer_id,
    converted_at: lead.values.converted_at ?? now.toISOString(),
  };
  const merged = mergedRecord(leads, lead, { values, custom: {} }, workspace, now);
  if (!merged) throw new Error('a converted lead was converted again');
  const place = { workspace, object: leads };
  const unmet = (await unmetByChanges(call, place, [{ before: lead, merged }])).get(lead.id);
  if (unmet) throw preConditionsNotMet(unmet);
  const traced = { action: 'lead.convert', metadata: ids };
  return storeChange(call, place, { before: lead, merged }, traced);
}
