// P10: batches of a hundred against bare inserts: the speed of imports.
import { compareWithBare } from '../against-bare.ts';
import { load } from '../load.ts';
import { batchRequest } from '../records.ts';
import type { Result } from '../report.ts';
import type { Settings } from '../rounds.ts';
import { startServer } from '../sides.ts';
import { folder, openWorkspace } from '../workspace.ts';

const rows = Number(process.env.IMPORT_ROWS ?? 100_000);
const size = 100;
/** As an importing integrator: each batch waits for the previous one on its connection. */
const connections = 4;

export async function createMany(settings: Settings): Promise<Result> {
  const compared = await compareWithBare(
    {
      name: 'create-many',
      figure: 'P10',
      what: `batches of ${size} records: the server, bare node:http with inserts of as many rows`,
      script: 'create-many/bare.ts',
      target: 0.35,
      async arrange(_port, workspace) {
        let number = 0;
        return (side) => () => {
          number += size;
          return batchRequest(workspace.key, side.name, number, size);
        };
      },
    },
    { ...settings, connections },
  );
  const perSecond = await bringIn();
  const name = `rows a second, ${rows.toLocaleString('en')} rows by batches`;
  return { ...compared, values: [{ name, value: perSecond, unit: 'rows/s', target: 5000, atLeast: true }] };
}

/** @returns rows per second, from the first batch to the last response */
async function bringIn(): Promise<number> {
  const workspace = await openWorkspace(folder);
  try {
    const server = await startServer('ours', workspace.env);
    try {
      let number = 0;
      const next = (): Buffer => {
        number += size;
        return batchRequest(workspace.key, 'import', number, size);
      };
      const most = rows / size;
      const { requests, perSecond } = await load({ port: server.port, connections, milliseconds: 600_000, most, next });
      if (requests < most) throw new Error(`only ${requests} of ${most} batches were answered`);
      return perSecond * size;
    } finally {
      await server.stop();
    }
  } finally {
    await workspace.stop();
  }
}
