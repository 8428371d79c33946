// P23: the processor time that the request log adds to calls, of the server and the database.
import { setTimeout as sleep } from 'node:timers/promises';
import { load } from './load.ts';
import { createLead, createRequest, readRequest } from './records.ts';
import type { Result } from './report.ts';
import { type Measured, median, nothingMeasured, type Settings, startUsage } from './rounds.ts';
import { type Side, startServer } from './sides.ts';
import { folder, openWorkspace } from './workspace.ts';

/** Milliseconds until the requests of a round are written. */
const settleMs = 1500;
/** Calls before the first round: a server that runs for months is compiled. */
const warmUpCalls = 30_000;

export async function measureRequestLog({ rounds, seconds, connections }: Settings): Promise<Result> {
  const workspace = await openWorkspace(folder);
  const sides: Side[] = [];
  try {
    for (const [name, setting] of [
      ['with log', '1'],
      ['without', '0'],
    ] as const)
      sides.push(await startServer(name, { ...workspace.env, REQUEST_LOG: setting }));
    const read = readRequest(workspace.key, await createLead((sides[0] as Side).port, workspace));
    let number = 1;
    const kinds = {
      read: () => read,
      create: () => {
        number += 1;
        return createRequest(workspace.key, 'log', number);
      },
    };
    const measured: Measured[] = [];
    const values: Result['values'] = [];
    for (const [kind, next] of Object.entries(kinds)) {
      const run = async ({ port }: Side, seconds: number, most: number): Promise<number> => {
        const { requests } = await load({ port, connections, milliseconds: seconds * 1000, most, next });
        await sleep(settleMs);
        return requests;
      };
      const results = sides.map((side) => ({ side, into: nothingMeasured(`${kind}, ${side.name}`) }));
      for (const side of sides) await run(side, 60, warmUpCalls);
      for (let round = 0; round < rounds; round += 1)
        for (const { side, into } of round % 2 === 0 ? results : results.toReversed()) {
          const used = startUsage(side.pid);
          used(await run(side, seconds, Number.POSITIVE_INFINITY), into);
        }
      measured.push(...results.map(({ into }) => into));
      const [withLog, without] = results.map(({ into }) =>
        into.cpuMicroseconds.map((server, round) => server + (into.databaseMicroseconds[round] ?? Number.NaN)),
      ) as [number[], number[]];
      values.push({
        name: `processor time that the log adds to a ${kind}, median of the rounds`,
        value: (median(withLog.map((value, round) => value / (without[round] ?? Number.NaN))) - 1) * 100,
        unit: '%',
        target: 3,
      });
    }
    return {
      name: 'request-log',
      figure: 'P23',
      what: 'processor time of calls with the request log and without',
      settings: { rounds, seconds, connections },
      sides: measured,
      ratios: [],
      values,
    };
  } finally {
    for (const side of sides) await side.stop();
    await workspace.stop();
  }
}
