// Which time zones and currencies there are.
const timezones = new Set([...Intl.supportedValuesOf('timeZone'), 'UTC']);
const currencies = new Set(Intl.supportedValuesOf('currency'));

/** True for an IANA time zone. */
export function isTimezone(name: string): boolean {
  return timezones.has(name);
}

/** True for an ISO 4217 currency. */
export function isCurrency(code: string): boolean {
  return currencies.has(code);
}
