// What a search of the audit log asks for, from the parameters of a call.

/** A window of time; undefined: without that end. */
export interface Window {
  from: Date | undefined;
  to: Date | undefined;
}

/** Milliseconds by which the time in a request's id and that of what it did may differ. */
const slack = 10_000;

const latestTime = Date.UTC(9999, 11, 31);

/**
 * The time in which a request did what it did, as its id tells; requests of servers that gave out other ids may have been at any time.
 * @param requestId a UUID
 */
export function windowOfRequest(requestId: string): Window {
  // Version 7 begins with 48 bits of milliseconds.
  if (requestId[14] !== '7') return { from: undefined, to: undefined };
  const time = Number.parseInt(requestId.slice(0, 8) + requestId.slice(9, 13), 16);
  // Beyond the year 9999 the database reads no times, and nothing was requested yet.
  const within = (at: number): Date => new Date(Math.min(at, latestTime));
  return { from: within(time - slack), to: within(time + slack) };
}

/** What is in both. */
export function overlap(one: Window, other: Window): Window {
  const latest = (times: (Date | undefined)[]) => times.filter((time) => time !== undefined).sort((a, b) => +b - +a)[0];
  const earliest = (times: (Date | undefined)[]) =>
    times.filter((time) => time !== undefined).sort((a, b) => +a - +b)[0];
  return { from: latest([one.from, other.from]), to: earliest([one.to, other.to]) };
}
