// The conformance suite of the protocol: all of it with its fixtures, and the route as it is.
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

/** By revision: scenarios that the route must pass with tools, resources and prompts of its own. */
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
/** By revision, scenario and check: what does not pass on the route, and why. What passes must not stand here. */
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

/** How checks ended, by their names: the worst where one was made at several places. */
type Checks = ReadonlyMap<string, string>;

/** Where the suite calls a server that it has no key for. */
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

/** Puts a key on what the suite sends, which it cannot do itself; all else goes through as it is. */
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

/** Runs the suite through a door: what it found, by scenario. */
async function run(door: Door, revision: string): Promise<ReadonlyMap<string, Checks>> {
  const folder = mkdtempSync(join(tmpdir(), 'conformance-'));
  const asked = ['server', '--url', door.address, '--suite', 'all', '--spec-version', revision, '--output-dir', folder];
  try {
    // It ends with an error where a check fails, which its findings say.
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

/** The checks that did not pass, in their order. */
const notPassed = (checks: Checks = new Map()): string[] =>
  [...checks].filter(([, status]) => status === 'FAILURE' || status === 'WARNING').map(([check]) => check);

/** The scenarios for servers that a revision required when it was released. */
function requiredBy(revision: string): string[] {
  const listed = execFileSync(process.execPath, [suite, 'list', '--requirements', revision], { encoding: 'utf8' });
  const [ofServers = ''] = listed.split('Server scenarios')[1]?.split('Client scenarios') ?? [];
  return [...ofServers.matchAll(/^ {2}- (\S+)/gm)].map(([, name]) => name ?? '');
}

test('a call in a session is counted as any other request', async () => {
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

    test.each(required)('%s, which the revision requires, is passed', (scenario) => {
      const checks = findings.get(scenario);
      expect(checks?.size).toBeGreaterThan(0);
      expect(notPassed(checks)).toEqual([]);
    });

    test('whatever else the suite has for servers is passed', () => {
      const others = [...findings].filter(([scenario]) => !required.includes(scenario));
      expect(others.length).toBeGreaterThan(0);
      for (const [scenario, checks] of others) expect(notPassed(checks), scenario).toEqual([]);
    });

    if (revision === '2025-11-25')
      test('a stream that ended in the middle of a call is taken up again', () => {
        // The suite passes servers that never end one.
        expect(findings.get('server-sse-polling')?.get('server-sse-disconnect-resume')).toBe('SUCCESS');
      });
  });

  describe('on the route itself', () => {
    let findings: ReadonlyMap<string, Checks>;
    beforeAll(async () => {
      // All of it: the suite takes longer to start than to run.
      findings = await run(route, revision);
    });

    test.each(onTheRoute[revision])('%s is passed', (scenario) => {
      const checks = findings.get(scenario);
      expect(checks?.size).toBeGreaterThan(0);
      expect(notPassed(checks)).toEqual(Object.keys(exemptOnTheRoute[revision]?.[scenario] ?? {}));
    });
  });
});
