// The values of filter conditions: accepted values of each type, in the form of stored values.

import type { FieldType } from './builtin.ts';
import { checkValue, type FieldProblem, type StoredValue } from './field-values.ts';
import { readPhoneNumber } from './phone-numbers.ts';
import { findClosest } from './suggestions.ts';
import { type Field, findByName } from './workspace.ts';

export const operators = [
  'eq',
  'neq',
  'gt',
  'gte',
  'lt',
  'lte',
  'between',
  'contains',
  'starts_with',
  'ends_with',
  'in',
  'not_in',
  'is_null',
] as const;
export type Operator = (typeof operators)[number];

/** Operators that search for a part of a text, ignoring case. */
const partOperators = ['contains', 'starts_with', 'ends_with'] as const;
export type PartOperator = (typeof partOperators)[number];

const isPartOperator = (operator: Operator): operator is PartOperator =>
  partOperators.some((each) => each === operator);

const comparable: readonly Operator[] = operators.filter((operator) => !isPartOperator(operator));
const choosable: readonly Operator[] = ['eq', 'neq', 'in', 'not_in', 'is_null'];

const operatorsOfType: Readonly<Record<FieldType, readonly Operator[]>> = {
  text: operators,
  textarea: operators,
  email: operators,
  phone: operators,
  url: operators,
  select: choosable,
  number: comparable,
  currency: comparable,
  boolean: ['eq', 'neq', 'is_null'],
  date: comparable,
  datetime: comparable,
};

/** Returns the operators that a field of this type takes. */
export function listOperators(type: FieldType): readonly Operator[] {
  return operatorsOfType[type];
}

/** The operators of a field of which a record can have several values. */
export const operatorsOfMultiple: readonly Operator[] = ['in', 'not_in', 'is_null'];

/** A problem with a value that cannot be compared with the field, without the field's name. */
export interface ValueFault {
  code: FieldProblem['code'];
  rule: string;
  allowed?: readonly string[];
  meant?: string | undefined;
  hint?: string;
}

export type FilterValue = { value: string | number } | { fault: ValueFault };

/**
 * The types as which a condition can read the text of a custom field, instead of comparing it as
 * text.
 */
export const readings = ['number', 'date'] as const;
export type Reading = (typeof readings)[number];

/** Returns the field that a condition compares if it reads a custom field as another type. */
export function readAs(field: Field, reading: Reading): Field {
  const { name, label } = field;
  // Not custom: the value is compared as a number or a time, and not as text.
  return { name, label, type: reading === 'number' ? 'number' : 'datetime', custom: false, required: false };
}

/**
 * Reads one value of a condition. Custom fields are compared as text, so their values are returned
 * as text.
 * @param given the value in the request, e.g. one item of `in`
 */
export function readFilterValue(field: Field, operator: Operator, given: unknown): FilterValue {
  if (given === null || given === undefined)
    return wrong('INVALID_TYPE', 'needs a value', { hint: 'Use is_null to find records without a value.' });
  if (typeof given === 'string' && given.includes('\0'))
    return wrong('INVALID_FORMAT', 'must not contain the NUL character');
  if (typeof given === 'string' && !given.isWellFormed())
    return wrong('INVALID_FORMAT', 'must not contain an unpaired surrogate');
  switch (field.type) {
    case 'number':
    case 'currency':
    case 'boolean':
    case 'date':
    case 'datetime':
      return typedValue(field, given);
    case 'select':
      return optionValue(field, given);
    case 'email':
    case 'phone':
    case 'text':
    case 'textarea':
    case 'url':
      if (typeof given !== 'string') return wrong('INVALID_TYPE', 'must be compared with a string');
      return { value: isPartOperator(operator) ? given : normalised(field, given) };
  }
}

function wrong(
  code: ValueFault['code'],
  rule: string,
  more: Pick<ValueFault, 'allowed' | 'meant' | 'hint'> = {},
): FilterValue {
  return { fault: { code, rule, ...more } };
}

function typedValue(field: Field, given: unknown): FilterValue {
  // The limits of the field apply to writes. A filter may compare a priority with 0.
  const type = field.type === 'currency' ? 'number' : field.type;
  const plain: Field = { name: field.name, label: field.label, type, custom: field.custom, required: false };
  const checked = checkValue(plain, given);
  if ('fault' in checked) return { fault: { code: checked.fault.code, rule: checked.fault.rule } };
  if (checked.value === null) return wrong('INVALID_TYPE', 'must not be compared with an empty string');
  return { value: field.custom || typeof checked.value === 'boolean' ? toTextForm(checked.value) : checked.value };
}

function optionValue({ items, options = [], keptOptions = options }: Field, given: unknown): FilterValue {
  if (typeof given !== 'string') return wrong('INVALID_TYPE', 'must be compared with a string');
  // Records can still have values that writes no longer accept, so filters accept them.
  if (items) {
    const item = findByName(items, given);
    if (item) return { value: item.id };
    return noSuchValue(given, [...new Set(items.map((each) => each.name))]);
  }
  if (keptOptions.some((option) => option.value === given)) return { value: given };
  return noSuchValue(
    given,
    keptOptions.map((option) => option.value),
  );
}

function noSuchValue(given: string, allowed: readonly string[]): FilterValue {
  return wrong('INVALID_OPTION', 'must be compared with one of the allowed values', {
    allowed,
    meant: findClosest(given, allowed),
  });
}

/**
 * Returns text in stored form: addresses in lower case, phone numbers in E.164 and without extension
 * if they can be parsed.
 */
function normalised({ type, country }: Field, text: string): string {
  if (type === 'email') return text.trim().toLowerCase();
  if (type !== 'phone' || text.length > 100) return text;
  return readPhoneNumber(text.trim(), country)?.number ?? text;
}

/** Returns a stored value of a custom field as the text that PostgreSQL makes of it. */
export function toTextForm(value: Exclude<StoredValue, null>): string {
  return typeof value === 'number' ? plainDecimal(value) : String(value);
}

/** Formats a number without an exponent: 1e-7 is 0.0000001. */
function plainDecimal(number: number): string {
  const [, sign = '', whole = '', fraction = '', exponent] =
    /^(-?)(\d+)(?:\.(\d+))?e([+-]\d+)$/.exec(String(number)) ?? [];
  if (exponent === undefined) return String(number);
  const point = whole.length + Number(exponent);
  const digits = whole + fraction;
  if (point <= 0) return `${sign}0.${'0'.repeat(-point)}${digits}`;
  if (point >= digits.length) return sign + digits.padEnd(point, '0');
  return `${sign}${digits.slice(0, point)}.${digits.slice(point)}`;
}
