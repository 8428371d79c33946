// Takes the types out of all that a server is made of, for app/stripped.js.
import { hash } from 'node:crypto';
import { globSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { stripTypeScriptTypes } from 'node:module';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('../', import.meta.url));
const kept = `${root}node_modules/.cache/stripped`;
const folders = [
  ...['calendars', 'console', 'db', 'domain', 'gateways', 'generated', 'handlers', 'jobs', 'mcp', 'oauth', 'payments'],
  ...['reads', 'runtime', 'senders', 'start', 'writes'],
];

rmSync(kept, { recursive: true, force: true });
mkdirSync(kept, { recursive: true });
for (const file of globSync(['main.ts', ...folders.map((folder) => `${folder}/**/*.ts`)], { cwd: root })) {
  const source = readFileSync(`${root}${file}`);
  const path = `${kept}/${hash('sha256', source)}.js`;
  // Whole or not at all: a server may be starting meanwhile.
  writeFileSync(`${path}.new`, stripTypeScriptTypes(source.toString()));
  renameSync(`${path}.new`, path);
}
