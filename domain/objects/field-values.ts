// Single values: the accepted values of each field type, and their stored form.

import formats from 'ajv-formats/dist/formats.js';
import type { components } from '../../generated/api.ts';
import { toSentence } from '../service/messages.ts';
import { type CountryCode, readPhoneNumber } from './phone-numbers.ts';
import { findClosest } from './suggestions.ts';
import { readDay, readTime } from './times.ts';
import { type Field, findByName } from './workspace.ts';

export type FieldProblem = components['schemas']['FieldError'];

/**
 * A stored value: numbers, booleans, text; dates as YYYY-MM-DD, times as ISO 8601 in UTC; ids for
 * configured lists.
 */
export type StoredValue = string | number | boolean | null;

/** A problem with a value, without its field. */
interface Fault {
  code: FieldProblem['code'];
  /** Follows the field's name: `must be …`. */
  rule: string;
  allowed?: readonly string[];
  meant?: string | undefined;
  hint?: string;
}

/** A value, and the extension that a phone number was sent with. */
export type Checked = { value: StoredValue; extension?: string } | { fault: Fault };

/** The default maximum lengths of texts in characters. */
const lengths = { text: 255, textarea: 5000, customText: 1000, email: 254, url: 2000 } as const;

const fault = (code: Fault['code'], rule: string, more: Pick<Fault, 'allowed' | 'meant' | 'hint'> = {}): Checked => ({
  fault: { code, rule, ...more },
});

/**
 * Returns a problem that names the field and the rule.
 * @param more with the suggested name or value
 */
export function buildFieldProblem(
  field: string,
  code: FieldProblem['code'],
  rule: string,
  more: { allowed?: readonly string[] | undefined; meant?: string | undefined; hint?: string | undefined } = {},
): FieldProblem {
  // The name of an unknown field comes from the caller, and can have any length.
  const shown = field.length > 80 ? `${field.slice(0, 80)}…` : field;
  return {
    field,
    code,
    message: toSentence(`${shown} ${rule}`),
    ...(more.allowed ? { allowed: more.allowed.slice(0, 50) } : {}),
    ...(more.meant ? { did_you_mean: more.meant } : {}),
    ...(more.hint ? { hint: more.hint } : {}),
  };
}

/**
 * Returns true for values that mean no value, for any type: null, and text with only white space.
 */
export function isNoValue(value: unknown): boolean {
  return value === null || value === undefined || (typeof value === 'string' && value.trim() === '');
}

/** Checks a value against its field's type and limits. */
export function checkValue(field: Field, value: unknown): Checked {
  if (isNoValue(value)) return { value: null };
  if (field.type === 'number' || field.type === 'currency') return checkNumber(field, value);
  if (field.type === 'boolean') return checkBoolean(value);
  if (typeof value !== 'string') return fault('INVALID_TYPE', 'must be a string');
  switch (field.type) {
    case 'text':
      return checkText(field, value, field.custom ? lengths.customText : lengths.text);
    case 'textarea':
      return checkText(field, value, lengths.textarea);
    case 'email':
      return checkEmail(value.trim());
    case 'url':
      return checkUrl(value.trim());
    case 'phone':
      return checkPhone(value.trim(), field.country, field.keepsExtension);
    case 'date':
      return checkDate(value);
    case 'datetime':
      return checkTime(value);
    case 'select':
      return checkOption(field, value);
  }
}

/** Characters as people count them: code points, not UTF-16 units. */
function longerThan(text: string, limit: number): boolean {
  return text.length > limit && (text.length > limit * 2 || [...text].length > limit);
}

function checkText(field: Field, text: string, fallback: number): Checked {
  const limit = field.maxLength ?? fallback;
  if (longerThan(text, limit)) return fault('TOO_LONG', `must have at most ${limit} characters`);
  const least = field.minLength ?? 0;
  if ([...text.slice(0, least * 2)].length < least) return fault('TOO_SHORT', `must have at least ${least} characters`);
  return { value: text };
}

const numeral = /^-?\d+(\.\d+)?(e[+-]?\d{1,3})?$/i;

