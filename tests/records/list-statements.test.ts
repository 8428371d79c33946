// Plans of record lists, and the SQL of representative lists and searches.
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { type Client, createClient } from '../../db/client/pipeline.ts';
import type { Scope } from '../../db/client/visibility.ts';
import { getRecordTable } from '../../db/records/columns.ts';
import { planList } from '../../db/records/list-plan.ts';
import type { KeyValue, Page } from '../../db/records/pages.ts';
import { listRecords } from '../../db/records/records.ts';
import { getSelectedNames } from '../../db/records/rows.ts';
import { searchRecords } from '../../db/reports/search.ts';
import type { Filter } from '../../domain/objects/filter.ts';
import { listSearchedTexts } from '../../domain/reports/search.ts';
import { database, newTenant } from '../support/tenants.ts';

const branch = '019a9f5e-0000-7000-8000-000000000001';
const keyId = '019a9f5e-0000-7000-8000-000000000002';
const record = '019a9f5e-0000-7000-8000-000000000003';
const status = '019a9f5e-0000-7000-8000-000000000004';
const time = '2026-01-01T00:00:00.000Z';

const buildScope = (companyId: string, reach: Scope['reach']): Scope => ({
  companyId,
  testMode: false,
  reach,
  actor: { kind: 'api_key', id: keyId, name: 'Test' },
  userId: null,
});

const newestFirst = [{ field: 'created_at', descending: true }];
const buildPage = (page: Partial<Page>): Page => ({
  sort: newestFirst,
  filter: undefined,
  after: undefined,
  limit: 26,
  ...page,
});

const wholeCompany = { kind: 'company' } as const;
const ofBranch = { kind: 'branch', id: branch } as const;
const isQualified: Filter = { field: 'lead_status_id', op: 'eq', value: status };
const inBerlin: Filter = {
  and: [
    { field: 'city', op: 'eq', value: 'Berlin' },
    { field: 'budget', op: 'eq', value: 5000 },
  ],
};

/** Leads whose customer is in Berlin. */
const ofCustomer: Filter = {
  path: { kind: 'reference', side: 'to', field: 'converted_customer_id', isToAny: false },
  object: 'customers',
  isVisible: true,
  quantifier: 'any',
  filter: { field: 'city', op: 'eq', value: 'Berlin' },
};
/** Leads of which no large deal is known. */
const withoutDeal: Filter = {
  path: { kind: 'reference', side: 'from', field: 'lead_id', isToAny: false },
  object: 'deals',
  isVisible: true,
  quantifier: 'none',
  filter: { field: 'amount_minor', op: 'gt', value: 1000 },
};
/** Leads with a link to an account in retail. */
const linked: Filter = {
  path: { kind: 'link', side: 'to', typeId: status },
  object: 'accounts',
  isVisible: true,
  quantifier: 'any',
  filter: { field: 'industry', op: 'eq', value: 'Retail' },
};

describe('a plan', () => {
  const plan = (object: string, page: Partial<Page>, reach: Scope['reach'] = wholeCompany) =>
    planList(getRecordTable(object), buildScope(randomUUID(), reach), buildPage(page));
  /** Returns the parts of a plan with their source and order. */
  const listParts = (object: string, page: Partial<Page>) => {
    const planned = plan(object, page);
    if (planned.kind === 'common') throw new Error('a common page has no parts');
    return planned.parts.map(({ only, keys, after }) => ({ only, keys: keys.map(({ field }) => field), after }));
  };

  test('uses one complete statement for a common page by age, with a cursor or one value', () => {
    const after = [time, record];
    for (const page of [{}, { after }, { filter: isQualified }, { filter: isQualified, after }])
      expect(plan('leads', page).kind).toBe('common');
    for (const page of [{ limit: 27 }, { filter: inBerlin }, { sort: [{ field: 'city', descending: false }] }])
      expect(plan('leads', page).kind).toBe('composed');
    expect(plan('leads', {}, ofBranch).kind).toBe('composed');
  });

  test('ends the order with the id, in the direction of the last key', () => {
    const planned = plan('leads', { sort: [{ field: 'city', descending: false }], limit: 27 });
    expect(planned).toMatchObject({
      keys: [
        { field: 'city', descending: false, filled: false },
        { field: 'id', descending: false, filled: true },
      ],
    });
    expect(plan('leads', { sort: [{ field: 'id', descending: true }] })).toMatchObject({ keys: [{ field: 'id' }] });
  });

  test('reads rows without a value of an indexed field after those with one', () => {
    const sort = [{ field: 'city', descending: false }];
    const withValue = { only: { column: 'city', hasValue: true }, keys: ['city', 'id'] };
    const withoutValue = { only: { column: 'city', hasValue: false }, keys: ['id'] };
    expect(listParts('leads', { sort })).toEqual([
      { ...withValue, after: undefined },
      { ...withoutValue, after: undefined },
    ]);
    expect(listParts('leads', { sort, after: ['Berlin', record] })).toEqual([
      { ...withValue, after: ['Berlin', record] },
      { ...withoutValue, after: undefined },
    ]);
    expect(listParts('leads', { sort, after: [null, record] })).toEqual([{ ...withoutValue, after: [record] }]);
  });

  test('reads all rows together in an order without an index', () => {
    const sort = [{ field: 'budget', descending: true }];
    expect(listParts('leads', { sort })).toEqual([{ only: undefined, keys: ['budget', 'id'], after: undefined }]);
  });

  test('scans per user if the caller sees a part of the company and the order is by age', () => {
    const byUpdate = { sort: [{ field: 'updated_at', descending: true }] };
    expect(plan('leads', {}, ofBranch)).toMatchObject({ source: 'firstOfEach' });
    expect(plan('leads', byUpdate, ofBranch)).toMatchObject({ source: 'visibleRows' });
    expect(plan('activities', {}, ofBranch)).toMatchObject({ source: 'visibleRows' });
    const byMeeting = { sort: [{ field: 'performed_at', descending: true }] };
    expect(plan('activities', byMeeting, ofBranch)).toMatchObject({ source: 'firstOfEach' });
    expect(plan('leads', { limit: 27 })).toMatchObject({ source: 'visibleRows' });
  });

  test('prepares statements whose text does not depend on the request', () => {
    const planning = (page: Partial<Page>, reach: Scope['reach'] = wholeCompany) =>
      (plan('leads', { limit: 27, ...page }, reach) as { planning: string }).planning;
    expect(planning({})).toBe('kept');
    expect(planning({}, ofBranch)).toBe('onceIfPerUser');
    expect(planning({ filter: isQualified })).toBe('forValues');
    expect(planning({ filter: inBerlin })).toBe('unprepared');
    expect(planning({ sort: [{ field: 'budget', descending: true }] })).toBe('unprepared');
    expect(planning({ sort: [...newestFirst, { field: 'city', descending: true }] })).toBe('unprepared');
  });
});

