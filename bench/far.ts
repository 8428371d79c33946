// P9: sequential reads and creates with a database that is a millisecond away.
import { startProxy } from './proxy.ts';
import { createLead, createRequest, readRequest } from './records.ts';
import type { Result } from './report.ts';
import { measure, median, type Settings } from './rounds.ts';
import { type Side, startScript, startServer } from './sides.ts';
import { folder, openWorkspace } from './workspace.ts';

/** Milliseconds to the database, one way. */
const distance = 1;

export async function measureFarDatabase(settings: Settings): Promise<Result> {
  const workspace = await openWorkspace(folder);
  const proxy = await startProxy(workspace.env.DATABASE_URL ?? '', distance);
  const sides: Side[] = [];
  const alone = { ...settings, connections: 1 };
  try {
    const ours = await startServer('ours', { ...workspace.env, DATABASE_URL: proxy.url });
    sides.push(ours);
    const bareEnv = { ...workspace.bareEnv, DATABASE_URL: proxy.url };
    const reader = await startScript('bare', 'read-one/bare.ts', bareEnv);
    sides.push(reader);
    const writer = await startScript('bare', 'create-one/bare.ts', bareEnv);
    sides.push(writer);
    const read = readRequest(workspace.key, await createLead(ours.port, workspace));
    const named = (side: Side, name: string): Side => ({ ...side, name });
    const reads = await measure([named(ours, 'read'), named(reader, 'bare read')], () => () => read, alone);
    let number = 1;
    const creates = await measure(
      [named(ours, 'create'), named(writer, 'bare create')],
      (side) => () => {
        number += 1;
        return createRequest(workspace.key, side.name.replace(' ', '-'), number);
      },
      alone,
    );
    const times = ([of, to]: typeof reads): number =>
      median((of?.p50 ?? []).map((value, round) => value / (to?.p50[round] ?? Number.NaN)));
    return {
      name: 'far',
      figure: 'P9',
      what: `with ${distance} ms each way to the database, one call after the other: the server, and the bare sides of P2 and P3`,
      settings: { ...alone },
      sides: [...reads, ...creates],
      ratios: [],
      values: [
        { name: 'median of a read : bare', value: times(reads), unit: '×', target: 1.3 },
        { name: 'median of a create : bare', value: times(creates), unit: '×', target: 2 },
      ],
    };
  } finally {
    for (const side of sides) await side.stop();
    proxy.stop();
    await workspace.stop();
  }
}
