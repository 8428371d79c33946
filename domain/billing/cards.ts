// Reads card data from the form of the test provider's pages.
import type { PaymentMethod } from './subscription.ts';

export interface CardForm {
  number: string;
  expiry: string;
  code: string;
}

const brands: readonly [RegExp, string][] = [
  [/^4/, 'visa'],
  [/^5[1-5]|^2[2-7]/, 'mastercard'],
  [/^3[47]/, 'amex'],
];

/**
 * Reads a card.
 * @returns the card without its number and code, or sentences that describe the problems
 */
export function readCard(form: CardForm, now: Date): { card: PaymentMethod | undefined; problems: string[] } {
  const digits = form.number.replace(/[\s-]/g, '');
  const problems: string[] = [];
  if (!/^\d{13,19}$/.test(digits) || !hasCheckDigit(digits))
    problems.push('The card number is incomplete or mistyped.');
  const [, month = '', year = ''] = /^\s*(\d{1,2})\s*\/\s*(?:20)?(\d{2})\s*$/.exec(form.expiry) ?? [];
  const [expMonth, expYear] = [Number(month), 2000 + Number(year)];
  if (month === '' || expMonth < 1 || expMonth > 12)
    problems.push('Enter the expiry date as month and year, for example 12/34.');
  else if (Date.UTC(expYear, expMonth, 1) <= now.getTime()) problems.push('The card has expired.');
  if (!/^\s*\d{3,4}\s*$/.test(form.code)) problems.push('The security code must have three or four digits.');
  if (problems.length > 0) return { card: undefined, problems };
  const brand = brands.find(([pattern]) => pattern.test(digits))?.[1] ?? 'unknown';
  return { card: { brand, last4: digits.slice(-4), exp_month: expMonth, exp_year: expYear }, problems };
}

/** ISO/IEC 7812: every second digit from the right counts twice. */
function hasCheckDigit(digits: string): boolean {
  const values = [...digits].reverse().map((digit, index) => {
    const value = Number(digit) * (index % 2 === 0 ? 1 : 2);
    return value > 9 ? value - 9 : value;
  });
  return values.reduce((total, value) => total + value, 0) % 10 === 0;
}
