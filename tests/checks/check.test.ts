// Tests that make check detects one violation of each rule, alone and all together.
import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative, resolve } from 'node:path';
import { describe, expect, test } from 'vitest';
import { areaProblems, circleProblems, untestedNouns } from '../../checks/areas.ts';
import { decisionProblems, namedFileProblems } from '../../checks/decisions.ts';
import { driverProblems } from '../../checks/driver.ts';
import { folderProblems, headerProblems, mentionProblems, packageProblems } from '../../checks/files.ts';
import { heldFunctionProblems } from '../../checks/functions.ts';
import { dependencyProblems, importProblems } from '../../checks/imports.ts';
import { languageProblems } from '../../checks/language.ts';
import { nameProblems } from '../../checks/names.ts';

const root = resolve(import.meta.dirname, '../..');

describe('imports', () => {
  test.each([
    ['domain/sales/a.ts', "import { sql } from '../../db/client/pool.ts';"],
    ['domain/sales/a.ts', "import { problem } from '../../runtime/errors.ts';"],
    ['domain/sales/a.ts', "import type { Call } from '../../runtime/handler.ts';"],
    ['domain/sales/a.ts', "import * as api from '../../generated/api.ts';"],
    ['domain/sales/a.ts', "import { type components, paths } from '../../generated/api.ts';"],
    ['domain/sales/a.ts', "import { randomUUID } from 'node:crypto';"],
    ['domain/sales/a.ts', "import postgres from 'postgres';"],
    ['db/sales/a.ts', "import type { components } from '../../generated/api.ts';"],
    ['db/sales/a.ts', "import { notFound } from '../../runtime/errors.ts';"],
    ['db/sales/a.ts', "import { plans } from '../../domain/billing/plans.ts';"],
    ['db/sales/a.ts', "import { type Plan, plans } from '../../domain/billing/plans.ts';"],
    ['db/sales/a.ts', "import { Redis } from 'ioredis';"],
    ['runtime/limits/a.ts', "import { getHealth } from '../../handlers/service/health.ts';"],
    ['runtime/limits/a.ts', "import { plans } from '../../domain/billing/plans.ts';"],
    ['runtime/limits/a.ts', "import { chargeCalls } from '../../db/billing/quota.ts';"],
    ['runtime/limits/a.ts', "import type { KeyRow } from '../../db/access/credentials.ts';"],
    ['runtime/limits/a.ts', "import { openPools } from '../../app/pools.ts';"],
    ['runtime/limits/a.ts', "import { createServer } from 'node:http';"],
    ['oauth/a.ts', "import http from 'node:http';"],
    ['app/a.ts', "import { createServer } from 'node:http';"],
    ['handlers/sales/a.ts', "import { getHealth } from './health.ts';"],
    ['handlers/sales/a.ts', "import { buildServer } from '../../runtime/http/server.ts';"],
    ['handlers/sales/a.ts', "import postgres from 'postgres';"],
    ['handlers/sales/a.ts', "import type { Sql } from 'postgres';"],
    ['handlers/sales/a.ts', "import { Redis } from 'ioredis';"],
    ['handlers/sales/a.ts', "import { request } from 'node:http';"],
    ['handlers/sales/a.ts', "export { request } from 'node:http';"],
    ['handlers/sales/a.ts', "const http = await import('node:http');"],
    ['handlers/sales/a.ts', 'const module = await import(name);'],
    ['handlers/sales/a.ts', "type Options = import('node:http').RequestOptions;"],
    ['handlers/sales/a.ts', "import { insertRecords } from '../../db/records/writing.ts';"],
    ['handlers/sales/a.ts', "import { insertLead } from '../../db/sales/lead-writing.ts';"],
    ['jobs/a.ts', "import { updateRecords } from '../db/records/writing.ts';"],
    ['services/records/a.ts', "import { Pool } from '../../runtime/http/server.ts';"],
    ['services/sales/a.ts', "import { createLead } from '../../handlers/sales/leads.ts';"],
    ['services/sales/a.ts', 'fetch(url)'],
    ['handlers/index.ts', "import { findLead } from '../../db/sales/leads.ts';"],
    ['jobs/a.ts', "import { getHealth } from '../handlers/service/health.ts';"],
    ['jobs/a.ts', "import { openLog } from '../runtime/telemetry/log.ts';"],
    ['jobs/a.ts', "import { openMailTransport } from '../integrations/smtp/transport.ts';"],
    ['jobs/a.ts', "import { buildServer } from '../runtime/http/server.ts';"],
    ['generated/a.ts', "import { plans } from '../domain/billing/plans.ts';"],
    ['tests/sales/a.test.ts', "import { getHealth } from '../../handlers/service/health.ts';"],
    ['sdk/src/a.ts', "import type { paths } from '../../generated/api.ts';"],
    ['sdk/src/a.ts', "import { createHmac } from 'node:crypto';"],
    ['sdk/src/a.ts', "import { Agent } from 'undici';"],
    ['sdk/generators/go.ts', "import { descriptions } from '../src/generated/operations.ts';"],
  ])('rejects in %s: %s', (path, text) => {
    expect(importProblems([{ path, text: `// What it is.\n${text}\n` }])).toHaveLength(1);
  });

  test.each([
    ['domain/sales/a.ts', "import type { components } from '../../generated/api.ts';"],
    ['domain/sales/a.ts', "import { type components } from '../../generated/api.ts';"],
    ['domain/sales/a.ts', "import { plans } from './plans.ts';"],
    ['db/sales/a.ts', "import postgres from 'postgres';"],
    ['db/sales/a.ts', "import { Pool } from '../client/pool.ts';"],
    ['db/sales/a.ts', "import type { Filter } from '../../domain/objects/filter.ts';"],
    ['runtime/limits/a.ts', "import type { Plan } from '../../domain/billing/plans.ts';"],
    ['runtime/limits/a.ts', "import { bodyLimits } from '../../domain/service/request-limits.ts';"],
    ['handlers/sales/a.ts', "import { findLead } from '../../db/sales/leads.ts';"],
    ['handlers/sales/a.ts', "import { writeNew } from '../../services/records/record-writes.ts';"],
    ['handlers/sales/a.ts', "import { openRecord } from '../../services/records/open-record.ts';"],
    ['handlers/sales/a.ts', "import { sessionTokenSeconds } from '../../runtime/credentials/session-tokens.ts';"],
    ['services/records/a.ts', "import { insertRecords } from '../../db/records/writing.ts';"],
    ['handlers/index.ts', "import * as health from './health.ts';"],
    ['jobs/a.ts', "import type { Log } from '../runtime/telemetry/log.ts';"],
    ['main.ts', "import { handlers } from './handlers/index.ts';"],
    ['app/a.ts', "import type { Server } from 'node:http';"],
    ['sdk/src/a.ts', "import createFetchClient from 'openapi-fetch';"],
    ['sdk/src/a.ts', "import { descriptions } from './generated/operations.ts';"],
  ])('allows in %s: %s', (path, text) => {
    expect(importProblems([{ path, text }])).toEqual([]);
  });

  test.each([
    ['domain/sales/a.ts', 'Date.now()'],
    ['domain/sales/a.ts', 'new Date()'],
    ['domain/sales/a.ts', 'new Date'],
    ['domain/sales/a.ts', 'Math.random()'],
    ['domain/sales/a.ts', 'crypto.randomUUID()'],
    ['domain/sales/a.ts', 'process.env.TZ'],
    ['domain/sales/a.ts', "fetch('https://example.com')"],
    ['handlers/sales/a.ts', 'Date.now()'],
    ['handlers/sales/a.ts', 'process.env.PORT'],
    ['db/sales/a.ts', 'process.env.PORT'],
    ['runtime/limits/a.ts', 'process.env.PORT'],
    ['jobs/a.ts', 'process.env.PORT'],
  ])('rejects in %s the expression %s', (path, expression) => {
    expect(importProblems([{ path, text: `// What it is.\nexport const given = ${expression};\n` }])).toHaveLength(1);
  });

  test('allows domain to use a given date', () => {
    expect(importProblems([{ path: 'domain/a.ts', text: 'export const day = (at: number) => new Date(at);' }])).toEqual(
      [],
    );
  });
});

