// The table of tools: names, operations and arguments.
import type { operations } from '../generated/api.ts';

export type OperationId = keyof operations;

/** The effect of a tool on stored data. */
export type Effect = 'reads' | 'adds' | 'overwrites';

export interface Tool {
  name: string;
  title: string;
  effect: Effect;
  /**
   * The operations that the tool calls. A single id: always that operation. `by`: the value of an
   * argument selects one. `given`: the first argument that is present selects one. `all`: every
   * operation, with joined responses.
   */
  calls:
    | OperationId
    | { by: string; of: Readonly<Record<string, OperationId>> }
    | { given: Readonly<Record<string, OperationId>> }
    | { all: readonly OperationId[] };
  /**
   * Arguments in the order of the schema. They have the names of the operations' parameters and
   * body fields.
   */
  takes: readonly string[];
  /** The argument that holds the whole body, if its fields depend on the workspace. */
  body?: string;
  description: string;
  /** A hint that is added to every result. */
  hint?: string;
}

const tool = (
  name: string,
  title: string,
  effect: Effect,
  calls: Tool['calls'],
  takes: string,
  description: string,
  more: Pick<Tool, 'body' | 'hint'> = {},
): Tool => ({ name, title, effect, calls, takes: takes.split(' ').filter(Boolean), description, ...more });

const settings = {
  statuses: 'listStatuses',
  tags: 'listTags',
  sources: 'listSources',
  activity_types: 'listActivityTypes',
  task_types: 'listTaskTypes',
  pipelines: 'listDealPipelines',
  scheduling_pools: 'listSchedulingPools',
} as const;

/**
 * A tool needs the scopes of its operations. No tool spends money, sends, deletes or cancels
 * anything, or changes users, settings, API keys or webhooks.
 */
