// The catalog of events: their meaning, fields and example bodies.

type EventCategory =
  | 'records'
  | 'sales'
  | 'appointments'
  | 'messages'
  | 'attachments'
  | 'imports'
  | 'change_sets'
  | 'billing'
  | 'settings'
  | 'api_keys'
  | 'webhooks';

/** The type of an event field. `object` has fields of its own. */
export type EventFieldType = 'string' | 'uuid' | 'date-time' | 'integer' | 'boolean' | 'string[]' | 'object';

interface EventField {
  name: string;
  type: EventFieldType;
  /** False: the field is missing or null in some events of this name. */
  always_present: boolean;
  /** True if a webhook filter may use it. */
  filterable: boolean;
}

export interface CatalogueEvent {
  name: string;
  category: EventCategory;
  description: string;
  /** True if test keys emit it too. */
  emitted_in_test_mode: boolean;
  fields: readonly EventField[];
  /** The JSON Schema of the whole body. */
  schema: Readonly<Record<string, unknown>>;
  /** A complete example body. */
  example: Readonly<Record<string, unknown>>;
}

const schemaOfType: Readonly<Record<EventFieldType, object>> = {
  string: { type: 'string' },
  uuid: { type: 'string', format: 'uuid' },
  'date-time': { type: 'string', format: 'date-time' },
  integer: { type: 'integer' },
  boolean: { type: 'boolean' },
  'string[]': { type: 'array', items: { type: 'string' } },
  object: { type: 'object' },
};

const always = (name: string, type: EventFieldType): EventField => ({
  name,
  type,
  always_present: true,
  filterable: type !== 'object',
});
const sometimes = (name: string, type: EventFieldType): EventField => ({
  ...always(name, type),
  always_present: false,
});

const occurredAt = always('occurred_at', 'date-time');
const ofRecord = [always('object', 'string'), always('record_id', 'uuid')];

const exampleTime = '2026-11-20T09:30:00.000Z';
const exampleRecord = '019a9f2e-7c40-7a10-8f3b-2d6c5e4b1a09';
const aboutLead = { object: 'leads', record_id: exampleRecord };

const ofLink = [...ofRecord, always('link_type', 'string'), always('to_object', 'string'), always('to_id', 'uuid')];
const aLink = {
  object: 'accounts',
  record_id: '019a9f2e-0000-7000-8000-000000000020',
  link_type: 'contacts',
  to_object: 'customers',
  to_id: '019a9f2e-0000-7000-8000-000000000021',
};

const ofAppointment = [
  sometimes('object', 'string'),
  sometimes('record_id', 'uuid'),
  always('appointment_id', 'uuid'),
  always('scheduled_at', 'date-time'),
  always('end_at', 'date-time'),
  always('user_id', 'uuid'),
];
const anAppointment = {
  ...aboutLead,
  appointment_id: '019a9f2e-0000-7000-8000-000000000010',
  user_id: '019a9f2e-0000-7000-8000-000000000011',
  scheduled_at: '2026-11-23T09:00:00.000Z',
  end_at: '2026-11-23T09:30:00.000Z',
};

const ofReport = [
  sometimes('object', 'string'),
  sometimes('record_id', 'uuid'),
  always('timestamp', 'date-time'),
  occurredAt,
];
const aReport = { ...aboutLead, timestamp: '2026-11-20T09:29:58.000Z' };

const ofImport = [
  always('import_id', 'uuid'),
  always('object', 'string'),
  always('dry_run', 'boolean'),
  always('created', 'integer'),
  always('updated', 'integer'),
  always('failed', 'integer'),
  occurredAt,
];
const anImport = {
  import_id: '019a9f2e-0000-7000-8000-000000000030',
  object: 'accounts',
  dry_run: false,
  created: 1187,
  updated: 0,
  failed: 13,
};

const ofChangeSet = [
  always('change_set_id', 'uuid'),
  always('title', 'string'),
  always('operation_count', 'integer'),
  occurredAt,
];
const aChangeSet = {
  change_set_id: '019a9f2e-0000-7000-8000-000000000031',
  title: 'Close the deal of Acme',
  operation_count: 1,
};

interface Described {
  name: string;
  category: EventCategory;
  description: string;
  fields: readonly EventField[];
  /** The data of the example, without its time. */
  example: Readonly<Record<string, unknown>>;
  /** The `origin` in the example. */
  by?: 'system' | 'inbound';
}

