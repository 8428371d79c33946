// Values and rules of each field type, tested without a server.
import { describe, expect, test } from 'vitest';
import type { WorkspaceRows } from '../../domain/objects/configuration.ts';
import { type StoredValue, toResponseValue } from '../../domain/objects/field-values.ts';
import { buildWorkspace, type Workspace, type WorkspaceObject } from '../../domain/objects/workspace.ts';
import { checkCustomFields, checkRecord } from '../../domain/records/values.ts';

const now = new Date('2026-11-20T12:00:00.000Z');
const id = '019a9f5e-7c1b-7cc3-8f3a-2f6f1c2b9d10';

const rows: WorkspaceRows = {
  currency: 'EUR',
  timezone: 'Europe/Berlin',
  country: 'Germany',
  pipelines: [{ id: 'p1', name: 'Sales', isDefault: true, isActive: true }],
  statuses: (
    [
      { id: 'l0', object: 'leads', pipelineId: null, name: 'Retired', outcome: 'open', isActive: false, position: 1 },
      { id: 'l1', object: 'leads', pipelineId: null, name: 'New', outcome: 'open', isActive: true, position: 2 },
      { id: 'l2', object: 'leads', pipelineId: null, name: 'Contacted', outcome: 'open', isActive: true, position: 3 },
      { id: 'd1', object: 'deals', pipelineId: 'p1', name: 'Proposal', outcome: 'open', isActive: true, position: 1 },
    ] as const
  ).map((status) => ({ ...status, preConditionFields: [], preConditionRules: [] })),
  sources: [
    { id: 's1', name: 'Website', isActive: true },
    { id: 's2', name: 'Fax', isActive: false },
  ],
  tags: [],
  activityTypes: [
    { id: 'a1', name: 'Call', isActive: true, icon: null, color: '#9CA3AF', isSystem: true, position: 1 },
  ],
  taskTypes: [{ id: 't1', name: 'Follow-up', isActive: true, position: 1 }],
  slaPolicies: [],
  duplicateChecks: [],
  customObjects: [{ slug: 'visits', label: 'Visit', plural: 'Visits', enabled: true }],
  customFields: (
    [
      ['object:visits', 'guests', 'number'],
      ['object:visits', 'fee', 'currency'],
      ['object:visits', 'vip', 'boolean'],
      ['object:visits', 'day', 'date'],
      ['object:visits', 'starts_at', 'datetime'],
      ['object:visits', 'contact', 'email'],
      ['object:visits', 'line', 'phone'],
      ['object:visits', 'site', 'url'],
      ['object:visits', 'remark', 'text'],
      ['object:visits', 'story', 'textarea'],
      ['object:visits', 'size', 'select'],
      ['object:visits', 'constructor', 'text'],
    ] as const
  ).map(([object, name, type]) => ({
    object,
    name,
    type,
    label: name,
    required: false,
    enabled: true,
    unique: false,
    options:
      type === 'select'
        ? [
            { label: 'Small', value: 'small' },
            { label: 'Huge', value: 'huge', retired: true },
          ]
        : null,
  })),
  linkTypes: [],
  fieldOverrides: [],
};

const workspace = buildWorkspace(rows);

function requireObject(name: string, from: Workspace = workspace): WorkspaceObject {
  const object = from.objects.get(name);
  if (!object) throw new Error(`no object ${name}`);
  return object;
}

const create = (name: string, body: Record<string, unknown>, from = workspace) =>
  checkRecord(requireObject(name, from), body, 'create', from, now);
const update = (name: string, body: Record<string, unknown>, stored: Record<string, StoredValue> = {}) =>
  checkRecord(requireObject(name), body, 'update', workspace, now, stored);
const codes = (checked: { problems: { field: string; code: string }[] }) =>
  checked.problems.map((problem) => `${problem.field} ${problem.code}`);
const lead = { first_name: 'Ada', email: 'ada@example.com' };

