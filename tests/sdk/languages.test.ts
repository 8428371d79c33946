// The clients for other languages: sample programs of docs and guides, and their behavior.
import { execFile } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { expectStatus } from '../support/client.ts';
import { document } from '../support/document.ts';
import { FailingProxy, failure } from '../support/failing-proxy.ts';
import { findProgram, skipNote } from '../support/programs.ts';
import { newTenant } from '../support/tenants.ts';

const run = promisify(execFile);
const root = resolve(import.meta.dirname, '../..');
const firstCalls = readFileSync(join(root, 'docs/clients.md'), 'utf8');
/** The address in samples. The test server has another one. */
const address = 'http://127.0.0.1:8080';

/** Returns the programs in a language from a text. */
function programsIn(text: string, language: string): string[] {
  return [...text.matchAll(new RegExp(`\`\`\`${language}\n(.*?)\`\`\``, 'gs'))].map(([, code = '']) => code);
}

function firstProgramIn(text: string, language: string): string {
  const [program] = programsIn(text, language);
  if (program === undefined) throw new Error(`There is no program in ${language}.`);
  return program;
}

interface Language {
  /** The program that must be installed. */
  program: Parameters<typeof findProgram>[0];
  file: string;
  /** The program of tests/sdk/programs. */
  proof: string;
  /** Files that its programs need, by name. */
  files?: Record<string, string>;
  /** Returns the commands that run a file in order. */
  commands: (file: string) => readonly (readonly [string, ...string[]])[];
}

const languages: Record<string, Language> = {
  python: {
    program: 'httpx',
    file: 'first.py',
    proof: 'proof.py',
    // The Python that the Debian packages belong to.
    commands: (file) => [['/usr/bin/python3', file]],
  },
  go: {
    program: 'go',
    file: 'main.go',
    proof: 'proof.go',
    files: {
      'go.mod':
        'module example.com/first\n\ngo 1.19\n\nrequire example.com/headlesscrm v0.0.0\n\nreplace example.com/headlesscrm => ./sdk/go\n',
    },
    commands: (file) => [['go', 'run', file]],
  },
  java: {
    program: 'java',
    file: 'FirstCall.java',
    proof: 'Proof.java',
    commands: (file) => [
      // The faster compiler is enough for programs that run once. The client is compiled once.
      [
        ...(['javac', '-J-XX:TieredStopAtLevel=1', '-Xlint:all', '-Werror', '-encoding', 'UTF-8'] as const),
        '-d',
        '../classes',
        '-cp',
        '../classes',
        '-sourcepath',
        'sdk/java/src/main/java',
        file,
      ],
      ['java', '-XX:TieredStopAtLevel=1', '-cp', '../classes', file.replace('.java', '')],
    ],
  },
  php: { program: 'php', file: 'first.php', proof: 'proof.php', commands: (file) => [['php', file]] },
};

let folder: string;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'languages-'));
  mkdirSync(join(folder, 'classes'));
  await run('make', ['sdks'], { cwd: root, env: { PATH: process.env.PATH } });
});

afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** Runs a program next to the project's `sdk` folder. @returns its output */
async function runProgram(
  { files = {}, commands }: Language,
  file: string,
  text: string,
  environment: Record<string, string>,
): Promise<string> {
  const cwd = mkdtempSync(join(folder, 'program-'));
  symlinkSync(join(root, 'sdk'), join(cwd, 'sdk'));
  for (const [name, content] of Object.entries({ ...files, [file]: text.replaceAll(address, inject('baseUrl')) }))
    writeFileSync(join(cwd, name), content);
  const env = {
    PATH: process.env.PATH,
    HOME: folder,
    PYTHONPATH: join(cwd, 'sdk/python'),
    PYTHONDONTWRITEBYTECODE: '1',
    CLIENT: join(cwd, 'sdk/php'),
    // Tests download nothing.
    GOPROXY: 'off',
    GOFLAGS: '-mod=mod',
    ...environment,
  };
  let printed = '';
  for (const [program, ...parameters] of commands(file))
    printed = (await run(program, parameters, { cwd, env, timeout: 100_000 })).stdout;
  return printed.trim();
}

