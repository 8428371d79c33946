// Generated requests: mostly valid, some with one error, and a few of plain junk.
import fc from 'fast-check';
import type { DeclaredOperation } from './document.ts';
import { bodySchema, plain, queryParameters, type Schema } from './schemas.ts';

/** A field as GET /v1/objects/{object}/schema publishes it. */
export interface PublishedField {
  name: string;
  type: string;
  options?: { value: string }[];
  required?: boolean;
  read_only?: boolean;
}

export interface GeneratedRequest {
  query: Record<string, string>;
  /** Builds the body from one that the operation accepts. */
  body: (accepted: unknown) => unknown;
  /** Turns the body into text that is mostly invalid JSON. */
  garble: ((body: unknown) => string) | undefined;
  /** True: the path names something that exists. Otherwise what it names instead. */
  path: true | string;
}

/** Texts that have broken programs before. */
const hostileTexts = [
  '',
  ' ',
  '\0',
  '\ud800',
  'a\u0000b',
  '\u202eabc',
  '😀',
  'İ',
  'ß',
  '\ufeff',
  '\n',
  '\r\n',
  '%',
  '%00',
  '_',
  '\\',
  '"',
  "'",
  '`',
  "' or 1=1 --",
  '$(id)',
  '{{7*7}}',
  '<script>alert(1)</script>',
  '../../etc/passwd',
  '=1+1',
  '__proto__',
  'constructor',
  'toString',
  'null',
  'true',
  'false',
  '[]',
  '{}',
  '{"a":',
  'NaN',
  'Infinity',
  '-Infinity',
  '1e400',
  '0x10',
  '-0',
  '1,5',
  '٣',
  '9'.repeat(400),
  '2026-02-30',
  '0000-01-01',
  '2026-13-01',
  '9999-12-31T23:59:60Z',
  '0000-01-01T00:00:00Z',
  '2026-01-01T00:00:00+15:00',
  '2026-01-01',
  '+971501234567',
  '00971501234567',
  '+1',
  'a@b',
  'a@b.example',
  '@',
  'http://',
  'https://example.com',
  'javascript:alert(1)',
  '//x',
  '00000000-0000-0000-0000-000000000000',
  '019a9f5e-7c1b-7cc3-8f3a-2f6f1c2b9d10',
  'urn:uuid:019a9f5e-7c1b-7cc3-8f3a-2f6f1c2b9d10',
  'leads',
  'object:visits',
  'object:',
  '*',
  'leads:*',
  'onboarding',
  '0.0.0.0/0',
  '::/0',
  '1.2.3.4/33',
  'x'.repeat(300),
  'é'.repeat(1000),
];

const hostileText = fc.oneof(
  fc.constantFrom(...hostileTexts),
  fc.string({ unit: 'binary', maxLength: 40 }),
  fc.string(),
);

const hostileNumber = fc.oneof(
  fc.constantFrom(
    0,
    -0,
    -1,
    1.5,
    2 ** 31,
    -(2 ** 31) - 1,
    2 ** 53,
    -(2 ** 53),
    2 ** 63,
    1e21,
    1e300,
    -1e300,
    5e-324,
    0.1,
  ),
  fc.double({ noNaN: true, noDefaultInfinity: true }),
  fc.maxSafeInteger(),
);

/** Any JSON value. */
const junk: fc.Arbitrary<unknown> = fc.oneof(
  { weight: 4, arbitrary: hostileText },
  { weight: 2, arbitrary: hostileNumber },
  { weight: 1, arbitrary: fc.constantFrom(null, true, false, [], {}) },
  { weight: 1, arbitrary: fc.jsonValue({ maxDepth: 3 }) },
  { weight: 1, arbitrary: fc.dictionary(hostileText, hostileText, { maxKeys: 5 }) },
);

