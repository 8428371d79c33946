// Formats amounts for people.

/** @param minor in minor units, such as cents @param currency an ISO 4217 code with two decimals */
export const formatMoney = (minor: number, currency: string): string => `${(minor / 100).toFixed(2)} ${currency}`;
