// What the job of calendars works with, and bookings for it, without a server.
import { v7 as uuidv7 } from 'uuid';
import { openCalendars } from '../../app/calendar-provider.ts';
import { Pool } from '../../db/client/pool.ts';
import { endBooking, insertBooking } from '../../db/scheduling/bookings.ts';
import { placeCalendarOrder } from '../../db/scheduling/calendar-orders.ts';
import { saveCalendar } from '../../db/scheduling/calendars.ts';
import type { JobContext, JobPools, TenantJobContext } from '../../jobs/runner.ts';
import type { CalendarServices } from '../../jobs/scheduling/calendars.ts';
import { Secrets } from '../../runtime/credentials/secrets.ts';
import { OutgoingClient } from '../../runtime/outbound/client.ts';
import { contextOf } from './job-runs.ts';
import type { TestCalendar } from './radicale.ts';
import { database, newUser, type Tenant } from './tenants.ts';

const secrets = new Secrets('5e'.repeat(32));

/** A server that runs the job. */
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
    context: (more) => contextOf('calendars', pools, more),
    close: async () => void (await Promise.all([platform.close(1), tenants.close(1)])),
  };
}

/** A user with a calendar. @returns the user's id */
export async function newOwner(
  tenant: Tenant,
  { url, username, password }: Pick<TestCalendar, 'url' | 'username' | 'password'>,
): Promise<string> {
  const { id: userId } = await newUser(tenant);
  const sealedPassword = secrets.encrypt(password);
  const calendar = { userId, provider: 'caldav' as const, url, username, sealedPassword };
  await saveCalendar(database(), tenant.companyId, calendar, new Date());
  return userId;
}

/** A booking, and the order to write it into the calendar of its user. @returns its id */
export async function newOrderedBooking({ companyId }: Tenant, userId: string, now = new Date()): Promise<string> {
  const id = uuidv7();
  const start = new Date(now.getTime() + 86_400_000);
  await database().begin(async (sql) => {
    await insertBooking(
      sql,
      { companyId, testMode: false },
      {
        id,
        status: 'confirmed',
        user_id: userId,
        pool_id: null,
        policy_id: id,
        start_at: start,
        end_at: new Date(start.getTime() + 1_800_000),
        timezone: 'UTC',
        attendee_name: 'Sara Ali',
        attendee_email: 'sara@example.com',
        attendee_phone: null,
        attendee_timezone: null,
        attendee_locale: null,
        meeting_title: 'First call',
        meeting_description: null,
        location_kind: 'video',
        location: null,
        meeting_url: null,
        provider: 'caldav',
        calendar_event_link: null,
        object: null,
        record_id: null,
        rescheduled_from: null,
        rescheduled_to: null,
        cancelled_at: null,
        cancellation_reason: null,
        invitation_id: id,
        invitation_sequence: 0,
        created_at: now,
        updated_at: now,
      },
      { kind: 'system', id: 'tests', name: null },
    );
    await placeCalendarOrder(sql, companyId, id, userId, 'write', now);
  });
  return id;
}

/** Cancels a booking, and has its event removed. */
export async function cancelOrderedBooking(
  { companyId }: Tenant,
  userId: string,
  id: string,
  now = new Date(),
): Promise<void> {
  await database().begin(async (sql) => {
    const cancelled = {
      status: 'cancelled' as const,
      rescheduled_to: null,
      cancelled_at: now,
      cancellation_reason: null,
    };
    await endBooking(sql, { companyId, testMode: false }, id, { ...cancelled, invitation_sequence: 1 }, now);
    await placeCalendarOrder(sql, companyId, id, userId, 'remove', now);
  });
}
