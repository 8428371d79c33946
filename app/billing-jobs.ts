// Joins what becomes of subscriptions by themselves to pools, providers and storage.
import type { Pool } from '../db/client/pool.ts';
import { follow } from '../integrations/stripe/follow.ts';
import { startBilling } from '../jobs/billing/subscriptions.ts';
import type { Config } from '../runtime/config.ts';
import type { FileStorage } from '../runtime/files/storage.ts';
import type { Log } from '../runtime/telemetry/log.ts';
import { type DatabaseSettings, openPaymentsPool, openPurgePool } from './database.ts';
import { openPayments } from './payments.ts';

/** @returns a function that ends it, once the step on its way has ended or a few seconds have passed */
export async function openBilling(
  config: Config,
  settings: DatabaseSettings,
  platform: Pool,
  storage: FileStorage,
  log: Log,
): Promise<() => Promise<void>> {
  const tenants = openPaymentsPool(settings);
  const purges = openPurgePool(settings);
  const { provider, followParts } = await openPayments(config, tenants, () => config.baseUrl, log);
  const removeFile = (key: string): Promise<void> => storage.remove(key);
  const stop = startBilling({
    ...{ platform, tenants, purges, provider, removeFile, log },
    follow:
      followParts &&
      (async (companyId, now) => (await follow(followParts, companyId, { ifDue: true }, now)) !== undefined),
  });
  return async () => {
    await stop();
    await Promise.all([tenants.close(1), purges.close(1)]);
  };
}
