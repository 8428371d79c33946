// The server beside a floor that was written by hand, on one database, under the same load.
import type { Result } from './report.ts';
import { type Measured, measure, ratio, type Settings } from './rounds.ts';
import { type Side, startScript, startServer } from './sides.ts';
import { folder, openWorkspace, type Workspace } from './workspace.ts';

export interface Comparison extends Pick<Result, 'name' | 'figure' | 'what'> {
  /** The floor's script in bench/. */
  script: string;
  /** At least so many of the floor's requests per second, as a part. */
  target: number;
  /** Arranges data by way of the server. @returns what makes the bytes of the next request to a side */
  arrange(port: number, workspace: Workspace): Promise<(side: Side) => () => Buffer>;
}

export async function againstBare(
  { script, target, arrange, ...told }: Comparison,
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
    return { ...told, settings: { ...settings }, sides: measured, ratios, values: [] };
  } finally {
    for (const side of sides) await side.stop();
    await workspace.stop();
  }
}