describe('function expressions', () => {
  const problems = (path: string, text: string) => heldFunctionProblems([{ path, text }]);

  test.each([
    'this.#expire = () => reject(given);',
    'send.unsafe = async (text) => sql(text);',
    'socket.write = ((chunk: Buffer) => write(chunk)) as Write;',
    "made[name] = function () { return 'it'; };",
  ])('rejects function expressions that are assigned to a property: %s', (text) => {
    expect(problems('runtime/a.ts', text)).toHaveLength(1);
  });

  test.each([
    'const expire = () => reject(given); this.#expire = expire;',
    'this.#timer = setTimeout(() => this.#look(), 25);',
    'const handle = { unsafe: () => undefined };',
  ])('allows function expressions elsewhere: %s', (text) => {
    expect(problems('runtime/a.ts', text)).toEqual([]);
  });

  test('allows all function expressions in tests', () => {
    expect(problems('tests/a.test.ts', 'given.answer = () => 1;')).toEqual([]);
  });
});

describe('the patched driver', () => {
  const problems = (path: string, text: string) => driverProblems([{ path, text }]);

  test.each([
    'query.options.preamble = begin;',
    'sql.unsafe(text, [], { prepare: true, preamble } as object);',
    'Object.assign(query.options, { skipDescribe: true });',
    "client.options['pipelined'] = true;",
  ])('rejects options of the patched driver outside of its file: %s', (text) => {
    expect(problems('db/client/pool.ts', text)).toHaveLength(1);
    expect(problems('db/client/pipeline.ts', text)).toEqual([]);
  });

  test('allows variables and private fields with the names of options', () => {
    expect(problems('db/client/pool.ts', 'const preamble = this.#preamble ?? build(preamble);')).toEqual([]);
  });
});

