// Telephone numbers in the spellings that people and programs send.
import { expect, test } from 'vitest';
import { type CountryCode, toE164 } from '../../domain/objects/phone-numbers.ts';

const spellings: readonly [text: string, country: CountryCode | undefined, stored: string | undefined][] = [
  ['+971 50 123 4567', undefined, '+971501234567'],
  ['0049 30 1234567', 'DE', '+49301234567'],
  ['0049-30-1234567', 'AE', '+49301234567'],
  // Americans dial 011, not 00.
  ['0049301234567', 'US', '+49301234567'],
  ['0049301234567', undefined, '+49301234567'],
  ['971501234567', undefined, '+971501234567'],
  ['971501234567', 'AE', '+971501234567'],
  ['4915112345678', 'AE', '+4915112345678'],
  ['030 1234567', 'DE', '+49301234567'],
  ['050 123 4567', 'AE', '+971501234567'],
  ['(202) 555-0123', 'US', '+12025550123'],
  ['tel:+49-30-1234567', undefined, '+49301234567'],
  ['TEL:030-1234567', 'DE', '+49301234567'],
  ['030 1234567', undefined, undefined],
  ['+49 30 1234567 ext. 5', 'DE', undefined],
  ['12', 'AE', undefined],
  ['00', 'DE', undefined],
  ['tel:', 'DE', undefined],
  ['call me', 'DE', undefined],
];

test.each(spellings)('parses %j in a workspace of %s as %s', (text, country, stored) => {
  expect(toE164(text, country)).toBe(stored);
});
