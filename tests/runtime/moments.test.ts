// Timestamps from PostgreSQL to the response.
import fc from 'fast-check';
import { describe, expect, inject, test } from 'vitest';
import { parseTimestamp, Timestamp } from '../../db/client/timestamps.ts';
import { inDatabase } from '../support/databases.ts';

const firstOfYearOne = Date.parse('0001-01-01T00:00:00.000Z');
const lastOfYear9999 = Date.parse('9999-12-31T23:59:59.999Z');
const times = fc.oneof(
  fc.integer({ min: firstOfYearOne, max: lastOfYear9999 }),
  fc.integer({ min: Date.UTC(2020), max: Date.UTC(2030) }),
  fc.constantFrom(firstOfYearOne, lastOfYear9999, 0, -1, 1, Date.parse('0999-12-31T23:59:59.999Z')),
);

describe('A timestamp', () => {
  test('formats a timestamp like a Date', () => {
    const written = fc.property(times, (time) => {
      expect(new Timestamp(time).toISOString()).toBe(new Date(time).toISOString());
      expect(JSON.stringify({ at: new Timestamp(time) })).toBe(JSON.stringify({ at: new Date(time) }));
    });
    fc.assert(written, { numRuns: 5000 });
    expect(() => new Timestamp(Number.NaN).toISOString()).toThrow(RangeError);
  });

  test('formats a timestamp with its new value after a change', () => {
    const moment = new Timestamp(0);
    moment.toISOString();
    moment.setUTCFullYear(2026);
    expect(moment.toISOString()).toBe('2026-01-01T00:00:00.000Z');
  });

  test('parses the timestamps of PostgreSQL to the millisecond', async () => {
    const given = fc.sample(fc.tuple(times, fc.integer({ min: 0, max: 999 })), 3000);
    await inDatabase(inject('databaseUrl'), async (sql) => {
      await sql`set time zone 'UTC'`;
      const rows = await sql<{ written: string }[]>`
        select ('1970-01-01T00:00:00Z'::timestamptz + milliseconds / 86400000 * interval '1 day'
          + milliseconds % 86400000 * interval '1 millisecond' + microseconds * interval '1 microsecond')::text as written
        from unnest(${given.map(([time]) => time)}::bigint[], ${given.map(([, rest]) => rest)}::int[])
          with ordinality as given (milliseconds, microseconds, place)
        order by place`;
      expect(rows.length).toBe(given.length);
      for (const [place, { written }] of rows.entries())
        expect(parseTimestamp(written).getTime(), written).toBe(given[place]?.[0]);
    });
  });

  test.each(['infinity', '-infinity', '0044-03-15 12:00:00+00 BC'])(
    'returns an invalid timestamp if no Date can represent it: %s',
    (written) => {
      expect(parseTimestamp(written).getTime()).toBeNaN();
    },
  );
});