describe('single values', () => {
  const stored = (field: string, value: unknown) => {
    const checked = create('object:visits', { name: 'A', [field]: value });
    return checked.problems[0]?.code ?? checked.custom[field] ?? null;
  };

  test.each<[string, unknown, unknown]>([
    ['guests', 3, 3],
    ['guests', '3', 3],
    ['guests', ' -2.5e1 ', -25],
    ['guests', 2.5, 2.5],
    ['guests', -0, 0],
    ['guests', Number.MAX_SAFE_INTEGER, Number.MAX_SAFE_INTEGER],
    ['guests', 9007199254740992, 'OUT_OF_RANGE'],
    ['guests', '1e999', 'OUT_OF_RANGE'],
    ['guests', 'three', 'INVALID_TYPE'],
    ['guests', '0x10', 'INVALID_TYPE'],
    ['guests', true, 'INVALID_TYPE'],
    ['guests', [3], 'INVALID_TYPE'],
    ['fee', '1250', 1250],
    ['fee', -5, -5],
    ['fee', 12.5, 'OUT_OF_RANGE'],
    ['vip', true, true],
    ['vip', 'true', true],
    ['vip', false, false],
    ['vip', 'false', false],
    ['vip', 'TRUE', 'INVALID_TYPE'],
    ['vip', 1, 'INVALID_TYPE'],
    ['day', '2028-02-29', '2028-02-29'],
    ['day', '2026-02-29', 'INVALID_FORMAT'],
    ['day', '2026-2-3', 'INVALID_FORMAT'],
    ['day', '0000-01-01', 'INVALID_FORMAT'],
    ['day', 20260101, 'INVALID_TYPE'],
    ['starts_at', '2026-11-20T23:55:00Z', '2026-11-20T23:55:00.000Z'],
    ['starts_at', '2026-11-20T23:55:00.123456+02:00', '2026-11-20T21:55:00.123Z'],
    ['starts_at', '2026-11-20 23:55-0130', '2026-11-21T01:25:00.000Z'],
    ['starts_at', '2026-11-20', '2026-11-20T00:00:00.000Z'],
    ['starts_at', '0001-01-01T00:00:00Z', '0001-01-01T00:00:00.000Z'],
    ['starts_at', '0001-01-01T00:00:00+01:00', 'OUT_OF_RANGE'],
    ['starts_at', '9999-12-31T23:59:59-01:00', 'OUT_OF_RANGE'],
    ['starts_at', '2026-11-20T23:55:00', 'INVALID_FORMAT'],
    ['starts_at', '2026-11-20T24:00:00Z', 'INVALID_FORMAT'],
    ['starts_at', '2026-02-30T10:00:00Z', 'INVALID_FORMAT'],
    ['starts_at', '2026-11-20T10:00:00+25:00', 'INVALID_FORMAT'],
    ['contact', ' Ada@Example.COM ', 'ada@example.com'],
    ['contact', 'ada@', 'INVALID_FORMAT'],
    ['contact', `${'a'.repeat(250)}@x.io`, 'TOO_LONG'],
    ['line', '+971 50 123 4567', '+971501234567'],
    ['line', '030 901820', '+4930901820'],
    ['line', '+1 202 555 0123 ext. 5', 'INVALID_FORMAT'],
    ['line', 'call me', 'INVALID_FORMAT'],
    ['line', '12', 'INVALID_FORMAT'],
    ['site', 'HTTPS://example.com/a?b=c', 'HTTPS://example.com/a?b=c'],
    ['site', 'example.com', 'INVALID_FORMAT'],
    ['site', 'javascript:alert(1)', 'INVALID_FORMAT'],
    ['site', 'https://exa\nmple.com', 'INVALID_FORMAT'],
    ['site', `https://example.com/${'a'.repeat(2000)}`, 'TOO_LONG'],
    ['remark', 'x'.repeat(1000), 'x'.repeat(1000)],
    ['remark', '😀'.repeat(1000), '😀'.repeat(1000)],
    ['remark', '😀'.repeat(1001), 'TOO_LONG'],
    ['remark', ' kept as sent ', ' kept as sent '],
    ['remark', 5, 'INVALID_TYPE'],
    ['story', 'x'.repeat(5001), 'TOO_LONG'],
    ['size', 'small', 'small'],
    ['size', 'Small', 'INVALID_OPTION'],
    ['size', 'huge', 'INVALID_OPTION'],
    ['size', 1, 'INVALID_TYPE'],
    ['constructor', 'x', 'x'],
  ])('converts %s: %j to %j', (field, value, expected) => {
    expect(stored(field, value)).toEqual(expected);
  });

  test.each(rows.customFields.map((field) => field.name))('an empty or blank %s means no value', (field) => {
    for (const value of [null, '', '  \t']) expect(stored(field, value)).toBeNull();
  });

  test('hints at the scheme of a bare host, and requires a known country for local phone numbers', () => {
    expect(create('object:visits', { name: 'A', site: 'example.com/x' }).problems[0]?.hint).toBe(
      'Did you mean https://example.com/x?',
    );
    const nowhere = buildWorkspace({ ...rows, country: 'Atlantis' });
    expect(codes(create('object:visits', { name: 'A', line: '030 901820' }, nowhere))).toEqual(['line INVALID_FORMAT']);
    const emirates = buildWorkspace({ ...rows, country: 'ae' });
    expect(create('object:visits', { name: 'A', line: '050 123 4567' }, emirates).custom.line).toBe('+971501234567');
  });
});

