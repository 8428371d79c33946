// The six built-in objects and their fields, as in every new workspace.

export type FieldType =
  | 'text'
  | 'textarea'
  | 'number'
  | 'boolean'
  | 'date'
  | 'datetime'
  | 'email'
  | 'phone'
  | 'url'
  | 'currency'
  | 'select';

/** A configured list with the options of a select. Values are names, matched without case. */
export type Lookup = 'sources' | 'lead_statuses' | 'deal_pipelines' | 'deal_stages' | 'task_types' | 'activity_types';

/** The target of a text field. */
type Reference = 'user' | 'lead' | 'customer' | 'account';

export interface FieldOption {
  label: string;
  value: string;
}

export interface BuiltinField {
  name: string;
  label: string;
  type: FieldType;
  /** Required on create unless the tenant says otherwise. */
  required?: boolean;
  readOnly?: boolean;
  /** Cannot be disabled, nor made optional. */
  locked?: boolean;
  /** Set when the record is created and never changed. */
  immutable?: boolean;
  minLength?: number;
  /** Characters; the default is 255. */
  maxLength?: number;
  min?: number;
  max?: number;
  /** Only whole numbers. */
  integer?: boolean;
  options?: readonly FieldOption[];
  lookup?: Lookup;
  reference?: Reference;
  default?: string | number;
}

export interface BuiltinObject {
  object: string;
  label: string;
  plural: string;
  fields: readonly BuiltinField[];
  /** At least one of these must have a value. */
  oneOf?: readonly string[];
}

const text = (name: string, label: string, more: Partial<BuiltinField> = {}): BuiltinField => ({
  name,
  label,
  type: 'text',
  ...more,
});
const readOnly = (name: string, label: string, type: FieldType = 'text'): BuiltinField => ({
  name,
  label,
  type,
  readOnly: true,
});
const priority = (value?: number): BuiltinField => ({
  name: 'priority',
  label: 'Priority',
  type: 'number',
  integer: true,
  min: 1,
  max: 4,
  ...(value === undefined ? {} : { default: value }),
});
const source: BuiltinField = { name: 'source', label: 'Source', type: 'select', lookup: 'sources' };
const assignedTo = text('assigned_to', 'Assigned to', { reference: 'user' });
const email: BuiltinField = { name: 'email', label: 'Email', type: 'email' };
/** The extension of the phone number of a person or a company. */
const extension = text('extension', 'Extension', { maxLength: 20 });
const website: BuiltinField = { name: 'website', label: 'Website', type: 'url' };
const place = [
  text('city', 'City'),
  text('state', 'State'),
  text('country', 'Country'),
  text('postal_code', 'Postal code'),
];
const address: BuiltinField = { name: 'address', label: 'Address', type: 'textarea', maxLength: 5000 };

