// Activities of a record: its own, and for a customer also those of its leads and deals.
import { beforeAll, describe, expect, test } from 'vitest';
import { as, createLead } from '../support/api.ts';
import { expectClampedLimits, listChildren, newAccount, walkChildren } from '../support/record-children.ts';
import { createRecord } from '../support/records.ts';
import { database, newTenant, type Tenant } from '../support/tenants.ts';

let tenant: Tenant;
let key: string;

beforeAll(async () => {
  tenant = await newTenant();
  key = tenant.key;
});

const newLead = async (): Promise<string> => (await createLead(key)).id;
const log = async (
  entity_type: 'lead' | 'deal' | 'customer' | 'account',
  entity_id: string,
  performed_at: string,
): Promise<string> => {
  const activity = { entity_type, entity_id, activity_type: 'Call', summary: 'S', performed_at };
  return (await as(key).post('/v1/activities', activity)).activity.id;
};

describe('activities', () => {
  test('lists the activities of leads, deals and accounts, and for a customer those of its leads and deals too', async () => {
    const customer = (await createRecord(key, 'customers', { first_name: 'C' })).id;
    const deal = (await createRecord(key, 'deals', { name: 'D', customer_id: customer })).id;
    const [origin, converted, stranger] = [await newLead(), await newLead(), await newLead()];
    await database()`update customers set lead_id = ${origin} where id = ${customer}`;
    await database()`update leads set converted_customer_id = ${customer} where id = ${converted}`;
    const made = [
      await log('lead', origin, '2026-01-04T00:00:00Z'),
      await log('deal', deal, '2026-01-03T00:00:00Z'),
      await log('lead', converted, '2026-01-02T00:00:00Z'),
      await log('customer', customer, '2026-01-01T00:00:00Z'),
    ];
    await log('lead', stranger, '2026-01-05T00:00:00Z');
    expect(await walkChildren(key, 'customers', customer, 'activities', 2)).toEqual(made);
    expect(await walkChildren(key, 'deals', deal, 'activities', 2)).toEqual([made[1]]);
    expect(await walkChildren(key, 'leads', converted, 'activities', 2)).toEqual([made[2]]);
    const { activities_count } = (await as(key).get(`/v1/customers/${customer}`, { include: 'activities_count' }))
      .customer;
    expect(activities_count).toBe(4);
    const account = await newAccount(key);
    const visit = await log('account', account, '2026-01-01T00:00:00Z');
    expect(await walkChildren(key, 'accounts', account, 'activities', 2)).toEqual([visit]);
    expect((await listChildren(key, 'accounts', await newAccount(key), 'activities')).activities).toEqual([]);
  });
});

test('clamps an out-of-range limit on activities', () => expectClampedLimits(key, 'activities'));
