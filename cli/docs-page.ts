// Writes the documentation page as one self-contained file, for publishing.
// BASE_URL is the URL in its samples.
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { explainFailure } from '../app/start-failure.ts';
import { readConfig } from '../runtime/config.ts';
import { buildDocsFile } from '../runtime/openapi/docs-page.ts';

const file = new URL('../docs/api.html', import.meta.url);

try {
  const { baseUrl } = readConfig(process.env);
  const json = JSON.parse(readFileSync(new URL('../generated/openapi.json', import.meta.url), 'utf8'));
  mkdirSync(new URL('.', file), { recursive: true });
  writeFileSync(file, buildDocsFile(json, baseUrl));
  process.stdout.write(`Wrote docs/api.html for ${baseUrl}\n`);
} catch (error) {
  process.stderr.write(`Writing the page failed. ${explainFailure(error)}\n`);
  process.exitCode = 1;
}
