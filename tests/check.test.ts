// That make check catches what it promises to catch: one violation of each rule, and a whole project with one of each kind.
import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { setPriority, tmpdir } from 'node:os';
import { join, relative, resolve } from 'node:path';
import { describe, expect, test } from 'vitest';
import { folderProblems, headerProblems, mentionProblems, packageProblems } from '../checks/files.ts';
import { dependencyProblems, importProblems } from '../checks/imports.ts';

const root = resolve(import.meta.dirname, '..');

describe('imports', () => {
  test.each([
    ['domain/a.ts', "import { sql } from '../db/connect.ts';"],
    ['domain/a.ts', "import { problem } from '../runtime/errors.ts';"],
    ['domain/a.ts', "import type { Call } from '../runtime/handler.ts';"],
    ['domain/a.ts', "import * as api from '../generated/api.ts';"],
    ['domain/a.ts', "import { type components, paths } from '../generated/api.ts';"],
    ['domain/a.ts', "import { randomUUID } from 'node:crypto';"],
    ['domain/a.ts', "import postgres from 'postgres';"],
    ['db/a.ts', "import type { components } from '../generated/api.ts';"],
    ['db/a.ts', "import { notFound } from '../runtime/errors.ts';"],
    ['db/a.ts', "import { plans } from '../domain/plans.ts';"],
    ['db/a.ts', "import { Redis } from 'ioredis';"],
    ['runtime/a.ts', "import { getHealth } from '../handlers/health.ts';"],
    ['runtime/a.ts', "import { Pool } from '../db/connect.ts';"],
    ['runtime/a.ts', "import { buildStore } from '../store.ts';"],
    ['handlers/a.ts', "import { getHealth } from './health.ts';"],
    ['handlers/a.ts', "import { buildServer } from '../runtime/server.ts';"],
    ['handlers/a.ts', "import postgres from 'postgres';"],
    ['handlers/a.ts', "import type { Sql } from 'postgres';"],
    ['handlers/a.ts', "import { Redis } from 'ioredis';"],
    ['handlers/a.ts', "import { request } from 'node:http';"],
    ['handlers/a.ts', "export { request } from 'node:http';"],
    ['handlers/a.ts', "const http = await import('node:http');"],
    ['handlers/a.ts', 'const module = await import(name);'],
    ['handlers/a.ts', "type Options = import('node:http').RequestOptions;"],
    ['writes/a.ts', "import { createLead } from '../handlers/leads.ts';"],
    ['writes/a.ts', 'new Date()'],
    ['handlers/index.ts', "import { findLead } from '../db/leads.ts';"],
    ['jobs/a.ts', "import { getHealth } from '../handlers/health.ts';"],
    ['jobs/a.ts', "import { buildServer } from '../runtime/server.ts';"],
    ['generated/a.ts', "import { plans } from '../domain/plans.ts';"],
    ['tests/a.test.ts', "import { getHealth } from '../handlers/health.ts';"],
    ['sdk/src/a.ts', "import type { paths } from '../../generated/api.ts';"],
    ['sdk/src/a.ts', "import { createHmac } from 'node:crypto';"],
    ['sdk/src/a.ts', "import { Agent } from 'undici';"],
    ['sdk/generate.ts', "import { descriptions } from './src/generated/operations.ts';"],
  ])('refuses in %s: %s', (path, text) => {
    expect(importProblems([{ path, text: `// What it is.\n${text}\n` }])).toHaveLength(1);
  });

  test.each([
    ['domain/a.ts', "import type { components } from '../generated/api.ts';"],
    ['domain/a.ts', "import { type components } from '../generated/api.ts';"],
    ['domain/a.ts', "import { plans } from './plans.ts';"],
    ['db/a.ts', "import postgres from 'postgres';"],
    ['db/a.ts', "import { Pool } from './connect.ts';"],
    ['runtime/a.ts', "import { plans } from '../domain/plans.ts';"],
    ['handlers/a.ts', "import { findLead } from '../db/leads.ts';"],
    ['handlers/a.ts', "import { storeNew } from '../writes/store.ts';"],
    ['handlers/a.ts', "import { sessionTokenSeconds } from '../runtime/session-tokens.ts';"],
    ['handlers/index.ts', "import * as health from './health.ts';"],
    ['jobs/a.ts', "import { openLog } from '../runtime/log.ts';"],
    ['main.ts', "import { handlers } from './handlers/index.ts';"],
    ['sdk/src/a.ts', "import createFetchClient from 'openapi-fetch';"],
    ['sdk/src/a.ts', "import { descriptions } from './generated/operations.ts';"],
  ])('allows in %s: %s', (path, text) => {
    expect(importProblems([{ path, text }])).toEqual([]);
  });

  test.each([
    ['domain/a.ts', 'Date.now()'],
    ['domain/a.ts', 'new Date()'],
    ['domain/a.ts', 'new Date'],
    ['domain/a.ts', 'Math.random()'],
    ['domain/a.ts', 'crypto.randomUUID()'],
    ['domain/a.ts', 'process.env.TZ'],
    ['domain/a.ts', "fetch('https://example.com')"],
    ['handlers/a.ts', 'Date.now()'],
    ['handlers/a.ts', 'process.env.PORT'],
    ['db/a.ts', 'process.env.PORT'],
    ['runtime/a.ts', 'process.env.PORT'],
    ['jobs/a.ts', 'process.env.PORT'],
  ])('refuses in %s the expression %s', (path, expression) => {
    expect(importProblems([{ path, text: `// What it is.\nexport const given = ${expression};\n` }])).toHaveLength(1);
  });

  test('allows domain a date that is given', () => {
    expect(importProblems([{ path: 'domain/a.ts', text: 'export const day = (at: number) => new Date(at);' }])).toEqual(
      [],
    );
  });
});

