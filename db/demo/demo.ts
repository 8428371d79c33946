// The demo workspace: found, written with multi-row inserts, and given a key.
import { v7 as uuidv7 } from 'uuid';
import { insertKeyPlace } from '../access/places.ts';
import { toListLiteral } from '../client/list-literal.ts';
import { createClient } from '../client/pipeline.ts';
import type { Sql } from '../client/pool.ts';
import { enterTenant } from '../client/tenant.ts';
import { lockValues } from '../client/value-locks.ts';
import type { MergeUndo } from '../records/merges.ts';
import { insertPipeline } from '../settings/pipelines.ts';

/**
 * A record with its columns by name. Configured items are named, although the table has their ids.
 */
interface Row {
  id: string;
  /** A user of the company. */
  created_by: string;
}

interface DemoBranch {
  id: string;
  name: string;
  code: string;
  city: string;
  country: string;
  timezone: string;
}

export interface DemoConfiguration {
  branch: DemoBranch;
  emptyBranch: DemoBranch;
  /** In the company's first branch, with all of its sales people. */
  team: { id: string; name: string };
  emptyTeam: { id: string; name: string };
  users: readonly { id: string; email: string; fullName: string; role: string; branch: string; createdAt: Date }[];
  sources: readonly { id?: string; name: string; description: string; isEnabled: boolean }[];
  tags: readonly {
    id?: string;
    object: string;
    name: string;
    description: string;
    color: string;
    priority: number;
    conditions: readonly object[];
    fields: readonly string[];
  }[];
  customObject: { slug: string; label: string; plural: string };
  customFields: readonly {
    object: string;
    name: string;
    label: string;
    type: string;
    required: boolean;
    options: readonly object[] | null;
  }[];
  statuses: readonly object[];
  pipeline: {
    id: string;
    name: string;
    is_default: boolean;
    order_position: number;
    stages: readonly { name: string; outcome: string }[];
  };
  linkTypes: readonly object[];
  activityTypes: readonly object[];
  slaPolicies: readonly { business_days: readonly number[] }[];
  /** Shared by the first user, like the saved reports. */
  views: readonly { filter: object; fields: readonly string[] }[];
  savedReports: readonly { config: object }[];
}

export interface DemoRecords {
  links: readonly Row[];
  leads: readonly (Row & { source: string; lead_status: string; next_followup_at: Date | null; custom: object })[];
  accounts: readonly Row[];
  customers: readonly (Row & { source: string })[];
  deals: readonly (Row & { source: string; stage: string; next_followup_at: Date | null })[];
  tasks: readonly (Row & { task_type: string })[];
  activities: readonly (Row & { activity_type: string })[];
  /** Records of the custom object. */
  visits: readonly (Row & { object: string; custom: object })[];
  tagged: readonly { object: string; record_id: string; tag: string; is_manual: boolean }[];
  notes: readonly Row[];
  messages: readonly object[];
  /** The storage already has their files. */
  attachments: readonly (Row & { file_id: string })[];
  exports: readonly (Row & { modules: readonly string[] })[];
}

/** The demo company and its first branch. */
interface Company {
  id: string;
  branchId: string;
  founded: Date;
}

/**
 * The company of the operator, which exists before any other. Servers that create the demo lock it.
 */
const platformCompany = '00000000-0000-7000-8000-000000000000';

/**
 * Runs work in one transaction and under a lock: if two servers start at the same time, one creates
 * the demo and the other finds it.
 * @param url a user that may assume the server's roles
 */
export async function inDemoTransaction<T extends object>(url: string, work: (sql: Sql) => Promise<T>): Promise<T> {
  const sql = createClient(url, { max: 1, onnotice: () => undefined, connect_timeout: 5 });
  try {
    return (await sql.begin(async (transaction) => {
      await transaction`set local role crm_platform`;
      await lockValues(transaction, platformCompany, ['demo']);
      return work(transaction);
    })) as T;
  } finally {
    await sql.end({ timeout: 1 });
  }
}

/** Returns what exists of the demo, even if the company's rows were changed since. */
export async function findDemo(
  sql: Sql,
  wanted: { companyId: string; email: string; keyHash: Buffer | null },
  now: Date,
): Promise<{ exists: boolean; keyWorks: boolean; passwordHash: string | null }> {
  await sql`set local role crm_platform`;
  const [row] = await sql<{ exists: boolean; keyWorks: boolean; passwordHash: string | null }[]>`
    select exists (select from companies where id = ${wanted.companyId}) as exists,
      exists (
        select from api_keys
        where company_id = ${wanted.companyId} and key_hash = ${wanted.keyHash} and revoked_at is null and (expires_at is null or expires_at > ${now})
      ) as key_works,
      (select password_hash from sign_ins where company_id = ${wanted.companyId} and email = ${wanted.email}) as password_hash`;
  return row as { exists: boolean; keyWorks: boolean; passwordHash: string | null };
}

