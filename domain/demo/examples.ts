// The records and settings that every demo workspace has because the document's examples name them.

import { exampleIds } from './ids.ts';
import { addDays, toDay } from './random.ts';
import { demoCompany } from './workspace.ts';
import type { Account, Activity, Attachment, Customer, Deal, Lead, Message, Note, Task, World } from './world.ts';

export const exampleStatus = {
  id: exampleIds.leadStatus,
  object: 'leads',
  name: 'Parked',
  description: 'Asks again next year',
  order_position: 6,
  outcome: 'open',
} as const;

export const examplePipeline = {
  id: exampleIds.pipeline,
  name: 'Partners',
  is_default: false,
  order_position: 2,
  stages: [
    { name: 'Introduced', outcome: 'open' },
    { name: 'Signed', outcome: 'won' },
    { name: 'Declined', outcome: 'lost' },
  ],
} as const;

export const exampleActivityType = {
  id: exampleIds.activityType,
  name: 'Roof inspection',
  icon: 'home',
  color: '#16A34A',
  is_system: false,
  order_position: 11,
} as const;

/** The first has links. The other has none, so it can be deleted. */
export const exampleLinkTypes = [
  {
    id: exampleIds.linkTypeWithLinks,
    name: 'contacts',
    inverse_name: 'employer',
    label: 'Contacts',
    inverse_label: 'Employer',
    from_object: 'accounts',
    to_object: 'customers',
    cardinality: 'one_to_many',
  },
  {
    id: exampleIds.linkType,
    name: 'suppliers',
    inverse_name: 'supplied_by',
    label: 'Suppliers',
    inverse_label: 'Supplied by',
    from_object: 'deals',
    to_object: 'accounts',
    cardinality: 'many_to_many',
  },
] as const;

/** Returns links of the account in the examples: one to read and delete, and one for a batch. */
export function buildExampleLinks(customers: readonly Customer[], createdBy: string, at: Date) {
  return [exampleIds.link, exampleIds.linkOfBatch].flatMap((id, index) => {
    const customer = customers[index];
    if (!customer) return [];
    const type = { link_type_id: exampleIds.linkTypeWithLinks, cardinality: 'one_to_many' };
    const ends = { from_object: 'accounts', from_id: exampleIds.account, to_object: 'customers', to_id: customer.id };
    return [{ id, ...type, ...ends, created_by: createdBy, created_at: at }];
  });
}

/** Shared, because the printed key did not create them. */
export const exampleViews = [
  {
    id: exampleIds.view,
    object: 'accounts',
    name: 'Large accounts in Berlin',
    filter: {
      and: [
        { field: 'city', op: 'eq', value: 'Berlin' },
        { field: 'employee_count', op: 'gte', value: 50 },
      ],
    },
    sort: '-employee_count,name',
    fields: ['name', 'city', 'employee_count'],
  },
] as const;

export const exampleSavedReports = [
  {
    id: exampleIds.savedReport,
    object: 'deals',
    name: 'Deals by stage',
    config: { metric: 'count', group_by: 'stage', chart_type: 'bar' },
  },
] as const;

export const exampleTeam = { id: exampleIds.team, name: 'Inside sales' } as const;

/** A team without members, for the example that deletes one. */
export const emptyTeam = { id: exampleIds.teamToDelete, name: 'Events' } as const;

/** Business hours of the office. Times are in minutes. */
export const exampleSlaPolicy = {
  id: exampleIds.slaPolicy,
  name: 'First call within two hours',
  entity_type: 'lead',
  priority: 1,
  is_active: true,
  first_response_time: 120,
  every_response_time: 1440,
  mode: 'business_hours',
  business_hours_start: '08:00',
  business_hours_end: '18:00',
  business_days: [1, 2, 3, 4, 5],
  timezone: demoCompany.timezone,
} as const;

