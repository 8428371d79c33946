// The image: what its check finds, and that its files are all that the server needs.
import { cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { describe, expect, inject, test } from 'vitest';
import { imageFiles, imageProblems } from '../../checks/image.ts';
import { readSources } from '../../checks/sources.ts';
import { expectStatus } from '../support/client.ts';
import { startServer } from '../support/servers.ts';
import { testSettings } from '../support/setup.ts';

const root = resolve(import.meta.dirname, '../..');

const files = {
  'main.ts': "import './app/serve.ts';\nimport postgres from 'postgres';",
  'app/serve.ts':
    "import { pool } from '../db/pool.ts';\nconst file = new URL('../generated/openapi.json', import.meta.url);\nconst worker = new URL('./worker.ts', import.meta.url);",
  'app/worker.ts': "import '../jobs/mail.ts';",
  'jobs/mail.ts': '',
  'db/pool.ts': "const folder = new URL('./migrations/', import.meta.url);",
  'db/migrations/0001-a.sql': '',
  'generated/openapi.json': '{}',
  'tests/a.test.ts': "import '../main.ts';",
  Dockerfile: 'FROM node\nCOPY package.json ./\nCOPY . .\nCMD ["node", "--flag", "main.ts"]\n',
  '.dockerignore': '# Why.\n*\n!package.json\n!main.ts\n!app\n!db\n!jobs\n!generated\n',
  'package.json': '{}',
};
const problems = (more: Record<string, string> = {}) =>
  imageProblems(Object.entries({ ...files, ...more }).map(([path, text]) => ({ path, text })));
const ignored = (text: string) => problems({ '.dockerignore': text });

describe('an image', () => {
  test('that has everything is complete', () => {
    expect(problems()).toEqual([]);
    expect(ignored('')).toEqual([]);
    expect(ignored('tests\n**/*.md\n*.log')).toEqual([]);
    expect(ignored('*\n!package.json\n!*.ts\n!*/*.ts\n!generated\n!db')).toEqual([]);
  });

  test.each([
    ['a program', '*\n!package.json\n!app\n!db\n!jobs\n!generated', 'main.ts'],
    ['a folder that is imported', '*\n!package.json\n!main.ts\n!app\n!jobs\n!generated', 'db/pool.ts'],
    ['a folder that a worker imports', 'jobs/', 'jobs/mail.ts'],
    ['a file that is read', '**/openapi.json', 'generated/openapi.json'],
    ['a folder that is read', 'db/migrations', 'db/migrations/0001-a.sql'],
    ['some files of a folder that is read', '**/*.sql', 'db/migrations/0001-a.sql'],
    ['what a later line takes out again', '!db\ndb/p?ol.ts', 'db/pool.ts'],
  ])('lacks %s', (_, text, path) => {
    expect(ignored(text).join('\n')).toContain(` needs ${path}, which is not in the image`);
  });

  test.each([
    ['copies what is left out', { '.dockerignore': 'package.json' }, 'Dockerfile copies package.json'],
    ['copies it elsewhere', { Dockerfile: 'COPY . ./app\nCMD ["node", "main.ts"]' }, 'Dockerfile needs main.ts'],
    ['copies some of it', { Dockerfile: 'COPY main.ts ./\nCMD ["node", "main.ts"]' }, 'main.ts needs app/serve.ts'],
    ['starts what there is not', { Dockerfile: 'COPY . .\nCMD ["node", "serve.ts"]' }, 'Dockerfile needs serve.ts'],
    ['starts nothing', { Dockerfile: 'COPY . .\n' }, 'Dockerfile has no CMD'],
    ['imports what there is not', { 'jobs/mail.ts': "import './sweeps.ts';" }, 'jobs/mail.ts needs jobs/sweeps.ts'],
  ])('is not complete where it %s', (_, more, problem) => {
    expect(problems(more as Record<string, string>).join('\n')).toContain(problem);
  });

  test('made of folders by name has them in their place', () => {
    const Dockerfile = ['main.ts package.json ./', 'app app', 'db ./db/', 'jobs jobs', 'generated ./generated']
      .map((each) => `COPY ${each}\n`)
      .join('');
    expect(problems({ Dockerfile: `${Dockerfile}CMD ["node", "main.ts"]` })).toEqual([]);
  });
});

test('the server starts from the files of the image alone, with workers', { timeout: 120_000 }, async () => {
  const folder = mkdtempSync(join(tmpdir(), 'image-'));
  try {
    for (const path of imageFiles(readSources(root))) {
      mkdirSync(dirname(join(folder, path)), { recursive: true });
      cpSync(join(root, path), join(folder, path));
    }
    symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'));
    const settings = { DATABASE_URL: inject('databaseUrl'), SECRET_KEY: inject('secretKey'), WORKERS: '2' };
    // Workers want a Redis to count together; without an answer from it calls are let through.
    const redis = { REDIS_URL: 'redis://127.0.0.1:1' };
    const server = await startServer(
      { ...testSettings, ...settings, ...redis, DATA_DIR: join(folder, 'data') },
      { main: join(folder, 'main.ts') },
    );
    try {
      await expectStatus(200, 'GET', '/v1/health', { baseUrl: server.url });
      await expectStatus(200, 'GET', '/v1/openapi.json', { baseUrl: server.url });
    } finally {
      await server.stop();
    }
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});
