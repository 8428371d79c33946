// G3: the effect on one tenant while another sends ten times its limit.
import { load } from './load.ts';
import { createLead, readRequest } from './records.ts';
import type { Result } from './report.ts';
import { quantile, type Settings } from './rounds.ts';
import { startServer } from './sides.ts';
import { addNeighbour, folder, openWorkspace } from './workspace.ts';

/** The noisy tenant's limit in calls per minute; it makes ten times as many. */
const perMinute = 600;
/**
 * Calls per second of the quiet tenant: with few calls, the 99th percentile would be their maximum.
 */
const pace = 200;

export async function neighbour(settings: Settings): Promise<Result> {
  const workspace = await openWorkspace(folder);
  try {
    const noisyKey = await addNeighbour(workspace, perMinute);
    const server = await startServer('ours', workspace.env);
    try {
      const id = await createLead(server.port, workspace);
      const quiet = readRequest(workspace.key, id);
      const noisy = readRequest(noisyKey, id);
      const milliseconds = settings.seconds * 1000;
      const ask = () => load({ port: server.port, connections: 2, milliseconds, perSecond: pace, next: () => quiet });
      const disturb = () =>
        load({
          port: server.port,
          connections: 8,
          milliseconds,
          perSecond: (perMinute * 10) / 60,
          anyAnswer: true,
          next: () => noisy,
        });
      // Before measuring, the code is compiled and the noisy tenant is above its limit.
      await ask();
      await load({
        port: server.port,
        connections: 8,
        milliseconds: 60_000,
        most: perMinute,
        anyAnswer: true,
        next: () => noisy,
      });
      const alone: number[] = [];
      const beside: number[] = [];
      const askAlone = async (): Promise<void> => {
        alone.push(...(await ask()).latencies);
      };
      const askBeside = async (): Promise<void> => {
        const [asked] = await Promise.all([ask(), disturb()]);
        beside.push(...asked.latencies);
      };
      for (let round = 0; round < settings.rounds; round += 1)
        for (const asked of round % 2 === 0 ? [askAlone, askBeside] : [askBeside, askAlone]) await asked();
      const [aloneMs, besideMs] = [quantile(alone, 0.99), quantile(beside, 0.99)];
      return {
        name: 'neighbour',
        figure: 'G3',
        what: `a tenant at ${pace} requests/s while another asks ten times its limit; a refusal would have ended the measurement`,
        settings: { ...settings, perMinute, pace },
        sides: [],
        ratios: [],
        values: [
          { name: '99 % alone', value: aloneMs, unit: 'ms' },
          { name: '99 % beside the noisy tenant', value: besideMs, unit: 'ms' },
          { name: 'the second of the first', value: besideMs / aloneMs, unit: '×', target: 1.5 },
        ],
      };
    } finally {
      await server.stop();
    }
  } finally {
    await workspace.stop();
  }
}
