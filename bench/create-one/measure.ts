// P3: creating one record with its audit row, event and kept answer, against a bare transaction that writes the same rows.
import { createRequest, hasOperation } from '../records.ts';
import type { Result } from '../report.ts';
import { type Measured, measure, ratio, type Settings } from '../rounds.ts';
import { startScript, startServer } from '../sides.ts';
import { folder, openWorkspace } from '../workspace.ts';

export async function createOne(settings: Settings): Promise<Result | string> {
  if (!hasOperation('createRecord')) return 'skipped: the document declares no createRecord yet';
  const workspace = await openWorkspace(folder);
  const sides = [];
  try {
    sides.push(await startServer('ours', workspace.env));
    sides.push(await startScript('bare', 'create-one/bare.ts', workspace.bareEnv));
    let number = 0;
    const measured = await measure(
      sides,
      (side) => () => {
        number += 1;
        return createRequest(workspace.key, side.name, number);
      },
      settings,
    );
    return {
      name: 'create-one',
      figure: 'P3',
      what: 'create one record: the server, bare node:http with one pipelined transaction of the same rows',
      settings: { ...settings },
      sides: measured,
      ratios: [ratio(...(measured as [Measured, Measured]), 0.5)],
      values: [],
    };
  } finally {
    for (const side of sides) await side.stop();
    await workspace.stop();
  }
}
