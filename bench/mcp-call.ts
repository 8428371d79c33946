// P13: reading a record by id with a tool call, against the same read over REST.
import { createLead, readRequest, toolRequest } from './records.ts';
import type { Result } from './report.ts';
import { type Measured, measure, ratio, type Settings } from './rounds.ts';
import { startServer } from './sides.ts';
import { folder, openWorkspace } from './workspace.ts';

export async function mcpCall(settings: Settings): Promise<Result> {
  const workspace = await openWorkspace(folder);
  const server = await startServer('REST', workspace.env).catch(async (error: unknown) => {
    await workspace.stop();
    throw error;
  });
  try {
    const id = await createLead(server.port, workspace);
    const requests = { tool: toolRequest(workspace.key, id), REST: readRequest(workspace.key, id) };
    const sides = [{ ...server, name: 'tool' }, server];
    const measured = await measure(
      sides,
      ({ name }) =>
        () =>
          requests[name as keyof typeof requests],
      settings,
    );
    return {
      name: 'mcp-call',
      figure: 'P13',
      what: 'one record by its id: as a tool of the Model Context Protocol, over REST',
      settings: { ...settings },
      sides: measured,
      ratios: [ratio(...(measured as [Measured, Measured]), 0.5)],
      values: [],
    };
  } finally {
    await server.stop();
    await workspace.stop();
  }
}
