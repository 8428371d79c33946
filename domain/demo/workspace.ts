// The demo workspace's configuration: a small company that sells solar systems.

import type { FieldOption, FieldType } from '../objects/builtin.ts';
import { exampleIds } from './ids.ts';
import { roofTypes } from './words.ts';

/** The demo has the same company id on every server, so that a later start finds it. */
export const demoCompanyId = '00000000-0000-7000-8000-00000000de40';

export const demoCompany = {
  name: 'Demo Solar',
  email: 'office@demo-solar.example',
  phone: '+493023125000',
  website: 'https://www.demo-solar.example',
  address: 'Lindenstraße 1',
  city: 'Berlin',
  state: 'Berlin',
  country: 'DE',
  postalCode: '10115',
  region: 'europe',
  industry: 'Renewable energy',
  timezone: 'Europe/Berlin',
  currency: 'EUR',
} as const;

export const demoAdmin = { email: 'demo@demo-solar.example', fullName: 'Dana Demo' } as const;

export const secondBranch = {
  id: exampleIds.branch,
  name: 'London',
  code: 'LON',
  city: 'London',
  country: 'GB',
  timezone: 'Europe/London',
} as const;

/** A branch without users and teams, for the example that deletes one. */
export const emptyBranch = {
  id: exampleIds.branchToDelete,
  name: 'Manchester',
  code: 'MAN',
  city: 'Manchester',
  country: 'GB',
  timezone: 'Europe/London',
} as const;

export interface Colleague {
  /** Set if the document's examples name the person. */
  id?: string;
  fullName: string;
  email: string;
  role: string;
  branch: 'main' | 'second';
}

/** The people besides the administrator. */
export const colleagues: readonly Colleague[] = [
  { fullName: 'Marta Lindqvist', email: 'marta@demo-solar.example', role: 'Sales_Manager', branch: 'main' },
  {
    id: exampleIds.user,
    fullName: 'Jonas Reuter',
    email: 'jonas@demo-solar.example',
    role: 'Sales_Rep',
    branch: 'main',
  },
  { fullName: 'Priya Nair', email: 'priya@demo-solar.example', role: 'Branch_Manager', branch: 'second' },
  {
    id: exampleIds.otherUser,
    fullName: 'Tom Gallagher',
    email: 'tom@demo-solar.example',
    role: 'Sales_Rep',
    branch: 'second',
  },
];

export const sources: readonly { id?: string; name: string; description: string; isEnabled: boolean }[] = [
  { name: 'Website', description: 'The contact form and the savings calculator', isEnabled: true },
  { name: 'Referral', description: 'Recommended by a customer', isEnabled: true },
  { name: 'Exhibition', description: 'Met at a stand', isEnabled: true },
  { name: 'Partner', description: 'Roofers and electricians we work with', isEnabled: true },
  { name: 'Phone', description: 'Called the office', isEnabled: true },
  { name: 'Newsletter', description: 'Answered a mailing', isEnabled: true },
  { id: exampleIds.source, name: 'Print advertising', description: 'Ended last year', isEnabled: false },
];

export interface TagCondition {
  field: string;
  operator: 'eq';
  value: string | number;
}

/**
 * A lead's tag is applied while all its conditions hold. A customer's tag reads named fields;
 * without conditions, it is applied by hand.
 */
export interface DemoTag {
  /** Set if the document's examples name the tag. */
  id?: string;
  object: 'leads' | 'customers';
  name: string;
  description: string;
  color: string;
  priority: number;
  conditions: readonly TagCondition[];
  /** For customers: the fields that the tag reads. */
  fields: readonly string[];
}

export const tags: readonly DemoTag[] = [
  {
    object: 'leads',
    name: 'Hot',
    description: 'Highest priority',
    color: '#DC2626',
    priority: 10,
    conditions: [{ field: 'priority', operator: 'eq', value: 1 }],
    fields: [],
  },
  {
    id: exampleIds.recordTag,
    object: 'leads',
    name: 'Recommended',
    description: 'Came through a customer',
    color: '#16A34A',
    priority: 20,
    conditions: [{ field: 'source', operator: 'eq', value: 'Referral' }],
    fields: [],
  },
  {
    id: exampleIds.tag,
    object: 'leads',
    name: 'Flat roof',
    description: 'Needs the mounting system for flat roofs',
    color: '#2563EB',
    priority: 30,
    conditions: [{ field: 'roof_type', operator: 'eq', value: 'flat' }],
    fields: [],
  },
  {
    object: 'customers',
    name: 'Key account',
    description: 'Set by hand',
    color: '#9333EA',
    priority: 10,
    conditions: [],
    fields: ['company_name'],
  },
  {
    object: 'customers',
    name: 'United Kingdom',
    description: 'Looked after by the branch in London',
    color: '#0891B2',
    priority: 20,
    conditions: [{ field: 'country', operator: 'eq', value: 'GB' }],
    fields: ['country'],
  },
];

export const customObject = { slug: 'visits', label: 'Site visit', plural: 'Site visits' } as const;

export interface DemoField {
  object: string;
  name: string;
  label: string;
  type: FieldType;
  required: boolean;
  options: readonly FieldOption[] | null;
}

const buildField = (object: string, name: string, label: string, type: FieldType): DemoField => ({
  object,
  name,
  label,
  type,
  required: false,
  options: null,
});

export const visitOutcomes: readonly FieldOption[] = [
  { label: 'Suitable', value: 'suitable' },
  { label: 'Suitable with repairs', value: 'suitable_with_repairs' },
  { label: 'Not suitable', value: 'not_suitable' },
];

/** The API name of the custom object. */
export const visitsObject = `object:${customObject.slug}`;

export const customFields: readonly DemoField[] = [
  { ...buildField('leads', 'roof_type', 'Roof type', 'select'), options: roofTypes },
  buildField('leads', 'energy_use_kwh', 'Energy use per year (kWh)', 'number'),
  buildField('leads', 'erp_number', 'ERP number', 'text'),
  { ...buildField(visitsObject, 'starts_at', 'Starts', 'datetime'), required: true },
  buildField(visitsObject, 'location', 'Location', 'text'),
  { ...buildField(visitsObject, 'outcome', 'Outcome', 'select'), options: visitOutcomes },
  buildField(visitsObject, 'roof_area_m2', 'Roof area (m²)', 'number'),
  buildField(visitsObject, 'has_shade', 'Has shade', 'boolean'),
  buildField(visitsObject, 'offer_due_on', 'Offer due', 'date'),
  buildField(visitsObject, 'travel_cost_minor', 'Travel cost', 'currency'),
  buildField(visitsObject, 'contact_email', 'Contact email', 'email'),
  buildField(visitsObject, 'contact_phone', 'Contact phone', 'phone'),
  buildField(visitsObject, 'report_url', 'Report', 'url'),
  buildField(visitsObject, 'findings', 'Findings', 'textarea'),
];