export async function setPassword(sql: Sql, companyId: string, email: string, passwordHash: string): Promise<void> {
  await sql`set local role crm_platform`;
  await sql`
    update sign_ins set password_hash = ${passwordHash}, must_change_password = false
    where company_id = ${companyId} and email = ${email}`;
}

export interface DemoKey {
  id: string;
  name: string;
  description: string;
  environment: 'live' | 'test';
  scopes: readonly string[];
  rate_limit_per_minute: number;
  rate_limit_per_hour: number;
}

/** Adds a key to the demo. */
export async function insertDemoKey(
  sql: Sql,
  companyId: string,
  made: { hash: Buffer; prefix: string; last4: string },
  { id, ...key }: DemoKey,
  now: Date,
): Promise<void> {
  await enterTestMode(sql, companyId);
  const { hash: key_hash, prefix, last4 } = made;
  const by = { created_by_id: 'system', created_by_name: 'Demo', created_at: now, updated_at: now };
  await sql`insert into api_keys ${sql({ company_id: companyId, id, ...key, scopes: toListLiteral(key.scopes), key_hash, prefix, last4, ...by })}`;
  await sql`insert into api_key_usage (company_id, api_key_id) values (${companyId}, ${id})`;
  await insertKeyPlace(sql, companyId, key_hash);
}

/** Binds the transaction to the company's test mode, for row-level security. */
export async function enterTestMode(sql: Sql, companyId: string): Promise<void> {
  await sql`set local role crm_app`;
  await enterTenant(sql, { companyId, testMode: true });
}

/** Adds the demo's configuration to a new company, and enables every module of the plans. */
export async function insertConfiguration(sql: Sql, company: Company, demo: DemoConfiguration): Promise<void> {
  const { id: companyId, founded } = company;
  const stamp = { company_id: companyId, created_at: founded };
  const changed = { ...stamp, updated_at: founded };
  const branch = { ...stamp, ...demo.branch };
  await sql`insert into branches ${sql([branch, { ...stamp, ...demo.emptyBranch }])}`;
  const teams = [demo.team, demo.emptyTeam].map((team) => ({ ...stamp, ...team, branch_id: company.branchId }));
  await sql`insert into teams ${sql(teams)}`;
  const users = demo.users.map((user) => ({
    company_id: companyId,
    id: user.id,
    email: user.email,
    full_name: user.fullName,
    branch_id: user.branch === 'second' ? branch.id : company.branchId,
    team_id: user.branch === 'second' ? null : demo.team.id,
    created_at: user.createdAt,
    updated_at: user.createdAt,
  }));
  await sql`insert into users ${sql(users)}`;
  await sql`insert into user_places ${sql(users.map(({ company_id, id }) => ({ company_id, user_id: id })))}`;
  const roles = new Map(
    (await sql<{ id: string; name: string }[]>`select id, name from roles`).map((r) => [r.name, r.id]),
  );
  const userRoles = demo.users.map((user) => ({
    company_id: companyId,
    user_id: user.id,
    role_id: find(roles, user.role),
  }));
  await sql`insert into user_roles ${sql(userRoles)}`;
  const sources = demo.sources.map(({ isEnabled, ...source }) => ({
    ...changed,
    ...source,
    id: source.id ?? uuidv7(),
    is_enabled: isEnabled,
  }));
  await sql`insert into sources ${sql(sources)}`;
  const tags = demo.tags.map(({ object, conditions, fields, ...tag }) => ({
    ...changed,
    object,
    ...tag,
    id: tag.id ?? uuidv7(),
    // A lead's tag stores its conditions as fields; a customer's tag stores both.
    fields: sql.json((object === 'leads' ? conditions : fields) as never),
    conditions: sql.json((object === 'leads' ? [] : conditions) as never),
  }));
  await sql`insert into tags ${sql(tags)}`;
  const withStamps = (rows: readonly object[], stamps: object) => sql(rows.map((row) => ({ ...stamps, ...row })));
  await sql`insert into statuses ${withStamps(demo.statuses, changed)}`;
  const { stages, is_default: isDefault, order_position: orderPosition, ...pipeline } = demo.pipeline;
  const dated = { createdAt: founded, updatedAt: founded };
  await insertPipeline(sql, companyId, { ...pipeline, isDefault, orderPosition, ...dated }, stages);
  await sql`insert into link_types ${withStamps(demo.linkTypes, changed)}`;
  await sql`insert into activity_types ${withStamps(demo.activityTypes, { company_id: companyId })}`;
  const policies = demo.slaPolicies.map((each) => ({ ...each, business_days: toListLiteral(each.business_days) }));
  await sql`insert into sla_policies ${withStamps(policies, changed)}`;
  const [owner] = demo.users;
  const sharedBy = {
    ...changed,
    is_shared: true,
    created_by_kind: 'user',
    created_by_id: owner?.id ?? '',
    created_by_name: owner?.fullName ?? '',
    created_by_user: owner?.id ?? null,
  };
  const views = demo.views.map((view) => ({
    ...view,
    filter: sql.json(view.filter as never),
    fields: toListLiteral(view.fields),
  }));
  await sql`insert into saved_views ${withStamps(views, sharedBy)}`;
  const reports = demo.savedReports.map((report) => ({ ...report, config: sql.json(report.config as never) }));
  await sql`insert into saved_reports ${withStamps(reports, sharedBy)}`;
  await sql`insert into custom_objects ${sql({ ...changed, ...demo.customObject })}`;
  const fields = demo.customFields.map((field, index) => ({
    ...changed,
    ...field,
    options: field.options && sql.json(field.options as never),
    // Fields are listed in the order in which they were created.
    created_at: new Date(founded.getTime() + index),
  }));
  await sql`insert into custom_fields ${sql(fields)}`;
  await sql`
    update subscriptions
    set status = 'trialing', trial_ends_at = null, due_at = null, period_start = ${founded}, period_end = ${founded}::timestamptz + interval '1 month'
    where company_id = ${companyId}`;
}

