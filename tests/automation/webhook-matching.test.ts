// Matching of events with webhooks by name and filter, and the sent content.
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { composeBody, type HappenedEvent, maxBodyBytes } from '../../domain/automation/webhook-bodies.ts';
import {
  createMatcher,
  findEventsNamed,
  type MatchCriteria,
  readEventFilter,
} from '../../domain/automation/webhook-matching.ts';
import { passes, type ReferenceField, type ReferenceFilter } from '../support/filter-reference.ts';
import { readSeed } from '../support/seed.ts';

const runs = Number(process.env.FILTER_RUNS ?? 1000);
const seed = readSeed('FILTER_SEED');

const wanted = (more: Partial<MatchCriteria> = {}): MatchCriteria => ({
  events: ['*'],
  filter: null,
  skipOwn: false,
  createdByKind: 'api_key',
  createdById: 'own',
  ...more,
});
const recorded = (event: string, data: Record<string, unknown>, id = 'other') => ({
  event,
  actor: { kind: 'api_key', id },
  data,
});

/** Event fields with stored values and compared values. */
const fields = [
  { name: 'object', kind: 'text', stored: ['leads', 'deals', 'object:visits'], asked: ['leads', 'Leads', 'eal', ''] },
  { name: 'record_id', kind: 'text', stored: ['019a', '019b'], asked: ['019a', '019B', '9'] },
  { name: 'from', kind: 'text', stored: ['New', 'été', '😀', '～wide'], asked: ['new', 'New', 'É', '😀', '～'] },
  { name: 'level', kind: 'number', stored: [0, 1, 10], asked: [0, '1', 2.5, -1, 10] },
  {
    name: 'occurred_at',
    kind: 'datetime',
    stored: ['2025-01-01T00:00:00.000Z', '2026-11-20T23:55:00.500Z'],
    asked: ['2025-01-01', '2025-01-01T02:00:00+02:00', '2026-11-21'],
  },
] as const;
const byName: ReadonlyMap<string, ReferenceField> = new Map(fields.map(({ name, kind }) => [name, { name, kind }]));
const clock = { now: new Date(), timezone: 'UTC' };
const comparable = ['eq', 'neq', 'gt', 'gte', 'lt', 'lte'];

const condition: fc.Arbitrary<ReferenceFilter> = fc.constantFrom(...fields).chain(({ name, kind, asked }) => {
  const value = fc.constantFrom<unknown>(...asked);
  const operators = kind === 'text' ? [...comparable, 'contains', 'starts_with', 'ends_with'] : comparable;
  return fc.oneof(
    fc.record({ field: fc.constant(name), op: fc.constantFrom(...operators), value }),
    fc.record({
      field: fc.constant(name),
      op: fc.constantFrom('in', 'not_in'),
      value: fc.array(value, { minLength: 1, maxLength: 3 }),
    }),
    fc.record({ field: fc.constant(name), op: fc.constant('between'), value: fc.tuple(value, value) }),
    fc.record({ field: fc.constant(name), op: fc.constant('is_null'), value: fc.boolean() }),
  );
});
const joined = (inner: fc.Arbitrary<ReferenceFilter>): fc.Arbitrary<ReferenceFilter> =>
  fc.oneof(
    inner,
    fc.array(inner, { minLength: 1, maxLength: 3 }).map((and) => ({ and })),
    fc.array(inner, { minLength: 1, maxLength: 3 }).map((or) => ({ or })),
    inner.map((not) => ({ not })),
  );
const filters = joined(joined(joined(condition)));
const values = fc.record(
  Object.fromEntries(fields.map(({ name, stored }) => [name, fc.constantFrom<unknown>(...stored, null)])),
);