describe('fields of an object', () => {
  test('resolves names of configured lists without case to ids of active items', () => {
    const checked = create('leads', { ...lead, source: ' wEBSITE', lead_status: 'contacted' });
    expect(checked.problems).toEqual([]);
    expect(checked.values).toMatchObject({ source: 's1', lead_status: 'l2' });
    expect(create('leads', { ...lead, source: 'Fax' }).problems).toEqual([
      {
        field: 'source',
        code: 'INVALID_OPTION',
        message: 'source must be one of the allowed values.',
        allowed: ['Website'],
      },
    ]);
  });

  test('fills in defaults on create, with the first active status as default', () => {
    expect(create('leads', lead).values).toEqual({ ...lead, priority: 3, lead_status: 'l1' });
    expect(create('deals', { name: 'D' }).values).toEqual({
      name: 'D',
      pipeline: 'p1',
      stage: 'd1',
      currency_code: 'EUR',
    });
    expect(create('leads', { ...lead, priority: null }).values.priority).toBe(3);
    const disabled = buildWorkspace({
      ...rows,
      fieldOverrides: [{ object: 'leads', name: 'lead_status', label: null, required: null, enabled: false }],
    });
    expect(create('leads', lead, disabled).values.lead_status).toBe('l1');
    expect(codes(create('leads', { ...lead, lead_status: 'New' }, disabled))).toEqual(['lead_status UNKNOWN_FIELD']);
  });

  test('fills in nothing on update, clears with null, and rejects clearing required fields', () => {
    expect(update('leads', { notes: '', city: null })).toMatchObject({ values: { notes: null, city: null } });
    expect(codes(update('leads', { first_name: ' ', lead_status: null, priority: '' }))).toEqual([
      'first_name REQUIRED',
      'lead_status REQUIRED',
      'priority REQUIRED',
    ]);
  });

  test('reports all problems in the order of the body and then of the object', () => {
    const checked = create('leads', { id, emial: 'x', priority: 9, created_at: 'x', source_id: 's1', website: 'x' });
    expect(codes(checked)).toEqual([
      'id READ_ONLY',
      'emial UNKNOWN_FIELD',
      'priority OUT_OF_RANGE',
      'created_at READ_ONLY',
      'source_id READ_ONLY',
      'website INVALID_FORMAT',
      'first_name REQUIRED',
      'email REQUIRED',
    ]);
    expect(create('leads', { ...lead, firstname: 'x' }).problems[0]).toMatchObject({ allowed: ['first_name'] });
    expect(create('object:visits', { name: 'A', zzzz: 1 }).problems[0]?.hint).toContain(
      '/v1/objects/object%3Avisits/schema',
    );
    expect(create('leads', { ...lead, ['x'.repeat(50_000)]: 1 }).problems[0]?.message).toBe(
      `${'x'.repeat(80)}… is not a field of leads.`,
    );
    expect(codes(create('leads', JSON.parse('{"first_name":"A","email":"a@b.co","__proto__":{"x":1}}')))).toEqual([
      '__proto__ UNKNOWN_FIELD',
    ]);
  });

  test('requires email or mobile, and on update considers the stored record', () => {
    expect(codes(create('leads', { first_name: 'A' }))).toEqual(['email REQUIRED']);
    expect(codes(create('leads', { first_name: 'A', email: 'no' }))).toEqual(['email INVALID_FORMAT']);
    expect(codes(update('leads', { email: null }, { email: 'a@b.co', mobile: '+491' }))).toEqual([]);
    expect(codes(update('leads', { email: null }, { email: 'a@b.co', mobile: null }))).toEqual(['email REQUIRED']);
    expect(codes(update('leads', { city: 'Ulm' }, {}))).toEqual([]);
  });

  test("applies a tenant's own settings of required and disabled fields", () => {
    const strict = buildWorkspace({
      ...rows,
      fieldOverrides: [
        { object: 'leads', name: 'last_name', label: null, required: true, enabled: null },
        { object: 'leads', name: 'email', label: null, required: null, enabled: false },
      ],
    });
    expect(codes(create('leads', { first_name: 'A' }, strict))).toEqual(['last_name REQUIRED', 'mobile REQUIRED']);
    expect(codes(create('leads', { ...lead, last_name: 'B', mobile: '+491701234567' }, strict))).toEqual([
      'email UNKNOWN_FIELD',
    ]);
  });

  test('collects references with normalized ids', () => {
    expect(create('deals', { name: 'D', customer_id: id.toUpperCase(), assigned_to: id })).toMatchObject({
      values: { customer_id: id, assigned_to: id },
      references: [
        { field: 'customer_id', kind: 'customer', value: id },
        { field: 'assigned_to', kind: 'user', value: id },
      ],
    });
    expect(create('leads', { ...lead, assigned_to_email: 'Uma@Example.com' }).references).toEqual([
      { field: 'assigned_to_email', kind: 'user_email', value: 'uma@example.com' },
    ]);
    expect(codes(create('leads', { ...lead, assigned_to: id, assigned_to_email: 'u@e.co' }))).toEqual([
      'assigned_to_email CONFLICTING_FIELDS',
    ]);
    expect(codes(create('deals', { name: 'D', account_id: 'x' }))).toEqual(['account_id INVALID_FORMAT']);
    expect(update('leads', { assigned_to_email: null }).values).toEqual({ assigned_to: null });
  });

  test('accepts ISO currency codes in upper case', () => {
    expect(create('deals', { name: 'D', currency_code: 'usd' }).values.currency_code).toBe('USD');
    expect(codes(create('deals', { name: 'D', currency_code: 'zzz' }))).toEqual(['currency_code INVALID_FORMAT']);
    expect(codes(create('deals', { name: 'D', currency_code: 'EURO' }))).toEqual(['currency_code TOO_LONG']);
  });

  test('requires both or neither of object and record_id of a task', () => {
    const task = { title: 'T', scheduled_at: '2026-12-01' };
    expect(create('tasks', { ...task, object: 'leads', record_id: id }).references).toEqual([
      { field: 'record_id', kind: 'record', value: id, object: 'leads' },
    ]);
    expect(codes(create('tasks', { ...task, object: 'leads' }))).toEqual(['record_id REQUIRED']);
    expect(codes(create('tasks', { ...task, object: '', record_id: id }))).toEqual(['object CONFLICTING_FIELDS']);
    expect(codes(create('tasks', { ...task, object: 'ships', record_id: 'x' }))).toEqual([
      'object INVALID_OPTION',
      'record_id INVALID_FORMAT',
    ]);
    const stored = { object: 'leads', record_id: id };
    expect(codes(update('tasks', { object: null, record_id: null }, stored))).toEqual([]);
    expect(codes(update('tasks', { record_id: null }, stored))).toEqual(['record_id CONFLICTING_FIELDS']);
    expect(update('tasks', { object: 'deals' }, stored).references).toEqual([
      { field: 'record_id', kind: 'record', value: id, object: 'deals' },
    ]);
  });

  test('requires text and ordered times of an activity, and never changes its entity', () => {
    const activity = { activity_type: 'call', entity_type: 'deal', entity_id: id, summary: 'S' };
    expect(create('activities', activity)).toMatchObject({
      problems: [],
      values: { activity_type: 'a1', performed_at: now.toISOString() },
      references: [{ field: 'entity_id', kind: 'deal', value: id }],
    });
    expect(codes(create('activities', { ...activity, summary: ' ' }))).toEqual(['summary REQUIRED']);
    expect(codes(create('activities', { ...activity, performed_at: '2026-11-20T12:05:00Z' }))).toEqual([]);
    expect(codes(create('activities', { ...activity, performed_at: '2026-11-20T12:05:01Z' }))).toEqual([
      'performed_at OUT_OF_RANGE',
    ]);
    expect(codes(create('activities', { ...activity, followup_at: '2026-11-20T12:00:00Z' }))).toEqual([
      'followup_at OUT_OF_RANGE',
    ]);
    expect(codes(update('activities', { entity_type: 'lead', entity_id: id }, {}))).toEqual([
      'entity_type IMMUTABLE',
      'entity_id IMMUTABLE',
    ]);
    expect(
      codes(update('activities', { performed_at: '2026-11-20' }, { followup_at: '2026-11-19T00:00:00.000Z' })),
    ).toEqual(['followup_at OUT_OF_RANGE']);
  });
});

