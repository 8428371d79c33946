// The share of accepted attempts within the last 24 hours, from counts by the hour.

const hourMs = 3_600_000;
/** The hours that count, including the current one. */
const window = 24;

/** Three numbers for each hour: hours since 1970, attempts, successes. */
export type AttemptCounts = readonly number[];

interface HourCount {
  hour: number;
  attempts: number;
  succeeded: number;
}

/** Adds attempts to the current hour, and drops hours that no longer count. */
export function countAttempts(
  before: AttemptCounts,
  { attempts, succeeded }: { attempts: number; succeeded: number },
  now: Date,
): number[] {
  const hour = toHour(now);
  const kept = listHours(before, now);
  const current = kept.find((each) => each.hour === hour) ?? { hour, attempts: 0, succeeded: 0 };
  const others = kept.filter((each) => each.hour !== hour);
  const counted = { hour, attempts: current.attempts + attempts, succeeded: current.succeeded + succeeded };
  return [...others, counted].flatMap((each) => [each.hour, each.attempts, each.succeeded]);
}

/** Returns successes by attempts, from 0 to 1; null without attempts. */
export function computeSuccessRate(counts: AttemptCounts, now: Date): number | null {
  const hours = listHours(counts, now);
  const attempts = hours.reduce((sum, each) => sum + each.attempts, 0);
  return attempts === 0 ? null : hours.reduce((sum, each) => sum + each.succeeded, 0) / attempts;
}

/** Hours in the future were counted by a clock of test mode that was removed since. */
function listHours(counts: AttemptCounts, now: Date): HourCount[] {
  const current = toHour(now);
  return Array.from({ length: Math.floor(counts.length / 3) }, (_, index) => {
    const [hour = 0, attempts = 0, succeeded = 0] = counts.slice(3 * index, 3 * index + 3);
    return { hour, attempts, succeeded };
  }).filter(({ hour }) => hour <= current && hour > current - window);
}

const toHour = (time: Date): number => Math.floor(time.getTime() / hourMs);
