// The conformance suite of the protocol, on the route as it is: what it asks of any server, without fixtures of its own.
import { execFile } from 'node:child_process';
import { createServer, request, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { resolve } from 'node:path';
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

function run(words: readonly string[]): Promise<{ code: number; output: string }> {
  const { port } = door.address() as AddressInfo;
  const asked = [suite, 'server', '--url', `http://localhost:${port}${mcpPath}`, ...words];
  return new Promise((done) => {
    execFile(process.execPath, asked, (error, stdout, stderr) =>
      done({ code: error === null ? 0 : Number(error.code ?? -1), output: stdout + stderr }),
    );
  });
}

describe.each(Object.entries(scenarios))('of revision %s', (version, names) => {
  test.each(names)('%s is passed', async (scenario) => {
    const { code, output } = await run(['--scenario', scenario, '--spec-version', version]);
    expect(output).toMatch(/Passed: [1-9]/);
    expect(code, output).toBe(0);
  });
});