/** Inserts the records into the company's test mode. */
export async function insertRecords(sql: Sql, companyId: string, demo: DemoRecords): Promise<void> {
  const ids = await findIdsByName(sql, companyId);
  const names = new Map(
    (
      await sql<{ id: string; name: string }[]>`select id, full_name as name from users where company_id = ${companyId}`
    ).map((user) => [user.id, user.name]),
  );
  const row = <Given extends Row>({ created_by, ...columns }: Given) => ({
    ...columns,
    company_id: companyId,
    test_mode: true,
    created_by_kind: 'user',
    created_by_id: created_by,
    created_by_user: created_by,
    created_by_name: find(names, created_by),
  });
  const record = <Given extends Row>(given: Given) => ({ ...row(given), updated_by_id: given.created_by });
  const findSource = (source: string) => find(ids, `source ${source}`);
  const leads = demo.leads.map(({ source, lead_status, custom, ...lead }) => ({
    ...record(lead),
    source_id: findSource(source),
    lead_status_id: find(ids, `leads ${lead_status}`),
    planned_followup_at: lead.next_followup_at,
    custom: sql.json(custom as never),
  }));
  await sql`insert into leads ${sql(leads)}`;
  await sql`insert into accounts ${sql(demo.accounts.map(record))}`;
  const customers = demo.customers.map(({ source, ...customer }) => ({
    ...record(customer),
    source_id: findSource(source),
  }));
  await sql`insert into customers ${sql(customers)}`;
  await sql`
    update leads l set converted_customer_id = c.id
    from customers c
    where l.company_id = ${companyId} and l.test_mode and c.company_id = ${companyId} and c.test_mode and c.lead_id = l.id`;
  const deals = demo.deals.map(({ source, stage, ...deal }) => ({
    ...record(deal),
    source_id: findSource(source),
    pipeline_id: find(ids, 'default pipeline'),
    stage_id: find(ids, `deals ${stage}`),
    planned_followup_at: deal.next_followup_at,
  }));
  await sql`insert into deals ${sql(deals)}`;
  const tasks = demo.tasks.map(({ task_type, ...task }) => ({
    ...record(task),
    task_type_id: find(ids, `task ${task_type}`),
  }));
  await sql`insert into tasks ${sql(tasks)}`;
  const activities = demo.activities.map(({ activity_type, ...activity }) => ({
    ...record(activity),
    activity_type_id: find(ids, `activity ${activity_type}`),
  }));
  await sql`insert into activities ${sql(activities)}`;
  const visits = demo.visits.map(({ custom, ...visit }) => ({
    ...record(visit),
    custom: sql.json(custom as never),
  }));
  await sql`insert into custom_records ${sql(visits)}`;
  const written = <Given extends Row>(given: Given) => ({ ...row(given), created_by_user: given.created_by });
  await sql`insert into notes ${sql(demo.notes.map(written))}`;
  const files = demo.attachments.map(({ file_id }) => ({ company_id: companyId, test_mode: true, id: file_id }));
  await sql`insert into stored_files ${sql(files)}`;
  await sql`insert into attachments ${sql(demo.attachments.map(written))}`;
  const messages = demo.messages.map((message) => ({ ...message, company_id: companyId, test_mode: true }));
  await sql`insert into messages ${sql(messages)}`;
  const tagged = demo.tagged.map(({ tag, ...rest }) => ({
    ...rest,
    company_id: companyId,
    test_mode: true,
    tag_id: find(ids, `tag ${rest.object} ${tag}`),
  }));
  await sql`insert into record_tags ${sql(tagged)}`;
  await sql`insert into links ${sql(demo.links.map(row))}`;
  const exports = demo.exports.map(({ modules, ...each }) => ({
    ...written(each),
    modules: `{${modules.join(',')}}`,
    sources: sql.json([]),
  }));
  await sql`insert into exports ${sql(exports as never)}`;
}