function textFor(schema: Schema): fc.Arbitrary<string> {
  if (schema.format === 'email') return fc.emailAddress();
  if (schema.format === 'uuid') return fc.uuid();
  if (schema.format === 'uri' || schema.format === 'checkout-return-uri') return fc.webUrl();
  if (schema.format === 'date')
    return fc
      .date({ noInvalidDate: true, min: new Date(0), max: new Date('2100-01-01') })
      .map((date) => date.toISOString().slice(0, 10));
  if (schema.format === 'date-time')
    return fc
      .date({ noInvalidDate: true, min: new Date(0), max: new Date('2100-01-01') })
      .map((date) => date.toISOString());
  if (schema.pattern) return fc.stringMatching(new RegExp(schema.pattern));
  return fc.string({
    minLength: schema.minLength ?? 0,
    maxLength: Math.min(schema.maxLength ?? 60, (schema.minLength ?? 0) + 60),
  });
}

/** Values that a schema allows. */
function allowed(given: Schema, depth = 0): fc.Arbitrary<unknown> {
  const schema = plain(given);
  if (schema.const !== undefined) return fc.constant(schema.const);
  if (schema.enum) return fc.constantFrom(...schema.enum);
  const choices = schema.anyOf ?? schema.oneOf;
  if (choices) return fc.oneof(...choices.map((choice) => allowed(choice, depth + 1)));
  const types = ([] as string[]).concat(schema.type ?? 'string');
  if (types.length > 1) return fc.oneof(...types.map((type) => allowed({ ...schema, type }, depth)));
  switch (types[0]) {
    case 'null':
      return fc.constant(null);
    case 'boolean':
      return fc.boolean();
    case 'integer':
      return fc.integer({ min: schema.minimum ?? -1000, max: schema.maximum ?? 1_000_000 });
    case 'number':
      return fc.double({ min: schema.minimum ?? -1e6, max: schema.maximum ?? 1e6, noNaN: true });
    case 'array':
      if (depth > 5) return fc.constant([]);
      return fc.array(allowed(schema.items ?? {}, depth + 1), {
        minLength: schema.minItems ?? 0,
        maxLength: Math.min(schema.maxItems ?? 4, (schema.minItems ?? 0) + 4),
      });
    case 'object':
      return depth > 5 ? fc.constant({}) : allowedObject(schema, depth);
    default:
      return textFor(schema);
  }
}

function allowedObject(schema: Schema, depth: number): fc.Arbitrary<unknown> {
  const properties = Object.entries(schema.properties ?? {}).filter(
    ([, property]) => !property.readOnly && !property['x-immutable'],
  );
  const named = fc.record(
    Object.fromEntries(properties.map(([name, property]) => [name, allowed(property, depth + 1)])),
    {
      requiredKeys: schema.required ?? [],
    },
  );
  if (!schema.additionalProperties) return named;
  const values = typeof schema.additionalProperties === 'object' ? schema.additionalProperties : {};
  const others = fc.dictionary(
    fc.string({ maxLength: 20 }),
    Object.keys(values).length > 0 ? allowed(values, depth + 1) : junk,
    { maxKeys: 4 },
  );
  return fc.tuple(named, others).map(([known, other]) => ({ ...other, ...(known as object) }));
}

/** Returns a value with one node replaced, removed or extended. A number chooses the node. */
function spoiled(value: unknown, choice: number, other: unknown): unknown {
  if (value === null || typeof value !== 'object' || choice % 4 === 0) return other;
  const keys = Object.keys(value);
  if (Array.isArray(value)) {
    if (choice % 4 === 1 || keys.length === 0) return [...value, other];
    const index = choice % value.length;
    return value.map((item, at) => (at === index ? spoiled(item, Math.floor(choice / 4), other) : item));
  }
  const copy: Record<string, unknown> = { ...value };
  const key = keys[choice % Math.max(1, keys.length)];
  if (choice % 4 === 1 || key === undefined) copy[typeof other === 'string' ? other : 'zzz'] = 1;
  else if (choice % 4 === 2) delete copy[key];
  else copy[key] = spoiled(copy[key], Math.floor(choice / 4), other);
  return copy;
}

