// A part of a telephone number as people write it, as patterns that stored numbers fit.
import { callingCodeOf, callingCountry } from '../objects/phone-numbers.ts';

/**
 * Returns patterns of LIKE for numbers in E.164. A part with `+` or `00` in front is how a number begins; one with a
 * single 0 may be a number in national form. Any other part may stand anywhere.
 * @param search digits, and what people put between and before them
 * @param country of the company, as given at onboarding
 */
export function patternsOf(search: string, country: string | null): string[] {
  const digits = search.replace(/\D/g, '');
  if (search.includes('+')) return [`+${digits}%`];
  const anywhere = `%${digits}%`;
  if (digits.startsWith('00')) return [anywhere, `+${digits.slice(2)}%`];
  const home = callingCountry(country);
  if (!digits.startsWith('0') || !home) return [anywhere];
  return [anywhere, `+${callingCodeOf(home)}${digits.slice(1)}%`];
}