describe('areas', () => {
  const problems = (...files: [string, string][]) => areaProblems(files.map(([path, text]) => ({ path, text })));

  test.each([
    ['domain/objects/a.ts', "import type { Tag } from '../settings/tags.ts';"],
    ['db/people/a.ts', "import { findPlan } from '../billing/plans.ts';"],
    ['db/people/a.ts', "import type { Tag } from '../../domain/settings/tags.ts';"],
    ['db/a.ts', "import { findUser } from './people/users.ts';"],
    ['domain/scheduling/a.ts', "import { words } from '../demo/words.ts';"],
  ])('rejects imports of later areas: %s with %s', (path, text) => {
    expect(problems([path, text])).toHaveLength(1);
  });

  test.each([
    ['domain/settings/a.ts', "import type { Field } from '../objects/workspace.ts';"],
    ['db/sales/a.ts', "import type { Deal } from './deals.ts';"],
    ['db/people/a.ts', "import { Pool } from '../client/pool.ts';"],
    ['handlers/objects/a.ts', "import { findTag } from '../../db/settings/tags.ts';"],
  ])('allows imports of earlier areas: %s with %s', (path, text) => {
    expect(problems([path, text])).toEqual([]);
  });

  test('requires listed areas, and one area for each noun', () => {
    expect(problems(['handlers/things/a.ts', ''])).toHaveLength(1);
    expect(problems(['handlers/sales/a.ts', ''], ['db/records/a.ts', ''])).toHaveLength(1);
    expect(problems(['handlers/sales/a.ts', ''], ['db/sales/a.ts', ''], ['spec/sales/a.yaml', ''])).toEqual([]);
    expect(problems(['db/migrations/0001-a.sql', ''], ['spec/rules/plugin.js', ''], ['db/a.ts', ''])).toEqual([]);
  });

  test('requires a test file for each noun', () => {
    const sources = ['spec/sales/a.yaml', 'spec/rules/plugin.js', 'spec/common.yaml', 'tests/records/a.test.ts'];
    const problems = (...paths: string[]) => untestedNouns(paths.map((path) => ({ path, text: '' })));
    expect(problems(...sources)).toEqual(['spec/sales/a.yaml has no tests/sales/a.test.ts']);
    expect(problems(...sources, 'tests/sales/a.test.ts')).toEqual([]);
  });

  test('rejects import cycles, including those of types', () => {
    const circle = [
      { path: 'runtime/a.ts', text: "import type { B } from './limits/b.ts';" },
      { path: 'runtime/limits/b.ts', text: "import { c } from '../c.ts';" },
      { path: 'runtime/c.ts', text: "export { a } from './a.ts';" },
    ];
    expect(circleProblems(circle)).toHaveLength(1);
    expect(circleProblems(circle.slice(1))).toEqual([]);
  });
});