describe('custom fields in an object of their own', () => {
  const visits = requireObject('object:visits');

  test('prefixes problems of custom fields, and knows no built-in names there', () => {
    const checked = checkCustomFields(visits, { guests: '2', vip: 'maybe', name: 'x', nope: 1 }, 'custom_fields');
    expect(checked.custom).toEqual({ guests: 2 });
    expect(codes(checked)).toEqual([
      'custom_fields.vip INVALID_TYPE',
      'custom_fields.name UNKNOWN_FIELD',
      'custom_fields.nope UNKNOWN_FIELD',
    ]);
  });

  test('requires mandatory custom fields with any name', () => {
    const strict = buildWorkspace({
      ...rows,
      customFields: rows.customFields.map((field) => ({ ...field, required: field.name === 'constructor' })),
    });
    const object = requireObject('object:visits', strict);
    expect(codes(checkCustomFields(object, {}, 'custom_fields'))).toEqual(['custom_fields.constructor REQUIRED']);
    expect(codes(create('object:visits', { name: 'A' }, strict))).toEqual(['constructor REQUIRED']);
  });
});

test('carries the list, options and country of a field, including retired options', () => {
  const findField = (object: string, name: string) => requireObject(object).fields.get(name);
  // All objects share the same list.
  for (const object of ['leads', 'deals', 'customers']) expect(findField(object, 'source')?.items).toBe(rows.sources);
  expect(findField('leads', 'lead_status')?.items?.map(({ id }) => id)).toEqual(['l0', 'l1', 'l2']);
  expect(findField('leads', 'lead_status')?.options?.map(({ value }) => value)).toEqual(['New', 'Contacted']);
  expect(findField('object:visits', 'size')?.options?.map(({ value }) => value)).toEqual(['small']);
  expect(findField('object:visits', 'size')?.keptOptions?.map(({ value }) => value)).toEqual(['small', 'huge']);
  expect([findField('leads', 'mobile'), findField('object:visits', 'line')].map((field) => field?.country)).toEqual([
    'DE',
    'DE',
  ]);
  expect(findField('leads', 'email')).not.toHaveProperty('country');
});

test('shows a stored id of a configured list as its name, active or not', () => {
  const source = requireObject('leads').fields.get('source');
  if (!source) throw new Error('no field');
  expect(toResponseValue(source, 's2')).toBe('Fax');
  expect(toResponseValue(source, null)).toBeNull();
});