const described: readonly Described[] = [
  {
    name: 'record.created',
    category: 'records',
    description: 'A record of any object was created: on its own, in a batch, or by converting a lead.',
    fields: [...ofRecord, occurredAt],
    example: aboutLead,
  },
  {
    name: 'record.updated',
    category: 'records',
    description:
      'Published fields of a record changed. `changed_fields` names them. Derived changes, such as the next follow-up of a lead after an activity, are included.',
    fields: [...ofRecord, always('changed_fields', 'string[]'), sometimes('changes', 'object'), occurredAt],
    example: { ...aboutLead, changed_fields: ['lead_status', 'priority'] },
  },
  {
    name: 'record.deleted',
    category: 'records',
    description: 'A record was deleted. Each activity and task that is deleted with it has its own event.',
    fields: [...ofRecord, occurredAt],
    example: aboutLead,
  },
  {
    name: 'record.restored',
    category: 'records',
    description:
      'A deleted record was restored from the trash. Each activity and task that is restored with it has its own event.',
    fields: [...ofRecord, occurredAt],
    example: aboutLead,
  },
  {
    name: 'record.merged',
    category: 'records',
    description:
      'A record was merged into another one, `into_id`, and is gone. What hung on it moved; each activity and task that moved, and each record that referred to it, has a record.updated.',
    fields: [...ofRecord, always('into_id', 'uuid'), occurredAt],
    example: { ...aboutLead, into_id: '019a9f2e-0000-7000-8000-000000000007' },
  },
  {
    name: 'record.unmerged',
    category: 'records',
    description:
      'A merge was undone: the record is back, and what moved to `into_id` moved back. Read both again. Each activity and task that moved, and each record that refers to it again, has a record.updated.',
    fields: [...ofRecord, always('into_id', 'uuid'), occurredAt],
    example: { ...aboutLead, into_id: '019a9f2e-0000-7000-8000-000000000007' },
  },
  {
    name: 'record.linked',
    category: 'records',
    description:
      'Two records were linked. `object` and `record_id` are the `from` side of the link type, `to_object` and `to_id` the other.',
    fields: [...ofLink, occurredAt],
    example: aLink,
  },
  {
    name: 'record.unlinked',
    category: 'records',
    description:
      'A link between two records was removed. Links that are deleted with one of their records have no events of their own.',
    fields: [...ofLink, occurredAt],
    example: aLink,
  },
  {
    name: 'lead.status_changed',
    category: 'sales',
    description:
      'A lead moved to another status. `from` and `from_id` are null if it had none. Sent in addition to record.updated.',
    fields: [
      ...ofRecord,
      sometimes('from', 'string'),
      sometimes('from_id', 'uuid'),
      sometimes('to', 'string'),
      always('to_id', 'uuid'),
      occurredAt,
    ],
    example: {
      ...aboutLead,
      from: 'New',
      from_id: '019a9f2e-0000-7000-8000-000000000001',
      to: 'Qualified',
      to_id: '019a9f2e-0000-7000-8000-000000000002',
    },
  },
  {
    name: 'deal.stage_changed',
    category: 'sales',
    description:
      'A deal moved to another stage. `from` and `from_id` are null if it had none. Sent in addition to record.updated.',
    fields: [
      ...ofRecord,
      sometimes('from', 'string'),
      sometimes('from_id', 'uuid'),
      sometimes('to', 'string'),
      always('to_id', 'uuid'),
      occurredAt,
    ],
    example: {
      object: 'deals',
      record_id: exampleRecord,
      from: 'Proposal',
      from_id: '019a9f2e-0000-7000-8000-000000000003',
      to: 'Won',
      to_id: '019a9f2e-0000-7000-8000-000000000004',
    },
  },
  {
    name: 'sla.breached',
    category: 'sales',
    description: 'A deadline of an SLA policy was missed. `level` is 0.',
    fields: [...ofRecord, always('sla', 'object'), always('level', 'integer'), occurredAt],
    example: {
      ...aboutLead,
      sla: {
        policy_id: '019a9f2e-0000-7000-8000-000000000005',
        policy_name: 'Leads within the hour',
        type: 'first_response',
        deadline: '2026-11-20T09:00:00.000Z',
        overdue_minutes: 30,
      },
      level: 0,
    },
    by: 'system',
  },
  {
    name: 'attachment.created',
    category: 'attachments',
    description: 'A file was attached to a record.',
    fields: [...ofRecord, always('attachment_id', 'uuid'), occurredAt],
    example: { ...aboutLead, attachment_id: '019a9f2e-0000-7000-8000-000000000006' },
  },
  {
    name: 'attachment.deleted',
    category: 'attachments',
    description:
      'An attachment of a record was deleted. Attachments that are deleted with their record have no events of their own.',
    fields: [...ofRecord, always('attachment_id', 'uuid'), occurredAt],
    example: { ...aboutLead, attachment_id: '019a9f2e-0000-7000-8000-000000000006' },
  },
  {
    name: 'import.completed',
    category: 'imports',
    description: 'An import processed all rows of its file. Rows that failed are counted in `failed`.',
    fields: ofImport,
    example: anImport,
    by: 'system',
  },
  {
    name: 'import.failed',
    category: 'imports',
    description: 'An import ended before the end of its file. What it wrote until then stays.',
    fields: [...ofImport, always('reason', 'string')],
    example: { ...anImport, reason: 'API_KEY_REVOKED' },
    by: 'system',
  },
  {
    name: 'import.undone',
    category: 'imports',
    description: 'An import was undone. Records that others had changed since are counted in `skipped`.',
    fields: [
      always('import_id', 'uuid'),
      always('object', 'string'),
      always('reverted', 'integer'),
      always('skipped', 'integer'),
      occurredAt,
    ],
    example: { import_id: anImport.import_id, object: anImport.object, reverted: 1186, skipped: 1 },
    by: 'system',
  },
  {
    name: 'change_set.submitted',
    category: 'change_sets',
    description: 'A change set was proposed, and waits for a person.',
    fields: ofChangeSet,
    example: aChangeSet,
  },
  {
    name: 'change_set.approved',
    category: 'change_sets',
    description: 'A person approved a change set. Its outcome is the next event of the set.',
    fields: ofChangeSet,
    example: aChangeSet,
  },
  {
    name: 'change_set.applied',
    category: 'change_sets',
    description: 'The operations of an approved change set were applied.',
    fields: ofChangeSet,
    example: aChangeSet,
  },
  {
    name: 'change_set.rejected',
    category: 'change_sets',
    description: 'A person rejected a change set.',
    fields: ofChangeSet,
    example: aChangeSet,
  },
  {
    name: 'change_set.expired',
    category: 'change_sets',
    description: 'Nobody decided about a change set in time.',
    fields: ofChangeSet,
    example: aChangeSet,
    by: 'system',
  },
  {
    name: 'change_set.failed',
    category: 'change_sets',
    description: 'An approved change set could not be applied.',
    fields: ofChangeSet,
    example: aChangeSet,
  },
  {
    name: 'appointment.scheduled',
    category: 'appointments',
    description: 'A meeting was booked. `object` and `record_id` name the record that it is about, if any.',
    fields: [...ofAppointment, occurredAt],
    example: anAppointment,
  },
  {
    name: 'appointment.rescheduled',
    category: 'appointments',
    description:
      'A meeting was moved to another time. `appointment_id` is the id of the new booking, which refers to the old one.',
    fields: [...ofAppointment, always('previous_scheduled_at', 'date-time'), sometimes('reason', 'string'), occurredAt],
    example: {
      ...anAppointment,
      previous_scheduled_at: '2026-11-23T14:00:00.000Z',
      reason: 'The attendee asked for it',
    },
  },
  {
    name: 'appointment.cancelled',
    category: 'appointments',
    description: 'A meeting was cancelled.',
    fields: [...ofAppointment, sometimes('reason', 'string'), occurredAt],
    example: { ...anAppointment, reason: 'The attendee is ill' },
  },
  {
    name: 'message.draft.status_changed',
    category: 'messages',
    description:
      'A message draft changed its status from `from` to `to`: it was approved, rejected, withdrawn, sent or failed. Creating a draft emits no event. Drafts of a campaign run emit their first event when the run is approved or rejected.',
    fields: [
      always('draft_id', 'uuid'),
      always('channel', 'string'),
      always('from', 'string'),
      always('to', 'string'),
      sometimes('object', 'string'),
      sometimes('record_id', 'uuid'),
      sometimes('campaign_id', 'uuid'),
      occurredAt,
    ],
    example: {
      ...aboutLead,
      draft_id: '019a9f2e-0000-7000-8000-000000000012',
      channel: 'email',
      from: 'draft',
      to: 'approved',
    },
  },
  {
    name: 'message.sms.received',
    category: 'messages',
    description:
      'An SMS or WhatsApp message was received; `channel` says which. `object` and `record_id` name the record of the sender, if known. `timestamp` is when the message was sent, `occurred_at` is when this server received it.',
    fields: [
      always('message_id', 'uuid'),
      always('channel', 'string'),
      always('from', 'string'),
      always('to', 'string'),
      always('preview', 'string'),
      ...ofReport,
    ],
    example: {
      message_id: '019a9f2e-0000-7000-8000-000000000013',
      channel: 'sms',
      from: '+971501234567',
      to: '+97145550100',
      preview: 'Can we move to Thursday?',
      ...aReport,
    },
    by: 'inbound',
  },
  {
    name: 'message.email.received',
    category: 'messages',
    description:
      'An email was received. `subject` is cut after 200 characters; `preview` is the first 500 characters of the text.',
    fields: [
      always('message_id', 'uuid'),
      always('from', 'string'),
      always('to', 'string[]'),
      always('subject', 'string'),
      always('preview', 'string'),
      always('has_attachments', 'boolean'),
      ...ofReport,
    ],
    example: {
      message_id: '019a9f2e-0000-7000-8000-000000000014',
      from: 'sara@example.com',
      to: ['sales@bluelake.example'],
      subject: 'Re: Your quote',
      preview: 'Could you send it for 30 seats as well?',
      has_attachments: false,
      ...aReport,
    },
    by: 'inbound',
  },
  {
    name: 'message.email.engagement',
    category: 'messages',
    description:
      'A sent email was opened, or a link in it was clicked: `engagement` is `open` or `click`. `message_id` is present if the message is known. If this server tracks the email itself, it emits the first open and the first click on each link.',
    fields: [
      sometimes('message_id', 'uuid'),
      always('engagement', 'string'),
      always('recipient', 'string'),
      sometimes('campaign_id', 'uuid'),
      sometimes('link_url', 'string'),
      ...ofReport,
    ],
    example: {
      message_id: '019a9f2e-0000-7000-8000-000000000015',
      engagement: 'click',
      recipient: 'sara@example.com',
      link_url: 'https://bluelake.example/offer',
      ...aReport,
    },
    by: 'inbound',
  },
  {
    name: 'fax.received',
    category: 'messages',
    description: 'A fax was received.',
    fields: [
      always('fax_id', 'uuid'),
      always('from', 'string'),
      always('to', 'string'),
      always('pages', 'integer'),
      ...ofReport,
    ],
    example: {
      fax_id: '019a9f2e-0000-7000-8000-000000000016',
      from: '+97143330100',
      to: '+97145550100',
      pages: 3,
      ...aReport,
    },
    by: 'inbound',
  },
  {
    name: 'call.completed',
    category: 'messages',
    description:
      'A call ended, answered or not: `outcome` is `answered`, `no_answer`, `busy`, `voicemail` or `failed`, `direction` is `inbound` or `outbound`.',
    fields: [
      always('call_id', 'uuid'),
      always('direction', 'string'),
      always('outcome', 'string'),
      always('duration_seconds', 'integer'),
      always('from', 'string'),
      always('to', 'string'),
      sometimes('user_id', 'uuid'),
      ...ofReport,
    ],
    example: {
      call_id: '019a9f2e-0000-7000-8000-000000000017',
      direction: 'inbound',
      outcome: 'answered',
      duration_seconds: 184,
      from: '+971501234567',
      to: '+97145550100',
      ...aReport,
    },
    by: 'inbound',
  },
  {
    name: 'form.submitted',
    category: 'messages',
    description: 'A form was submitted. The event does not contain the answers.',
    fields: [always('form', 'object'), always('submission_id', 'uuid'), ...ofReport],
    example: {
      form: { id: 'contact', name: 'Contact us' },
      submission_id: '019a9f2e-0000-7000-8000-000000000018',
      ...aReport,
    },
    by: 'inbound',
  },
  {
    name: 'schema.changed',
    category: 'settings',
    description:
      'An object or a field was added, changed, enabled or disabled, or a list that a field takes its options from was changed. Read the schema of `object` again.',
    fields: [always('object', 'string'), occurredAt],
    example: { object: 'leads' },
  },
  {
    name: 'api_key.expiring',
    category: 'api_keys',
    description:
      'An API key expires at `expires_at`, within seven days. Sent once for each key and expiry time. Events of test keys are in test mode.',
    fields: [always('api_key_id', 'uuid'), always('name', 'string'), always('expires_at', 'date-time'), occurredAt],
    example: {
      api_key_id: '019a9f2e-0000-7000-8000-000000000007',
      name: 'Website',
      expires_at: '2026-11-27T09:30:00.000Z',
    },
    by: 'system',
  },
  {
    name: 'wallet.adjusted',
    category: 'billing',
    description:
      'The wallet balance changed because a top-up was refunded or disputed: `reason` is `refund` or `dispute` (a lost dispute). `amount_minor` is negative if credit was removed, and positive if it was returned, for example because a refund failed. `balance_minor` is the new balance and can be negative.',
    fields: [
      always('reason', 'string'),
      always('amount_minor', 'integer'),
      always('balance_minor', 'integer'),
      always('currency', 'string'),
      occurredAt,
    ],
    example: { reason: 'refund', amount_minor: -5000, balance_minor: -1200, currency: 'USD' },
    by: 'system',
  },
  {
    name: 'webhook.disabled',
    category: 'webhooks',
    description:
      'A webhook endpoint was disabled because its receiver kept failing (`failures`) or reported that it is gone (`gone`). Enable it again with PATCH and recover the missed deliveries. Disabling an endpoint manually emits no event.',
    fields: [always('webhook_id', 'uuid'), always('reason', 'string'), occurredAt],
    example: { webhook_id: '019a9f2e-0000-7000-8000-000000000009', reason: 'failures' },
    by: 'system',
  },
];