function checkNumber(field: Field, given: unknown): Checked {
  const text = typeof given === 'string' ? given.trim() : undefined;
  if (text === undefined ? typeof given !== 'number' : text.length > 400 || !numeral.test(text))
    return fault('INVALID_TYPE', 'must be a number');
  // Adding 0 turns -0, which JSON can contain, into 0.
  const number = Number(text ?? given) + 0;
  const min = field.min ?? Number.MIN_SAFE_INTEGER;
  const max = field.max ?? Number.MAX_SAFE_INTEGER;
  if (!(number >= min && number <= max)) return fault('OUT_OF_RANGE', `must be from ${min} to ${max}`);
  if (!Number.isInteger(number)) {
    if (field.type === 'currency')
      return fault('OUT_OF_RANGE', 'must be a whole number of minor units', { hint: '12.50 is sent as 1250.' });
    if (field.integer) return fault('OUT_OF_RANGE', 'must be a whole number');
  }
  return { value: number };
}

function checkBoolean(given: unknown): Checked {
  if (given === true || given === 'true') return { value: true };
  if (given === false || given === 'false') return { value: false };
  return fault('INVALID_TYPE', 'must be true or false');
}

const emailPattern = formats.fullFormats.email as RegExp;

export function checkEmail(text: string): Checked {
  if (text.length > lengths.email) return fault('TOO_LONG', `must have at most ${lengths.email} characters`);
  return emailPattern.test(text) ? { value: text.toLowerCase() } : fault('INVALID_FORMAT', 'must be an email address');
}

function checkUrl(text: string): Checked {
  if (longerThan(text, lengths.url)) return fault('TOO_LONG', `must have at most ${lengths.url} characters`);
  const rule = 'must be a URL that starts with http:// or https://';
  // The parser removes tabs and line ends instead of rejecting them.
  if (/[\s\p{Cc}]/u.test(text)) return fault('INVALID_FORMAT', rule);
  if (/^https?:\/\//i.test(text)) return URL.canParse(text) ? { value: text } : fault('INVALID_FORMAT', rule);
  const completed = `https://${text}`;
  const isBareHost = !/^[a-z][a-z0-9+.-]*:(?!\d)/i.test(text) && text.includes('.') && URL.canParse(completed);
  return fault('INVALID_FORMAT', rule, isBareHost ? { hint: `Did you mean ${completed}?` } : {});
}

/** @param keepsExtension true: the number can have an extension */
export function checkPhone(text: string, home: CountryCode | undefined, keepsExtension = false): Checked {
  const read = text.length <= 100 ? readPhoneNumber(text, home) : undefined;
  if (!read)
    return fault('INVALID_FORMAT', 'must be a phone number', {
      hint: home
        ? `Send it in international format, e.g. +971501234567. Without a country code it is read as a number in ${home}.`
        : 'Send it in international format, e.g. +971501234567.',
    });
  const { number, extension } = read;
  if (extension === undefined) return { value: number };
  if (keepsExtension) return { value: number, extension };
  return fault('INVALID_FORMAT', 'must be a phone number without an extension', { hint: `Send ${number}.` });
}

function checkDate(text: string): Checked {
  const day = readDay(text);
  return day === undefined ? fault('INVALID_FORMAT', 'must be a date, e.g. 2026-11-20') : { value: day };
}

function checkTime(text: string): Checked {
  const time = readTime(text);
  if (time === 'out of range') return fault('OUT_OF_RANGE', 'must be in the years 0001 to 9999');
  if (time === undefined)
    return fault('INVALID_FORMAT', 'must be an ISO 8601 time with an offset, e.g. 2026-11-20T23:55:00.000Z');
  return { value: time };
}

function checkOption({ items, options = [] }: Field, text: string): Checked {
  const active = items?.filter((item) => item.isActive);
  const item = active ? findByName(active, text)?.id : options.find((option) => option.value === text)?.value;
  if (item !== undefined) return { value: item };
  const allowed = options.map((option) => option.value);
  return fault(
    'INVALID_OPTION',
    allowed.length > 0 ? 'must be one of the allowed values' : 'has no allowed values yet',
    {
      allowed,
      meant: findClosest(text, allowed),
    },
  );
}

/**
 * Converts a stored value to the API's format: the name instead of a configured item's id, text
 * instead of a time.
 */
export function toResponseValue(field: Field, stored: unknown): StoredValue {
  if (stored === null || stored === undefined) return null;
  if (stored instanceof Date) return stored.toISOString();
  if (field.items) return field.items.find((item) => item.id === stored)?.name ?? null;
  return stored as StoredValue;
}

const uuidPattern = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

/** Returns an id in canonical form, or undefined if it cannot be one. */
export function toUuid(text: string): string | undefined {
  const id = text.trim().toLowerCase();
  return uuidPattern.test(id) ? id : undefined;
}