/** Subscribed to a rare event, because nothing receives the demo's requests. */
export const exampleWebhook = {
  id: exampleIds.webhook,
  url: 'https://hooks.example.com/crm',
  description: 'Keeps the shop in step',
  events: ['webhook.disabled'] as string[],
  filter: null,
  include: [] as string[],
  skipOwn: false,
  headerNames: [] as string[],
  sealedHeaders: null,
  maxPerSecond: 25,
  isOrdered: false,
  publicKey: null,
  sealedSigningKey: null,
  previousPublicKey: null,
  sealedPreviousSigningKey: null,
  disabledReason: null,
  disabledAt: null,
};

/** Returns a failed delivery of an event about a record. */
export function buildExampleDelivery(event: Readonly<Record<string, unknown>>, at: Date) {
  return {
    id: exampleIds.webhookDelivery,
    subscriptionId: exampleIds.webhook,
    eventId: exampleIds.webhookEvent,
    status: 'failed' as const,
    event: 'record.created',
    attempts: 3,
    maxAttempts: 3,
    nextAttemptAt: null,
    lastResponseCode: null,
    lastResponseSnippet: null,
    lastError: 'dns',
    durationMs: 12,
    replayOf: null,
    isTest: false,
    recordId: null,
    position: 0,
    isOrdered: false,
    createdAt: at,
    completedAt: at,
    body: JSON.stringify({ ...event, id: `evt_${exampleIds.webhookEvent}`, test_mode: true }),
  };
}

export interface ExampleRecords {
  accounts: Account[];
  customers: Customer[];
  leads: Lead[];
  deals: Deal[];
  activities: Activity[];
  tasks: Task[];
  notes: Note[];
  messages: Message[];
  attachments: Attachment[];
}

/** The number of leads among them. */
export const exampleLeadCount = 3;

export function buildExampleRecords(world: World): ExampleRecords {
  const madeAt = addDays(world.now, -30);
  const seller = exampleIds.user;
  const made = { created_by: seller, created_at: madeAt };
  const stamp = { ...made, updated_at: madeAt };
  const ofAccount = { object: 'accounts', record_id: exampleIds.account } as const;
  const { deal, lead, activities } = buildDealAndLead(stamp, world.now);
  return {
    accounts: buildAccounts(stamp),
    customers: [buildCustomer(stamp)],
    leads: [lead, ...buildLeadsToConvert(stamp)],
    deals: [deal],
    activities,
    tasks: [
      {
        ...ofAccount,
        ...stamp,
        id: exampleIds.task,
        title: 'Send the revised offer',
        task_type: 'Email',
        status: 'open',
        priority: 2,
        scheduled_at: addDays(world.now, 3),
        assigned_to: seller,
        completed_at: null,
      },
    ],
    notes: [
      { ...ofAccount, ...stamp, id: exampleIds.note, content: 'The board decides on the first Monday of the month.' },
    ],
    messages: [buildMessage(world.now)],
    attachments: [
      { ...ofAccount, ...made, id: exampleIds.attachment, file_name: 'Quote 16.pdf', content_type: 'application/pdf' },
    ],
  };
}

type Stamp = { created_by: string; created_at: Date; updated_at: Date };

const berlin = { city: 'Berlin', state: 'Berlin', country: 'DE', postal_code: '10115' } as const;

function buildAccounts(stamp: Stamp): Account[] {
  const account = (id: string, name: string, domain: string, industry: string, employees: number): Account => ({
    id,
    name,
    email: `office@${domain}`,
    phone: '+493023125400',
    website: `https://www.${domain}`,
    industry,
    employee_count: employees,
    annual_revenue_minor: employees * 15_000_000,
    address: 'Lindenstraße 70',
    ...berlin,
    description: null,
    assigned_to: stamp.created_by,
    ...stamp,
  });
  const [first, second, third] = exampleIds.accountsToDelete;
  return [
    account(exampleIds.account, 'Blue Lake Trading', 'bluelake.example', 'Retail', 40),
    account(exampleIds.otherAccount, 'Red Hill Foods', 'redhill.example', 'Food production', 120),
    account(first, 'White Harbour Hotels', 'whiteharbour.example', 'Hospitality', 85),
    account(third, 'Green Valley Stores', 'greenvalley.example', 'Retail', 210),
    account(second, 'Grey Stone Estates', 'greystone.example', 'Property', 25),
  ];
}