/** Values of a workspace field, by its type. */
function fieldValue({ type, options }: PublishedField): fc.Arbitrary<unknown> {
  const good: Record<string, fc.Arbitrary<unknown>> = {
    number: fc.oneof(hostileNumber, fc.integer({ min: 0, max: 5 })),
    currency: fc.nat(),
    boolean: fc.constantFrom(true, 'true', null),
    date: textFor({ format: 'date' }),
    datetime: textFor({ format: 'date-time' }),
    email: fc.emailAddress(),
    phone: fc.constantFrom('+971501234567', '+493012345678'),
    url: fc.webUrl(),
  };
  const values = options?.length
    ? fc.constantFrom(...options.map((option) => option.value))
    : (good[type] ?? fc.string({ maxLength: 60 }));
  return fc.oneof({ weight: 9, arbitrary: values }, { weight: 1, arbitrary: junk });
}

/** Bodies of records: required fields, and a few other published ones. */
function recordBody(fields: readonly PublishedField[]): fc.Arbitrary<unknown> {
  const open = fields.filter((field) => !field.read_only);
  const optional = open.filter((field) => !field.required);
  return fc.subarray(optional, { maxLength: Math.min(4, optional.length) }).chain((chosen) => {
    const named = [...open.filter((field) => field.required), ...chosen];
    return fc.record(Object.fromEntries(named.map((field) => [field.name, fieldValue(field)])));
  });
}

const relativeDate = fc.record({
  relative: fc.constantFrom(
    'today',
    'last_7_days',
    'next_3650_days',
    'this_week',
    'last_month',
    'this_year',
    'tomorrow',
  ),
});

/** Filters of the records grammar, valid or almost. */
function filterText(fields: readonly PublishedField[]): fc.Arbitrary<string> {
  const typed = fc.constantFrom(...fields).chain((field) =>
    fc.oneof(
      fc.record({
        field: fc.constant(field.name),
        op: fc.constantFrom('eq', 'neq', 'gt', 'gte', 'lt', 'lte', 'contains', 'starts_with', 'ends_with'),
        value: fc.oneof({ weight: 4, arbitrary: fieldValue(field) }, { weight: 1, arbitrary: relativeDate }),
      }),
      fc.record(
        {
          field: fc.constant(field.name),
          op: fc.constantFrom('eq', 'neq', 'gt', 'lte', 'is_null'),
          value: fc.oneof(fieldValue(field), relativeDate, hostileText),
          as: fc.constantFrom('number', 'date'),
        },
        { requiredKeys: ['field', 'op', 'as'] },
      ),
      fc.record({
        field: fc.constant(field.name),
        op: fc.constant('between'),
        value: fc.tuple(fieldValue(field), fieldValue(field)),
      }),
      fc.record({
        field: fc.constant(field.name),
        op: fc.constantFrom('in', 'not_in'),
        value: fc.array(fieldValue(field), { maxLength: 4 }),
      }),
      fc.record({ field: fc.constant(field.name), op: fc.constant('is_null'), value: fc.boolean() }),
    ),
  );
  const wrong = fc.record({ field: hostileText, op: hostileText, value: junk }, { requiredKeys: ['field'] });
  const condition = fc.oneof({ weight: 12, arbitrary: typed }, { weight: 1, arbitrary: wrong });
  const { node } = fc.letrec((tie) => ({
    node: fc.oneof(
      { maxDepth: 3, depthIdentifier: 'filter' },
      condition,
      fc.record({ and: fc.array(tie('node'), { minLength: 1, maxLength: 3 }) }),
      fc.record({ or: fc.array(tie('node'), { minLength: 1, maxLength: 3 }) }),
      fc.record({ not: tie('node') }),
    ),
  }));
  return fc.oneof(
    { weight: 9, arbitrary: node.map((filter) => JSON.stringify(filter)) },
    { weight: 1, arbitrary: hostileText },
  );
}

function sortText(fields: readonly PublishedField[]): fc.Arbitrary<string> {
  const one = fc.tuple(fc.constantFrom('', '-'), fc.constantFrom(...fields)).map(([sign, field]) => sign + field.name);
  return fc.uniqueArray(one, { minLength: 1, maxLength: 3 }).map((names) => names.join(','));
}

type Make = GeneratedRequest['body'];

