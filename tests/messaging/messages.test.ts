// The messages of a record: newest first, with previews, and only with the add-on inbox.
import { v7 as uuidv7 } from 'uuid';
import { beforeAll, describe, expect, test } from 'vitest';
import { expectStatus } from '../support/client.ts';
import {
  childrenPath,
  expectClampedLimits,
  listChildren,
  newAccount,
  walkChildren,
} from '../support/record-children.ts';
import { database, newTenant, type Tenant } from '../support/tenants.ts';

let tenant: Tenant;
let key: string;

beforeAll(async () => {
  tenant = await newTenant();
  key = tenant.key;
});

async function newMessages(record: string, count: number, more: object = {}): Promise<string[]> {
  const rows = Array.from({ length: count }, (_, index) => ({
    company_id: tenant.companyId,
    test_mode: false,
    id: uuidv7(),
    object: 'accounts',
    record_id: record,
    channel: 'email',
    direction: 'inbound',
    body: 'Hello',
    // Two messages per time, so that the id decides.
    occurred_at: new Date(Date.UTC(2026, 0, 1, 0, Math.floor(index / 2))),
    ...more,
  }));
  await database()`insert into messages ${database()(rows)}`;
  return rows
    .toSorted((a, b) => b.occurred_at.getTime() - a.occurred_at.getTime() || (a.id < b.id ? 1 : -1))
    .map((row) => row.id);
}

describe('messages', () => {
  test('shows messages newest first, 50 per page, with the first 500 characters of their body', async () => {
    const on = await newAccount(key);
    const made = await newMessages(on, 51, { body: `${'😀'.repeat(500)}x` });
    const data = await listChildren(key, 'accounts', on, 'messages');
    expect([data.messages.length, data.has_more]).toEqual([50, true]);
    expect(data.messages[0]).toEqual({
      id: made[0],
      channel: 'email',
      direction: 'inbound',
      source: null,
      from: null,
      to: null,
      subject: null,
      preview: '😀'.repeat(500),
      status: null,
      record_id: on,
      campaign_id: null,
      draft_id: null,
      occurred_at: '2026-01-01T00:25:00.000Z',
    });
    expect(await walkChildren(key, 'accounts', on, 'messages', 7)).toEqual(made);
  });

  test('requires the add-on inbox for messages', async () => {
    const poor = await newTenant();
    await database()`update subscriptions set package_code = 'starter' where company_id = ${poor.companyId}`;
    const on = await newAccount(poor.key);
    const answer = await expectStatus(403, 'GET', childrenPath('accounts', on, 'messages'), { key: poor.key });
    expect(answer.body.error).toMatchObject({
      code: 'MODULE_DISABLED',
      details: { module: 'inbox', reason: 'not_in_plan' },
    });
  });
});

test('moves an unreasonable limit of messages to the nearest bound', () => expectClampedLimits(key, 'messages'));
