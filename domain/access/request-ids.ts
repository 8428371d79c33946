// Times in ids of requests, and in others that are UUIDs of version 7.

/** Returns the time of a request in milliseconds. */
export function toRequestTime(id: string): number {
  return Number.parseInt(id.slice(0, 8) + id.slice(9, 13), 16);
}

/** Returns the lowest id of a millisecond. */
export const toLowestId = (milliseconds: number): string => toId(milliseconds, '-0000-0000-000000000000');

/** Returns the highest id of a millisecond. */
export const toHighestId = (milliseconds: number): string => toId(milliseconds, '-ffff-ffff-ffffffffffff');

/** The last millisecond that an id can contain. */
const maxTime = 2 ** 48 - 1;

function toId(milliseconds: number, rest: string): string {
  const time = Math.min(Math.max(0, milliseconds), maxTime).toString(16).padStart(12, '0');
  return `${time.slice(0, 8)}-${time.slice(8)}${rest}`;
}