// biome-ignore format: a table is easier to read by columns.
export const tools: readonly Tool[] = [
  tool('whoami', 'Who am I', 'reads', 'getMe', '', 'Shows the workspace, the mode, and what this credential may do: scopes, modules and limits.'),
  tool('list_objects', 'List objects', 'reads', 'listObjects', 'limit cursor', 'Lists the objects of this workspace. Customers are people, accounts are companies.'),
  tool('describe_object', 'Describe an object', 'reads', 'getObjectSchema', 'object', 'Shows the fields of an object: names, types, allowed values, and which are required.'),
  tool('search', 'Search', 'reads', 'searchRecords', 'q objects limit', 'Finds records of all objects by part of a name, an email address or another text.'),
  tool('query_records', 'Query records', 'reads', 'listRecords', 'object filter sort fields expand count limit cursor', 'Lists records of one object, filtered and sorted, one page at a time.'),
  tool('get_record', 'Get a record', 'reads', 'getRecord', 'object id fields expand', 'Reads one record.'),
  tool('create_record', 'Create a record', 'adds', 'createRecord', 'object record idempotency_key', 'Creates one record.', { body: 'record' }),
  tool('update_record', 'Change a record', 'overwrites', 'updateRecord', 'object id record idempotency_key', 'Changes fields of one record. Omitted fields stay as they are.', { body: 'record' }),
  tool('batch_create_records', 'Create records', 'adds', 'createRecordBatch', 'object records atomic idempotency_key', 'Creates up to 100 records of one object and reports the outcome of each.'),
  tool('create_lead', 'Take in a lead', 'adds', 'createLead', 'first_name last_name email mobile inquiry_details notes source priority assigned_to_email lead_status custom_fields tags idempotency_key', 'Creates a lead, with names of settings and people instead of ids.'),
  tool('get_customer', 'Get a customer', 'reads', { given: { id: 'getCustomer', email: 'getCustomerByEmail' } }, 'id email include fields', 'Reads the profile of one customer, by id or by email.'),
  tool('log_activity', 'Log an activity', 'adds', 'createActivity', 'entity_type entity_id activity_type summary details performed_at followup_at duration_seconds outcome idempotency_key', 'Logs a call, a meeting or another activity for a lead, deal, customer or account.'),
  tool('update_activity', 'Change an activity', 'overwrites', 'updateActivity', 'id summary details activity_type performed_at followup_at idempotency_key', 'Changes a logged activity.'),
  tool('list_activities', 'List activities', 'reads', 'listActivities', 'entity_type entity_id activity_type performed_from performed_to created_by fields limit cursor', 'Lists logged activities, most recent first.'),
  tool('add_note', 'Add a note', 'adds', 'createNote', 'object id content idempotency_key', 'Adds a note to a record.'),
  tool('list_notes', 'List notes', 'reads', 'listNotes', 'object id fields limit cursor', 'Lists the notes of a record, newest first.'),
  tool('link_records', 'Link records', 'adds', 'createLink', 'object id link_type record_id idempotency_key', 'Links a record to another one. A wrong link_type lists the types of the object.'),
  tool('list_links', 'List links', 'reads', 'listLinks', 'object id type limit cursor', 'Lists the records that a record is linked to, references included.'),
  tool('create_task', 'Create a task', 'adds', 'createRecordTask', 'object id title scheduled_at task_type description priority assigned_to_email idempotency_key', 'Adds a task to a record, with a due time and an assignee.'),
  tool('move_deal_stage', 'Move a deal', 'overwrites', 'updateDealStage', 'id stage stage_id pipeline fields reason idempotency_key', 'Moves a deal to another stage, also of another pipeline. If the deal lacks fields that the stage requires, the call fails and names them.'),
  tool('run_report', 'Run a report', 'reads', 'searchReport', 'object metric field group_by labels bucket date_field from to filter', 'Counts, sums or averages records of an object, in groups.'),
  tool('pipeline_report', 'Pipeline report', 'reads', 'getPipeline', 'object pipeline_id', 'Shows the number and the value of leads or deals in each status or stage.'),
  tool('list_settings', 'List settings', 'reads', { by: 'kind', of: settings }, 'kind object limit cursor', 'Lists configured values: lead statuses, deal stages and pipelines, tags, sources, types and scheduling pools.'),
  tool('find_slots', 'Find slots', 'reads', { given: { pool_id: 'searchSlots', member_ids: 'getSlots' } }, 'pool_id member_ids policy_id from to duration_minutes timezone limit', 'Finds free slots of a pool or of certain users. Slots of a pool have tokens to hold and book them.'),
  tool('hold_slot', 'Hold a slot', 'adds', 'createReservation', 'slot_token ttl_seconds idempotency_key', 'Holds a slot for a few minutes so that nobody else can book it.'),
  tool('book_meeting', 'Book a meeting', 'adds', 'createBooking', 'slot_token reservation_id member_ids policy_id from to attendee guests answers meeting object record_id idempotency_key', 'Books a meeting for a held slot, or at a time with certain users. Its error lists questions to answer.'),
  tool('list_bookings', 'List bookings', 'reads', 'listBookings', 'object record_id upcoming order user_id status from to fields limit cursor', 'Lists booked meetings by their start, also about one record.'),
  tool('draft_message', 'Draft a message', 'adds', 'createMessageDraft', 'channel to subject body from object record_id note idempotency_key', 'Prepares an SMS, WhatsApp message or email. It is sent only after a person approves it.', { hint: 'Nothing was sent. A person must approve this draft in the console.' }),
  tool('list_drafts', 'List drafts', 'reads', 'listMessageDrafts', 'status channel object record_id fields limit cursor', 'Lists message drafts and their status.'),
  tool('list_messages', 'List messages', 'reads', 'listRecordMessages', 'object id fields limit cursor', 'Lists the messages that a record sent and received.'),
  tool('find_users', 'Find users', 'reads', 'listUsers', 'q status fields limit cursor', 'Finds users by part of a name or an email address, or lists all.'),
  tool('get_change_set', 'Get a change set', 'reads', 'getChangeSet', 'id', 'Shows a proposed change, and whether a person has approved or rejected it.'),
  tool('get_usage', 'Get usage', 'reads', { all: ['getUsage', 'getSubscription'] }, '', 'Shows the plan and the usage of the monthly quota.'),
];

/** Returns every operation that a tool may call. */
export function listOperations({ calls }: Tool): readonly OperationId[] {
  if (typeof calls === 'string') return [calls];
  if ('all' in calls) return calls.all;
  return Object.values('by' in calls ? calls.of : calls.given);
}
