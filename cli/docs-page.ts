// Writes the documentation page as one file that loads nothing, for publishing.
// BASE_URL is the address that its samples show.
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { whyNot } from '../app/start-failure.ts';
import { readConfig } from '../runtime/config.ts';
import { docsFile } from '../runtime/openapi/docs-page.ts';

const file = new URL('../docs/api.html', import.meta.url);

try {
  const { baseUrl } = readConfig(process.env);
  const json = JSON.parse(readFileSync(new URL('../generated/openapi.json', import.meta.url), 'utf8'));
  mkdirSync(new URL('.', file), { recursive: true });
  writeFileSync(file, docsFile(json, baseUrl));
  process.stdout.write(`Wrote docs/api.html for ${baseUrl}\n`);
} catch (error) {
  process.stderr.write(`Writing the page failed. ${whyNot(error)}\n`);
  process.exitCode = 1;
}