describe('packages', () => {
  const manifest = { dependencies: { pino: '10.4.0' }, devDependencies: { vitest: '4.1.12' } };
  const problems = (path: string, text: string) => dependencyProblems([{ path, text }], manifest);

  test('must be declared where they are needed', () => {
    expect(problems('runtime/a.ts', "import pino from 'pino';")).toEqual([]);
    expect(problems('tests/a.test.ts', "import { test } from 'vitest';")).toEqual([]);
    expect(problems('runtime/a.ts', "import type { Test } from 'vitest';")).toEqual([]);
    expect(problems('runtime/a.ts', "import { test } from 'vitest';")).toHaveLength(1);
    expect(problems('runtime/a.ts', "import { z } from 'zod/v4';")).toHaveLength(1);
  });

  test('have exact versions, the same in the lock file, and no scripts beside them', () => {
    const lock = { packages: { '': manifest } };
    expect(packageProblems(manifest, lock)).toEqual([]);
    expect(packageProblems({ ...manifest, scripts: { test: 'vitest' } }, lock)).toHaveLength(1);
    expect(packageProblems({ ...manifest, dependencies: { pino: '10.4.1' } }, lock)).toHaveLength(1);
    const loose = { dependencies: { pino: '^10.4.0' } };
    expect(packageProblems(loose, { packages: { '': loose } })).toHaveLength(1);
  });
});

describe('files and folders', () => {
  test.each([
    ['runtime/a.ts', "import pino from 'pino';\n"],
    ['db/migrations/0002-a.sql', 'create table a ();\n'],
    ['spec/a.yaml', 'paths:\n'],
    ['a.js', '\n// Late.\n'],
  ])('%s must say in its first line what belongs in it', (path, text) => {
    expect(headerProblems([{ path, text }])).toHaveLength(1);
  });

  // Put together, so that this file does not name them.
  const [path, host] = [['', 'home', 'someone', 'crm'].join('/'), ['registry', 'npmjs', 'org'].join('.')];

  test.each([
    `cd ${path}`,
    `"file://${path}"`,
    `https://${host}/pino`,
    `"resolved": "${'https:'}//packages.example/pino.tgz"`,
  ])('nothing may name one machine: %s', (text) => {
    expect(mentionProblems([{ path: 'README.md', text }])).toHaveLength(1);
  });

  test('a path of the API is not a path of a machine', () => {
    expect(mentionProblems([{ path: 'README.md', text: 'GET https://example.com/work/x and /v1/workforces' }])).toEqual(
      [],
    );
  });

  test('a folder is named after what it holds', () => {
    expect(folderProblems(['runtime', 'runtime/utils', 'db/migrations'])).toHaveLength(1);
  });
});

test('make check reports every kind of violation in a project that has one of each, and fails', {
  timeout: 300_000,
}, () => {
  // The compiler and the linters must not take the processor from the server, which other tests are calling.
  setPriority(10);
  const copy = mkdtempSync(join(tmpdir(), 'check-'));
  const skipped = new Set(['node_modules', '.git', '.data', '.test-data', 'coverage']);
  try {
    cpSync(root, copy, {
      recursive: true,
      preserveTimestamps: true,
      filter: (source) => !skipped.has(relative(root, source).split('/')[0] ?? ''),
    });
    symlinkSync(join(root, 'node_modules'), join(copy, 'node_modules'));
    const health = join(copy, 'spec/health.yaml');
    // An answer that is gone makes the document break a rule, and leaves generated/ behind it.
    writeFileSync(health, readFileSync(health, 'utf8').replace(/^ +'429': .*\n/m, ''));
    mkdirSync(join(copy, 'domain/utils'));
    writeFileSync(
      join(copy, 'domain/utils/wrong.ts'),
      `import { sql } from '../../db/nowhere.ts'\nimport zod from 'zod'\nexport const folder: number = '${['', 'home', 'me'].join('/')}'`,
    );
    const manifest = join(copy, 'package.json');
    writeFileSync(manifest, readFileSync(manifest, 'utf8').replace('"pino": "', '"pino": "^'));

    const run = spawnSync(process.execPath, ['checks/run.ts'], { cwd: copy, encoding: 'utf8' });
    expect(run.stdout.match(/^pass .*$/gm)).toBeNull();
    expect(run.stdout.match(/^FAIL .*$/gm)).toHaveLength(10);
    expect(run.stdout).toContain('generated/openapi.json is not what spec/ derives');
    expect(run.stdout).toContain('getHealth must list the answer 429');
    expect(run.stdout).toContain('domain/utils/wrong.ts:1 must not import ../../db/nowhere.ts');
    expect(run.stdout).toMatch(/\n10 of 10 checks failed\n$/);
    expect(run.status).toBe(1);
  } finally {
    rmSync(copy, { recursive: true });
  }
});
