// Slots: times that can be booked, to look at, or with tokens for holds and bookings.

import { findTimezoneProblems } from '../../domain/scheduling/policies.ts';
import { validationFailed } from '../../runtime/errors.ts';
import type { Handler } from '../../runtime/handler.ts';
import { findPolicies, findUsersIn, parseIds, resolveWindow } from '../../services/scheduling/bookable-users.ts';
import {
  findAlternatives,
  findOffers,
  findSlotsWithin,
  getFirstStretch,
  type OfferTerms,
  openPool,
} from '../../services/scheduling/slot-offers.ts';

const mostPlainSlots = 500;

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
  const { slots } = await findSlotsWithin(call, opened, users, within, terms.minutes, body.limit, { people });
  return {
    status: 200,
    data: {
      pool_id: opened.pool.id,
      policy_id: policy.id,
      exposure: terms.exposure,
      slots: findOffers(call, opened, slots, terms),
      alternatives: slots.length === 0 ? await findAlternatives(call, opened, within.end, terms) : [],
    },
  };
};
