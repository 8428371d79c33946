// P8: two workers against one, on the cores that the database, Redis and the load are on as well.
import { findProgram } from '../tests/support/programs.ts';
import { TestRedis } from '../tests/support/redis.ts';
import { createLead, readRequest } from './records.ts';
import type { Result } from './report.ts';
import { type Measured, measure, ratio, type Settings } from './rounds.ts';
import { startServer } from './sides.ts';
import { folder, openWorkspace } from './workspace.ts';

export async function twoWorkers(settings: Settings): Promise<Result | string> {
  if (!findProgram('redis')) return 'skipped: there is no redis-server on this machine';
  const redis = await TestRedis.start();
  const workspace = await openWorkspace(folder);
  const sides = [];
  try {
    const env = { ...workspace.env, REDIS_URL: redis.url };
    sides.push(await startServer('two workers', { ...env, WORKERS: '2' }));
    const one = await startServer('one', env);
    sides.push(one);
    const bytes = readRequest(workspace.key, await createLead(one.port, workspace));
    const measured = await measure(sides, () => () => bytes, settings);
    return {
      name: 'two-workers',
      figure: 'P8',
      what: 'one record by its id: two workers, one process',
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
