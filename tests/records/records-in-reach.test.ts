// Visible records of a branch or team: found by owner, however many records others have.
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { Pool, type Sql } from '../../db/client/pool.ts';
import { Transaction } from '../../db/client/transaction.ts';
import type { Reach, Scope } from '../../db/client/visibility.ts';
import { listDrafts } from '../../db/messaging/drafts.ts';
import { countRecords, listRecords } from '../../db/records/records.ts';
import { countByStatus, runReport } from '../../db/reports/reports.ts';
import { searchRecords } from '../../db/reports/search.ts';
import type { Filter } from '../../domain/objects/filter.ts';
import { newDatabase } from '../support/databases.ts';
import { database, newTenant, newUser, type Tenant, useDatabase } from '../support/tenants.ts';

let pool: Pool;
// A separate database with statistics of all rows, because the tests depend on plans.
beforeAll(async () => {
  const url = await newDatabase();
  await useDatabase(url);
  const settings = { prepare: true, spread: false, wait: 1000, statementTimeout: 10_000 };
  pool = new Pool({ url, role: 'crm_app', lanes: 1, ...settings });
});
afterAll(async () => {
  await pool.close(1);
  await useDatabase(undefined);
});

/** Runs statements in one read transaction of a tenant. */
async function within(tenant: Tenant, work: (sql: Sql) => Promise<void>): Promise<void> {
  const transaction = await Transaction.open(pool, { companyId: tenant.companyId, testMode: false }, { reads: 'many' });
  await work(transaction.sql).finally(() => transaction.endRead());
}

interface People {
  tenant: Tenant;
  team: string;
  members: string[];
  others: string[];
  key: string;
}

async function newPeople(): Promise<People> {
  const tenant = await newTenant();
  const team = randomUUID();
  await database()`insert into teams (company_id, id, branch_id, name, created_at) values (${tenant.companyId}, ${team}, ${tenant.branchId}, 'Team', now())`;
  const some = (teamId?: string) =>
    Promise.all([1, 2, 3].map(async () => (await newUser(tenant, teamId === undefined ? {} : { teamId })).id));
  return { tenant, team, members: await some(team), others: await some(), key: randomUUID() };
}

const buildScope = ({ tenant, key }: People, reach: Reach, kind: 'api_key' | 'user' = 'api_key'): Scope => ({
  companyId: tenant.companyId,
  testMode: false,
  reach,
  actor: { kind, id: key, name: 'Test' },
  userId: null,
});

const tables = { leads: 'leads', activities: 'activities', 'object:boats': 'custom_records' } as const;
type Listed = keyof typeof tables;

/**
 * Creates rows assigned to members, others or no user, created by each kind of actor. Some share
 * their age.
 */
async function fill({ tenant, members, others, key }: People, object: Listed, rows: number): Promise<void> {
  const { companyId } = tenant;
  const people = [...members, ...others];
  const [type] = await database()<
    { id: string }[]
  >`select id from activity_types where company_id = ${companyId} limit 1`;
  const more = {
    leads: [
      'assigned_to, first_name, last_name',
      `case n % 3 when 0 then null else people[1 + n * 7 % 6] end, 'Lead', 'Name ' || n % 89`,
    ],
    activities: [
      'activity_type_id, entity_type, entity_id, performed_at',
      `'${type?.id}', 'lead', gen_random_uuid(), now() - n % 300 * interval '1 minute'`,
    ],
    'object:boats': ['object', `'object:boats'`],
  }[object];
  await database().unsafe(
    `insert into ${tables[object]} (company_id, test_mode, id, created_by_kind, created_by_id, created_by_user, created_at, updated_at, ${more[0]})
     select $1::uuid, false, gen_random_uuid(),
       (array['user', 'oauth_client', 'api_key', 'api_key', 'oauth_client', 'system'])[1 + n % 6],
       case n % 6 when 0 then people[1 + n / 6 % 6]::text when 1 then 'app' when 2 then $2 when 3 then $3 when 4 then 'app' else people[1]::text end,
       case when n % 6 in (0, 1) then people[1 + n / 6 % 6] end,
       now() - n % 300 * interval '1 minute', now() - n % 211 * interval '1 minute', ${more[1]}
     from generate_series(1, $4::int) n, (select $5::uuid[] as people) given`,
    [companyId, key, randomUUID(), rows, people],
  );
  await database().unsafe(`analyze ${tables[object]}`);
}