/** The scopes needed to read events of a category, besides the view scope of their object. */
const scopeOfCategory: Readonly<Partial<Record<EventCategory, string>>> = {
  appointments: 'bookings:view',
  messages: 'inbox:view',
  attachments: 'attachments:view',
};

/**
 * Events of live mode only. Either both modes share the object, or test bookings must not trigger
 * anything.
 */
const liveOnly: ReadonlySet<string> = new Set([
  'schema.changed',
  'appointment.scheduled',
  'appointment.rescheduled',
  'appointment.cancelled',
]);

const scopes: ReadonlyMap<string, string | undefined> = new Map(
  described.map(({ name, category }) => [name, scopeOfCategory[category]]),
);

/**
 * Returns the scope that the data of an event need, besides the view scope of its object;
 * undefined: none.
 */
export const findEventDataScope = (event: string): string | undefined => scopes.get(event);

/** All events in display order. */
export const eventCatalogue: readonly CatalogueEvent[] = described.map((event) => ({
  name: event.name,
  category: event.category,
  description: event.description,
  emitted_in_test_mode: !liveOnly.has(event.name),
  fields: event.fields,
  schema: buildSchema(event),
  example: buildExample(event),
}));

function buildSchema({ name, fields }: Described): Record<string, unknown> {
  const property = ({ type, always_present }: EventField) =>
    always_present ? schemaOfType[type] : { anyOf: [schemaOfType[type], { type: 'null' }] };
  return {
    type: 'object',
    required: ['id', 'event', 'created_at', 'test_mode', 'actor', 'data'],
    properties: {
      id: { type: 'string', pattern: '^evt_[0-9a-f-]{36}$' },
      event: { const: name },
      created_at: { type: 'string', format: 'date-time' },
      test_mode: { type: 'boolean' },
      actor: {
        type: 'object',
        required: ['kind', 'id', 'name'],
        properties: {
          kind: { enum: ['api_key', 'oauth_client', 'user', 'system'] },
          id: { type: 'string' },
          name: { type: ['string', 'null'] },
        },
      },
      request_id: { type: ['string', 'null'] },
      origin: {
        type: ['object', 'null'],
        required: ['kind', 'id'],
        properties: { kind: { const: 'import' }, id: { type: 'string', format: 'uuid' } },
      },
      data: {
        type: 'object',
        required: fields.filter((field) => field.always_present).map((field) => field.name),
        properties: Object.fromEntries(fields.map((field) => [field.name, property(field)])),
      },
    },
  };
}

function buildExample({ name, example, by }: Described): Record<string, unknown> {
  const actor = by
    ? { kind: 'system', id: by === 'inbound' ? by : name.split('.')[0], name: null }
    : { kind: 'api_key', id: '019a9f2e-0000-7000-8000-000000000008', name: 'Website' };
  return {
    id: 'evt_019a9f2e-7c41-7b20-9c4d-3e7d6f5c2b18',
    event: name,
    created_at: exampleTime,
    test_mode: false,
    actor,
    request_id: by === 'system' ? null : '4f2c8f9e-0f57-4d0c-9f3f-5b1f7f0c6f4e',
    origin: null,
    data: { ...example, occurred_at: exampleTime },
  };
}
