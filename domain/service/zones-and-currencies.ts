// The time zones and currencies that this server knows.

/**
 * Results of earlier checks: creating a DateTimeFormat costs more than the rest of a validation.
 */
const checkedTimezones = new Map<string, boolean>();
const maxCheckedTimezones = 2_000;
const currencies = new Set(Intl.supportedValuesOf('currency'));

/**
 * Returns true for every name and link of the IANA database that the runtime knows, such as
 * Asia/Kolkata, Europe/Kyiv and Etc/UTC. `Intl.supportedValuesOf` lists only one name of each group
 * of links.
 */
export function isTimezone(name: string): boolean {
  let isKnown = checkedTimezones.get(name);
  if (isKnown === undefined) {
    isKnown = isAcceptedByRuntime(name);
    if (checkedTimezones.size >= maxCheckedTimezones) checkedTimezones.clear();
    checkedTimezones.set(name, isKnown);
  }
  return isKnown;
}

function isAcceptedByRuntime(name: string): boolean {
  // Intl also accepts offsets such as +02:00, which are not names.
  if (!/^[A-Za-z]/.test(name)) return false;
  try {
    return Intl.DateTimeFormat('en', { timeZone: name }) !== undefined;
  } catch {
    return false;
  }
}

/**
 * Currencies whose minor unit is no hundredth, by the decimals of ISO 4217. `Intl` has those of
 * everyday prices instead, which differ for HUF and COP, for example.
 */
const decimals: ReadonlyMap<string, number> = new Map(
  Object.entries({
    0: 'BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF',
    3: 'BHD IQD JOD KWD LYD OMR TND',
    4: 'CLF UYW',
  }).flatMap(([count, codes]) => codes.split(' ').map((code) => [code, Number(count)] as const)),
);

/** Returns how many decimals the minor unit of a currency is, such as 2 for EUR and 0 for JPY. */
export const findDecimals = (code: string): number => decimals.get(code) ?? 2;

/** Returns true for an ISO 4217 currency. */
export function isCurrency(code: string): boolean {
  return currencies.has(code);
}
