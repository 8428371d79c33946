// P7: resident memory after many mixed requests, its growth, and with clients that do not read.
import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { load } from './load.ts';
import { createLead, createRequest, listRequest, readRequest } from './records.ts';
import type { Result } from './report.ts';
import type { Settings } from './rounds.ts';
import { readUsage, startServer } from './sides.ts';
import { folder, openWorkspace, type Workspace } from './workspace.ts';

const requests = Number(process.env.MEMORY_REQUESTS ?? 100_000);
/** Clients that request pages and read none, and the number of pages per client. */
const deaf = { clients: 500, pages: 100, seconds: 20 };

export async function memory(settings: Settings): Promise<Result | string> {
  if (readUsage(process.pid) === undefined) return 'skipped: only Linux tells the resident memory of another process';
  const workspace = await openWorkspace(folder);
  try {
    const server = await startServer('ours', workspace.env);
    try {
      const next = await mixed(server.port, workspace);
      const resident = () => readUsage(server.pid)?.residentMegabytes ?? Number.NaN;
      const run = () =>
        load({ port: server.port, connections: settings.connections, milliseconds: 600_000, most: requests, next });
      await run();
      const first = resident();
      await run();
      const second = resident();
      const beside = await highestBeside(server.port, listRequest(workspace.key), resident);
      return {
        name: 'memory',
        figure: 'P7',
        what: `resident memory of the server, ${requests} mixed requests twice`,
        settings: { ...settings, requests },
        sides: [],
        ratios: [],
        values: [
          { name: `after ${requests} requests`, value: first, unit: 'MB', target: 180 },
          { name: 'growth over as many more', value: second - first, unit: 'MB', target: 5 },
          { name: `at most beside ${deaf.clients} clients that do not read`, value: beside, unit: 'MB', target: 256 },
        ],
      };
    } finally {
      await server.stop();
    }
  } finally {
    await workspace.stop();
  }
}

/** @returns the highest memory while the clients were connected */
async function highestBeside(port: number, page: Buffer, resident: () => number): Promise<number> {
  const pages = Buffer.concat(Array.from({ length: deaf.pages }, () => page));
  const sockets = Array.from({ length: deaf.clients }, () => {
    const socket = connect(port, '127.0.0.1').pause();
    // The server disconnects them, as it should.
    socket.on('error', () => undefined);
    socket.write(pages);
    return socket;
  });
  let highest = 0;
  for (let tenth = 0; tenth < deaf.seconds * 10; tenth += 1) {
    highest = Math.max(highest, resident());
    await sleep(100);
  }
  for (const socket of sockets) socket.destroy();
  return highest;
}

/** Of ten requests, eight read one record, one lists and one creates. */
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