export const builtinObjects: readonly BuiltinObject[] = [
  {
    object: 'leads',
    label: 'Lead',
    plural: 'Leads',
    oneOf: ['email', 'mobile'],
    fields: [
      text('first_name', 'First name', { required: true, locked: true, minLength: 1, maxLength: 100 }),
      text('last_name', 'Last name', { maxLength: 100 }),
      email,
      { name: 'mobile', label: 'Mobile', type: 'phone' },
      extension,
      text('company_name', 'Company', { maxLength: 200 }),
      text('job_title', 'Job title', { maxLength: 100 }),
      website,
      ...place,
      { name: 'inquiry_details', label: 'Inquiry details', type: 'textarea', maxLength: 5000 },
      { name: 'notes', label: 'Notes', type: 'textarea', maxLength: 5000 },
      source,
      priority(3),
      text('origin', 'Origin', { maxLength: 100 }),
      { name: 'lead_status', label: 'Status', type: 'select', lookup: 'lead_statuses' },
      assignedTo,
      readOnly('lead_status_id', 'Status id'),
      readOnly('source_id', 'Source id'),
      readOnly('last_contacted_at', 'Last contacted', 'datetime'),
      readOnly('next_followup_at', 'Next follow-up', 'datetime'),
      readOnly('converted_at', 'Converted', 'datetime'),
      readOnly('converted_customer_id', 'Converted customer'),
    ],
  },
  {
    object: 'deals',
    label: 'Deal',
    plural: 'Deals',
    fields: [
      text('name', 'Name', { required: true, locked: true, minLength: 1, maxLength: 200 }),
      { name: 'amount_minor', label: 'Amount', type: 'currency', integer: true },
      text('currency_code', 'Currency', { minLength: 3, maxLength: 3 }),
      { name: 'pipeline', label: 'Pipeline', type: 'select', lookup: 'deal_pipelines' },
      { name: 'stage', label: 'Stage', type: 'select', lookup: 'deal_stages' },
      { name: 'probability', label: 'Probability', type: 'number', integer: true, min: 0, max: 100 },
      { name: 'expected_close_date', label: 'Expected close', type: 'date' },
      priority(),
      source,
      text('lost_reason', 'Lost reason', { maxLength: 500 }),
      { name: 'description', label: 'Description', type: 'textarea', maxLength: 5000 },
      text('customer_id', 'Customer', { reference: 'customer' }),
      text('account_id', 'Account', { reference: 'account' }),
      text('lead_id', 'Lead', { reference: 'lead' }),
      assignedTo,
      readOnly('pipeline_id', 'Pipeline id'),
      readOnly('stage_id', 'Stage id'),
      readOnly('source_id', 'Source id'),
      readOnly('stage_changed_at', 'Stage changed', 'datetime'),
      readOnly('won_at', 'Won', 'datetime'),
      readOnly('lost_at', 'Lost', 'datetime'),
      readOnly('last_contacted_at', 'Last contacted', 'datetime'),
      readOnly('next_followup_at', 'Next follow-up', 'datetime'),
    ],
  },
  {
    object: 'customers',
    label: 'Customer',
    plural: 'Customers',
    fields: [
      text('first_name', 'First name', { required: true, minLength: 1, maxLength: 100 }),
      text('last_name', 'Last name', { maxLength: 100 }),
      email,
      { name: 'mobile', label: 'Mobile', type: 'phone' },
      { name: 'phone', label: 'Phone', type: 'phone' },
      extension,
      text('company_name', 'Company', { maxLength: 200 }),
      text('account_id', 'Account', { reference: 'account' }),
      text('job_title', 'Job title', { maxLength: 100 }),
      website,
      address,
      ...place,
      source,
      { name: 'notes', label: 'Notes', type: 'textarea', maxLength: 5000 },
      assignedTo,
      readOnly('source_id', 'Source id'),
      readOnly('lead_id', 'Lead'),
      readOnly('last_contacted_at', 'Last contacted', 'datetime'),
    ],
  },
  {
    object: 'accounts',
    label: 'Account',
    plural: 'Accounts',
    fields: [
      text('name', 'Name', { required: true, locked: true, minLength: 1, maxLength: 200 }),
      email,
      { name: 'phone', label: 'Phone', type: 'phone' },
      extension,
      website,
      text('industry', 'Industry', { maxLength: 100 }),
      { name: 'employee_count', label: 'Employees', type: 'number', integer: true, min: 0 },
      { name: 'annual_revenue_minor', label: 'Annual revenue', type: 'currency', integer: true },
      address,
      ...place,
      { name: 'description', label: 'Description', type: 'textarea', maxLength: 5000 },
      assignedTo,
      readOnly('last_contacted_at', 'Last contacted', 'datetime'),
    ],
  },
  {
    object: 'tasks',
    label: 'Task',
    plural: 'Tasks',
    fields: [
      text('title', 'Title', { required: true, locked: true, minLength: 1, maxLength: 200 }),
      { name: 'description', label: 'Description', type: 'textarea', maxLength: 5000 },
      { name: 'task_type', label: 'Type', type: 'select', lookup: 'task_types' },
      {
        name: 'status',
        label: 'Status',
        type: 'select',
        default: 'open',
        options: [
          { label: 'Open', value: 'open' },
          { label: 'In progress', value: 'in_progress' },
          { label: 'Completed', value: 'completed' },
          { label: 'Cancelled', value: 'cancelled' },
        ],
      },
      priority(3),
      { name: 'scheduled_at', label: 'Scheduled', type: 'datetime', required: true, locked: true },
      text('object', 'Object', { maxLength: 50 }),
      text('record_id', 'Record'),
      assignedTo,
      readOnly('completed_at', 'Completed', 'datetime'),
    ],
  },
  {
    object: 'activities',
    label: 'Activity',
    plural: 'Activities',
    oneOf: ['summary', 'details'],
    fields: [
      { name: 'activity_type', label: 'Type', type: 'select', required: true, locked: true, lookup: 'activity_types' },
      {
        name: 'entity_type',
        label: 'Entity type',
        type: 'select',
        required: true,
        locked: true,
        immutable: true,
        options: [
          { label: 'Lead', value: 'lead' },
          { label: 'Deal', value: 'deal' },
          { label: 'Customer', value: 'customer' },
          { label: 'Account', value: 'account' },
        ],
      },
      text('entity_id', 'Entity', { required: true, locked: true, immutable: true }),
      text('summary', 'Summary', { maxLength: 255 }),
      { name: 'details', label: 'Details', type: 'textarea', maxLength: 10_000 },
      { name: 'performed_at', label: 'Performed', type: 'datetime' },
      { name: 'followup_at', label: 'Follow-up', type: 'datetime' },
      readOnly('created_by', 'Created by'),
    ],
  },
];

/** Fields of every record besides its object's own; read-only, sortable and filterable. */
export const commonFields: readonly BuiltinField[] = [
  readOnly('id', 'Id'),
  readOnly('created_at', 'Created', 'datetime'),
  readOnly('updated_at', 'Updated', 'datetime'),
];

/** The one built-in field of every custom object. */
export const customObjectName: BuiltinField = text('name', 'Name', {
  required: true,
  locked: true,
  minLength: 1,
  maxLength: 200,
});

const byName = new Map(builtinObjects.map((object) => [object.object, object]));

/** Returns a built-in object by its API name. */
export function findBuiltinObject(name: string): BuiltinObject | undefined {
  return byName.get(name);
}

/** Returns true for a name that an object can have: a built-in one, or `object:` and a slug. */
export function isObjectName(name: string): boolean {
  return byName.has(name) || /^object:[a-z][a-z0-9-]{1,39}$/.test(name);
}
