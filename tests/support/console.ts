// A workspace with content on every page of the console.

import { v7 as uuidv7 } from 'uuid';
import { newGrant } from './access-tokens.ts';
import { invoiced, subscribed } from './billing.ts';
import { call, expectStatus } from './client.ts';
import { newCampaign, newDraft } from './messaging.ts';
import { createRecords } from './records.ts';
import { newWideTenant, sharedToken } from './requests.ts';
import { newPerson } from './sessions.ts';
import { database, type Tenant } from './tenants.ts';
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
  person: string;
}

/** Returns the paths of all pages that a signed-in user may see, by content. */
export const listPages = (of: Omit<Furnished, 'tenant'>): Readonly<Record<string, string>> => ({
  home: '/console',
  messages: '/console/messages',
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
  'an import': `/console/imports/${of.import}`,
  workspace: '/console/workspace',
  people: '/console/people',
  'a new person': '/console/people/new',
  'a person': `/console/people/${of.person}`,
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
  await newDraft(tenant.key, { channel: 'email', to: 'sara@x.example', subject: 'Your quote', body: 'Hello' });
  const [lead] = await createRecords(tenant.key, 'leads', [{ first_name: 'Ada', email: 'ada@x.example' }]);
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
  const person = await newPerson(tenant);
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
    person: person.id,
  };
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
