// Descriptions of a person's availability, and the reasons against bookings.
import { describe, expect, test } from 'vitest';
import { describeAvailability, type Person } from '../../domain/scheduling/user-availability.ts';

const at = (time: string): number => Date.parse(`2026-11-23T${time}Z`);
const part = (from: string, to: string) => ({ start: at(from), end: at(to) });
/** A Monday in Berlin from nine to five, which is eight to four in UTC. */
const within = part('00:00', '20:00');
const somebody: Person = {
  isActive: true,
  calendar: 'connected',
  hours: { timezone: 'Europe/Berlin', weekly: [{ weekday: 1, start: '09:00', end: '17:00' }] },
  daysOff: [],
  daysOffTimezone: 'Europe/Berlin',
  busy: [],
};

test('describes hours, free time and busy time in order, cut to the request', () => {
  const busy = [
    { ...part('19:00', '23:00'), reason: 'external_event' as const },
    { ...part('09:30', '10:30'), reason: 'reservation' as const },
    { ...part('09:00', '10:00'), reason: 'booking' as const },
    { ...part('10:30', '10:45'), reason: 'buffer' as const },
    { start: at('00:00') - 60_000, end: at('00:00'), reason: 'booking' as const },
  ];
  expect(describeAvailability({ ...somebody, busy }, within)).toEqual({
    bookable: true,
    reasons: [],
    workingHours: [part('08:00', '16:00')],
    free: [part('08:00', '09:00'), part('10:45', '16:00')],
    busy: [busy[2], busy[1], busy[3], { ...part('19:00', '20:00'), reason: 'external_event' }],
  });
});

test.each([
  ['who is not active', { isActive: false }, 'user_inactive'],
  ['whose calendar cannot be read', { calendar: 'error' }, 'calendar_error'],
  ['whose calendar was not read yet', { calendar: 'not_read' }, 'calendar_not_read_yet'],
] as const)('reports no free time for a person %s', (_, person, reason) => {
  expect(describeAvailability({ ...somebody, ...person }, within)).toMatchObject({
    bookable: false,
    reasons: [reason],
    free: [],
    workingHours: [part('08:00', '16:00')],
  });
});

describe('a person who cannot be booked', () => {
  const describeReasons = (person: Partial<Person>, time = within) => {
    const { bookable, reasons } = describeAvailability({ ...somebody, ...person }, time);
    return { bookable, reasons };
  };
  const holiday = { from: '2026-11-23', to: '2026-11-23', reason: 'holiday' as const };

  test.each([
    ['who is not active', { isActive: false }, ['user_inactive']],
    ['whose calendar cannot be read', { calendar: 'error' as const }, ['calendar_error']],
    ['on a holiday', { daysOff: [holiday] }, ['holiday']],
    ['who is away', { daysOff: [{ ...holiday, reason: 'time_off' as const }] }, ['time_off']],
    ['without hours', { hours: { timezone: 'UTC', weekly: [] } }, ['outside_working_hours']],
    [
      'outside of working hours on a holiday',
      { hours: { timezone: 'UTC', weekly: [] }, daysOff: [holiday] },
      ['outside_working_hours'],
    ],
    [
      'whose hours are full, with all causes',
      {
        busy: [
          { ...part('12:00', '17:00'), reason: 'external_event' as const },
          { ...part('07:00', '10:00'), reason: 'booking' as const },
          { ...part('10:00', '11:45'), reason: 'booking' as const },
          { ...part('11:45', '12:00'), reason: 'buffer' as const },
          { ...part('18:00', '19:00'), reason: 'reservation' as const },
        ],
      },
      ['booking', 'external_event', 'buffer'],
    ],
    [
      'with several reasons',
      { isActive: false, calendar: 'error' as const, daysOff: [holiday] },
      ['user_inactive', 'calendar_error', 'holiday'],
    ],
  ])('reports as not bookable a person %s', (_, person, reasons) => {
    expect(describeReasons(person)).toEqual({ bookable: false, reasons });
  });

  test('reports no working hours outside of the hours of the day', () => {
    expect(describeReasons({}, part('16:00', '20:00'))).toEqual({
      bookable: false,
      reasons: ['outside_working_hours'],
    });
  });

  test('books a person without an external calendar in the internal one', () => {
    expect(describeReasons({ calendar: 'not_connected' })).toEqual({
      bookable: true,
      reasons: ['calendar_not_connected'],
    });
  });
});