describe('packages', () => {
  const manifest = { dependencies: { pino: '10.4.0' }, devDependencies: { vitest: '4.1.12' } };
  const problems = (path: string, text: string) => dependencyProblems([{ path, text }], manifest);

  test('requires declarations of imported packages', () => {
    expect(problems('runtime/a.ts', "import pino from 'pino';")).toEqual([]);
    expect(problems('tests/a.test.ts', "import { test } from 'vitest';")).toEqual([]);
    expect(problems('runtime/a.ts', "import type { Test } from 'vitest';")).toEqual([]);
    expect(problems('runtime/a.ts', "import { test } from 'vitest';")).toHaveLength(1);
    expect(problems('runtime/a.ts', "import { z } from 'zod/v4';")).toHaveLength(1);
  });

  test('requires exact versions that match the lock file, and no scripts', () => {
    const lock = { packages: { '': manifest } };
    expect(packageProblems(manifest, lock)).toEqual([]);
    expect(packageProblems({ ...manifest, scripts: { test: 'vitest' } }, lock)).toHaveLength(1);
    expect(packageProblems({ ...manifest, dependencies: { pino: '10.4.1' } }, lock)).toHaveLength(1);
    const versioned = (version: string) => {
      const named = { dependencies: { pino: version } };
      return packageProblems(named, { packages: { '': named } });
    };
    expect(versioned('npm:another@10.4.0')).toEqual([]);
    for (const loose of ['^10.4.0', 'npm:another@^10.4.0', 'npm:another'])
      expect(versioned(loose)).toEqual([`package.json: pino ${loose} is not an exact version`]);
  });
});

describe('files and folders', () => {
  test.each([
    ['runtime/limits/a.ts', "import pino from 'pino';\n"],
    ['db/migrations/0002-a.sql', 'create table a ();\n'],
    ['spec/a.yaml', 'paths:\n'],
    ['a.js', '\n// Late.\n'],
  ])('requires a first line that describes the file: %s', (path, text) => {
    expect(headerProblems([{ path, text }])).toHaveLength(1);
  });

  test('limits the first line to 100 characters', () => {
    const problems = (path: string, mark: string, length: number) =>
      headerProblems([{ path, text: `${mark} ${'a'.repeat(length - mark.length - 1)}\n` }]);
    for (const [path, mark] of [
      ['runtime/a.ts', '//'],
      ['spec/rules/a.js', '//'],
      ['spec/a.yaml', '#'],
      ['db/migrations/0001-a.sql', '--'],
    ] as const) {
      expect(problems(path, mark, 100)).toEqual([]);
      expect(problems(path, mark, 101)).toEqual([expect.stringContaining(`${path}:1 has 101 characters`)]);
    }
    expect(problems('generated/a.ts', '//', 101)).toEqual([]);
  });

  // Concatenated, so that this file does not contain them.
  const [path, host] = [['', 'home', 'someone', 'crm'].join('/'), ['registry', 'npmjs', 'org'].join('.')];

  test.each([
    `cd ${path}`,
    `"file://${path}"`,
    `https://${host}/pino`,
    `"resolved": "${'https:'}//packages.example/pino.tgz"`,
  ])('rejects text that names one machine: %s', (text) => {
    expect(mentionProblems([{ path: 'README.md', text }])).toHaveLength(1);
  });

  test('allows paths of the API', () => {
    expect(mentionProblems([{ path: 'README.md', text: 'GET https://example.com/work/x and /v1/workforces' }])).toEqual(
      [],
    );
  });

  test('rejects folders with vague names', () => {
    expect(folderProblems(['runtime', 'runtime/utils', 'db/migrations'])).toHaveLength(1);
  });
});

describe('words', () => {
  test('finds words of the old private language, and says what to use instead', () => {
    const text = '// Whoever is told of it must mend it anew.\\n// A pending amendment tells nothing.';
    expect(languageProblems([{ path: 'runtime/a.ts', text }]).map((line) => line.split(': ')[0])).toEqual([
      'runtime/a.ts:1 says "Whoever"',
      'runtime/a.ts:1 says "told of"',
      'runtime/a.ts:1 says "mend"',
      'runtime/a.ts:1 says "anew"',
    ]);
    expect(languageProblems([{ path: 'generated/api.ts', text }])).toEqual([]);
  });
});

