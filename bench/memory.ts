// P7: resident memory of the server after many mixed requests, and how much it grows over as many more.
import { load } from './load.ts';
import { createLead, createRequest, listRequest, readRequest } from './records.ts';
import type { Result } from './report.ts';
import type { Settings } from './rounds.ts';
import { startServer, usageOf } from './sides.ts';
import { folder, openWorkspace, type Workspace } from './workspace.ts';

const requests = Number(process.env.MEMORY_REQUESTS ?? 100_000);

export async function memory(settings: Settings): Promise<Result | string> {
  if (usageOf(process.pid) === undefined) return 'skipped: only Linux tells the resident memory of another process';
  const workspace = await openWorkspace(folder);
  try {
    const server = await startServer('ours', workspace.env);
    try {
      const next = await mixed(server.port, workspace);
      const resident = () => usageOf(server.pid)?.residentMegabytes ?? Number.NaN;
      const run = () =>
        load({ port: server.port, connections: settings.connections, milliseconds: 600_000, most: requests, next });
      await run();
      const first = resident();
      await run();
      return {
        name: 'memory',
        figure: 'P7',
        what: `resident memory of the server, ${requests} mixed requests twice`,
        settings: { ...settings, requests },
        sides: [],
        ratios: [],
        values: [
          { name: `after ${requests} requests`, value: first, unit: 'MB', target: 180 },
          { name: 'growth over as many more', value: resident() - first, unit: 'MB', target: 5 },
        ],
      };
    } finally {
      await server.stop();
    }
  } finally {
    await workspace.stop();
  }
}

/** Of ten requests eight read one record, one lists and one creates. */
async function mixed(port: number, workspace: Workspace) {
  const read = readRequest(workspace.key, await createLead(port, workspace));
  const list = listRequest(workspace.key);
  let number = 0;
  return () => {
    number += 1;
    if (number % 10 === 0) return createRequest(workspace.key, 'mixed', number);
    return number % 10 === 1 ? list : read;
  };
}
