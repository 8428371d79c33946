// The image: its check, and a test that its files suffice to build and run the server.
import { execFileSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { describe, expect, test } from 'vitest';
import { findNeededFiles, imageFiles, imageProblems } from '../../checks/image.ts';
import { readSources } from '../../checks/sources.ts';
import { expectStatus } from '../support/client.ts';
import { besideCommon } from '../support/databases.ts';
import { startServer } from '../support/servers.ts';
import { testSettings } from '../support/setup.ts';

const root = resolve(import.meta.dirname, '../..');

const ending =
  'RUN node cli/build.ts\nFROM node\nCOPY --from=build /app/dist dist\nCMD ["node", "--flag", "dist/main.js"]\n';
/**
 * Returns a .dockerignore that excludes everything except the build's needs and the given folders.
 */
const ignoring = (...folders: string[]): string =>
  ['*', ...['package.json', 'tsconfig*.json', 'main.ts', 'cli', ...folders].map((each) => `!${each}`)].join('\n');

const files = {
  'main.ts': "import './app/serve.ts';\nimport postgres from 'postgres';",
  'app/serve.ts':
    "import { pool } from '../db/pool.ts';\nconst file = new URL('../generated/openapi.json', import.meta.url);\n" +
    'const worker = new URL(`./worker$' +
    '{ownExtension}`, import.meta.url);',
  'app/worker.ts': "import '../jobs/mail.ts';",
  'jobs/mail.ts': '',
  'db/pool.ts': "const folder = new URL('./migrations/', import.meta.url);",
  'db/migrations/0001-a.sql': '',
  'generated/openapi.json': '{}',
  'tests/a.test.ts': "import '../main.ts';",
  'cli/build.ts': '',
  'tsconfig.json': '{}',
  'tsconfig.build.json': '{}',
  Dockerfile: `FROM node AS build\nCOPY package.json ./\nCOPY . .\n${ending}`,
  '.dockerignore': `# Why.\n${ignoring('app', 'db', 'jobs', 'generated')}\n`,
  'package.json': '{}',
};
const problems = (more: Record<string, string> = {}) =>
  imageProblems(Object.entries({ ...files, ...more }).map(([path, text]) => ({ path, text })));
const ignored = (text: string) => problems({ '.dockerignore': text });

describe('an image', () => {
  test('accepts an image with all files', () => {
    expect(problems()).toEqual([]);
    expect(ignored('')).toEqual([]);
    expect(ignored('tests\n**/*.md\n*.log')).toEqual([]);
    expect(ignored('*\n!*.json\n!*.ts\n!*/*.ts\n!*/*/*.ts\n!generated\n!db')).toEqual([]);
  });

  test.each([
    ['a program', '*\n!*.json\n!cli\n!app\n!db\n!jobs\n!generated', 'main.ts'],
    ['the build script', 'cli', 'cli/build.ts'],
    ['the compiler settings', 'tsconfig.build.json', 'tsconfig.build.json'],
    ['an imported folder', ignoring('app', 'jobs', 'generated'), 'db/pool.ts'],
    ['a folder that a worker imports', 'jobs/', 'jobs/mail.ts'],
    ['a file that is read', '**/openapi.json', 'generated/openapi.json'],
    ['a folder that is read', 'db/migrations', 'db/migrations/0001-a.sql'],
    ['some files of a folder that is read', '**/*.sql', 'db/migrations/0001-a.sql'],
    ['a file that a later line excludes again', '!db\ndb/p?ol.ts', 'db/pool.ts'],
  ])('reports an image that lacks %s', (_, text, path) => {
    expect(ignored(text).join('\n')).toContain(` needs ${path}, which is not in the image`);
  });

  test.each([
    ['copies an ignored file', { '.dockerignore': 'package.json' }, 'Dockerfile copies package.json'],
    ['copies the files to another folder', { Dockerfile: `COPY . ./app\n${ending}` }, 'Dockerfile needs main.ts'],
    ['copies only some files', { Dockerfile: `COPY main.ts ./\n${ending}` }, 'main.ts needs app/serve.ts'],
    [
      'starts a missing program',
      { Dockerfile: 'COPY . .\nCMD ["node", "dist/serve.js"]' },
      'Dockerfile needs serve.ts',
    ],
    ['does not copy the build', { Dockerfile: 'COPY . .\nCMD ["node", "dist/main.js"]' }, 'does not copy that'],
    ['has no CMD', { Dockerfile: 'COPY . .\n' }, 'Dockerfile has no CMD'],
    ['imports a missing file', { 'jobs/mail.ts': "import './sweeps.ts';" }, 'jobs/mail.ts needs jobs/sweeps.ts'],
  ])('reports an image that %s', (_, more, problem) => {
    expect(problems(more as Record<string, string>).join('\n')).toContain(problem);
  });

  test('accepts folders that are copied by name', () => {
    const Dockerfile = [
      'main.ts tsconfig.json tsconfig.build.json ./',
      'cli cli',
      'app app',
      'db ./db/',
      'jobs jobs',
      'generated ./generated',
    ]
      .map((each) => `COPY ${each}\n`)
      .join('');
    expect(problems({ Dockerfile: `${Dockerfile}${ending}` })).toEqual([]);
  });
});

test('the server builds from the files of the image only, and starts with workers', {
  timeout: 300_000,
}, async () => {
  const folder = mkdtempSync(join(tmpdir(), 'image-'));
  const [build, image] = [join(folder, 'build'), join(folder, 'image')];
  try {
    const sources = readSources(root);
    for (const path of imageFiles(sources)) {
      mkdirSync(dirname(join(build, path)), { recursive: true });
      cpSync(join(root, path), join(build, path));
    }
    symlinkSync(join(root, 'node_modules'), join(build, 'node_modules'));
    execFileSync(process.execPath, ['cli/build.ts'], { cwd: build });
    mkdirSync(image);
    cpSync(join(build, 'dist'), join(image, 'dist'), { recursive: true });
    cpSync(join(build, 'package.json'), join(image, 'package.json'));
    symlinkSync(join(root, 'node_modules'), join(image, 'node_modules'));
    const needed = [...findNeededFiles(['main.ts'], sources).keys()].map((path) => path.replace(/\.ts$/, '.js'));
    expect(needed).toContain('integrations/caldav/reading-thread.js');
    expect(needed.filter((path) => !existsSync(join(image, 'dist', path)))).toEqual([]);
    const settings = { ...besideCommon(), WORKERS: '2' };
    // Workers require a Redis URL. While Redis does not respond, they count locally.
    const redis = { REDIS_URL: 'redis://127.0.0.1:1' };
    const server = await startServer(
      { ...testSettings, ...settings, ...redis, DATA_DIR: join(folder, 'data') },
      { main: join(image, 'dist/main.js') },
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
