// The rules for generated clients, each with a small OpenAPI document that violates it.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { document } from '../support/document.ts';

const root = resolve(import.meta.dirname, '../..');
const folder = mkdtempSync(join(tmpdir(), 'spec-rules-'));
afterAll(() => rmSync(folder, { recursive: true }));

/** Returns the messages of a rule for an OpenAPI document with one operation. */
function lint(rule: string, parameters: object[], components: object): string {
  const answer = {
    description: 'Fine.',
    content: { 'application/json': { schema: { $ref: '#/components/schemas/Tag' } } },
  };
  const shared = [{ name: 'id', in: 'path', required: true, schema: { type: 'string' } }];
  const paths = { '/tags/{id}': { parameters: shared, get: { parameters, responses: { 200: answer } } } };
  const info = { title: 'Tags', version: '1' };
  writeFileSync(join(folder, 'openapi.json'), JSON.stringify({ openapi: '3.1.0', info, paths, components }));
  writeFileSync(
    join(folder, 'redocly.yaml'),
    `extends: []\nplugins: ['${join(root, 'spec/rules/plugin.js')}']\nrules: { ${rule}: error }\n`,
  );
  const redocly = join(root, 'node_modules/.bin/redocly');
  const run = spawnSync(redocly, ['lint', 'openapi.json', '--format=json'], {
    cwd: folder,
    encoding: 'utf8',
    env: { PATH: process.env.PATH, REDOCLY_TELEMETRY: 'off', REDOCLY_SUPPRESS_UPDATE_NOTICE: 'true' },
  });
  return JSON.parse(run.stdout)
    .problems.map(({ message }: { message: string }) => message)
    .join();
}

const tag = { type: 'string' };
const reference = [{ $ref: '#/components/parameters/Color' }];
const color = { name: 'color', in: 'query', schema: { $ref: '#/components/schemas/Tag' } };

test('rejects a component name that two kinds share', () => {
  const rule = 'crm/distinct-component-names';
  expect(lint(rule, reference, { schemas: { Tag: tag }, parameters: { Color: color } })).toBe('');
  const shared = [{ $ref: '#/components/parameters/Tag' }];
  expect(lint(rule, shared, { schemas: { Tag: tag }, parameters: { Tag: color } })).toContain('have the name Tag');
});

test('rejects a parameter that a path and its operation both declare', () => {
  const rule = 'crm/no-overridden-parameters';
  expect(lint(rule, [color], { schemas: { Tag: tag } })).toBe('');
  const own = { name: 'id', in: 'path', required: true, schema: { type: 'string' } };
  expect(lint(rule, [own], { schemas: { Tag: tag } })).toContain('both declare the parameter path id');
});

test('the OpenAPI document has one kind of component for each name', () => {
  const names = Object.values(document.components ?? {}).flatMap((components) => Object.keys(components));
  expect(names.filter((name, at) => names.indexOf(name) !== at)).toEqual([]);
});
