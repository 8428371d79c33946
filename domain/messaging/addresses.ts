// Whom messages go to and come from: telephone numbers and email addresses, as they are kept.
import { checkEmail, checkPhone, type FieldProblem, fieldProblem } from '../objects/field-values.ts';
import { callingCountry } from '../objects/phone-numbers.ts';

/**
 * @param field that the problem names
 * @param country of the company, as given at onboarding: numbers without a country code are read as its
 * @returns E.164 or an address in lower case, or what is wrong with it
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
