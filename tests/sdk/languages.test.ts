// The first call in each language, as the README shows it, by clients generated from the document.
import { execFile } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { expectStatus } from '../support/client.ts';
import { document } from '../support/document.ts';
import { findProgram, skipNote } from '../support/programs.ts';
import { newTenant } from '../support/tenants.ts';

const run = promisify(execFile);
const root = resolve(import.meta.dirname, '../..');
const readme = readFileSync(join(root, 'README.md'), 'utf8');
const sdks = join(root, 'sdk');
/** Of the document's own description; a server of the tests stands elsewhere. */
const address = 'http://127.0.0.1:8080';

/** The code that the README shows in a language. */
function sampleIn(language: string): string {
  const [, code] = new RegExp(`\`\`\`${language}\n(.*?)\`\`\``, 's').exec(readme) ?? [];
  if (code === undefined) throw new Error(`the README has no code in ${language}`);
  return code;
}

let folder: string;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'languages-'));
  await run('make', ['sdks'], { cwd: root, env: { PATH: process.env.PATH } });
}, 120_000);

afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** Writes files, runs commands one after the other, and answers what the last one printed. */
async function firstCall(
  files: Record<string, string>,
  commands: readonly (readonly [string, ...string[]])[],
  key: string,
): Promise<string> {
  const [client] = Object.keys(files);
  const cwd = join(folder, client ?? '');
  for (const [path, text] of Object.entries(files)) {
    const target = join(cwd, path);
    mkdirSync(dirname(target), { recursive: true });
    if (existsSync(text)) cpSync(text, target);
    else writeFileSync(target, text.replaceAll(address, inject('baseUrl')));
  }
  let printed = '';
  for (const [program, ...parameters] of commands) {
    const env = { PATH: process.env.PATH, HOME: folder, API_KEY: key };
    printed = (await run(program, parameters, { cwd, env, timeout: 100_000 })).stdout;
  }
  return printed.trim();
}

const languages = {
  python: {
    files: () => ({ 'headless_crm.py': join(sdks, 'python/headless_crm.py'), 'first.py': sampleIn('python') }),
    // The one that Debian packages are for.
    commands: [['/usr/bin/python3', 'first.py']],
    program: 'httpx',
  },
  java: {
    files: () => ({
      'headlesscrmapi/Client.java': join(sdks, 'java/headlesscrmapi/Client.java'),
      'FirstCall.java': sampleIn('java'),
    }),
    commands: [
      // What runs once is not worth the better of two compilers of machine code.
      ['javac', '-J-XX:TieredStopAtLevel=1', '-encoding', 'UTF-8', '-nowarn', '-d', 'classes', 'FirstCall.java'],
      ['java', '-XX:TieredStopAtLevel=1', '-cp', 'classes', 'FirstCall'],
    ],
    program: 'java',
  },
  go: {
    files: () => ({
      'headlesscrm/client.go': join(sdks, 'go/client.go'),
      'go.mod': 'module example.com/first\n',
      'main.go': sampleIn('go'),
    }),
    commands: [['go', 'run', '.']],
    program: 'go',
  },
  php: {
    files: () => ({ 'headless_crm.php': join(sdks, 'php/headless_crm.php'), 'first.php': sampleIn('php') }),
    commands: [['php', 'first.php']],
    program: 'php',
  },
} as const;

describe.each(Object.entries(languages))('in %s', (language, { files, commands, program }) => {
  test.skipIf(!findProgram(program))(
    `a lead is created by the code of the README${skipNote(program)}`,
    async () => {
      const { key } = await newTenant();
      const id = await firstCall(files(), commands, key);
      const { record } = (await expectStatus(200, 'GET', `/v1/objects/leads/records/${id}`, { key })).body.data;
      expect(record.email).toBe('sara@example.com');
    },
    120_000,
  );

  test('the page of the document shows the same code', () => {
    expect(document.info.description).toContain(sampleIn(language));
  });
});
