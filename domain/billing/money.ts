// Formats amounts for people.
import { findDecimals } from '../service/zones-and-currencies.ts';

/** @param minor in minor units, such as cents @param currency an ISO 4217 code */
export function formatMoney(minor: number, currency: string): string {
  const decimals = findDecimals(currency);
  return `${(minor / 10 ** decimals).toFixed(decimals)} ${currency}`;
}
