// P2: one record by its id with every guarantee, against bare node:http and one select by key.
import { createLead, hasOperation, readRequest } from '../records.ts';
import type { Result } from '../report.ts';
import { type Measured, measure, ratio, type Settings } from '../rounds.ts';
import { startScript, startServer } from '../sides.ts';
import { folder, openWorkspace } from '../workspace.ts';

export async function readOne(settings: Settings): Promise<Result | string> {
  if (!hasOperation('getRecord')) return 'skipped: the document declares no getRecord yet';
  const workspace = await openWorkspace(folder);
  const sides = [];
  try {
    const ours = await startServer('ours', workspace.env);
    sides.push(ours);
    const id = await createLead(ours.port, workspace);
    sides.push(await startScript('bare', 'read-one/bare.ts', workspace.bareEnv));
    const bytes = readRequest(workspace.key, id);
    const measured = await measure(sides, () => () => bytes, settings);
    return {
      name: 'read-one',
      figure: 'P2',
      what: 'one record by its id: the server, bare node:http with one select',
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
