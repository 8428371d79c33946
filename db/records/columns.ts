// The storage of fields: the table of each object, and the column of each field.
// A field without a column is stored in `custom`.

export type ColumnType = 'text' | 'uuid' | 'number' | 'date' | 'timestamp';

/**
 * A table to whose rows a column refers by id. The field shows the row's `name`, and sorts by it.
 */
type NamesTable = 'sources' | 'pipelines' | 'statuses' | 'task_types' | 'activity_types';

export interface Column {
  name: string;
  type: ColumnType;
  /** Never null, so that an index in plain order serves it. */
  filled?: boolean;
  /**
   * An index contains the rows with a value in order. Texts are ordered by their bytes, collate
   * "C".
   */
  indexed?: boolean;
  /** An index contains the rows of each value in the order of created_at. */
  byAge?: boolean;
  /** May hold more than 255 characters. */
  long?: boolean;
  /** Long, with its hash in another column, which has an index. */
  hashed?: boolean;
  /** Texts without upper-case letters. */
  caseless?: boolean;
  names?: NamesTable;
}

export interface RecordTable {
  name: string;
  /** By the field's API name. */
  columns: ReadonlyMap<string, Column>;
  /** The object whose rows are selected from a table that several objects share. */
  object: string | undefined;
  /** Says if the table has the column assigned_to. */
  assigned: 'assigned' | 'unassigned';
}

/** Columns that every record has. */
const common: readonly [string, Column][] = [
  ['id', { name: 'id', type: 'uuid', filled: true }],
  ['created_at', { name: 'created_at', type: 'timestamp', filled: true }],
  ['updated_at', { name: 'updated_at', type: 'timestamp', filled: true }],
];

const of =
  (type: ColumnType, more: Omit<Column, 'name' | 'type'> = {}) =>
  (...names: string[]): [string, Column][] =>
    names.map((name) => [name, { name, type, ...more }]);
const text = of('text', { indexed: true });
const caselessText = of('text', { indexed: true, caseless: true });
const longText = of('text', { long: true });
const hashedText = of('text', { long: true, hashed: true });
const ids = of('uuid');
const numbers = of('number', { indexed: true });
const times = of('timestamp', { indexed: true });
const listed = (field: string, names: NamesTable, more: Omit<Column, 'name' | 'type'> = {}): [string, Column] => [
  field,
  { name: `${field}_id`, type: 'uuid', names, ...more },
];

const idsByAge = of('uuid', { byAge: true });
const byAge = { byAge: true };

const place = text('city', 'state', 'country', 'postal_code');

/** Who created a record, for operations that show it: no fields of records, with names that no tenant's field can have. */
const creator: readonly [string, Column][] = [
  ['_created_by_id', { name: 'created_by_id', type: 'text', filled: true }],
  ['_created_by_kind', { name: 'created_by_kind', type: 'text', filled: true }],
  ['_created_by_name', { name: 'created_by_name', type: 'text' }],
];

/** The follow-up that applies without meetings. Stored only: records show `next_followup_at`. */
const plannedFollowup: [string, Column] = ['_planned_followup_at', { name: 'planned_followup_at', type: 'timestamp' }];

const columnsOf: Readonly<Record<string, readonly [string, Column][]>> = {
  leads: [
    ...text('first_name', 'last_name', 'extension', 'company_name', 'job_title', 'origin'),
    ...caselessText('email', 'mobile'),
    ...place,
    ...hashedText('website', 'inquiry_details', 'notes'),
    ...numbers('priority'),
    listed('source', 'sources'),
    listed('lead_status', 'statuses', byAge),
    ...idsByAge('lead_status_id', 'assigned_to'),
    ...ids('source_id', 'converted_customer_id'),
    ...times('last_contacted_at', 'next_followup_at', 'converted_at'),
    plannedFollowup,
  ],
  deals: [
    ...text('name', 'currency_code'),
    ...hashedText('lost_reason', 'description'),
    ...numbers('amount_minor', 'probability', 'priority'),
    ...of('date', { indexed: true })('expected_close_date'),
    listed('pipeline', 'pipelines', byAge),
    listed('stage', 'statuses', byAge),
    listed('source', 'sources'),
    ...idsByAge('pipeline_id', 'stage_id', 'assigned_to'),
    ...ids('source_id', 'customer_id', 'account_id', 'lead_id'),
    ...times('stage_changed_at', 'won_at', 'lost_at', 'last_contacted_at', 'next_followup_at'),
    plannedFollowup,
  ],
  customers: [
    ...text('first_name', 'last_name', 'extension', 'company_name', 'job_title'),
    ...caselessText('email', 'mobile', 'phone'),
    ...place,
    ...longText('website', 'address', 'notes'),
    listed('source', 'sources'),
    ...idsByAge('account_id', 'assigned_to'),
    ...ids('source_id', 'lead_id'),
    ...times('last_contacted_at'),
  ],
  accounts: [
    ...text('name', 'extension', 'industry'),
    ...caselessText('email', 'phone'),
    ...place,
    ...longText('website', 'address', 'description'),
    ...numbers('employee_count', 'annual_revenue_minor'),
    ...idsByAge('assigned_to'),
    ...times('last_contacted_at'),
  ],
  tasks: [
    ...text('title'),
    ...of('text', { filled: true, indexed: true })('status'),
    ...of('text')('object'),
    ...longText('description'),
    ...numbers('priority'),
    listed('task_type', 'task_types'),
    ...idsByAge('assigned_to'),
    ...ids('record_id'),
    ...times('scheduled_at', 'completed_at'),
    ...creator,
  ],
  activities: [
    ...text('summary'),
    ...of('text', { filled: true })('entity_type'),
    ...longText('details'),
    listed('activity_type', 'activity_types', { filled: true }),
    ...of('uuid', { filled: true })('entity_id'),
    ...of('timestamp', { filled: true })('performed_at'),
    ...times('followup_at'),
    ['created_by', { name: 'created_by_id', type: 'text', filled: true }],
    // Returned by the activities' own operations, and not fields of records. No custom field can
    // have these names.
    ['_created_by_kind', { name: 'created_by_kind', type: 'text', filled: true }],
    ['_created_by_name', { name: 'created_by_name', type: 'text' }],
    ['_duration_seconds', { name: 'duration_seconds', type: 'number' }],
    ['_outcome', { name: 'outcome', type: 'text' }],
  ],
};

const builtin = new Map<string, RecordTable>(
  Object.entries(columnsOf).map(([name, columns]) => {
    const table = { name, columns: new Map([...columns, ...common]), object: undefined };
    return [name, { ...table, assigned: table.columns.has('assigned_to') ? 'assigned' : 'unassigned' }];
  }),
);
const shared = { name: 'custom_records', columns: new Map(common), assigned: 'unassigned' } as const;

/**
 * Returns the table of an object by its API name. The caller has checked that the object exists.
 */
export function getRecordTable(object: string): RecordTable {
  return builtin.get(object) ?? { ...shared, object };
}

/** The actors that created and last changed a record: filters name them, but no response has them. */
const actors: ReadonlyMap<string, Column> = new Map([
  ['created_by', { name: 'created_by_id', type: 'text', filled: true }],
  ['updated_by', { name: 'updated_by_id', type: 'text' }],
]);

/**
 * Returns the column that a filter compares: of a field, or the id of the actor that created or last
 * changed the record.
 */
export function findFilterColumn(table: RecordTable, field: string): Column | undefined {
  return table.columns.get(field) ?? actors.get(field);
}
