// The activities of a record: its own, and for a customer those of its leads and deals.
import { beforeAll, describe, expect, test } from 'vitest';
import { expectStatus } from '../support/client.ts';
import { expectClampedLimits, listChildren, newAccount, walkChildren } from '../support/record-children.ts';
import { createRecord, lead } from '../support/records.ts';
import { database, newTenant, type Tenant } from '../support/tenants.ts';

let tenant: Tenant;
let key: string;

beforeAll(async () => {
  tenant = await newTenant();
  key = tenant.key;
});

const newLead = async (): Promise<string> => (await createRecord(key, 'leads', lead())).id;
const log = async (entityType: 'lead' | 'deal', entityId: string, performedAt: string): Promise<string> =>
  (
    await expectStatus(201, 'POST', '/v1/activities', {
      key,
      body: {
        entity_type: entityType,
        entity_id: entityId,
        activity_type: 'Call',
        summary: 'S',
        performed_at: performedAt,
      },
    })
  ).body.data.activity.id;

describe('activities', () => {
  test('of a lead or a deal are its own, and of a customer those of its leads and deals', async () => {
    const customer = (await createRecord(key, 'customers', { first_name: 'C' })).id;
    const deal = (await createRecord(key, 'deals', { name: 'D', customer_id: customer })).id;
    const [origin, converted, stranger] = [await newLead(), await newLead(), await newLead()];
    await database()`update customers set lead_id = ${origin} where id = ${customer}`;
    await database()`update leads set converted_customer_id = ${customer} where id = ${converted}`;
    const made = [
      await log('lead', origin, '2026-01-04T00:00:00Z'),
      await log('deal', deal, '2026-01-03T00:00:00Z'),
      await log('lead', converted, '2026-01-02T00:00:00Z'),
    ];
    await log('lead', stranger, '2026-01-05T00:00:00Z');
    expect(await walkChildren(key, 'customers', customer, 'activities', 2)).toEqual(made);
    expect(await walkChildren(key, 'deals', deal, 'activities', 2)).toEqual([made[1]]);
    expect(await walkChildren(key, 'leads', converted, 'activities', 2)).toEqual([made[2]]);
    const { activities_count } = (
      await expectStatus(200, 'GET', `/v1/customers/${customer}`, { key, query: { include: 'activities_count' } })
    ).body.data.customer;
    expect(activities_count).toBe(3);
    expect((await listChildren(key, 'accounts', await newAccount(key), 'activities')).activities).toEqual([]);
  });
});

test('activities move an unreasonable limit to the nearest bound', () => expectClampedLimits(key, 'activities'));
