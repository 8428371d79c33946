// Joins the runs of workforces to the operations that their steps are done with.
import type { Pool } from '../db/client/pool.ts';
import { startWorkforces } from '../jobs/automation/workforces.ts';
import type { Database } from '../runtime/database.ts';
import { type Perform, systemCaller } from '../runtime/pipeline/in-process.ts';
import type { Log } from '../runtime/telemetry/log.ts';
import { type DatabaseSettings, openWorkforcesPool } from './database.ts';

/**
 * @param platform finds whose turn it is
 * @returns a function that ends it, once what is on its way has ended or a few seconds have passed
 */
export function openWorkforceJob(
  settings: DatabaseSettings,
  platform: Pool,
  database: Pick<Database, 'findCompany'>,
  perform: Perform,
  log: Log,
): () => Promise<void> {
  const tenants = openWorkforcesPool(settings);
  const stop = startWorkforces({
    ...{ platform, tenants, log, now: () => new Date() },
    async act({ companyId, actor, scopes, ...order }) {
      const company = await database.findCompany(companyId);
      if (!company) throw new Error('the company has ended');
      return perform({ ...order, by: systemCaller(company, actor, scopes) });
    },
    async isOpen(companyId) {
      const subscription = (await database.findCompany(companyId))?.subscription;
      return subscription?.access === 'open' && subscription.modules.get('workforces') === 'on';
    },
  });
  return async () => {
    await stop();
    await tenants.close(1);
  };
}
