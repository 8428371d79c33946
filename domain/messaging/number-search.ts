// Converts a typed part of a phone number to LIKE patterns.
import { findCallingCountry, getCallingCode } from '../objects/phone-numbers.ts';

/**
 * Returns LIKE patterns for E.164 numbers. A part that starts with `+` or `00` is a prefix. A part
 * with a single leading 0 may be in national format. Any other part may occur anywhere.
 * @param search digits and separators
 * @param country of the company, as given at onboarding
 */
export function buildPatterns(search: string, country: string | null): string[] {
  const digits = search.replace(/\D/g, '');
  if (search.includes('+')) return [`+${digits}%`];
  const anywhere = `%${digits}%`;
  if (digits.startsWith('00')) return [anywhere, `+${digits.slice(2)}%`];
  const home = findCallingCountry(country);
  if (!digits.startsWith('0') || !home) return [anywhere];
  return [anywhere, `+${getCallingCode(home)}${digits.slice(1)}%`];
}