const timeout = 120_000;

describe.each(Object.entries(languages))('in %s', (name, language) => {
  const { program, file, proof } = language;
  const isMissing = findProgram(program) === undefined;
  const note = skipNote(program);

  test.skipIf(isMissing)(`creates a lead with the program of docs/clients.md${note}`, { timeout }, async () => {
    const { key } = await newTenant();
    const id = await runProgram(language, file, firstProgramIn(firstCalls, name), { API_KEY: key });
    const { record } = (await expectStatus(200, 'GET', `/v1/objects/leads/records/${id}`, { key })).body.data;
    expect(record.email).toBe('sara@example.com');
  });

  test('shows the program of docs/clients.md in the OpenAPI document', () => {
    expect(document.info.description).toContain(firstProgramIn(firstCalls, name));
  });

  test.skipIf(isMissing)(`runs every program of its guide${note}`, { timeout }, async () => {
    const programs = programsIn(readFileSync(join(root, 'sdk', name, 'README.md'), 'utf8'), name);
    expect(programs.length).toBeGreaterThan(0);
    for (const each of programs) {
      const { key } = await newTenant();
      expect(await runProgram(language, file, each, { API_KEY: key })).not.toBe('');
    }
  });

  test.skipIf(isMissing)(
    `keeps custom fields, retries a create once, sends If-Match, and shows codes and messages of errors${note}`,
    { timeout },
    async () => {
      const tenant = await newTenant();
      const field = { name: 'roof_type', label: 'Roof type', type: 'text' };
      await expectStatus(201, 'POST', '/v1/objects/accounts/fields', { key: tenant.key, body: field });
      const proxy = await FailingProxy.start(inject('baseUrl'));
      // The first create succeeds, but its response is lost. The next attempt must wait.
      proxy.failWith('lose', failure(503, 'SERVICE_UNAVAILABLE', { 'retry-after': '1' }));
      const text = readFileSync(join(root, 'tests/sdk/programs', proof), 'utf8');
      const environment = { API_KEY: tenant.key, BASE_URL: proxy.url };
      const printed = await runProgram(language, proof, text, environment).finally(() => proxy.stop());

      const attempts = proxy.seen.slice(0, 3);
      expect(new Set(attempts.map(({ headers }) => headers['idempotency-key'])).size).toBe(1);
      expect(attempts[0]?.headers['idempotency-key']).toMatch(/^[\w-]{16,}$/);
      expect(new Set(attempts.map(({ method, url, body }) => `${method} ${url} ${body}`)).size).toBe(1);

      const shown = JSON.parse(printed);
      expect(shown).toMatchObject({
        roof_type: 'flat',
        city: 'Bonn',
        stale: { code: 'CONFLICT', status: 409, reason: 'version_mismatch' },
        invalid: { code: 'VALIDATION_ERROR' },
        repeated: 1,
        // One record of the create that took three attempts.
        names: ['Blue Lake', 'Green Hill', 'Red Rock'],
        roof_types: ['flat', null, null],
        attachment: ['Quote 17.txt', 13],
        followed: true,
      });
      expect(shown.waited).toBeGreaterThanOrEqual(1);
      expect(shown.invalid.fields).toContain('mobile');
      for (const { message, request_id } of [shown.stale, shown.invalid]) {
        expect(message.length).toBeGreaterThan(10);
        expect(request_id).toMatch(/^[\da-f-]{36}$/);
      }
      const { record } = (
        await expectStatus(200, 'GET', `/v1/objects/accounts/records/${shown.id}`, { key: tenant.key })
      ).body.data;
      expect(record).toMatchObject({ name: 'Blue Lake', roof_type: 'flat', city: 'Bonn' });
    },
  );
});
