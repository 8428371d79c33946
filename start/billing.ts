// Joins what becomes of subscriptions by themselves to pools, provider and storage.
import type { Pool } from '../db/connect.ts';
import { startBilling } from '../jobs/billing.ts';
import { testProvider } from '../payments/test-provider.ts';
import type { FileStorage } from '../runtime/files/storage.ts';
import type { Log } from '../runtime/log.ts';
import { type DatabaseSettings, openPaymentsPool, openPurgePool } from './database.ts';

/** @returns a function that ends it, once the step on its way has ended or a few seconds have passed */
export function openBilling(
  settings: DatabaseSettings,
  platform: Pool,
  storage: FileStorage,
  baseUrl: string,
  log: Log,
): () => Promise<void> {
  const tenants = openPaymentsPool(settings);
  const purges = openPurgePool(settings);
  const provider = testProvider(tenants, () => baseUrl);
  const removeFile = (key: string): Promise<void> => storage.remove(key);
  const stop = startBilling({ platform, tenants, purges, provider, removeFile, log });
  return async () => {
    await stop();
    await Promise.all([tenants.close(1), purges.close(1)]);
  };
}
