// A workspace with content on every page of the console.

import { v7 as uuidv7 } from 'uuid';
import { newGrant } from './access-tokens.ts';
import { newBranch, newTeam } from './arranged-ids.ts';
import { invoiced, subscribed } from './billing.ts';
import { call, expectStatus } from './client.ts';
import { newCampaign, newDraft } from './messaging.ts';
import { addNote } from './record-children.ts';
import { createRecords } from './records.ts';
import { newWideTenant, sharedToken } from './requests.ts';
import { newPerson } from './sessions.ts';
import { database, type Tenant } from './tenants.ts';
import { form } from './uploads.ts';
import { newDelivery, newWebhook, withoutDeliveries } from './webhooks.ts';

export interface Furnished {
  tenant: Tenant;
  apiKey: string;
  webhook: string;
  delivery: string;
  campaign: string;
  run: string;
  /** A rejected call, in the request log. */
  request: string;
  changeSet: string;
  import: string;
  /** An import that has its file and is not started, and one that was completed. */
  importWithFile: string;
  doneImport: string;
  person: string;
  /** A lead with notes, a task, a message that waits, and references. */
  lead: string;
  deal: string;
  /** A message that waits for approval. */
  draft: string;
  branch: string;
  team: string;
}

/** Returns the paths of all pages that a signed-in user may see, by content. */
export const listPages = (of: Omit<Furnished, 'tenant'>): Readonly<Record<string, string>> => ({
  home: '/console',
  records: '/console/records',
  'records of an object without any': '/console/records?object=customers',
  'a search': '/console/records?q=ada',
  'a search without a match': '/console/records?q=nobody&object=accounts',
  'a search that is too short': '/console/records?q=a',
  'a lead': `/console/records/leads/${of.lead}`,
  'a deal': `/console/records/deals/${of.deal}`,
  'a part of a timeline': `/console/records/leads/${of.lead}?kind=booking`,
  messages: '/console/messages',
  'selected messages': '/console/messages?selected=all',
  'messages of one channel': '/console/messages?channel=sms',
  'messages of all statuses': '/console/messages?status=all',
  'no messages': '/console/messages?status=withdrawn',
  'a decision about messages': `/console/messages?decided=${of.draft}&action=approve`,
  'a message': `/console/messages/${of.draft}`,
  run: `/console/campaigns/${of.campaign}/runs/${of.run}`,
  'change sets': '/console/change-sets',
  'change sets of all statuses': '/console/change-sets?status=all',
  'a change set': `/console/change-sets/${of.changeSet}`,
  'API keys': '/console/api-keys',
  'a new API key': '/console/api-keys/new',
  'an API key': `/console/api-keys/${of.apiKey}`,
  apps: '/console/apps',
  webhooks: '/console/webhooks',
  'a new webhook': '/console/webhooks/new',
  webhook: `/console/webhooks/${of.webhook}`,
  delivery: `/console/webhooks/${of.webhook}/deliveries/${of.delivery}`,
  imports: '/console/imports',
  'a new import': '/console/imports/new',
  'an import': `/console/imports/${of.import}`,
  'an import with its file': `/console/imports/${of.importWithFile}`,
  'a completed import': `/console/imports/${of.doneImport}`,
  'the undo of an import': `/console/imports/${of.doneImport}/undo`,
  workspace: '/console/workspace',
  people: '/console/people',
  'a new person': '/console/people/new',
  'a person': `/console/people/${of.person}`,
  organization: '/console/organization',
  'a branch': `/console/organization/branches/${of.branch}`,
  'a team': `/console/organization/teams/${of.team}`,
  notifications: '/console/notifications',
  'all notifications': '/console/notifications?show=all',
  plan: '/console/plan',
  'audit log': '/console/audit-log',
  'audit log of a request that does not exist': `/console/audit-log?request_id=${uuidv7()}`,
  'audit log with a wrong filter': '/console/audit-log?request_id=nonsense',
  requests: '/console/requests',
  'a request': `/console/requests/${of.request}`,
  'requests with a wrong filter': '/console/requests?status=many',
  sessions: '/console/sessions',
  password: '/console/password',
  'no page': '/console/nowhere',
});

