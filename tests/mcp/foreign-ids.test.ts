// Ids of another company in every argument of every tool: nothing is found or changed.
import { randomUUID } from 'node:crypto';
import { v7 as uuidv7 } from 'uuid';
import { beforeAll, describe, expect, test } from 'vitest';
import { tenantTables } from '../isolation/schema.ts';
import { newActivity, newDeal, newObject, newRecord } from '../support/arranged-ids.ts';
import type { Json } from '../support/client.ts';
import { callTool, post } from '../support/mcp.ts';
import { toolExamples } from '../support/mcp-examples.ts';
import { newWideTenant } from '../support/requests.ts';
import { attendee, holdSome, later, meeting, usualPool } from '../support/scheduling.ts';
import { createSetting } from '../support/settings.ts';
import { database, newUser, type Tenant } from '../support/tenants.ts';

/** Arguments that identify nothing of a company. */
const plain = new Set([
  'activity_type',
  'answers',
  'atomic',
  'attendee',
  'body',
  'bucket',
  'channel',
  'content',
  'count',
  'custom_fields',
  'date_field',
  'description',
  'details',
  'duration_minutes',
  'duration_seconds',
  'entity_type',
  'expand',
  'field',
  'fields',
  'first_name',
  'followup_at',
  'from',
  'group_by',
  'guests',
  'include',
  'inquiry_details',
  'kind',
  'labels',
  'last_name',
  'lead_status',
  'limit',
  'link_type',
  'meeting',
  'metric',
  'mobile',
  'note',
  'notes',
  'objects',
  'order',
  'outcome',
  'performed_at',
  'performed_from',
  'performed_to',
  'priority',
  'reason',
  'record',
  'records',
  'scheduled_at',
  'sort',
  'source',
  'stage',
  'status',
  'subject',
  'summary',
  'tags',
  'task_type',
  'timezone',
  'title',
  'to',
  'ttl_seconds',
  'type',
  'upcoming',
]);

interface Named {
  /** A value of the owner. */
  theirs: unknown;
  /**
   * The same kind of value that does not exist, if one can be made. Both must give the same
   * response.
   */
  nobodys?: unknown;
}

let owner: Tenant;
let stranger: Tenant;
let listed: Json[];
/** Texts that would reveal the owner's data in a response. */
let marks: string[];
let named: (tool: string, argument: string) => Named | undefined;
let before: string;

const email = `only-the-owner-${randomUUID()}@example.com`;