describe('names', () => {
  const problems = (path: string, text: string) => nameProblems([{ path, text }]);

  test.each([
    ['function ownerOf(row: Row) { return row.owner; }', 'ownerOf'],
    ['const ownerOf = ({ owner }: Row): string => owner;', 'ownerOf'],
    ['class Owners { #ownerOf(row: Row) { return row.owner; } }', 'ownerOf'],
    ['interface Owners { ownerOf(row: Row): string }', 'ownerOf'],
    ['interface Owners { ownerOf: (row: Row) => string }', 'ownerOf'],
    ['const owners = { ownerOf: (row: Row) => row.owner };', 'ownerOf'],
    ['function list(rows: Row[], ownerOf: (row: Row) => string) { return rows.map(ownerOf); }', 'ownerOf'],
  ])('rejects functions whose name ends in Of: %s', (text, name) => {
    const expected = [expect.stringContaining(`:1 calls a function ${name}: start with a verb`)];
    expect(problems('db/sales/a.ts', text)).toEqual(expected);
    expect(problems('tests/sales/a.test.ts', text)).toEqual(expected);
  });

  test.each([
    'export function owner(row: Row): string { return row.owner; }',
    'export const owner = (row: Row): string => row.owner;',
    'export const shown: Show = (row) => toOwner(row);',
    'export function errorDetails(error: Error): string { return error.message; }',
  ])('rejects functions that source code exports under a name without a verb: %s', (text) => {
    expect(problems('db/sales/a.ts', text)).toEqual([expect.stringContaining('db/sales/a.ts:1 calls a function')]);
    expect(problems('db/sales/a.ts', text.replace('export ', ''))).toEqual([]);
    for (const path of ['handlers/sales/a.ts', 'tests/sales/a.ts', 'generated/api.ts'])
      expect(problems(path, text)).toEqual([]);
  });

  test.each([
    'export function findOwner(row: Row): string { return row.owner; }',
    'export const toOwner = ({ owner }: Row): string => owner;',
    'export const isOwner = ({ owner }: Row): boolean => owner;',
    "export const ownerOf: ReadonlyMap<string, string> = new Map([['a', 'b']]);",
    "export const gone = () => new ApiError('NOT_FOUND', 'It is gone.');",
    'export function conflict(reason: string): ApiError { return build(reason); }',
    'export const checkbox = (name: string): Html => render(name);',
  ])('allows verbs, values, errors and elements of pages: %s', (text) => {
    expect(problems('web/pages/a.ts', text)).toEqual([]);
  });
});

describe('pages', () => {
  const named = (text: string, path = 'docs/a.md') =>
    namedFileProblems(
      [
        { path, text },
        { path: 'runtime/http/server.ts', text: '' },
      ],
      ['runtime', 'docs'],
    );

  test.each(['See `runtime/gone.ts`.', 'See `runtime/gone/`.', 'See `gone.ts`.', 'See [the map](MAP.md).'])(
    'must not name a file that does not exist: %s',
    (text) => {
      expect(named(text)).toHaveLength(1);
      expect(named(text, 'docs/decisions/a.md')).toHaveLength(1);
      expect(named(text, 'README.md')).toHaveLength(1);
    },
  );

  test.each([
    'See `runtime/http/server.ts`, `runtime/` and [it](../runtime/http/server.ts#part).',
    'Asks `GET /v1/leads` of `smtp://host`, at https://x.example/a.ts or [there](https://x.example/b.md), for `text/plain`.',
  ])('may name existing files and addresses: %s', (text) => {
    expect(named(text)).toEqual([]);
  });

  const decided = (text: string) =>
    decisionProblems([
      { path: 'docs/decisions/a.md', text: `# Decisions\n\n## It is so\n\nFor a reason.\n\n${text}\n` },
      { path: 'tests/a.test.ts', text: "test('it is so', () => {})" },
    ]);

  test.each([
    '',
    'It is tested.',
    'Enforced by: hope.',
    'Enforced by: `tests/a.test.ts`, “it was so”.',
    'Enforced by: `tests/b.test.ts`.\n\n## And so\n\nEnforced by: nothing yet',
  ])('must name an enforcer of each decision, and %j names none', (text) => {
    expect(decided(text)).toHaveLength(1);
  });

  test.each([
    'Enforced by: `tests/a.test.ts`, “it\nis so”.',
    'Enforced by: the compiler.',
    'Enforced by: nothing yet.',
  ])('must name an enforcer of each decision, and %j does', (text) => {
    expect(decided(text)).toEqual([]);
  });
});

