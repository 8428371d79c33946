// What a lead becomes: the customer, the account and the deal that are made of it.

import type { Status } from '../objects/configuration.ts';
import { type FieldProblem, fieldProblem, type StoredValue, toResponseValue } from '../objects/field-values.ts';
import { builtinOf, type Workspace, type WorkspaceObject } from '../objects/workspace.ts';
import type { CheckedRecord, StoredRecord } from '../records/draft.ts';
import { checkRecord } from '../records/values.ts';
import { statusesOf, statusItem } from '../settings/status-effects.ts';

/** By what the customer and the account that a lead stands for are recognised. */
export interface MatchKeys {
  /** The customer that the lead became before it was reopened. */
  customerId: string | null;
  email: string | null;
  /** Only of a lead without an address: several people may share a telephone. */
  mobile: string | null;
  company: string | null;
}

export function matchKeys(lead: StoredRecord, workspace: Workspace): MatchKeys {
  const text = textsOf(lead, builtinOf('leads', workspace));
  const email = text('email');
  return {
    customerId: lead.values.converted_customer_id as string | null,
    email,
    mobile: email === null ? text('mobile') : null,
    company: text('company_name'),
  };
}

/** The status that conversion moves a lead to: where it is, if that means converted, or the first active one that does. */
export function convertedStatus(lead: StoredRecord, workspace: Workspace): Status | undefined {
  const present = statusItem('leads', lead.values.lead_status, workspace);
  if (present?.outcome === 'converted') return present;
  return statusesOf('leads', workspace).find((status) => status.isActive && status.outcome === 'converted');
}

const customerFields = [
  'first_name',
  'last_name',
  'email',
  'mobile',
  'company_name',
  'job_title',
  'website',
  'city',
  'state',
  'country',
  'postal_code',
  'source',
  'notes',
];
const accountFields = ['website', 'city', 'state', 'country', 'postal_code'];

type Content = Pick<CheckedRecord, 'values' | 'custom'>;

/** The customer that a lead becomes, with the tenant's own fields that both objects have. */
export function customerOf(lead: StoredRecord, accountId: string | null, workspace: Workspace): Content {
  const [leads, customers] = [builtinOf('leads', workspace), builtinOf('customers', workspace)];
  return {
    values: {
      ...copied(lead, leads, customers, customerFields),
      account_id: accountId,
      assigned_to: lead.values.assigned_to ?? null,
      lead_id: lead.id,
      last_contacted_at: lead.values.last_contacted_at ?? null,
    },
    custom: sharedCustom(lead, leads, customers),
  };
}

/** The account of a lead's company. */
export function accountOf(lead: StoredRecord, company: string, workspace: Workspace): Content {
  const [leads, accounts] = [builtinOf('leads', workspace), builtinOf('accounts', workspace)];
  return {
    values: {
      ...copied(lead, leads, accounts, accountFields),
      name: company,
      assigned_to: lead.values.assigned_to ?? null,
    },
    custom: {},
  };
}

function copied(
  lead: StoredRecord,
  from: WorkspaceObject,
  to: WorkspaceObject,
  names: readonly string[],
): Record<string, StoredValue> {
  const shared = names.filter((name) => from.fields.has(name) && to.fields.has(name));
  return Object.fromEntries(shared.map((name) => [name, lead.values[name] ?? null]));
}

/** Fields of one name and type; of selects, only values that the other one offers too. */
function sharedCustom(lead: StoredRecord, from: WorkspaceObject, to: WorkspaceObject): Record<string, StoredValue> {
  const shared = Object.entries(lead.custom).filter(([name, value]) => {
    const [field, target] = [from.fields.get(name), to.fields.get(name)];
    if (!field?.custom || !target?.custom || field.type !== target.type) return false;
    return target.type !== 'select' || target.options?.some((option) => option.value === value);
  });
  return Object.fromEntries(shared);
}

/** What the conversion sets on a deal itself. */
const linksOfDeal = ['customer_id', 'account_id', 'lead_id'];

export interface CheckedDeal {
  change: CheckedRecord;
  /** By their place in the body. */
  problems: FieldProblem[];
}

/** Checks the deal that is to be made, as a record of its own would be; what is left out comes from the lead. */
export function checkDeal(lead: StoredRecord, given: unknown, workspace: Workspace, now: Date): CheckedDeal {
  const deals = builtinOf('deals', workspace);
  const fields = isObject(given) ? given : {};
  const links = linksOfDeal.filter((name) => Object.hasOwn(fields, name));
  const own = Object.fromEntries(Object.entries(fields).filter(([name]) => !links.includes(name)));
  const change = checkRecord(deals, { ...defaultsOf(lead, own, workspace), ...own }, 'create', workspace, now);
  // Nobody named the lead's own assignee here, who stays even when they are no longer active.
  if (!('assigned_to' in own)) change.references = change.references.filter(({ kind }) => kind !== 'user');
  const problems = links.map((name) =>
    fieldProblem(`deal.${name}`, 'CONFLICTING_FIELDS', 'is set by the conversion and cannot be sent'),
  );
  return { change, problems };
}

function defaultsOf(lead: StoredRecord, own: Record<string, unknown>, workspace: Workspace): Record<string, unknown> {
  const [leads, deals] = [builtinOf('leads', workspace), builtinOf('deals', workspace)];
  const text = textsOf(lead, leads);
  const person = [text('first_name'), text('last_name')].filter((name) => name !== null).join(' ');
  const defaults: Record<string, unknown> = {
    name: text('company_name') ?? (person === '' ? (text('email') ?? text('mobile') ?? 'Deal') : person),
  };
  const source = leads.fields.get('source');
  const active = workspace.sources.some((each) => each.id === lead.values.source && each.isActive);
  if (source && active && deals.fields.has('source')) defaults.source = toResponseValue(source, lead.values.source);
  const assignee = lead.values.assigned_to ?? null;
  if (assignee !== null && deals.fields.has('assigned_to') && !('assigned_to_email' in own))
    defaults.assigned_to = assignee;
  return defaults;
}

/** Texts of published fields; null where there is none. */
function textsOf(record: StoredRecord, object: WorkspaceObject): (name: string) => string | null {
  return (name) => (object.fields.has(name) ? ((record.values[name] ?? null) as string | null) : null);
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
