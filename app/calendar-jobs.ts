// Joins calendars outside of the server to settings, pools and secrets.

import type { Pool } from '../db/client/pool.ts';
import { startCalendars } from '../jobs/scheduling/calendars.ts';
import type { Config } from '../runtime/config.ts';
import type { Secrets } from '../runtime/credentials/secrets.ts';
import { OutgoingClient } from '../runtime/outbound/client.ts';
import type { Log } from '../runtime/telemetry/log.ts';
import { openCalendars } from './calendar-provider.ts';
import { type DatabaseSettings, openCalendarsPool } from './database.ts';

/** What calls calendars. */
export function calendarClient({ calendarAllowPrivate }: Pick<Config, 'calendarAllowPrivate'>): OutgoingClient {
  return new OutgoingClient({ privateAddresses: calendarAllowPrivate ? 'allowed' : 'refused' });
}

/**
 * @param platform finds whose turn it is
 * @returns a function that ends it, once what is on its way has ended or a few seconds have passed
 */
export function openCalendarJobs(
  config: Config,
  settings: DatabaseSettings,
  platform: Pool,
  secrets: Secrets,
  log: Log,
): () => Promise<void> {
  const tenants = openCalendarsPool(settings);
  const calendars = openCalendars(calendarClient(config));
  const decrypt = (sealed: string): string => secrets.decrypt(sealed);
  const stop = startCalendars({ platform, tenants, calendars, decrypt, log, now: () => new Date() });
  return async () => {
    await stop();
    await tenants.close(1);
  };
}
