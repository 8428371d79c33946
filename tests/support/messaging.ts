// Drafts, numbers and campaigns, created through the API.
import { randomInt, randomUUID } from 'node:crypto';
import { expectStatus, type Json } from './client.ts';
import { inboundSecret } from './inbound.ts';
import { database, type Tenant } from './tenants.ts';

/** Returns an unused number of the United Arab Emirates, in E.164. */
export const someNumber = (): string => `+97150${randomInt(10_000_000).toString().padStart(7, '0')}`;

/** Creates a draft, a text message by default. */
export async function newDraft(key: string, more: object = {}): Promise<Json> {
  const body = { channel: 'sms', to: someNumber(), body: 'Your quote is ready.', ...more };
  return (await expectStatus(201, 'POST', '/v1/messages/drafts', { key, body })).body.data.draft;
}

/** Creates a number with every capability. */
export async function newPhoneNumber(key: string, more: object = {}): Promise<Json> {
  const body = { phone_number: someNumber(), capabilities: { sms: true, voice: true, fax: true }, ...more };
  return (await expectStatus(201, 'POST', '/v1/phone-numbers', { key, body })).body.data.phone_number;
}

/** Creates a campaign, by default by email to all leads. */
export async function newCampaign(key: string, more: object = {}): Promise<Json> {
  const channels = [{ channel_type: 'email', subject: 'Offer', body: 'Hello {{first_name}}' }];
  const body = { name: 'Winter offer', object: 'leads', channels, ...more };
  return (await expectStatus(201, 'POST', '/v1/campaigns', { key, body })).body.data.campaign;
}

/** Adds something of every kind in both modes. */
export async function messaged({ companyId, key, testKey }: Tenant): Promise<void> {
  await database()`update subscriptions set package_code = 'enterprise' where company_id = ${companyId}`;
  for (const each of [key, testKey]) {
    await newDraft(each);
    await newPhoneNumber(each);
    const filter = { field: 'city', op: 'eq', value: 'Nowhere' };
    const { id } = await newCampaign(each, { filter });
    await expectStatus(202, 'POST', `/v1/campaigns/${id}/runs`, { key: each, idempotencyKey: true });
    await expectStatus(201, 'POST', '/v1/dnc-list', { key: each, body: { phone_number: someNumber() } });
    const body = { email: `somebody${randomInt(1e9)}@x.example` };
    await expectStatus(201, 'POST', '/v1/email-suppression', { key: each, body });
  }
  for (const environment of ['live', 'test'] as const) {
    const body = { type: 'sms', external_id: randomUUID(), from: someNumber(), to: someNumber(), body: 'Hello' };
    const signedWith = await inboundSecret({ companyId }, environment);
    const query = { company_id: companyId, environment };
    await expectStatus(200, 'POST', '/v1/inbound/generic', { body, signedWith, query });
  }
}