interface Row {
  id: string;
  assigned_to?: string | null;
  created_by_kind: string;
  created_by_id: string;
  created_by_user: string | null;
}

/**
 * Implements the documented rule: assigned rows by owner, unassigned rows by the user they were
 * created for or by the key itself.
 */
function isSeen(row: Row, seen: ReadonlySet<string>, key: string | undefined): boolean {
  if (row.assigned_to) return seen.has(row.assigned_to);
  return (
    (row.created_by_user !== null && seen.has(row.created_by_user)) ||
    (row.created_by_kind === 'api_key' && row.created_by_id === key)
  );
}

/** Returns the ids of all pages in order. */
async function walk(sql: Sql, scope: Scope, object: string, field: string, filter?: Filter): Promise<string[]> {
  const ids: string[] = [];
  let after: Awaited<ReturnType<typeof listRecords>>[number]['keys'] | undefined;
  for (;;) {
    const page = { sort: [{ field, descending: true }], filter, after, limit: 500 };
    const rows = await listRecords(sql, scope, object, page);
    ids.push(...rows.map(({ record }) => record.id));
    after = rows.at(-1)?.keys;
    if (rows.length < page.limit) return ids;
  }
}

describe.each<[Listed, number]>([
  ['leads', 400],
  ['leads', 16_000],
  ['activities', 400],
  ['object:boats', 400],
])('records of %s, %i of them', (object, count) => {
  let people: People;
  let rows: (Row & { age: string; updated: string })[];
  beforeAll(async () => {
    people = await newPeople();
    await fill(people, object, count);
    const age = object === 'activities' ? 'performed_at' : 'created_at';
    rows = await database().unsafe(
      `select id, created_by_kind, created_by_id, created_by_user, ${object === 'leads' ? 'assigned_to,' : ''} ${age}::text as age, updated_at::text as updated
       from ${tables[object]} where company_id = $1`,
      [people.tenant.companyId],
    );
  });

  test.each([
    ['a team, asked by a key', 'team', 'api_key'],
    ['a person, asked by a key', 'own', 'api_key'],
    ['a person, asked by that person', 'own', 'user'],
  ] as const)('%s sees what it should, in every order', async (_, kind, by) => {
    const own = people.members[0] as string;
    const scope = buildScope(people, { kind, id: kind === 'team' ? people.team : own }, by);
    const seen = new Set(kind === 'team' ? people.members : [own]);
    const wanted = rows.filter((row) => isSeen(row, seen, by === 'api_key' ? people.key : undefined));
    expect(wanted.length).toBeGreaterThan(count / 60);
    const newestFirst = (of: 'age' | 'updated') =>
      wanted
        .toSorted((a, b) => (a[of] === b[of] ? (a.id < b.id ? 1 : -1) : a[of] < b[of] ? 1 : -1))
        .map(({ id }) => id);
    await within(people.tenant, async (sql) => {
      const age = object === 'activities' ? 'performed_at' : 'created_at';
      expect(await walk(sql, scope, object, age)).toEqual(newestFirst('age'));
      expect(await walk(sql, scope, object, 'updated_at')).toEqual(newestFirst('updated'));
      const since: Filter = { field: 'updated_at', op: 'gte', value: new Date(Date.now() - 3_600_000).toISOString() };
      const recent = (await walk(sql, scope, object, age, since)).toSorted();
      expect(recent).toEqual((await walk(sql, scope, object, 'updated_at', since)).toSorted());
      expect(recent.length).toBeGreaterThan(0);
      expect(recent.length).toBeLessThan(wanted.length);
      expect(await countRecords(sql, scope, object, undefined)).toBe(wanted.length);
      expect(await countRecords(sql, scope, object, since)).toBe(recent.length);
    });
  });
});