/** Returns the accepted body with other values in a few fields. */
function changed(values: fc.Arbitrary<unknown>): fc.Arbitrary<Make> {
  return fc.tuple(values, fc.nat({ max: 3 })).map(([value, count]) => (accepted) => {
    if (typeof value !== 'object' || value === null || Array.isArray(accepted)) return value;
    return { ...(accepted as object), ...Object.fromEntries(Object.entries(value).slice(0, count)) };
  });
}

function generateBody(operation: DeclaredOperation, fields: readonly PublishedField[]): fc.Arbitrary<Make> {
  const schema = bodySchema(operation);
  if (!schema) return fc.constant(() => undefined);
  const isRecord = schema.additionalProperties === true && !schema.properties;
  const records = fc.array(recordBody(fields), { minLength: 1, maxLength: 4 });
  const batches = fc.oneof(
    records,
    records.map((list) => ({ records: list })),
  );
  const values = operation.path.endsWith(':batch') ? batches : isRecord ? recordBody(fields) : allowed(schema);
  const spoil = fc.tuple(fc.nat(), junk).map(
    ([choice, other]): Make =>
      (accepted) =>
        spoiled(accepted, choice, other),
  );
  return fc.oneof(
    {
      weight: 3,
      arbitrary: values.map(
        (value): Make =>
          () =>
            value,
      ),
    },
    { weight: 3, arbitrary: changed(values) },
    { weight: 3, arbitrary: spoil },
    {
      weight: 1,
      arbitrary: junk.map(
        (value): Make =>
          () =>
            value,
      ),
    },
  );
}

function generateQuery(
  operation: DeclaredOperation,
  fields: readonly PublishedField[],
): fc.Arbitrary<Record<string, string>> {
  const special: Record<string, fc.Arbitrary<string>> = { filter: filterText(fields), sort: sortText(fields) };
  const pairs = queryParameters(operation).map(({ name, required, schema, example }) => {
    const fitting = special[name] ?? allowed(schema).map(String);
    const known = example === undefined ? fitting : fc.oneof(fitting, fc.constant(String(example)));
    const value = fc.oneof({ weight: 9, arbitrary: known }, { weight: 1, arbitrary: hostileText });
    // No generated text can be a valid cursor, so it is mostly left out.
    const rarity = name === 'cursor' ? 8 : 1;
    const absent = { weight: required ? 0 : rarity, arbitrary: fc.constant([] as [string, string][]) };
    return fc.oneof({ weight: 1, arbitrary: value.map((text) => [[name, text]] as [string, string][]) }, absent);
  });
  const other = fc.oneof(
    { weight: 9, arbitrary: fc.constant([] as [string, string][]) },
    { weight: 1, arbitrary: fc.tuple(hostileText, hostileText).map((pair) => [pair]) },
  );
  return fc.tuple(...pairs, other).map((found) => Object.fromEntries(found.flat()));
}

/**
 * Generates requests for an operation.
 * @param fields the fields of the object that its path or body concerns
 */
export function generateRequests(
  operation: DeclaredOperation,
  fields: readonly PublishedField[],
): fc.Arbitrary<GeneratedRequest> {
  const path = fc.oneof(
    { weight: 9, arbitrary: fc.constant(true as const) },
    {
      weight: 1, // Clients never send single dots, because they resolve them.
      arbitrary: hostileText.map((text) => text.toWellFormed().replace(/^\.{1,2}$/, '...')),
    },
  );
  // Changes, cuts or doubles a few characters.
  const garble = fc.tuple(fc.nat(), hostileText).map(([cut, other]) => (body: unknown) => {
    const text = JSON.stringify(body ?? {});
    const at = cut % (text.length + 1);
    return text.slice(0, at) + other + text.slice(at + (cut % 3));
  });
  const rarely = fc.oneof({ weight: 15, arbitrary: fc.constant(undefined) }, { weight: 1, arbitrary: garble });
  return fc.record({
    query: generateQuery(operation, fields),
    body: generateBody(operation, fields),
    garble: rarely,
    path,
  });
}
