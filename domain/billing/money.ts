// Amounts as people read them.

/** @param minor in minor units, such as cents @param currency ISO 4217, of two decimals */
export const money = (minor: number, currency: string): string => `${(minor / 100).toFixed(2)} ${currency}`;
