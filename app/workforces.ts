// Runs the jobs of a serving process, whose steps are operations that it performs.
import type { Pool } from '../db/client/pool.ts';
import type { Deed } from '../jobs/automation/workforces.ts';
import { servingJobs } from '../jobs/index.ts';
import { startJobs } from '../jobs/runner.ts';
import type { CredentialStore } from '../runtime/credentials/credential-store.ts';
import { buildSystemCaller, type Perform } from '../runtime/pipeline/in-process.ts';
import type { Log } from '../runtime/telemetry/log.ts';
import { type DatabaseSettings, openWorkforcesPool } from './pools.ts';

/**
 * @param platform the pool that finds the next runs
 * @param paused names of jobs that do not run
 * @returns a function that stops them after their runs have ended or a few seconds have passed
 */
export function startServingJobs(
  settings: DatabaseSettings,
  platform: Pool,
  credentials: Pick<CredentialStore, 'findCompany'>,
  perform: Perform,
  paused: readonly string[],
  log: Log,
): () => Promise<void> {
  const tenants = openWorkforcesPool(settings);
  const pools = { workforces: { platform, tenants } };
  const services = {
    workforces: {
      async act({ companyId, actor, scopes, ...call }: Deed) {
        const company = await credentials.findCompany(companyId);
        if (!company) throw new Error('the company no longer exists');
        return perform({ ...call, by: buildSystemCaller(company, actor, scopes) });
      },
      async isOpen(companyId: string) {
        const subscription = (await credentials.findCompany(companyId))?.subscription;
        return subscription?.access === 'open' && subscription.modules.get('workforces') === 'on';
      },
    },
  };
  const jobs = startJobs(servingJobs, { platform, pools, services, paused, log });
  return async () => {
    await jobs.stop();
    await tenants.close(1);
  };
}