beforeAll(async () => {
  [owner, stranger] = await Promise.all([newWideTenant(), newWideTenant()]);
  const sql = database();
  const lead = await newRecord(owner, 'live', 'leads');
  const customer = await newRecord(owner, 'live', 'customers');
  await sql`update leads set email = ${email} where company_id = ${owner.companyId} and id = ${lead}`;
  await sql`update customers set email = ${email} where company_id = ${owner.companyId} and id = ${customer}`;
  const [deal, activity] = await Promise.all([newDeal(owner, 'live'), newActivity(owner, 'live')]);
  const [object, pool, held] = await Promise.all([newObject(owner), usualPool(owner), holdSome(owner, owner.key)]);
  const [stage] = await sql`
    select id from statuses where company_id = ${owner.companyId} and object = 'deals' and name = 'Qualified'`;
  const pipeline = await createSetting(owner, '/v1/settings/pipelines', { name: `Only ${randomUUID()}` });
  const use = async (name: string, args: object): Promise<Json> => {
    const { result } = (await callTool(name, args, { key: owner.key })).body;
    expect(result.isError, result.content[0].text).toBeUndefined();
    return result.structuredContent;
  };
  const keyUsed = `key-${randomUUID()}`;
  const made = await use('create_record', { object: 'accounts', record: { name: 'Theirs' }, idempotency_key: keyUsed });
  for (let drafts = 0; drafts < 2; drafts += 1)
    await use('draft_message', { channel: 'email', to: email, subject: 'Hi', body: 'Hello' });
  await newActivity(owner, 'live');
  for (const content of ['First', 'Second']) await use('add_note', { object: 'leads', id: lead, content });
  for (const title of ['First', 'Second'])
    await use('book_meeting', { ...(await holdSome(owner, owner.key)), attendee, meeting: { ...meeting, title } });
  await newUser(owner);
  for (let messages = 0; messages < 2; messages += 1)
    await sql`
      insert into messages (company_id, test_mode, id, object, record_id, channel, direction, body, occurred_at)
      values (${owner.companyId}, false, ${uuidv7()}, 'leads', ${lead}, 'email', 'inbound', 'Hello', now())`;
  const other = await newRecord(owner, 'live', 'leads');
  const pageOf: Record<string, object> = {
    list_objects: {},
    query_records: { object: 'leads' },
    list_activities: {},
    list_settings: { kind: 'statuses', object: 'leads' },
    list_drafts: {},
    list_notes: { object: 'leads', id: lead },
    list_bookings: {},
    list_messages: { object: 'leads', id: lead },
    find_users: {},
  };
  const cursors = new Map<string, string>();
  for (const [name, args] of Object.entries(pageOf))
    cursors.set(name, (await use(name, { ...args, limit: 1 })).next_cursor);
  expect([...cursors.values()]).not.toContain(null);

  listed = (await post('tools/list', {}, { key: stranger.key })).body.result.tools;
  const members = pool.member_ids as string[];
  marks = [owner.companyId, owner.admin.id, owner.admin.email, lead, customer, deal, activity, email];
  marks.push(object, pool.id, pool.policy_id, ...members, held.reservation_id, stage?.id, made.record.id);
  marks.push(pipeline.id, pipeline.name);
  const records: Record<string, string> = { get_customer: customer, update_activity: activity, move_deal_stage: deal };
  const filterBy = (value: string) => ({ field: 'email', op: 'eq', value });
  const nobody = randomUUID();
  const ofAll: Record<string, Named> = {
    entity_id: { theirs: lead, nobodys: nobody },
    record_id: { theirs: lead, nobodys: nobody },
    stage_id: { theirs: stage?.id, nobodys: nobody },
    pipeline: { theirs: pipeline.name, nobodys: `Only ${nobody}` },
    pipeline_id: { theirs: pipeline.id, nobodys: nobody },
    pool_id: { theirs: pool.id, nobodys: nobody },
    policy_id: { theirs: pool.policy_id, nobodys: nobody },
    reservation_id: { theirs: held.reservation_id, nobodys: nobody },
    slot_token: { theirs: held.slot_token },
    object: { theirs: object, nobodys: `object:o${nobody.slice(0, 8)}` },
    email: { theirs: email, nobodys: `${nobody}@example.com` },
    q: { theirs: email, nobodys: `${nobody}@example.com` },
    filter: { theirs: filterBy(email), nobodys: filterBy(`${nobody}@example.com`) },
    assigned_to_email: { theirs: owner.admin.email, nobodys: `admin-${nobody}@example.com` },
    user_id: { theirs: owner.admin.id, nobodys: nobody },
    created_by: { theirs: owner.admin.id, nobodys: nobody },
    idempotency_key: { theirs: keyUsed },
  };
  named = (tool, argument) => {
    if (argument === 'id') return { theirs: records[tool] ?? lead, nobodys: nobody };
    // Not the address of the searched lead: the stranger then has a lead with that address.
    if (tool === 'create_lead' && argument === 'email') return { theirs: `${other}@example.com` };
    if (tool === 'find_users' && argument === 'q')
      return { theirs: owner.admin.email, nobodys: `${nobody}@example.com` };
    if (argument === 'cursor') return { theirs: cursors.get(tool) };
    if (argument === 'member_ids')
      return tool === 'find_slots'
        ? { theirs: members.join(','), nobodys: nobody }
        : { theirs: members, nobodys: [nobody] };
    return ofAll[argument];
  };
  before = await digestRows(owner);
});

