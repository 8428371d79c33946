// P8: two workers against one, on cores shared with the database, Redis and the load.
import { findProgram } from '../tests/support/programs.ts';
import { TestRedis } from '../tests/support/redis.ts';
import { createLead, listRequest, readRequest } from './records.ts';
import type { Result } from './report.ts';
import { type Measured, measure, ratio, type Settings } from './rounds.ts';
import { startServer } from './sides.ts';
import { folder, openWorkspace, type Workspace } from './workspace.ts';

/** For a page, the server does most of the work. */
export function measureTwoWorkersListing(settings: Settings): Promise<Result | string> {
  return compare(settings, 'two-workers', 'a page of 100 records', async (port, workspace) => {
    for (let number = 1; number <= 100; number += 1) await createLead(port, workspace, number);
    return listRequest(workspace.key, 100);
  });
}

/** For one record, the database does nearly half of the work. */
export function measureTwoWorkersReading(settings: Settings): Promise<Result | string> {
  return compare(settings, 'two-workers-one', 'one record by its id', async (port, workspace) =>
    readRequest(workspace.key, await createLead(port, workspace)),
  );
}

async function compare(
  settings: Settings,
  name: string,
  what: string,
  arrange: (port: number, workspace: Workspace) => Promise<Buffer>,
): Promise<Result | string> {
  if (!findProgram('redis')) return 'skipped: there is no redis-server on this machine';
  const redis = await TestRedis.start();
  const workspace = await openWorkspace(folder);
  const sides = [];
  try {
    const env = { ...workspace.env, REDIS_URL: redis.url };
    sides.push(await startServer('two workers', { ...env, WORKERS: '2' }));
    const one = await startServer('one', env);
    sides.push(one);
    const bytes = await arrange(one.port, workspace);
    const measured = await measure(sides, () => () => bytes, settings);
    return {
      name,
      figure: 'P8',
      what: `${what}: two workers, one process`,
      settings: { ...settings },
      sides: measured,
      ratios: [ratio(...(measured as [Measured, Measured]), 1.3)],
      values: [],
    };
  } finally {
    for (const side of sides) await side.stop();
    await workspace.stop();
    await redis.kill();
  }
}