test('make check reports every kind of violation in a project that has one of each, and fails', {
  timeout: 300_000,
}, () => {
  const copy = mkdtempSync(join(tmpdir(), 'check-'));
  const skipped = new Set(['node_modules', '.git', '.data', '.test-data', 'coverage', 'dist']);
  try {
    cpSync(root, copy, {
      recursive: true,
      preserveTimestamps: true,
      filter: (source) => !skipped.has(relative(root, source).split('/')[0] ?? ''),
    });
    symlinkSync(join(root, 'node_modules'), join(copy, 'node_modules'));
    const health = join(copy, 'spec/service/health.yaml');
    // A missing response violates a rule of the OpenAPI document and makes generated/ stale. So do
    // names: a reserved word of languages, one in two areas, and an unnamed enum.
    const broken = readFileSync(health, 'utf8')
      .replace(/^ +'429': .*\n/m, '')
      .replaceAll('HealthStatus', 'Record')
      .replace('../common.yaml#/schemas/Timestamp', '#/schemas/Timestamp')
      .replace('example: 1.0.0 }', "enum: ['1.0.0', '2.0.0'], example: 1.0.0 }");
    const engagement = join(copy, 'spec/messaging/email-engagement.yaml');
    writeFileSync(engagement, readFileSync(engagement, 'utf8').replace('    patch:', '    put:'));
    writeFileSync(health, `${broken}  Timestamp: { type: string, format: date-time }\n`);
    mkdirSync(join(copy, 'domain/utils'));
    writeFileSync(join(copy, 'domain/utils/again.ts'), "import './wrong.ts';\n");
    writeFileSync(
      join(copy, 'domain/utils/wrong.ts'),
      `import { sql } from '../../db/nowhere.ts'\nimport './again.ts'\nimport zod from 'zod'\nexport const folder: number = '${['', 'home', 'me'].join('/')}'\nsql.next = () => 1\nsql.options.preamble = 1\nexport const folderOf = () => folder`,
    );
    writeFileSync(join(copy, 'docs/decisions/again.md'), '# Decisions\n\n## As before\n');
    writeFileSync(join(copy, 'docs/again.md'), 'Mend it.\n');
    const ignored = join(copy, '.dockerignore');
    writeFileSync(ignored, readFileSync(ignored, 'utf8').replace('!services\n', ''));
    const manifest = join(copy, 'package.json');
    writeFileSync(manifest, readFileSync(manifest, 'utf8').replace('"pino": "', '"pino": "^'));

    // At low priority, because other tests call the server at the same time.
    const run = spawnSync('nice', ['-n', '10', process.execPath, 'checks/run.ts'], { cwd: copy, encoding: 'utf8' });
    expect(run.stdout.match(/^pass .*$/gm)).toBeNull();
    expect(run.stdout.match(/^FAIL .*$/gm)).toHaveLength(19);
    expect(run.stdout).toContain('domain/utils/wrong.ts:6 must not use preamble of the patched driver');
    expect(run.stdout).toContain('docs/again.md:1 says "Mend"');
    expect(run.stdout).toContain('domain/utils/wrong.ts:7 calls a function folderOf: start with a verb');
    expect(run.stdout).toContain('generated/openapi.json is out of date');
    expect(run.stdout).toMatch(/^ +Unused /m);
    expect(run.stdout).toContain('domain/utils/wrong.ts:5 writes a function into a property');
    expect(run.stdout).toContain('getHealth must declare the response 429');
    expect(run.stdout).toContain('updateEmailEngagement must be PATCH or POST');
    expect(run.stdout).toContain('TypeScript, Java, C# would rename the schema Record');
    expect(run.stdout).toContain('two files use the schema name Timestamp');
    expect(run.stdout).toContain('move this enum to schemas and reference it');
    expect(run.stdout).toContain('domain/utils/wrong.ts:1 must not import ../../db/nowhere.ts');
    expect(run.stdout).toMatch(/handlers\/\S+ needs services\/\S+, which is not in the image/);
    expect(run.stdout).toMatch(/\n19 of 19 checks failed\n$/);
    expect(run.status).toBe(1);
  } finally {
    rmSync(copy, { recursive: true });
  }
});
