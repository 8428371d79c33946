// Scheduling of the demo workspace, and two weeks of bookings.
import { buildStandardPolicy, type PolicySettings } from '../scheduling/policies.ts';
import { ZoneClocks } from '../service/zone-clocks.ts';
import type { DemoData } from './data.ts';
import { exampleIds } from './ids.ts';
import { addDays, Random } from './random.ts';
import { demoCompany } from './workspace.ts';
import type { Lead } from './world.ts';

const hour = 3_600_000;
const half = hour / 2;

interface DemoPool {
  id: string;
  name: string;
  description: string;
  members: readonly { user_id: string; weight: number }[];
}

interface DemoBooking {
  id: string;
  status: 'confirmed' | 'completed' | 'no_show' | 'cancelled';
  userId: string;
  startAt: Date;
  endAt: Date;
  title: string;
  attendee: { name: string; email: string | null; phone: string | null };
  leadId: string | null;
  createdAt: Date;
}

export interface DemoMeetings {
  policy: PolicySettings & { id: string };
  pools: DemoPool[];
  bookings: DemoBooking[];
  reservation: { id: string; userId: string; startAt: Date; endAt: Date; expiresAt: Date };
}

const titles = ['First call', 'Roof survey', 'Offer talk', 'Questions about the offer', 'Yield forecast', 'Hand-over'];

const isWorkday = (weekday: number): boolean => weekday >= 1 && weekday <= 5;

/** The same seed, data and time give the same meetings. */
export function buildDemoMeetings(seed: number, { users, leads }: DemoData, now: Date): DemoMeetings {
  const random = new Random(seed);
  const sellers = users.filter(({ role }) => role === 'Sales_Rep').map(({ id }) => id);
  const experts = users.filter(({ role }) => role !== 'Sales_Rep').map(({ id }) => id);
  const known = leads.filter(({ email, lead_status }) => email !== null && lead_status !== 'Disqualified');
  const days = new ZoneClocks().days(demoCompany.timezone, {
    start: addDays(now, -8).getTime(),
    end: addDays(now, 8).getTime(),
  });
  const bookings = days
    .filter(({ weekday }) => isWorkday(weekday))
    .flatMap(({ midnight }) => sellers.flatMap((userId) => inventDay(random, userId, midnight, known, now)));
  const week = days.filter(({ weekday, midnight }) => isWorkday(weekday) && midnight > now.getTime());
  const [first, second] = [week[0]?.midnight ?? now.getTime(), week[1]?.midnight ?? now.getTime()];
  // In the evening, when nothing else is booked.
  const examples = [exampleIds.booking, exampleIds.bookingToCancel].map((id, index) =>
    inventBooking(random, exampleIds.user, first + (18 + index) * hour, random.pick(known), now, id),
  );
  // A day on which the user had no other meetings, because nobody works at night.
  const missed = inventBooking(
    random,
    exampleIds.user,
    addDays(now, -1).getTime(),
    random.pick(known),
    now,
    exampleIds.missedBooking,
  );
  const heldAt = second + 18 * hour;
  return {
    policy: {
      ...buildStandardPolicy(demoCompany.timezone),
      id: exampleIds.schedulingPolicy,
      name: 'Demo call',
      isDefault: false,
      bufferAfterMinutes: 15,
    },
    pools: [
      {
        id: exampleIds.schedulingPool,
        name: 'Sales',
        description: 'All sales representatives',
        members: sellers.map((user_id) => ({ user_id, weight: 1 })),
      },
      {
        id: random.uuid(now),
        name: 'Engineering',
        description: 'Users who know roofs',
        members: experts.map((user_id, index) => ({ user_id, weight: index + 1 })),
      },
    ],
    bookings: [...bookings, ...examples, { ...missed, status: 'completed' as const }],
    reservation: {
      id: exampleIds.reservation,
      userId: exampleIds.user,
      startAt: new Date(heldAt),
      endAt: new Date(heldAt + half),
      // Long enough for readers of the documentation to find it.
      expiresAt: addDays(now, 3650),
    },
  };
}

/** Invents one to four meetings of a person between nine and five. */
function inventDay(random: Random, userId: string, midnight: number, leads: readonly Lead[], now: Date): DemoBooking[] {
  const halves = new Set(Array.from({ length: random.int(1, 4) }, () => random.int(18, 33)));
  return [...halves].map((at) => inventBooking(random, userId, midnight + at * half, random.pick(leads), now));
}

function inventBooking(random: Random, userId: string, start: number, lead: Lead, now: Date, id?: string): DemoBooking {
  const endAt = new Date(start + half);
  const createdAt = new Date(Math.min(start, now.getTime()) - random.int(1, 72) * hour);
  const past = random.weighted({ completed: 12, no_show: 1, cancelled: 2 });
  const status = endAt < now ? past : id === undefined && random.chance(0.1) ? 'cancelled' : 'confirmed';
  return {
    id: id ?? random.uuid(createdAt),
    status,
    userId,
    endAt,
    createdAt,
    startAt: new Date(start),
    title: random.pick(titles),
    attendee: { name: `${lead.first_name} ${lead.last_name}`, email: lead.email, phone: lead.mobile },
    leadId: lead.id,
  };
}