describe('a team in a company with many newer records of others', () => {
  const mine = 60;
  const ofOthers = 20_000;
  let people: People;
  let scope: Scope;
  let ids: string[];
  beforeAll(async () => {
    people = await newPeople();
    const { tenant, members, others, key } = people;
    scope = buildScope(people, { kind: 'team', id: people.team });
    await database()`
      insert into leads (company_id, test_mode, id, first_name, city, assigned_to, created_by_kind, created_by_id, created_by_user, created_at, updated_at)
      select ${tenant.companyId}, false, gen_random_uuid(), 'Needle', 'Dubai',
        case when n <= ${mine} then case n % 3 when 0 then (${members}::uuid[])[1 + n % 2] end else case n % 2 when 0 then ${others[0] as string}::uuid end end,
        case when n <= ${mine} and n % 3 = 1 then 'api_key' else 'oauth_client' end, case when n <= ${mine} and n % 3 = 1 then ${key} else 'app' end,
        case when n <= ${mine} and n % 3 = 2 then ${members[2] as string}::uuid end,
        now() - interval '1 day' + n * interval '1 second', now() - interval '1 day' + n * interval '1 second'
      from generate_series(1, ${mine + ofOthers}) n`;
    await database()`
      insert into message_drafts (company_id, test_mode, id, channel, status, recipient, body, created_by_kind, created_by_id, created_by_user, created_at, updated_at)
      select company_id, test_mode, id, 'email', 'draft', 'a@example.com', 'Hello', created_by_kind, created_by_id, created_by_user, created_at, updated_at
      from leads where company_id = ${tenant.companyId}`;
    await database()`analyze leads, message_drafts`;
    const rows = await database()<{ id: string }[]>`
      select id from leads where company_id = ${tenant.companyId} order by created_at limit ${mine}`;
    ids = rows.map(({ id }) => id).toReversed();
  });

  /** Returns the index entries and table rows that the transaction has read so far. */
  async function countReads(sql: Sql, table: string): Promise<number> {
    const [row] = await sql<{ read: number }[]>`
      select sum(pg_stat_get_xact_tuples_returned(oid) + pg_stat_get_xact_tuples_fetched(oid))::int as read
      from (select ${table}::regclass as oid union all select indexrelid from pg_index where indrelid = ${table}::regclass) counted`;
    return row?.read ?? 0;
  }

  const page = (field: string, filter?: Filter) => (sql: Sql) =>
    listRecords(sql, scope, 'leads', {
      sort: [{ field, descending: true }],
      filter,
      after: undefined,
      limit: 101,
    }).then((found) => found.map(({ record }) => record.id));
  const inDubai: Filter = { field: 'city', op: 'eq', value: 'Dubai' };
  const needles: Filter = { field: 'first_name', op: 'contains', value: 'needle' };
  const asked: [string, (sql: Sql) => Promise<unknown>, unknown][] = [
    ['a page by age', page('created_at'), () => ids],
    ['a page by age, of one value', page('created_at', inDubai), () => ids],
    ['a page in another order', page('updated_at'), () => ids],
    ['a page in another order, of a part of a text', page('updated_at', needles), () => ids],
    ['their number', (sql) => countRecords(sql, scope, 'leads', undefined), mine],
    ['the number of those that pass a filter', (sql) => countRecords(sql, scope, 'leads', needles), mine],
    [
      'a report',
      (sql) =>
        runReport(sql, scope, 'leads', { metric: 'count', groupBy: [] } as never, 10_000).then(
          ({ total }) => total.count,
        ),
      mine,
    ],
    [
      'the pipeline',
      (sql) => countByStatus(sql, scope, 'leads').then((rows) => rows.map(({ count }) => count)),
      [mine],
    ],
    [
      'a search',
      (sql) =>
        searchRecords(sql, scope, 'leads', 'needle', [{ name: 'first_name', custom: false }] as never, 5).then(
          ({ hits, total, isCapped }) => [hits.map(({ record }) => record.id), total, isCapped],
        ),
      () => [ids.slice(0, 5), mine, false],
    ],
  ];
  test.each(asked)('reads no records of others for %s', async (_, ask, wanted) => {
    await within(people.tenant, async (sql) => {
      const before = await countReads(sql, 'leads');
      expect(await ask(sql)).toEqual(typeof wanted === 'function' ? wanted() : wanted);
      expect((await countReads(sql, 'leads')) - before).toBeLessThan(20 * mine);
    });
  });

  test('reads no drafts of others for a page of drafts', async () => {
    await within(people.tenant, async (sql) => {
      const nothing = { status: undefined, channel: undefined, object: undefined, recordId: undefined };
      const before = await countReads(sql, 'message_drafts');
      const found = await listDrafts(sql, scope, nothing, undefined, 101);
      // Drafts have no owner. The team sees those created for its members or by the key.
      expect(found.map(({ id }) => id)).toEqual(ids.filter((_, index) => index % 3 !== 0));
      expect((await countReads(sql, 'message_drafts')) - before).toBeLessThan(20 * mine);
    });
  });
});