/** Written by the server itself for every caller: queues, counters and search. */
const ownDoing = /^(api_key_(days|places|usage)|api_quota|outbox|feed|search|request_log)/;

/** Returns a digest of a company's rows, to detect changes. */
async function digestRows({ companyId }: Tenant): Promise<string> {
  const sql = database();
  const tables = (await tenantTables(sql)).filter(({ name }) => !ownDoing.test(name));
  const digests: string[] = [];
  for (const { name, company } of tables) {
    // A job sends mails at any time, which changes their rows.
    const digest = name === 'mails' ? sql`count(*)` : sql`md5(coalesce(string_agg(r::text, ' ' order by r::text), ''))`;
    const [row] = await sql`select ${digest} as digest from ${sql(name)} r where ${sql(company)} = ${companyId}`;
    digests.push(`${name} ${row?.digest}`);
  }
  return digests.join('\n');
}

/** Returns the stranger's own arguments next to one of the owner's. */
async function besides(tool: string, argument: string): Promise<Json> {
  const lead = await newRecord(stranger, 'live', 'leads');
  const own = async () => ({
    policy_id: (await usualPool(stranger)).policy_id,
    member_ids: [(await newUser(stranger)).id],
  });
  if (tool === 'get_customer' && argument === 'email') return {};
  if (tool === 'find_slots' && argument !== 'pool_id') {
    const { policy_id, member_ids } = await own();
    return { policy_id, member_ids: member_ids.join(','), ...later() };
  }
  if (tool === 'book_meeting' && argument.match(/^(policy_id|member_ids)$/))
    return { ...(await own()), ...later(), attendee, meeting };
  const args = await toolExamples(stranger, lead)[tool]?.();
  if (argument === 'object' && tool === 'book_meeting') args.record_id = lead;
  if (argument === 'stage_id') delete args.stage;
  if (argument === 'pipeline_id') args.object = 'deals';
  if (argument === 'record_id') args.object = 'leads';
  if (argument === 'entity_id') args.entity_type = 'lead';
  return args;
}

describe('ids of another company', () => {
  test('tries every argument that could name something of another company', () => {
    const unknown = listed.flatMap(({ name, inputSchema }) =>
      Object.keys(inputSchema.properties).filter((each) => !plain.has(each) && named(name, each) === undefined),
    );
    expect(unknown).toEqual([]);
  });

  test('finds and changes nothing by ids of another company', async () => {
    const found: string[] = [];
    for (const { name, inputSchema, annotations } of listed) {
      for (const argument of Object.keys(inputSchema.properties)) {
        const values = plain.has(argument) ? undefined : named(name, argument);
        if (!values) continue;
        const answer = async (value: unknown): Promise<Json> => {
          const args = { ...(await besides(name, argument)), [argument]: value };
          const { result } = (await callTool(name, args, { key: stranger.key })).body;
          // A response may repeat what was sent.
          const recorded = JSON.stringify(result);
          const sent = [value].flat().map((each) => (typeof each === 'object' ? (each as Json).value : String(each)));
          return { ...result, recorded: sent.reduce((text, each) => text.replaceAll(each, 'sent'), recorded) };
        };
        const theirs = await answer(values.theirs);
        const at = `${name} ${argument}`;
        for (const mark of marks)
          if (theirs.recorded.includes(mark)) found.push(`${at} tells ${mark}: ${theirs.recorded}`);
        const isOwn = argument === 'idempotency_key' || at === 'create_lead email';
        if (!annotations.readOnlyHint && (theirs.isError === true) === isOwn)
          found.push(`${at} is ${isOwn ? 'refused' : 'done'}: ${theirs.recorded}`);
        if (isOwn) continue;
        if (values.nobodys === undefined) continue;
        const nobodys = await answer(values.nobodys);
        if (nobodys.recorded !== theirs.recorded)
          found.push(`${at} answers otherwise:\n${theirs.recorded}\n${nobodys.recorded}`);
      }
    }
    expect(found.join('\n')).toBe('');
    expect(await digestRows(owner)).toBe(before);
  });
});
