// Phone numbers: parsed as people write them, stored as E.164.
import {
  type CountryCode,
  getCountries,
  getCountryCallingCode,
  isSupportedCountry,
  type PhoneNumber,
  parsePhoneNumberFromString,
} from 'libphonenumber-js';

export type { CountryCode };

/** Common names of some countries besides their official names. */
const otherNames: readonly [string, CountryCode][] = [
  ['usa', 'US'],
  ['uk', 'GB'],
  ['great britain', 'GB'],
  ['england', 'GB'],
  ['uae', 'AE'],
  ['ksa', 'SA'],
];

/**
 * Built at the first lookup, because naming all countries takes longer than loading any other
 * module.
 */
let countriesByName: ReadonlyMap<string, CountryCode> | undefined;

function nameCountries(): ReadonlyMap<string, CountryCode> {
  const names = new Intl.DisplayNames(['en'], { type: 'region' });
  const named = getCountries().map((country) => [names.of(country)?.toLowerCase() ?? '', country] as const);
  return new Map([...otherNames, ...named]);
}

/**
 * Returns the country whose numbers can be written without a country code; undefined if it is not
 * known by code or English name.
 */
export function findCallingCountry(country: string | null): CountryCode | undefined {
  const wanted = country?.trim() ?? '';
  const code = wanted.toUpperCase();
  if (isSupportedCountry(code)) return code;
  countriesByName ??= nameCountries();
  return countriesByName.get(wanted.toLowerCase());
}

/** A number in E.164, e.g. +971501234567, and its extension, which E.164 cannot express. */
export interface ReadNumber {
  number: string;
  extension?: string;
}

/**
 * Reads the international form with +, with 00 and as bare digits, the national form of the country,
 * and each of them as a tel: address and with an extension.
 * @param country of numbers in national form; without it, only international forms are read
 * @returns undefined if it is not a valid number of its country
 */
export function readPhoneNumber(text: string, country: CountryCode | undefined): ReadNumber | undefined {
  const dialed = text.replace(/^tel:/i, '');
  const asWritten = parseNumber(dialed, country);
  if (asWritten?.isValid()) return toReadNumber(asWritten);
  // Not a number of the country: the country code may be written with 00, or without any prefix.
  const [, written = '', rest = ''] = /^([\d\s().\-/]*)(.*)$/s.exec(dialed) ?? [];
  const digits = written.replace(/\D/g, '');
  const international = /^(?:00)?[1-9]\d{7,14}$/.test(digits)
    ? parseNumber(`+${digits.replace(/^00/, '')} ${rest}`)
    : undefined;
  if (international?.isValid()) return toReadNumber(international);
  return asWritten?.isPossible() ? toReadNumber(asWritten) : undefined;
}

function parseNumber(text: string, country?: CountryCode): PhoneNumber | undefined {
  return parsePhoneNumberFromString(text, { extract: false, ...(country ? { defaultCountry: country } : {}) });
}

function toReadNumber({ number, ext }: PhoneNumber): ReadNumber {
  return { number, ...(ext ? { extension: ext } : {}) };
}

/** Returns the digits that numbers of a country begin with in E.164. */
export const getCallingCode = (country: CountryCode): string => getCountryCallingCode(country);

/**
 * Returns the country of a number in E.164; undefined for numbers without a country, such as those
 * of satellites.
 */
export function findCountry(e164: string): CountryCode | undefined {
  return parsePhoneNumberFromString(e164)?.country;
}