describe('the SQL', () => {
  let client: Client;
  let companyId: string;
  const sent: string[] = [];
  beforeAll(async () => {
    ({ companyId } = await newTenant());
    const debug = (_: number, text: string, parameters: unknown[]) => void sent.push(written(text, parameters));
    client = createClient(inject('databaseUrl'), { max: 1, onnotice: () => undefined, debug });
  });
  afterAll(() => client.end({ timeout: 0 }));

  /**
   * Formats a statement with its parameters in lines, and abbreviates the columns of the record.
   */
  function written(text: string, parameters: readonly unknown[]): string {
    const values = JSON.stringify(parameters).replaceAll(companyId, 'company');
    const columns = ['leads', 'object:boats'].map((object) => getSelectedNames(getRecordTable(object)));
    const short = columns.reduce((before, names) => before.replaceAll(names, '<record>'), text.replace(/\s+/g, ' '));
    const lines = short
      .trim()
      .split(/ (?=(?:from|where|and|order by|limit|union all|left join|cross join lateral) )/)
      .reduce<{ depth: number; lines: string[] }>(
        ({ depth, lines }, line) => ({
          depth: depth + line.split('(').length - line.split(')').length,
          lines: [...lines, `${'  '.repeat(depth)}${line}`],
        }),
        { depth: 0, lines: [] },
      );
    return `-- ${values}\n${lines.lines.join('\n')};\n`;
  }

  const list = async (object: string, page: Partial<Page>, reach: Scope['reach'] = wholeCompany) =>
    void (await listRecords(client, buildScope(companyId, reach), object, buildPage(page)));
  const behind = (...values: KeyValue[]) => ({ after: values });
  const byCity = { sort: [{ field: 'city', descending: false }] };
  const byBudget = { sort: [{ field: 'budget', descending: true }] };
  const search = async (reach: Scope['reach']) => {
    const texts = listSearchedTexts([
      { name: 'first_name', custom: false },
      { name: 'shirt_size', custom: true },
    ] as never);
    await searchRecords(client, buildScope(companyId, reach), 'leads', 'ber', texts, 1);
  };

  test('generates the expected SQL for representative lists and searches', async () => {
    await database()`
      insert into leads (company_id, test_mode, id, first_name, created_by_kind, created_by_id, created_at, updated_at)
      select ${companyId}, false, gen_random_uuid(), 'Sara', 'system', 'test', now(), now() from generate_series(1, 601)`;
    const asked: [string, () => Promise<void>][] = [
      ['a common page', () => list('leads', {})],
      ['the next common page of one status', () => list('leads', { filter: isQualified, ...behind(time, record) })],
      ['a filter on a built-in and a custom field', () => list('leads', { filter: inBerlin, ...byBudget })],
      ['a filter through a reference to one record', () => list('leads', { filter: ofCustomer })],
      ['a filter on the records that refer to one', () => list('leads', { filter: withoutDeal })],
      ['a filter on linked records', () => list('leads', { filter: linked })],
      [
        'a filter on records of an object that the caller cannot see',
        () => list('leads', { filter: { ...linked, isVisible: false } }),
      ],
      ['a filter on linked records that a branch sees', () => list('leads', { filter: linked, ...byCity }, ofBranch)],
      ['an order by an indexed field, after a row', () => list('leads', { ...byCity, ...behind('Berlin', record) })],
      ['the same, after a row without a value', () => list('leads', { ...byCity, ...behind(null, record) })],
      ['an order by a custom field, after a row', () => list('leads', { ...byBudget, ...behind('5000', record) })],
      ['an order by a list', () => list('leads', { sort: [{ field: 'source', descending: false }] })],
      [
        'records of a custom object',
        () => list('object:boats', { filter: { field: 'name', op: 'contains', value: '50%' }, limit: 27 }),
      ],
      ['what a branch sees, by age', () => list('leads', {}, ofBranch)],
      ['what a branch sees, in another order', () => list('leads', byCity, ofBranch)],
      ['a search of a company', () => search(wholeCompany)],
      ['a search of what a branch sees', () => search(ofBranch)],
    ];
    const sections: string[] = [];
    for (const [title, ask] of asked) {
      sent.length = 0;
      await ask();
      sections.push([`-- ${title}\n`, ...sent].join(''));
    }
    const head =
      '-- Statements of lists and searches, written by list-statements.test.ts: parameters, then the text.\n\n';
    await expect(head + sections.join('\n')).toMatchFileSnapshot('list-statements.sql');
  });
});
