// P6: from the process start to the first 200, with existing data and from nothing.
import { rmSync } from 'node:fs';
import { resolve } from 'node:path';
import type { Result } from './report.ts';
import { median } from './rounds.ts';
import { startServer } from './sides.ts';
import { folder } from './workspace.ts';

const starts = { fresh: 2, existing: 5 };

export async function start(): Promise<Result> {
  const dataDir = resolve(folder);
  const once = async (): Promise<number> => {
    const server = await startServer('ours', { DATA_DIR: dataDir });
    await server.stop();
    return server.milliseconds / 1000;
  };
  const fresh: number[] = [];
  const existing: number[] = [];
  for (let count = 0; count < starts.fresh; count += 1) {
    rmSync(dataDir, { recursive: true, force: true });
    fresh.push(await once());
  }
  for (let count = 0; count < starts.existing; count += 1) existing.push(await once());
  rmSync(dataDir, { recursive: true, force: true });
  return {
    name: 'start',
    figure: 'P6',
    what: 'start of the process, embedded database included, to the first 200',
    settings: { ...starts },
    sides: [],
    ratios: [],
    values: [
      { name: 'with existing data', value: median(existing), unit: 's', target: 1 },
      { name: 'from nothing, initialising the database', value: median(fresh), unit: 's', target: 5 },
    ],
  };
}
