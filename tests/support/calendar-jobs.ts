// The services of the calendar job, and bookings for it, without a server.
import { v7 as uuidv7 } from 'uuid';
import { openCalendars } from '../../app/calendar-provider.ts';
import { Pool } from '../../db/client/pool.ts';
import { endBooking, insertBooking } from '../../db/scheduling/bookings.ts';
import { enqueueCalendarWrite } from '../../db/scheduling/calendar-orders.ts';
import { saveCalendar } from '../../db/scheduling/calendars.ts';
import type { JobContext, JobPools, TenantJobContext } from '../../jobs/runner.ts';
import type { CalendarServices } from '../../jobs/scheduling/calendars.ts';
import { Secrets } from '../../runtime/credentials/secrets.ts';
import { OutgoingClient } from '../../runtime/outbound/client.ts';
import { buildJobContext } from './job-runs.ts';
import type { TestCalendar } from './radicale.ts';
import { newUser, rowDatabase, type Tenant } from './tenants.ts';

const secrets = new Secrets('5e'.repeat(32));

/** The environment of a server that runs the job. */
export interface CalendarServer {
  pools: JobPools;
  services: CalendarServices;
  context(more?: Partial<Pick<JobContext, 'now'>>): TenantJobContext;
  close(): Promise<void>;
}

/** @param url of the database */
export function openCalendarServer(url: string): CalendarServer {
  const shared = { url, prepare: true, spread: false, wait: 10_000, statementTimeout: 5000 };
  const platform = new Pool({ ...shared, role: 'crm_platform', lanes: 1 });
  const tenants = new Pool({ ...shared, role: 'crm_app', name: 'calendars', lanes: 2 });
  const calendars = openCalendars(new OutgoingClient({ privateAddresses: 'allowed' }));
  const decrypt = (sealed: string): string => secrets.decrypt(sealed);
  const pools = { platform, tenants };
  return {
    pools,
    services: { calendars, decrypt },
    context: (more) => buildJobContext('calendars', pools, more),
    close: async () => void (await Promise.all([platform.close(1), tenants.close(1)])),
  };
}

/**
 * Creates a user with a calendar.
 * @returns the user's id
 */
export async function newOwner(
  tenant: Tenant,
  { url, username, password }: Pick<TestCalendar, 'url' | 'username' | 'password'>,
): Promise<string> {
  const { id: userId } = await newUser(tenant);
  const sealedPassword = secrets.encrypt(password);
  const calendar = { userId, provider: 'caldav' as const, url, username, sealedPassword };
  await saveCalendar(rowDatabase(), tenant.companyId, calendar, new Date());
  return userId;
}

/**
 * Creates a booking with the operation that writes it into its user's calendar.
 * @returns its id
 */
export async function newOrderedBooking({ companyId }: Tenant, userId: string, now = new Date()): Promise<string> {
  const id = uuidv7();
  const start = new Date(now.getTime() + 86_400_000);
  await rowDatabase().begin(async (sql) => {
    await insertBooking(
      sql,
      { companyId, testMode: false },
      {
        id,
        status: 'confirmed',
        userId,
        poolId: null,
        policyId: id,
        startAt: start,
        endAt: new Date(start.getTime() + 1_800_000),
        timezone: 'UTC',
        attendeeName: 'Sara Ali',
        attendeeEmail: 'sara@example.com',
        attendeePhone: null,
        attendeeTimezone: null,
        attendeeLocale: null,
        guests: [],
        answers: [],
        metadata: {},
        meetingTitle: 'First call',
        meetingDescription: null,
        locationKind: 'video',
        location: null,
        meetingUrl: null,
        provider: 'caldav',
        calendarEventLink: null,
        object: null,
        recordId: null,
        rescheduledFrom: null,
        rescheduledTo: null,
        cancelledAt: null,
        cancellationReason: null,
        invitationId: id,
        invitationSequence: 0,
        createdAt: now,
        updatedAt: now,
      },
      { kind: 'system', id: 'tests', name: null },
    );
    await enqueueCalendarWrite(sql, companyId, id, userId, 'write', now);
  });
  return id;
}

/** Cancels a booking with the operation that removes its event. */
export async function cancelOrderedBooking(
  { companyId }: Tenant,
  userId: string,
  id: string,
  now = new Date(),
): Promise<void> {
  await rowDatabase().begin(async (sql) => {
    const cancelled = {
      status: 'cancelled' as const,
      rescheduledTo: null,
      cancelledAt: now,
      cancellationReason: null,
    };
    await endBooking(sql, { companyId, testMode: false }, id, { ...cancelled, invitationSequence: 1 }, now);
    await enqueueCalendarWrite(sql, companyId, id, userId, 'remove', now);
  });
}
