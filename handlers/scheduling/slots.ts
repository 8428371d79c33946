// Slots: times that can be booked, to look at, or with tokens for holds and bookings.

import { findTimezoneProblems } from '../../domain/scheduling/policies.ts';
import { countByDate, findMonth } from '../../domain/scheduling/slot-days.ts';
import type { Interval } from '../../domain/service/intervals.ts';
import { ZoneClocks } from '../../domain/service/zone-clocks.ts';
import { validationFailed } from '../../runtime/errors.ts';
import type { Call, Handler } from '../../runtime/handler.ts';
import { findPolicies, findUsersIn, parseIds, resolveWindow } from '../../services/scheduling/bookable-users.ts';
import {
  findAlternatives,
  findOffers,
  findSlotStarts,
  findSlotsWithin,
  getFirstStretch,
  type OfferTerms,
  openPool,
} from '../../services/scheduling/slot-offers.ts';

const mostPlainSlots = 500;
const day = 86_400_000;
/** The maximum of a policy's horizon_days. */
const longestHorizonDays = 365;

export const getSlots: Handler<'getSlots'> = async (call) => {
  const { now } = call;
  const { query } = call.request;
  const within = resolveWindow(now, query.from, query.to);
  const ids = parseIds('member_ids', query.member_ids);
  const users = await findUsersIn(call, 'member_ids', ids, { kind: 'company' });
  const policies = await findPolicies(call, query.policy_id);
  const { slots, truncated } = await findSlotsWithin(call, policies, users, within, undefined, mostPlainSlots);
  return {
    status: 200,
    data: {
      policy_id: policies.policy.id,
      from: new Date(within.start).toISOString(),
      to: new Date(within.end).toISOString(),
      slots: slots.map(({ start, end, userIds }) => ({
        start_at: new Date(start).toISOString(),
        end_at: new Date(end).toISOString(),
        user_ids: userIds,
      })),
      truncated,
    },
  };
};

export const searchSlots: Handler<'searchSlots'> = async (call) => {
  const { now } = call;
  const { body } = call.request;
  const within = resolveWindow(now, body.from, body.to);
  const problems = body.timezone === undefined ? [] : findTimezoneProblems('timezone', body.timezone);
  if (problems.length > 0) throw validationFailed(problems, 400);
  const opened = await openPool(call, body.pool_id, body.policy_id, getFirstStretch(within));
  const { policy, users, people } = opened;
  const terms: OfferTerms = {
    exposure: body.exposure ?? policy.exposure,
    minutes: body.duration_minutes,
    timezone: body.timezone ?? null,
  };
  // One more than requested: the next search continues with it.
  const found = await findSlotsWithin(call, opened, users, within, terms.minutes, body.limit + 1, { people });
  const slots = found.slots.slice(0, body.limit);
  const next = found.slots[body.limit];
  return {
    status: 200,
    data: {
      pool_id: opened.pool.id,
      policy_id: policy.id,
      exposure: terms.exposure,
      slots: findOffers(call, opened, slots, terms),
      truncated: next !== undefined,
      next_from: next === undefined ? null : new Date(next.start).toISOString(),
      alternatives: slots.length === 0 ? await findAlternatives(call, opened, within.end, terms) : [],
    },
  };
};

export const getSlotDays: Handler<'getSlotDays'> = async (call) => {
  const { pool_id: poolId, policy_id: policyId, month: name, timezone } = call.request.query;
  const problems = timezone === undefined ? [] : findTimezoneProblems('timezone', timezone);
  if (problems.length > 0) throw validationFailed(problems, 400);
  const clocks = new ZoneClocks();
  // A month in UTC, extended by the largest offset and the longest meeting; read as far as slots are
  // offered.
  const [year = 0, number = 1] = name.split('-').map(Number);
  const around = { start: Date.UTC(year, number - 1) - 2 * day, end: Date.UTC(year, number) + 3 * day };
  const opened = await openPool(call, poolId, policyId, clipToOffers(call, around));
  const month = findMonth(name, timezone ?? opened.policy.timezone, clocks);
  const starts = findSlotStarts(call, opened, month.within, clocks);
  return {
    status: 200,
    data: {
      pool_id: opened.pool.id,
      policy_id: opened.policy.id,
      month: name,
      timezone: timezone ?? opened.policy.timezone,
      days: countByDate(month, starts).map(({ date, slots, firstStart }) => ({
        date,
        slots,
        first_start_at: firstStart === null ? null : new Date(firstStart).toISOString(),
      })),
    },
  };
};

/** Returns the part of an interval in which slots can begin or end, whatever the policy; maybe empty. */
function clipToOffers({ now }: Pick<Call, 'now'>, { start, end }: Interval): Interval {
  const latest = now.getTime() + (longestHorizonDays + 1) * day;
  const from = Math.min(Math.max(start, now.getTime()), latest);
  return { start: from, end: Math.max(from, Math.min(end, latest)) };
}
