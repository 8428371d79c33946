// Converts a customer to its profile: names instead of ids, without disabled fields.
import type { components } from '../../generated/api.ts';
import type { FieldProblem, StoredValue } from '../objects/field-values.ts';
import { quoteName } from '../objects/queryable.ts';
import { findClosest } from '../objects/suggestions.ts';
import type { WorkspaceObject } from '../objects/workspace.ts';
import type { StoredRecord } from '../records/draft.ts';
import { showRecord } from '../records/view.ts';

type Customer = components['schemas']['Customer'];

const groups = ['contacts', 'deals_count', 'leads_count', 'activities_count', 'custom_fields'] as const;

export type IncludeGroup = (typeof groups)[number];

/** Parses the parameter: names of groups, separated by commas. */
export function parseInclude(text: string): { include: ReadonlySet<IncludeGroup>; problems: FieldProblem[] } {
  const include = new Set<IncludeGroup>();
  const problems: FieldProblem[] = [];
  const names = text.trim() === '' ? [] : new Set(text.split(',').map((name) => name.trim()));
  for (const name of names) {
    const group = groups.find((each) => each === name);
    if (group) include.add(group);
    else {
      const message = `include: ${quoteName(name)} is not one of the allowed values.`;
      const meant = findClosest(name, groups);
      const suggested = meant === undefined ? {} : { did_you_mean: meant };
      problems.push({ field: 'include', code: 'INVALID_OPTION', message, allowed: [...groups], ...suggested });
    }
  }
  return { include, problems };
}

/** A customer in the contacts of another customer. */
interface Contact {
  id: string;
  first_name: string | null;
  last_name: string | null;
  email: string | null;
  mobile: string | null;
  phone: string | null;
  job_title: string | null;
}

/** Data that is looked up in addition to the record; groups that were not requested are null. */
export interface Profile {
  createdBy: components['schemas']['Actor'];
  account: Customer['account'];
  assignee: Customer['assigned_to'];
  tags: Customer['tags'];
  contacts: Contact[] | null;
  dealsCount: number | null;
  leadsCount: number | null;
  activitiesCount: number | null;
}

/** Additional fields of a profile, each with the field that must be enabled for it. */
const beside: Readonly<Record<string, string>> = { account: 'account_id' };

export function showCustomer(
  object: WorkspaceObject,
  record: StoredRecord,
  profile: Profile,
  include: ReadonlySet<IncludeGroup>,
): Customer {
  const shown = showRecord(object, record);
  const text = (name: string) => (shown[name] ?? null) as string | null;
  const self = { ...(record.values as unknown as Contact), id: record.id };
  const fields: Record<string, unknown> = {
    first_name: text('first_name'),
    last_name: text('last_name'),
    email: text('email'),
    mobile: text('mobile'),
    phone: text('phone'),
    extension: text('extension'),
    company_name: text('company_name'),
    account_id: text('account_id'),
    account: profile.account,
    job_title: text('job_title'),
    website: text('website'),
    address: text('address'),
    city: text('city'),
    state: text('state'),
    country: text('country'),
    postal_code: text('postal_code'),
    source: text('source'),
    source_id: text('source_id'),
    notes: text('notes'),
    assigned_to: profile.assignee,
    lead_id: text('lead_id'),
    last_contacted_at: text('last_contacted_at'),
  };
  const published = Object.entries(fields).filter(([name]) => object.fields.has(beside[name] ?? name));
  return {
    id: record.id,
    ...(Object.fromEntries(published) as Partial<Customer>),
    full_name: fullName(object, self),
    tags: profile.tags,
    ...(profile.contacts === null ? {} : { contacts: buildContacts(object, self, profile.contacts) }),
    ...(profile.dealsCount === null ? {} : { deals_count: profile.dealsCount }),
    ...(profile.leadsCount === null ? {} : { leads_count: profile.leadsCount }),
    ...(profile.activitiesCount === null ? {} : { activities_count: profile.activitiesCount }),
    ...(include.has('custom_fields') ? { custom_fields: customFields(object, shown) } : {}),
    created_by: profile.createdBy,
    created_at: shown.created_at,
    updated_at: shown.updated_at,
  };
}

function customFields(
  object: WorkspaceObject,
  shown: Readonly<Record<string, StoredValue>>,
): Record<string, StoredValue> {
  const custom = [...object.fields.values()].filter((field) => field.custom);
  return Object.fromEntries(custom.map((field) => [field.name, shown[field.name] ?? null]));
}

/** Returns the customer itself as the primary contact, then the others of its account. */
function buildContacts(object: WorkspaceObject, self: Contact, others: readonly Contact[]) {
  const value = (person: Contact, name: keyof Contact) => (object.fields.has(name) ? person[name] : null);
  return [self, ...others].map((person) => ({
    id: person.id,
    full_name: fullName(object, person),
    email: value(person, 'email'),
    phone: value(person, 'mobile') ?? value(person, 'phone'),
    job_title: value(person, 'job_title'),
    is_primary: person === self,
  }));
}

function fullName(object: WorkspaceObject, person: Contact): string {
  const names = (['first_name', 'last_name'] as const).map((name) => (object.fields.has(name) ? person[name] : null));
  return names.filter((name) => name !== null).join(' ');
}
