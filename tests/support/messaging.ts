// Drafts, numbers and lists of messaging, made through the API.
import { randomInt } from 'node:crypto';
import { expectStatus, type Json } from './client.ts';

/** A number of the United Arab Emirates that no test has had, in E.164. */
export const someNumber = (): string => `+97150${randomInt(10_000_000).toString().padStart(7, '0')}`;

/** A draft of a text message, unless told otherwise. */
export async function newDraft(key: string, more: object = {}): Promise<Json> {
  const body = { channel: 'sms', to: someNumber(), body: 'Your quote is ready.', ...more };
  return (await expectStatus(201, 'POST', '/v1/messages/drafts', { key, body })).body.data.draft;
}

/** A number that can do everything. */
export async function newPhoneNumber(key: string, more: object = {}): Promise<Json> {
  const body = { phone_number: someNumber(), capabilities: { sms: true, voice: true, fax: true }, ...more };
  return (await expectStatus(201, 'POST', '/v1/phone-numbers', { key, body })).body.data.phone_number;
}

/** A campaign by email to all leads, unless told otherwise. */
export async function newCampaign(key: string, more: object = {}): Promise<Json> {
  const channels = [{ channel_type: 'email', subject: 'Offer', body: 'Hello {{first_name}}' }];
  const body = { name: 'Winter offer', object: 'leads', channels, ...more };
  return (await expectStatus(201, 'POST', '/v1/campaigns', { key, body })).body.data.campaign;
}
