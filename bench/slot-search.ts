// P11: the slot search algorithm without the database: full calendars over sixty days.
import { type Busy, findSlots, type Member, type SlotRules } from '../domain/scheduling/slots.ts';
import type { Result } from './report.ts';
import { median, quantile } from './rounds.ts';

const minute = 60_000;
const day = 24 * 60 * minute;
const days = 60;
const busyEntries = 500;
const searches = 300;
const warmUp = 100;
const start = Date.UTC(2026, 8, 21, 9, 17);

/** Creates a member. The days of members fill up in different orders and include a DST change. */
function member(index: number): Member {
  const busy = Array.from({ length: busyEntries }, (_, entry): Busy => {
    const from = start + Math.floor((entry * days * day) / busyEntries) + ((index * 7919) % 1440) * minute;
    return { start: from, end: from + (1 + ((entry + index) % 3)) * 60 * minute, reason: 'booking' };
  });
  return {
    userId: `member ${index}`,
    hours: {
      timezone: 'Europe/Berlin',
      weekly: [1, 2, 3, 4, 5].map((weekday) => ({ weekday, start: '09:00', end: '17:00' })),
    },
    daysOff: [{ from: '2026-10-03', to: '2026-10-03', reason: 'holiday' }],
    daysOffTimezone: 'Europe/Berlin',
    busy,
    bookedStarts: busy.map((entry) => entry.start),
  };
}

const rules: SlotRules = {
  durationMinutes: 30,
  intervalMinutes: 30,
  bufferBeforeMinutes: 10,
  bufferAfterMinutes: 10,
  maxPerDay: 9,
  timezone: 'Europe/Berlin',
  within: { start, end: start + days * day },
};

export async function slotSearch(): Promise<Result> {
  const [some, twice] = [50, 100].map((count) => Array.from({ length: count }, (_, index) => member(index)));
  const times = { some: [] as number[], twice: [] as number[] };
  for (let search = -warmUp; search < searches; search += 1) {
    // In turn, so that a busy machine affects both equally; without a limit, so that all days are
    // examined.
    for (const [name, members] of [
      ['some', some ?? []],
      ['twice', twice ?? []],
    ] as const) {
      const began = performance.now();
      const { slots } = findSlots(members, rules, Number.POSITIVE_INFINITY);
      const took = performance.now() - began;
      if (slots.length === 0) throw new Error('nobody had a slot, so that nothing was measured');
      if (search >= 0) times[name].push(took);
    }
  }
  const ratio = median(times.twice) / median(times.some);
  return {
    name: 'slot-search',
    figure: 'P11',
    what: 'slot search without the database, 60 days with 500 busy entries for each member',
    settings: { searches, days, busyEntries },
    sides: [],
    ratios: [],
    values: [
      { name: '50 members, median', value: median(times.some), unit: 'ms', target: 50 },
      { name: '50 members, 99 %', value: quantile(times.some, 0.99), unit: 'ms', target: 50 },
      { name: '100 members, median', value: median(times.twice), unit: 'ms', target: 50 },
      { name: '100 members of 50 members, medians', value: ratio, unit: '×', target: 2.2 },
    ],
  };
}