describe('a filter', () => {
  test(`matches events like records with the same values, ${runs} times with FILTER_SEED=${seed}`, () => {
    let passed = 0;
    fc.assert(
      fc.property(filters, values, (filter, data) => {
        const verdict = createMatcher(wanted({ filter }))(recorded('sla.breached', data));
        expect(verdict).toBe(passes(data, filter, byName, clock));
        passed += Number(verdict);
      }),
      { numRuns: runs, seed },
    );
    // Both results are common.
    expect(Math.min(passed, runs - passed)).toBeGreaterThan(runs / 10);
  });

  test.each([
    ['eq', 'x', false],
    ['neq', 'x', false],
    ['contains', '', false],
    ['in', ['x'], false],
    ['not_in', ['x'], false],
    ['is_null', true, true],
    ['is_null', false, false],
  ])('evaluates a filter over a missing field: %s %j is %s', (op, value, verdict) => {
    const filter = { field: 'from', op, value };
    expect(createMatcher(wanted({ filter }))(recorded('record.created', { object: 'leads' }))).toBe(verdict);
  });

  test('with not matches an event that lacks the field', () => {
    const filter = { not: { field: 'from', op: 'eq', value: 'x' } };
    expect(createMatcher(wanted({ filter }))(recorded('record.created', { object: 'leads' }))).toBe(true);
  });

  test.each([
    [{ op: 'contains', value: 'status' }, false],
    [{ op: 'contains', value: 'lead_status' }, true],
    [{ op: 'is_null', value: true }, false],
    [{ op: 'is_null', value: false }, true],
  ])('evaluates a filter over a list: %j is %s', (part, verdict) => {
    const filter = { field: 'changed_fields', ...part };
    const data = { changed_fields: ['priority', 'lead_status'] };
    expect(createMatcher(wanted({ filter }))(recorded('record.updated', data))).toBe(verdict);
  });

  test.each([
    ['a field that no event has', { field: 'colour', op: 'eq', value: 'x' }, 'UNKNOWN_FIELD'],
    ['a field of records', { field: 'created_at', op: 'eq', value: '2026-01-01' }, 'UNKNOWN_FIELD'],
    ['a field of events that are not subscribed to', { field: 'level', op: 'eq', value: 1 }, 'UNKNOWN_FIELD'],
    ['an object within the event', { field: 'sla', op: 'is_null' }, 'UNKNOWN_FIELD'],
    ['an operator that lists lack', { field: 'changed_fields', op: 'eq', value: 'x' }, 'INVALID_OPTION'],
    ['an unknown operator', { field: 'object', op: 'like', value: 'x' }, 'INVALID_OPTION'],
    ['no value', { field: 'object', op: 'eq' }, 'INVALID_TYPE'],
    ['a relative date', { field: 'occurred_at', op: 'gt', value: { relative: 'today' } }, 'INVALID_TYPE'],
    ['a reading', { field: 'object', op: 'eq', value: 1, as: 'number' }, 'CONFLICTING_FIELDS'],
    ['another shape', { object: 'leads' }, 'INVALID_FORMAT'],
    ['a fourth level', { and: [{ or: [{ and: [{ or: [{ field: 'object', op: 'is_null' }] }] }] }] }, 'INVALID_FORMAT'],
  ])('rejects a filter with %s', (_, filter, code) => {
    const { problems } = readEventFilter(filter, ['record.created', 'record.updated']);
    expect(problems).toMatchObject([{ field: 'filter', code }]);
  });
});

describe('events', () => {
  test('matches events by name, by group, or all', () => {
    const names = (pattern: string): string[] => findEventsNamed(pattern).map(({ name }) => name);
    expect(names('record.*')).toEqual([
      'record.created',
      'record.updated',
      'record.deleted',
      'record.restored',
      'record.merged',
      'record.unmerged',
      'record.linked',
      'record.unlinked',
    ]);
    expect(names('record.created')).toEqual(['record.created']);
    expect(names('*').length).toBeGreaterThan(8);
    for (const none of ['record', 'record.', 'rec*', '.*', '', 'record.created.*', '**'])
      expect(names(none)).toEqual([]);
    const isWanted = createMatcher(wanted({ events: ['record.*', 'sla.breached'] }));
    expect([isWanted(recorded('record.deleted', {})), isWanted(recorded('schema.changed', {}))]).toEqual([true, false]);
  });

  test('skips events of the credential itself on request', () => {
    const own = wanted({ skipOwn: true });
    expect(createMatcher(own)(recorded('record.created', {}, 'own'))).toBe(false);
    expect(createMatcher(own)(recorded('record.created', {}, 'other'))).toBe(true);
    expect(createMatcher({ ...own, createdByKind: 'oauth_client' })(recorded('record.created', {}, 'own'))).toBe(true);
    expect(createMatcher(wanted())(recorded('record.created', {}, 'own'))).toBe(true);
  });
});

describe('a body', () => {
  const updated = (changes: object): HappenedEvent => ({
    id: 'x',
    event: 'record.updated',
    position: 1,
    occurredAt: new Date(0),
    requestId: null,
    changes,
    actor: { kind: 'user', id: 'u', name: null },
    data: { object: 'leads', record_id: 'r', changed_fields: ['notes'], occurred_at: 'now' },
  });
  const buildText = (length: number) => ({ notes: { from: null, to: 'é'.repeat(length) } });

  test('includes changed fields in a body only on request', () => {
    expect(JSON.parse(composeBody(updated(buildText(1)), false, ['changes'])).data.changes).toEqual(buildText(1));
    expect(composeBody(updated(buildText(1)), false, [])).not.toContain('changes"');
  });

  test('omits and reports changed fields if the body would exceed 64 KB', () => {
    const around = Buffer.byteLength(composeBody(updated(buildText(0)), false, ['changes']));
    const most = Math.floor((maxBodyBytes - around) / 2);
    expect(JSON.parse(composeBody(updated(buildText(most)), false, ['changes'])).data).toHaveProperty('changes');
    const cut = JSON.parse(composeBody(updated(buildText(most + 1)), false, ['changes'])).data;
    expect([cut.changes, cut.changes_truncated]).toEqual([undefined, true]);
  });
});
