// Rotation of the key that signs tokens, step by step.
import { execFile } from 'node:child_process';
import { rmSync } from 'node:fs';
import { promisify } from 'node:util';
import { afterAll, expect, inject, test } from 'vitest';
import { startServer } from '../support/servers.ts';
import { testSettings } from '../support/setup.ts';
import { database } from '../support/tenants.ts';

const name = 'rotated_keys';
const settings = {
  ...testSettings,
  DATABASE_URL: inject('databaseUrl').replace(/[^/]+$/, name),
  SECRET_KEY: inject('secretKey'),
  DATA_DIR: '.test-data/rotated-keys',
};

afterAll(async () => {
  rmSync(settings.DATA_DIR, { recursive: true, force: true });
  await database().unsafe(`drop database if exists ${name} with (force)`);
});

/** Returns the key ids of a server that starts now. The first key signs. */
async function shownKeys(): Promise<string[]> {
  const server = await startServer(settings);
  try {
    const answer = await fetch(`${server.url}/auth/v1/.well-known/jwks.json`);
    const { keys } = (await answer.json()) as { keys: { kid: string; d?: string }[] };
    expect(keys.filter(({ d }) => d !== undefined)).toEqual([]);
    return keys.map(({ kid }) => kid);
  } finally {
    await server.stop();
  }
}

const rotate = (step: string) =>
  promisify(execFile)(process.execPath, ['cli/rotate-signing-key.ts'], {
    env: { PATH: process.env.PATH, ...settings, STEP: step },
  });

test('publishes the new key before it signs, and the old one afterwards', async () => {
  await database().unsafe(`create database ${name} template template0`);
  const [old] = await shownKeys();
  await expect(rotate('sign')).rejects.toThrow('Start with STEP=publish');
  await expect(rotate('all')).rejects.toThrow('STEP must be one of publish, sign, retire');
  await rotate('publish');
  const [first, second] = await shownKeys();
  expect([first, second]).toEqual([old, expect.not.stringMatching(old ?? '')]);
  await expect(rotate('publish')).rejects.toThrow('A rotation is in progress');
  await rotate('sign');
  expect(await shownKeys()).toEqual([second, old]);
  await rotate('retire');
  expect(await shownKeys()).toEqual([second]);
});
