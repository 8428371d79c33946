// Parses phone numbers and email addresses into their stored form.
import { checkEmail, checkPhone, type FieldProblem, fieldProblem } from '../objects/field-values.ts';
import { callingCountry } from '../objects/phone-numbers.ts';

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
  const checked = kind === 'email' ? checkEmail(text.trim()) : checkPhone(text.trim(), callingCountry(country));
  if ('fault' in checked)
    return { problem: fieldProblem(field, checked.fault.code, checked.fault.rule, checked.fault) };
  return { value: String(checked.value) };
}
