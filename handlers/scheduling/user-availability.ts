// Free times of people, and the reasons why others are not free.

import { findDefaultPolicy } from '../../db/scheduling/policies.ts';
import { type Availability, describeAvailability } from '../../domain/scheduling/user-availability.ts';
import type { Interval } from '../../domain/service/intervals.ts';
import { ZoneClocks } from '../../domain/service/zone-clocks.ts';
import type { components } from '../../generated/api.ts';
import type { Handler } from '../../runtime/handler.ts';
import {
  findPeople,
  findUsersIn,
  type Person,
  parseIds,
  resolveWindow,
} from '../../services/scheduling/bookable-users.ts';

export const getUserAvailability: Handler<'getUserAvailability'> = async (call) => {
  const { now } = call;
  const { query } = call.request;
  const within = resolveWindow(now, query.from, query.to);
  const ids = parseIds('user_ids', query.user_ids);
  const [users, standard] = await Promise.all([
    findUsersIn(call, 'user_ids', ids, { kind: 'company' }),
    findDefaultPolicy(call.db.sql, call.caller.companyId),
  ]);
  const clocks = new ZoneClocks();
  const people = await findPeople(call, users, { policy: undefined, standard }, within, { separateBuffers: true });
  return {
    status: 200,
    data: {
      from: new Date(within.start).toISOString(),
      to: new Date(within.end).toISOString(),
      timezone: 'UTC',
      users: people.map((person) => toAvailabilityResponse(person, describeAvailability(person, within, clocks))),
    },
  };
};

function toAvailabilityResponse(person: Person, described: Availability): components['schemas']['UserAvailability'] {
  return {
    user_id: person.userId,
    full_name: person.fullName,
    bookable: described.bookable,
    reasons: described.reasons,
    timezone: person.hours.timezone,
    working_hours: described.workingHours.map(toRange),
    free: described.free.map(toRange),
    busy: described.busy.map(({ reason, ...interval }) => ({ ...toRange(interval), reason })),
    calendar: {
      status: person.calendar === 'not_read' ? 'connected' : person.calendar,
      provider: person.provider,
      checked_at: person.checkedAt?.toISOString() ?? null,
    },
  };
}

const toRange = ({ start, end }: Interval) => ({
  start_at: new Date(start).toISOString(),
  end_at: new Date(end).toISOString(),
});
