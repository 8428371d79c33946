// Relative dates such as last_7_days: the days that they mean, in the time zone of the workspace.
import { Temporal } from 'temporal-polyfill';
import {
  type Condition,
  type GivenCondition,
  type GivenValue,
  isRelated,
  mapLeaves,
  type Related,
  type RelativeDate,
  type Tree,
} from './filter-tree.ts';
import { isSlaStatus, resolveSlaStatus } from './sla-conditions.ts';

/** The time and zone on which relative dates depend. */
export interface Clock {
  now: Date;
  /** An IANA name. */
  timezone: string;
}

/** The first and the last day of each period around a day. */
const periods: Readonly<Record<string, (today: Temporal.PlainDate) => [Temporal.PlainDate, Temporal.PlainDate]>> = {
  today: (today) => [today, today],
  this_week: (today) => [today.subtract({ days: today.dayOfWeek - 1 }), today.add({ days: 7 - today.dayOfWeek })],
  this_month: (today) => monthsFrom(today.with({ day: 1 }), 1),
  last_month: (today) => monthsFrom(today.with({ day: 1 }).subtract({ months: 1 }), 1),
  this_quarter: (today) => monthsFrom(today.with({ day: 1, month: today.month - ((today.month - 1) % 3) }), 3),
  this_year: (today) => monthsFrom(today.with({ day: 1, month: 1 }), 12),
};

const monthsFrom = (first: Temporal.PlainDate, months: number): [Temporal.PlainDate, Temporal.PlainDate] => [
  first,
  first.add({ months }).subtract({ days: 1 }),
];

/** The names in messages. */
export const relativeNames = ['last_N_days', 'next_N_days', ...Object.keys(periods)];
const mostDays = 3650;
const numberOfDays = /^(last|next)_([1-9]\d{0,3})_days$/;

/** Returns true if there is a relative date of this name. */
export function isRelativeName(name: string): boolean {
  return Object.hasOwn(periods, name) || Number(numberOfDays.exec(name)?.[2] ?? Number.NaN) <= mostDays;
}

/** Returns the first and the last day of a relative date. */
function computeDayRange(name: string, today: Temporal.PlainDate): [Temporal.PlainDate, Temporal.PlainDate] {
  const [, direction, count] = numberOfDays.exec(name) ?? [];
  const days = Number(count) - 1;
  if (direction === 'last') return [today.subtract({ days }), today];
  if (direction === 'next') return [today, today.add({ days })];
  const period = periods[name];
  if (!period) throw new Error(`there is no relative date ${name}`);
  return period(today);
}

interface Bounds {
  /** The first day or instant. */
  from: string;
  /** The first day or instant after it. */
  until: string;
}

/**
 * Returns the days of a relative date. For a field of times, from midnight to midnight in the
 * workspace's time zone.
 */
export function resolveRelativeDate({ relative, ofDates }: RelativeDate, { now, timezone }: Clock): Bounds {
  const today = Temporal.Instant.fromEpochMilliseconds(now.getTime()).toZonedDateTimeISO(timezone).toPlainDate();
  const [first, last] = computeDayRange(relative, today);
  // A day begins at its first instant, even if the clocks are set forward at midnight.
  const begin = (day: Temporal.PlainDate): string =>
    ofDates ? day.toString() : new Date(day.toZonedDateTime(timezone).epochMilliseconds).toISOString();
  return { from: begin(first), until: begin(last.add({ days: 1 })) };
}

/** Replaces the relative dates of a filter by their current days, and SLA statuses by deadlines. */
export function resolveRelativeDates(filter: Tree<GivenCondition>, clock: Clock): Tree<Condition>;
export function resolveRelativeDates(
  filter: Tree<GivenCondition | Related<GivenCondition>>,
  clock: Clock,
): Tree<Condition | Related<Condition>>;
export function resolveRelativeDates(
  filter: Tree<GivenCondition | Related<GivenCondition>>,
  clock: Clock,
): Tree<Condition | Related<Condition>> {
  const resolveOne = (condition: GivenCondition): Tree<Condition> => {
    if (isSlaStatus(condition)) return resolveSlaStatus(condition as Condition, clock.now);
    return isResolved(condition) ? condition : resolve(condition, clock);
  };
  return mapLeaves<GivenCondition | Related<GivenCondition>, Condition | Related<Condition>>(filter, (leaf) =>
    isRelated(leaf) ? { ...leaf, filter: mapLeaves(leaf.filter, resolveOne) } : resolveOne(leaf),
  );
}

/** Returns true if a condition means the same at any time. */
export function isResolved(condition: GivenCondition): condition is Condition {
  if (isSlaStatus(condition)) return false;
  if (condition.op === 'between') return typeof condition.low !== 'object' && typeof condition.high !== 'object';
  return !('value' in condition) || typeof condition.value !== 'object';
}

/**
 * Compares with the period of a relative date: a time in it is equal, a time after it is greater.
 */
function resolve(condition: GivenCondition, clock: Clock): Tree<Condition> {
  const { field, as } = condition;
  const same = as ? { field, as } : { field };
  const compare = (op: 'gt' | 'gte' | 'lt' | 'lte', value: GivenValue): Condition => {
    if (typeof value !== 'object') return { ...same, op, value };
    const { from, until } = resolveRelativeDate(value, clock);
    if (op === 'gt') return { ...same, op: 'gte', value: until };
    if (op === 'lte') return { ...same, op: 'lt', value: until };
    return { ...same, op, value: from };
  };
  const isBetween = (low: GivenValue, high: GivenValue): Tree<Condition> => ({
    and: [compare('gte', low), compare('lte', high)],
  });
  switch (condition.op) {
    case 'between':
      return isBetween(condition.low, condition.high);
    case 'eq':
      return isBetween(condition.value, condition.value);
    case 'neq':
      return isOutside(isBetween(condition.value, condition.value), same);
    case 'gt':
    case 'gte':
    case 'lt':
    case 'lte':
      return compare(condition.op, condition.value);
    default:
      throw new Error(`${condition.op} takes no relative date`);
  }
}

/**
 * Returns the condition that a value is outside of the period or missing. It excludes texts that
 * are not dates.
 */
function isOutside(period: Tree<Condition>, same: Pick<Condition, 'field' | 'as'>): Tree<Condition> {
  if (!same.as) return { not: period };
  const isReadable = { or: [true, false].map((isNull): Condition => ({ ...same, op: 'is_null', isNull })) };
  return { and: [{ not: period }, isReadable] };
}
