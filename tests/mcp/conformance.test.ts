// The conformance suite of the protocol on the route as it is: what it asks of any server.
import { execFile } from 'node:child_process';
import { createServer, request, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { resolve } from 'node:path';
import { stripVTControlCharacters } from 'node:util';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { anyAddress } from '../support/client.ts';
import { mcpPath } from '../support/mcp.ts';
import { newWideTenant } from '../support/requests.ts';

const suite = resolve('node_modules/@modelcontextprotocol/conformance/dist/index.js');
/** By revision. */
const scenarios = {
  '2025-11-25': [
    'server-initialize',
    'ping',
    'tools-list',
    'resources-list',
    'prompts-list',
    'dns-rebinding-protection',
  ],
  '2026-07-28': [
    ...['server-stateless', 'tools-list', 'resources-list', 'prompts-list', 'dns-rebinding-protection'],
    ...['http-header-validation', 'caching', 'sep-2164-resource-not-found'],
  ],
};

/** Of `server-stateless`: they call tools of the suite's own, or wait for changes of lists, which this server does not tell of. */
const ofFixtures = [
  ...['sep-2575-server-rejects-undeclared-capability', 'sep-2575-missing-capability-http-400'],
  ...['sep-2575-http-server-no-independent-requests-on-stream', 'sep-2575-server-no-log-without-loglevel'],
  ...['sep-2575-server-sends-subscription-ack', 'sep-2575-server-tags-subscription-id'],
];

/** Puts a key on what the suite sends, which it cannot do itself; all else goes through as it is. */
let door: Server;

beforeAll(async () => {
  const { key } = await newWideTenant();
  const { port } = new URL(inject('baseUrl'));
  door = createServer((incoming, response) => {
    const headers = { ...incoming.headers, 'x-api-key': key, 'x-forwarded-for': anyAddress() };
    const { method, url: path } = incoming;
    const sent = request({ host: '127.0.0.1', port, method, path, headers }, (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(response);
    });
    sent.on('error', () => response.destroy());
    incoming.pipe(sent);
  });
  await new Promise<void>((done) => door.listen(0, '127.0.0.1', done));
});

afterAll(() => {
  door.closeAllConnections();
  door.close();
});

function run(words: readonly string[]): Promise<string> {
  const { port } = door.address() as AddressInfo;
  const asked = [suite, 'server', '--url', `http://localhost:${port}${mcpPath}`, ...words];
  // It ends with an error where a check fails, which its output says.
  return new Promise((done) => {
    execFile(process.execPath, asked, (_error, stdout, stderr) => done(stdout + stderr));
  });
}

describe.each(Object.entries(scenarios))('of revision %s', (version, names) => {
  test.each(names)('%s is passed', async (scenario) => {
    const output = await run(['--scenario', scenario, '--spec-version', version]);
    expect(output).toMatch(/Passed: [1-9]/);
    const failed = stripVTControlCharacters(output).matchAll(/\[([\w-]+) *\] FAILURE/g);
    const checks = [...failed].map(([, check]) => check ?? '').filter((check) => !ofFixtures.includes(check));
    expect(checks.join(', ')).toBe('');
  });
});
