// The time window of an audit log search, from the parameters of a call.

/** A time window. undefined: open on that side. */
export interface Window {
  from: Date | undefined;
  to: Date | undefined;
}

/** Milliseconds by which the time in a request id and the time of its effects may differ. */
const clockToleranceMs = 10_000;

const latestTime = Date.UTC(9999, 11, 31);

/**
 * Returns the time window of a request, from the timestamp in its id. The window is open if the id
 * has no timestamp.
 * @param requestId a UUID
 */
export function toRequestWindow(requestId: string): Window {
  // A UUID of version 7 starts with 48 bits of milliseconds.
  if (requestId[14] !== '7') return { from: undefined, to: undefined };
  const time = Number.parseInt(requestId.slice(0, 8) + requestId.slice(9, 13), 16);
  // The database does not accept times after the year 9999.
  const within = (at: number): Date => new Date(Math.min(at, latestTime));
  return { from: within(time - clockToleranceMs), to: within(time + clockToleranceMs) };
}

/** Returns the intersection of two windows. */
export function intersectWindows(one: Window, other: Window): Window {
  const latest = (times: (Date | undefined)[]) => times.filter((time) => time !== undefined).sort((a, b) => +b - +a)[0];
  const earliest = (times: (Date | undefined)[]) =>
    times.filter((time) => time !== undefined).sort((a, b) => +a - +b)[0];
  return { from: latest([one.from, other.from]), to: earliest([one.to, other.to]) };
}