/** Accounts that are in the trash: copies of the first example under other names. */
export function buildDeletedAccounts(accounts: readonly Account[]): Account[] {
  const model = accounts.find(({ id }) => id === exampleIds.account);
  const names = ['Black Forest Bikes', 'Silver Coast Travel', 'Amber Street Bakery'];
  return exampleIds.deletedAccounts.flatMap((id, index) =>
    model ? [{ ...model, id, name: names[index] ?? model.name, email: `trash-${index}@example.com` }] : [],
  );
}

/** Accounts for the examples of merges: copies of the first example under other names. */
export function buildAccountsOfMerges(accounts: readonly Account[]): Account[] {
  const model = accounts.find(({ id }) => id === exampleIds.account);
  const ids = [...exampleIds.mergedAccounts, ...exampleIds.mergeTargets, ...exampleIds.accountsToMerge];
  return ids.flatMap((id, index) =>
    model
      ? [{ ...model, id, name: `Blue Lake Branch ${index + 1}`, email: `branch-${index + 1}@bluelake.example` }]
      : [],
  );
}

function buildCustomer(stamp: Stamp): Customer {
  return {
    id: exampleIds.customer,
    first_name: 'Sara',
    last_name: 'Haddad',
    email: 'sara@bluelake.example',
    mobile: '+491713920061',
    phone: null,
    company_name: 'Blue Lake Trading',
    account_id: exampleIds.account,
    job_title: 'Head of purchasing',
    website: 'https://www.bluelake.example',
    address: 'Lindenstraße 70',
    ...berlin,
    source: 'Website',
    notes: null,
    lead_id: null,
    assigned_to: stamp.created_by,
    last_contacted_at: null,
    ...stamp,
  };
}

/** Returns a lead with a call, and a deal that waits for a response. */
function buildDealAndLead(stamp: Stamp, now: Date): { lead: Lead; deal: Deal; activities: Activity[] } {
  const calledAt = addDays(stamp.created_at, 2);
  const followupAt = addDays(now, 5);
  const call: Activity = {
    id: exampleIds.activity,
    entity_type: 'lead',
    entity_id: exampleIds.lead,
    activity_type: 'Call',
    summary: 'Asked for a quote',
    details: null,
    performed_at: calledAt,
    followup_at: followupAt,
    created_by: stamp.created_by,
    created_at: calledAt,
    updated_at: calledAt,
  };
  const lead = buildLead(exampleIds.lead, ['Karim', 'Aziz', 'karim@redhill.example', 'Red Hill Foods'], stamp);
  const contacted = { last_contacted_at: calledAt, next_followup_at: followupAt, updated_at: calledAt };
  const deal: Deal = {
    id: exampleIds.deal,
    name: 'Rooftop system 120 kWp, Blue Lake Trading',
    amount_minor: 12_600_000,
    currency_code: demoCompany.currency,
    stage: 'Proposal',
    probability: 70,
    expected_close_date: toDay(addDays(now, 20)),
    priority: 2,
    source: 'Website',
    lost_reason: null,
    customer_id: exampleIds.customer,
    account_id: exampleIds.account,
    lead_id: null,
    assigned_to: stamp.created_by,
    stage_changed_at: calledAt,
    won_at: null,
    lost_at: null,
    last_contacted_at: null,
    next_followup_at: null,
    ...stamp,
    updated_at: calledAt,
  };
  return { lead: { ...lead, lead_status: 'Contacted', ...contacted }, deal, activities: [call] };
}