/** Returns the ids of configured items by object and name. */
async function findIdsByName(sql: Sql, companyId: string): Promise<ReadonlyMap<string, string>> {
  const rows = await sql<{ name: string; id: string }[]>`
    select object || ' ' || name as name, id from statuses where company_id = ${companyId}
    union all select 'default pipeline', id from pipelines where company_id = ${companyId} and is_default
    union all select 'source ' || name, id from sources where company_id = ${companyId}
    union all select 'tag ' || object || ' ' || name, id from tags where company_id = ${companyId}
    union all select 'activity ' || name, id from activity_types where company_id = ${companyId}
    union all select 'task ' || name, id from task_types where company_id = ${companyId}`;
  return new Map(rows.map((row) => [row.name, row.id]));
}

function find(ids: ReadonlyMap<string, string>, name: string): string {
  const id = ids.get(name);
  if (id === undefined) throw new Error(`the demo names ${name}, which does not exist`);
  return id;
}

/** Moves accounts on which nothing hangs to the trash. */
export async function deleteExamples(sql: Sql, companyId: string, ids: readonly string[], now: Date): Promise<void> {
  const children = { notes: 0, tasks: 0, activities: 0, messages: 0, attachments: 0, links: 0, tags: 0 };
  await sql`
    with gone as (
      delete from accounts r where company_id = ${companyId} and test_mode and id in ${sql([...ids])} returning *
    )
    insert into deleted_records (company_id, test_mode, object, id, document, children, deleted_at, deleted_by_kind, deleted_by_id,
      deleted_by_name, purge_at, assigned_to, created_by_kind, created_by_id, created_by_user)
    select company_id, test_mode, 'accounts', id, to_jsonb(gone), ${sql.json(children)}, ${now}, 'system', 'system', 'Demo',
      ${new Date(now.getTime() + 30 * 86_400_000)}, assigned_to, created_by_kind, created_by_id, created_by_user
    from gone`;
}

/** Merges accounts on which nothing hangs: the source of each is in the trash already. */
export async function mergeExamples(
  sql: Sql,
  companyId: string,
  merges: readonly { id: string; sourceId: string; targetId: string }[],
  now: Date,
): Promise<void> {
  const none = { notes: 0, tasks: 0, activities: 0, messages: 0, attachments: 0, links: 0, tags: 0 };
  const items = { notes: [], messages: [], received_reports: [], attachments: [], bookings: [], message_drafts: [] };
  const further = {
    activities: [],
    tasks: [],
    links: [],
    scheduling_assignments: [],
    workforce_runs: [],
    notifications: [],
  };
  const undo: MergeUndo = {
    ...{ values: {}, custom: {}, tagIds: [], clockIds: [], references: [] },
    items: { ...items, ...further },
  };
  const rows = merges.map((merge) => ({
    ...{ companyId, testMode: true, ...merge, object: 'accounts', createdAt: now },
    moved: sql.json({ ...none, bookings: 0, drafts: 0, references: 0 }),
    ...{ fields: sql.json([]), undo: sql.json(undo as never), undoUntil: new Date(now.getTime() + 30 * 86_400_000) },
    ...{ createdByKind: 'system', createdById: 'system', createdByName: 'Demo' },
  }));
  await sql`insert into merges ${sql(rows as never)}`;
  for (const { sourceId, targetId } of merges)
    await sql`
      update deleted_records set merged_into = ${targetId}
      where company_id = ${companyId} and test_mode and id = ${sourceId}`;
}
