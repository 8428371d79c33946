// Compiles all that a server is made of into NODE_COMPILE_CACHE, also what it loads late.
// A server that has to do it itself starts half a second later, and keeps what takes types out in memory.
import { globSync } from 'node:fs';

const root = new URL('../', import.meta.url);
/** Beside the programs: what start/ and the root have else is imported by these, or is a command. */
const folders = [
  ...['calendars', 'console', 'db', 'domain', 'gateways', 'generated', 'handlers', 'jobs', 'mcp', 'oauth', 'payments'],
  ...['reads', 'runtime', 'senders', 'writes'],
];

const files = globSync(['main.ts', 'start/worker.ts', ...folders.map((folder) => `${folder}/**/*.ts`)], { cwd: root });
for (const file of files) await import(new URL(file, root).href);
