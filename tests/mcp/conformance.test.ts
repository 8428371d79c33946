// The protocol's conformance suite against its fixtures, and against the endpoint itself.
import { execFile, execFileSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { createServer, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { anyAddress } from '../support/client.ts';
import { besideCommon } from '../support/databases.ts';
import { generations, mcpPath } from '../support/mcp.ts';
import { newWideTenant } from '../support/requests.ts';
import { startServer, type TestServer } from '../support/servers.ts';
import { testSettings } from '../support/setup.ts';

const suite = fileURLToPath(new URL(import.meta.resolve('@modelcontextprotocol/conformance/dist/index.js')));
const fixtureServer = fileURLToPath(new URL('fixture-server.ts', import.meta.url));

/**
 * By revision: the scenarios that the endpoint must pass with its own tools, resources and prompts.
 */
const onTheRoute = {
  '2025-11-25': [
    'server-initialize',
    'ping',
    'server-session-lifecycle',
    'dns-rebinding-protection',
    'tools-list',
    'resources-list',
    'prompts-list',
  ],
  '2026-07-28': [
    'server-stateless',
    'http-header-validation',
    'caching',
    'dns-rebinding-protection',
    'tools-list',
    'resources-list',
    'prompts-list',
    'sep-2164-resource-not-found',
    'input-required-result-unsupported-methods',
  ],
} as const;

const callsFixture = 'it calls a tool of the suite; it passes where there is one';
/**
 * By revision, scenario and check: failures of the endpoint, with reasons. Passing checks must not
 * be listed.
 */
const exemptOnTheRoute: Exemptions = {
  '2026-07-28': {
    'server-stateless': {
      'sep-2575-server-rejects-undeclared-capability': callsFixture,
      'sep-2575-missing-capability-http-400': callsFixture,
      'sep-2575-http-server-no-independent-requests-on-stream': callsFixture,
      'sep-2575-server-no-log-without-loglevel': callsFixture,
    },
  },
};

type Exemptions = Readonly<Record<string, Readonly<Record<string, Readonly<Record<string, string>>>>>>;

/** Results of checks by name. If a check ran several times, the worst one. */
type Checks = ReadonlyMap<string, string>;

/** A proxy for servers that need an API key, which the suite does not have. */
interface Door {
  address: string;
  close(): void;
}

const severities = ['SKIPPED', 'INFO', 'SUCCESS', 'WARNING', 'FAILURE'];

let server: TestServer;
let fixtures: Door;
let route: Door;

beforeAll(async () => {
  const shared = { ...besideCommon(), DATA_DIR: '.test-data' };
  server = await startServer({ ...testSettings, ...shared }, { main: fixtureServer });
  const { key } = await newWideTenant();
  fixtures = await openDoor(server.url, key);
  route = await openDoor(inject('baseUrl'), key);
});

afterAll(async () => {
  fixtures?.close();
  route?.close();
  await server?.stop();
});

/** Adds an API key to the requests of the suite, and passes everything else unchanged. */
async function openDoor(to: string, key: string): Promise<Door> {
  const { hostname: host, port } = new URL(to);
  const door = createServer((incoming, response) => {
    const headers = { ...incoming.headers, 'x-api-key': key, 'x-forwarded-for': anyAddress() };
    const { method, url: path } = incoming;
    const sent = request({ host, port, method, path, headers }, (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(response);
    });
    sent.on('error', () => response.destroy());
    incoming.pipe(sent);
  });
  await new Promise<void>((done) => door.listen(0, '127.0.0.1', done));
  return {
    address: `http://localhost:${(door.address() as AddressInfo).port}${mcpPath}`,
    close() {
      door.closeAllConnections();
      door.close();
    },
  };
}

/** Runs the suite through the proxy. @returns the results by scenario */
async function run(door: Door, revision: string): Promise<ReadonlyMap<string, Checks>> {
  const folder = mkdtempSync(join(tmpdir(), 'conformance-'));
  const asked = ['server', '--url', door.address, '--suite', 'all', '--spec-version', revision, '--output-dir', folder];
  try {
    // It exits with an error if a check fails, which its results contain.
    const output = await new Promise<string>((done) => {
      execFile(process.execPath, [suite, ...asked], { maxBuffer: 1e8 }, (_error, stdout, stderr) =>
        done(stdout + stderr),
      );
    });
    const findings = readFindings(folder);
    expect(findings.size, output).toBeGreaterThan(0);
    return findings;
  } finally {
    rmSync(folder, { recursive: true });
  }
}

function readFindings(folder: string): ReadonlyMap<string, Checks> {
  const findings = new Map<string, Checks>();
  for (const name of readdirSync(folder)) {
    const scenario = /^server-(.+)-\d{4}-\d\d-\d\dT[\d-]+Z$/.exec(name)?.[1] ?? name;
    const checks = new Map<string, string>();
    for (const { id, status } of JSON.parse(readFileSync(join(folder, name, 'checks.json'), 'utf8'))) {
      const known = checks.get(id) ?? 'SKIPPED';
      checks.set(id, severities.indexOf(status) > severities.indexOf(known) ? status : known);
    }
    findings.set(scenario, checks);
  }
  return findings;
}

/** Returns the failed checks in order. */
const notPassed = (checks: Checks = new Map()): string[] =>
  [...checks].filter(([, status]) => status === 'FAILURE' || status === 'WARNING').map(([check]) => check);

/** Returns the server scenarios that a revision required at its release. */
function requiredBy(revision: string): string[] {
  const listed = execFileSync(process.execPath, [suite, 'list', '--requirements', revision], { encoding: 'utf8' });
  const [ofServers = ''] = listed.split('Server scenarios')[1]?.split('Client scenarios') ?? [];
  return [...ofServers.matchAll(/^ {2}- (\S+)/gm)].map(([, name]) => name ?? '');
}

test('counts a call in a session like any other request', async () => {
  const call = (method: string, params: object, session: Record<string, string> = {}) =>
    fetch(fixtures.address, {
      method: 'POST',
      headers: { accept: 'application/json, text/event-stream', 'content-type': 'application/json', ...session },
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
    });
  const remaining = (answer: Response) => Number(answer.headers.get('x-ratelimit-remaining'));
  const clientInfo = { name: 'test', version: '1.0.0' };
  const begun = await call('initialize', { protocolVersion: '2025-11-25', capabilities: {}, clientInfo });
  const session = { 'mcp-session-id': begun.headers.get('mcp-session-id') ?? '' };
  const called = await call('tools/call', { name: 'test_simple_text' }, session);
  expect(await called.text()).toContain('This is a simple text response');
  expect(remaining(called)).toBe(remaining(begun) - 1);
});

describe.each(generations)('of revision %s', (revision) => {
  describe('with the fixtures of the suite', () => {
    let findings: ReadonlyMap<string, Checks>;
    beforeAll(async () => {
      findings = await run(fixtures, revision);
    });

    const required = requiredBy(revision);

    test.each(required)('passes the required scenario %s with fixtures', (scenario) => {
      const checks = findings.get(scenario);
      expect(checks?.size).toBeGreaterThan(0);
      expect(notPassed(checks)).toEqual([]);
    });

    test('passes all other server scenarios with fixtures', () => {
      const others = [...findings].filter(([scenario]) => !required.includes(scenario));
      expect(others.length).toBeGreaterThan(0);
      for (const [scenario, checks] of others) expect(notPassed(checks), scenario).toEqual([]);
    });

    if (revision === '2025-11-25')
      test('resumes a stream that ended in the middle of a call', () => {
        // The suite also passes servers that never end a stream.
        expect(findings.get('server-sse-polling')?.get('server-sse-disconnect-resume')).toBe('SUCCESS');
      });
  });

  describe('on the endpoint itself', () => {
    let findings: ReadonlyMap<string, Checks>;
    beforeAll(async () => {
      // The whole suite, because starting it takes longer than running it.
      findings = await run(route, revision);
    });

    test.each(onTheRoute[revision])('passes %s on the endpoint', (scenario) => {
      const checks = findings.get(scenario);
      expect(checks?.size).toBeGreaterThan(0);
      expect(notPassed(checks)).toEqual(Object.keys(exemptOnTheRoute[revision]?.[scenario] ?? {}));
    });
  });
});
