// Lead conversion: the customer, the account and the deal that a lead becomes.

import type { Status } from '../objects/configuration.ts';
import { buildFieldProblem, type FieldProblem, type StoredValue, toResponseValue } from '../objects/field-values.ts';
import { foldName } from '../objects/name-folding.ts';
import { getBuiltinObject, type Workspace, type WorkspaceObject } from '../objects/workspace.ts';
import type { CheckedRecord, StoredRecord } from '../records/draft.ts';
import { checkRecord } from '../records/values.ts';
import { findStatusItem, listStatuses } from '../settings/status-effects.ts';

/** The values that identify an existing customer and account of a lead. */
export interface MatchKeys {
  /** The customer that the lead became before it was reopened. */
  customerId: string | null;
  email: string | null;
  /** Only for a lead without an email address, because several people may share a phone. */
  mobile: string | null;
  company: string | null;
  /** The company in the form in which names are compared. */
  companyKey: string | null;
}

export function buildMatchKeys(lead: StoredRecord, workspace: Workspace): MatchKeys {
  const text = createTextReader(lead, getBuiltinObject('leads', workspace));
  const [email, company] = [text('email'), text('company_name')];
  return {
    customerId: lead.values.converted_customer_id as string | null,
    email,
    mobile: email === null ? text('mobile') : null,
    company,
    companyKey: company === null ? null : foldName(company.trim()),
  };
}

/**
 * Returns the status for a converted lead: the current one if its outcome is converted, otherwise
 * the first active one with that outcome.
 */
export function findConvertedStatus(lead: StoredRecord, workspace: Workspace): Status | undefined {
  const present = findStatusItem('leads', lead.values.lead_status, workspace);
  if (present?.outcome === 'converted') return present;
  return listStatuses('leads', workspace).find((status) => status.isActive && status.outcome === 'converted');
}

const customerFields = [
  'first_name',
  'last_name',
  'email',
  'mobile',
  'extension',
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

/** Returns the customer of a lead, with the custom fields that both objects have. */
export function buildCustomer(lead: StoredRecord, accountId: string | null, workspace: Workspace): Content {
  const [leads, customers] = [getBuiltinObject('leads', workspace), getBuiltinObject('customers', workspace)];
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

/** Returns the account of a lead's company. */
export function buildAccount(lead: StoredRecord, company: string, workspace: Workspace): Content {
  const [leads, accounts] = [getBuiltinObject('leads', workspace), getBuiltinObject('accounts', workspace)];
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

/**
 * Returns fields with the same name and type; of selects, only values that the target also offers.
 */
function sharedCustom(lead: StoredRecord, from: WorkspaceObject, to: WorkspaceObject): Record<string, StoredValue> {
  const shared = Object.entries(lead.custom).filter(([name, value]) => {
    const [field, target] = [from.fields.get(name), to.fields.get(name)];
    if (!field?.custom || !target?.custom || field.type !== target.type) return false;
    return target.type !== 'select' || target.options?.some((option) => option.value === value);
  });
  return Object.fromEntries(shared);
}

/** Links of the deal that the conversion sets. */
const linksOfDeal = ['customer_id', 'account_id', 'lead_id'];

export interface CheckedDeal {
  change: CheckedRecord;
  /** By their path in the body. */
  problems: FieldProblem[];
}

/** Checks the deal like a separate record. Missing fields come from the lead. */
export function checkDeal(lead: StoredRecord, given: unknown, workspace: Workspace, now: Date): CheckedDeal {
  const deals = getBuiltinObject('deals', workspace);
  const fields = isObject(given) ? given : {};
  const links = linksOfDeal.filter((name) => Object.hasOwn(fields, name));
  const own = Object.fromEntries(Object.entries(fields).filter(([name]) => !links.includes(name)));
  const change = checkRecord(deals, { ...buildDefaults(lead, own, workspace), ...own }, 'create', workspace, now);
  // The body did not name the lead's assignee, who stays even if no longer active.
  if (!('assigned_to' in own)) change.references = change.references.filter(({ kind }) => kind !== 'user');
  const problems = links.map((name) =>
    buildFieldProblem(`deal.${name}`, 'CONFLICTING_FIELDS', 'is set by the conversion and cannot be sent'),
  );
  return { change, problems };
}

function buildDefaults(
  lead: StoredRecord,
  own: Record<string, unknown>,
  workspace: Workspace,
): Record<string, unknown> {
  const [leads, deals] = [getBuiltinObject('leads', workspace), getBuiltinObject('deals', workspace)];
  const text = createTextReader(lead, leads);
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

/** Returns the texts of published fields; null for missing ones. */
function createTextReader(record: StoredRecord, object: WorkspaceObject): (name: string) => string | null {
  return (name) => (object.fields.has(name) ? ((record.values[name] ?? null) as string | null) : null);
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
