// G3: what one tenant notices while another asks for ten times what its limits allow.
import { load } from './load.ts';
import { createLead, readRequest } from './records.ts';
import type { Result } from './report.ts';
import { median, type Settings } from './rounds.ts';
import { startServer } from './sides.ts';
import { addNeighbour, folder, openWorkspace } from './workspace.ts';

/** Calls per minute that the noisy tenant may make; it makes ten times as many. */
const perMinute = 600;
/** Calls per second of the quiet one. */
const pace = 50;

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
      // Beyond its limit before anything is measured.
      await load({
        port: server.port,
        connections: 8,
        milliseconds: 60_000,
        most: perMinute,
        anyAnswer: true,
        next: () => noisy,
      });
      const ratios: number[] = [];
      for (let round = 0; round < settings.rounds; round += 1) {
        const alone = await ask();
        const [beside] = await Promise.all([ask(), disturb()]);
        ratios.push(beside.p99 / alone.p99);
      }
      return {
        name: 'neighbour',
        figure: 'G3',
        what: `a tenant at ${pace} requests/s while another asks ten times its limit; a refusal would have ended the measurement`,
        settings: { ...settings, perMinute, pace },
        sides: [],
        ratios: [],
        values: [
          { name: '99 % beside the noisy tenant, of that alone', value: median(ratios), unit: '×', target: 1.5 },
        ],
      };
    } finally {
      await server.stop();
    }
  } finally {
    await workspace.stop();
  }
}