function buildLeadsToConvert(stamp: Stamp): Lead[] {
  const [withDeal, alone] = exampleIds.leadsToConvert;
  return [
    buildLead(withDeal, ['Elena', 'Marino', 'elena@whiteharbour.example', 'White Harbour Hotels'], stamp),
    buildLead(alone, ['Paul', 'Wieland', 'paul@greystone.example', 'Grey Stone Estates'], stamp),
  ];
}

/** Returns a qualified lead that was not called yet. */
function buildLead(id: string, who: readonly [string, string, string, string], stamp: Stamp): Lead {
  const [firstName, lastName, email, companyName] = who;
  return {
    id,
    first_name: firstName,
    last_name: lastName,
    email,
    mobile: null,
    company_name: companyName,
    job_title: null,
    website: null,
    inquiry_details: 'Wants a quote for the roof of the main building.',
    notes: null,
    ...berlin,
    source: 'Website',
    priority: 2,
    origin: 'contact form',
    lead_status: 'Qualified',
    assigned_to: stamp.created_by,
    last_contacted_at: null,
    next_followup_at: null,
    converted_at: null,
    custom: { roof_type: 'flat', energy_use_kwh: 240_000 },
    ...stamp,
  };
}

function buildMessage(now: Date): Message {
  return {
    id: exampleIds.message,
    object: 'accounts',
    record_id: exampleIds.account,
    channel: 'email',
    direction: 'inbound',
    sender: 'sara@bluelake.example',
    recipient: demoCompany.email,
    subject: 'Your quote',
    body: 'Thank you. Could you send it with storage as well?',
    status: 'received',
    occurred_at: addDays(now, -3),
  };
}

/** Returns an expired export and a cancelled one, for which no file has to be stored. */
export function buildExampleExports(now: Date, createdBy: string) {
  const common = {
    object: 'leads',
    format: 'csv',
    spreadsheet_safe: false,
    modules: ['leads'],
    created_at: now,
  } as const;
  const by = { claimed_until: now, created_by: createdBy, completed_at: now };
  return [
    { ...common, ...by, id: exampleIds.dataExport, status: 'expired', rows: 3, bytes: 512, expires_at: now },
    {
      ...common,
      ...by,
      id: exampleIds.cancelledExport,
      status: 'cancelled',
      rows: null,
      bytes: null,
      expires_at: null,
    },
  ];
}

/** Returns the file of the attachment: a page of text as PDF. */
export function buildExampleFile(): string {
  const text = 'BT /F1 18 Tf 72 720 Td (Quote 16: rooftop system 120 kWp, 126,000.00 EUR) Tj ET';
  const objects = [
    '<< /Type /Catalog /Pages 2 0 R >>',
    '<< /Type /Pages /Kids [3 0 R] /Count 1 >>',
    '<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R /Resources << /Font << /F1 5 0 R >> >> >>',
    `<< /Length ${text.length} >>\nstream\n${text}\nendstream`,
    '<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>',
  ];
  let file = '%PDF-1.4\n';
  const places = objects.map((object, index) => {
    const place = file.length;
    file += `${index + 1} 0 obj\n${object}\nendobj\n`;
    return `${String(place).padStart(10, '0')} 00000 n \n`;
  });
  const size = objects.length + 1;
  return `${file}xref\n0 ${size}\n0000000000 65535 f \n${places.join('')}trailer\n<< /Size ${size} /Root 1 0 R >>\nstartxref\n${file.length}\n%%EOF\n`;
}

const key = {
  description: 'Kept by nobody: to be changed, rotated and revoked',
  environment: 'live',
  rate_limit_per_minute: 60,
  rate_limit_per_hour: 1000,
} as const;

/** The keys in the document's examples. They cannot be used, because only their hashes exist. */
export const exampleKeys = [
  { id: exampleIds.apiKey, name: 'Website forms', scopes: ['leads:create', 'activities:create'], ...key },
  { id: exampleIds.apiKeyToRevoke, name: 'Laptop', scopes: ['*'], ...key },
] as const;