export async function furnishedTenant(): Promise<Furnished> {
  const tenant = await newWideTenant();
  await newGrant(tenant, { groups: ['records', 'messaging'] });
  await subscribed(tenant, 'live', { package_code: 'scale' });
  await invoiced(tenant, 'live', 3);
  const token = await sharedToken(tenant);
  const body = { name: 'Website forms', scopes: ['leads:create', 'activities:create'] };
  const minted = await expectStatus(201, 'POST', '/v1/api-keys', { token, body });
  const { id: webhook } = await newWebhook(tenant, 'live', withoutDeliveries);
  const delivery = await newDelivery(tenant, 'live', webhook);
  await newDelivery(tenant, 'live', webhook, { status: 'succeeded', last_response_code: 200, last_error: null });
  const [lead] = await createRecords(tenant.key, 'leads', [{ first_name: 'Ada', email: 'ada@x.example' }]);
  const draft = await newDrafts(tenant.key, lead.id);
  const campaign = await newCampaign(tenant.key);
  const begun = await call('POST', `/v1/campaigns/${campaign.id}/runs`, { key: tenant.key, idempotencyKey: true });
  const run = begun.body.data.run.id;
  const rejected = await call('POST', '/v1/leads', { key: tenant.key, body: { first_name: 'Sara', email: 'sara' } });
  const request = rejected.body.meta.request_id;
  const isLogged = async (): Promise<boolean> =>
    (await call('GET', `/v1/requests/${request}`, { key: tenant.key })).status === 200;
  while (!(await isLogged())) await new Promise((resolve) => setTimeout(resolve, 50));
  const isPrepared = async (): Promise<boolean> =>
    (await database()`select from campaign_runs where id = ${run} and status = 'completed'`).length === 1;
  while (!(await isPrepared())) await new Promise((resolve) => setTimeout(resolve, 50));
  const changeSet = await proposeChanges(tenant.key, lead.id);
  const waiting = await expectStatus(201, 'POST', '/v1/imports', { key: tenant.key, body: { object: 'accounts' } });
  const { importWithFile, doneImport } = await makeImports(tenant.key);
  const person = await newPerson(tenant);
  const deal = await furnishLead(tenant.key, lead.id);
  const team = await newTeam(tenant);
  const branch = await newBranch(tenant);
  await database()`
    insert into notifications (company_id, id, user_id, kind, title, subject_id, created_at, read_at)
    select ${tenant.companyId}, gen_random_uuid(), ${tenant.admin.id}, 'webhook_failing', 'It keeps failing.', ${webhook}, now(), read_at
    from (values (null), (now())) given (read_at)`;
  return {
    tenant,
    apiKey: minted.body.data.api_key.id,
    webhook,
    delivery,
    campaign: campaign.id,
    run,
    request,
    changeSet,
    import: waiting.body.data.import.id,
    importWithFile,
    doneImport,
    person: person.id,
    lead: lead.id,
    deal,
    draft,
    branch,
    team,
  };
}

/** Creates messages of every status. @returns the ID of one that waits */
async function newDrafts(key: string, lead: string): Promise<string> {
  const email = { channel: 'email', to: 'sara@x.example', subject: 'Your quote', body: 'Hello' };
  await newDraft(key, { body: 'A long text. '.repeat(80) });
  const sql = database();
  for (const decided of [
    { status: 'sent', approved_by_name: 'Ada Admin', sent_at: new Date(), provider_ref: 'kept' },
    { status: 'failed', error_code: 'refused', error_message: 'The provider rejected the message.' },
    { status: 'rejected', rejected_by_name: 'Ada Admin', rejection_reason: 'Too early', rejected_at: new Date() },
  ]) {
    const { id } = await newDraft(key, email);
    await sql`update message_drafts set ${sql(decided)} where id = ${id}`;
  }
  return (await newDraft(key, { ...email, object: 'leads', record_id: lead, note: 'Asked on the phone' })).id;
}

/** Adds a note, a task and a deal to a lead. @returns the ID of the deal */
async function furnishLead(key: string, id: string): Promise<string> {
  await addNote(key, 'leads', id, 'Prefers to be called in the morning');
  const task = { title: 'Call Ada', scheduled_at: '2026-12-01T09:00:00Z', object: 'leads', record_id: id };
  await createRecords(key, 'tasks', [task]);
  const bodies = [{ name: 'Rooftop system', amount_minor: 1_250_000, currency_code: 'EUR', lead_id: id }];
  const [deal] = await createRecords(key, 'deals', bodies);
  return deal.id;
}

/** Uploads a file with rows of all kinds, and imports it once, with a failed row. */
async function makeImports(key: string): Promise<Pick<Furnished, 'importWithFile' | 'doneImport'>> {
  const content = 'Organisation,Web,Shoe size\nAcme,https://acme.example,44\n,no address,45\n';
  const uploaded = await expectStatus(201, 'POST', '/v1/imports', { key, body: { object: 'accounts' } });
  const importWithFile = uploaded.body.data.import.id;
  const part = { key, rawBody: content, headers: { 'content-type': 'text/csv' } };
  await expectStatus(200, 'POST', `/v1/imports/${importWithFile}/parts?number=1`, part);
  const options = { object: 'accounts', mapping: { Organisation: 'name', Web: 'website', 'Shoe size': null } };
  const sent = form([
    { name: 'options', fileName: null, content: JSON.stringify(options) },
    { name: 'file', fileName: 'accounts.csv', type: 'text/csv', content },
  ]);
  const doneImport = (await expectStatus(201, 'POST', '/v1/imports', { key, ...sent })).body.data.import.id;
  const isDone = async (): Promise<boolean> =>
    (await call('GET', `/v1/imports/${doneImport}`, { key })).body.data.import.status === 'completed';
  while (!(await isDone())) await new Promise((resolve) => setTimeout(resolve, 50));
  return { importWithFile, doneImport };
}

/** Proposes changes of every look: of a lead, to new and deleted records, and of several records. */
async function proposeChanges(key: string, lead: string): Promise<string> {
  const [account] = await createRecords(key, 'accounts', [{ name: 'Old Mill' }]);
  const records = '/v1/objects/accounts/records';
  const operations = [
    {
      method: 'PATCH',
      path: `/v1/objects/leads/records/${lead}`,
      body: { last_name: 'Lovelace', notes: 'x'.repeat(90) },
    },
    { method: 'POST', path: records, body: { name: 'Acme', city: 'Rome' }, ref: 'acme' },
    { method: 'POST', path: `${records}/$ref.acme.id/notes`, body: { content: 'Asked for an offer' } },
    { method: 'DELETE', path: `${records}/${account.id}` },
    { method: 'POST', path: `${records}:batch`, body: [{ name: 'North' }, { name: 'South', city: 'Bonn' }] },
  ];
  const body = { title: 'Tidy up accounts', reason: 'They asked for an offer', operations };
  return (await expectStatus(201, 'POST', '/v1/change-sets', { key, body })).body.data.change_set.id;
}
