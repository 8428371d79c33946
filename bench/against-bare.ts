// Compares the server with a hand-written baseline, on one database and under the same load.
import type { Result } from './report.ts';
import { type Measured, measure, ratio, type Settings } from './rounds.ts';
import { type Side, startScript, startServer } from './sides.ts';
import { folder, openWorkspace, type Workspace } from './workspace.ts';

export interface Comparison extends Pick<Result, 'name' | 'figure' | 'what'> {
  /** The script of the baseline, in bench/. */
  script: string;
  /** Minimum share of the baseline's requests per second. */
  target: number;
  /**
   * Creates data through the server.
   * @returns a function that creates the next request for a side
   */
  arrange(port: number, workspace: Workspace): Promise<(side: Side) => () => Buffer>;
}

export async function compareWithBare(
  { script, target, arrange, ...labels }: Comparison,
  settings: Settings,
): Promise<Result> {
  const workspace = await openWorkspace(folder);
  const sides: Side[] = [];
  try {
    const ours = await startServer('ours', workspace.env);
    sides.push(ours);
    const next = await arrange(ours.port, workspace);
    sides.push(await startScript('bare', script, workspace.bareEnv));
    const measured = await measure(sides, next, settings);
    const ratios = [ratio(...(measured as [Measured, Measured]), target)];
    return { ...labels, settings: { ...settings }, sides: measured, ratios, values: [] };
  } finally {
    for (const side of sides) await side.stop();
    await workspace.stop();
  }
}
