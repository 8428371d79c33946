// Parses phone numbers and email addresses into their stored form.
import { buildFieldProblem, checkEmail, checkPhone, type FieldProblem } from '../objects/field-values.ts';
import { findCallingCountry } from '../objects/phone-numbers.ts';

/**
 * @param field the field name for error messages
 * @param country of the company; numbers without a country code are read as numbers of this country
 * @returns an E.164 number or a lower-case email address, or the problem
 */
export function readAddress(
  kind: 'phone' | 'email',
  field: string,
  text: string,
  country: string | null,
): { value: string } | { problem: FieldProblem } {
  const checked = kind === 'email' ? checkEmail(text.trim()) : checkPhone(text.trim(), findCallingCountry(country));
  if ('fault' in checked)
    return { problem: buildFieldProblem(field, checked.fault.code, checked.fault.rule, checked.fault) };
  return { value: String(checked.value) };
}
