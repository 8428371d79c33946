// Samples of the documentation page, pasted into a shell: all work in the demo workspace.
import { execFile } from 'node:child_process';
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { document, operations } from '../support/document.ts';
import { startServer, type TestServer } from '../support/servers.ts';

const run = promisify(execFile);
/** Bytes. The OpenAPI document is the longest response, and grows. */
const longestAnswer = 64 * 1024 * 1024;

interface Sample {
  name: string;
  id: string;
  method: string;
  source: string;
  statuses: string[];
  credential: 'printed' | 'live' | 'platform';
}

/** Samples with values that only exist for a moment. The list may only shrink. */
const refused: Record<string, string> = {
  'createSession: Refresh': 'its refresh token is the secret of another session, and works once',
  'createReservation: curl': 'its token is signed by the server, and good for ten minutes',
  'createBooking: A held slot': 'its token is signed by the server, and good for ten minutes',
  'getAttachmentContent: curl': 'its link is signed by the server, and works for ten minutes',
  'getRequest: curl': 'requests are in the log for 30 days, and its request was earlier',
  'getExportContent: curl': 'its link is signed by the server, and works for a day',
};

/**
 * Reads first, deletions last, and then what changes all of test mode, so that each sample finds
 * what it names.
 */
const order = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'];
const last = ['advanceTestClock', 'resetTestClock', 'resetTestMode'];

const getPlace = ({ id, method }: { id: string; method: string }): number =>
  last.includes(id) ? order.length + last.indexOf(id) : order.indexOf(method);

const samples: Sample[] = operations
  .toSorted((a, b) => getPlace(a) - getPlace(b))
  .flatMap(({ id, method, statuses, declared }) => {
    const scopes = (declared.security as { apiKey?: string[] }[]).flatMap(({ apiKey = [] }) => apiKey);
    const shell = (declared['x-codeSamples'] as { lang: string; label: string; source: string }[]).filter(
      ({ lang }) => lang === 'Shell',
    );
    return shell.map(({ label, source }) => ({
      name: `${id}: ${label}`,
      id,
      method,
      source,
      statuses,
      credential: scopes.includes('onboarding') ? 'platform' : declared['x-live-only'] ? 'live' : 'printed',
    }));
  });

/** The address that the page replaces with that of its own server. */
const shownAddress = 'http://127.0.0.1:8080';

const folder = resolve(process.env.TEST_DATA_DIR ?? '.test-data', `samples-${process.pid}`);
let server: TestServer;
/** Values that the page tells readers to store in variables. */
const kept = { printed: '', live: '', test: '', platform: '', session: '', inbound: '' };
const printedSignIn = { email: '', password: '' };
let ownSession = '';

beforeAll(async () => {
  mkdirSync(folder, { recursive: true });
  // Options for every curl in these shells, so that the samples stay unchanged.
  writeFileSync(join(folder, '.curlrc'), 'silent\nwrite-out = "%{stderr}%{http_code}\\n"\n');
  writeFileSync(join(folder, 'Quote 17.pdf'), 'A quote');
  writeFileSync(join(folder, 'accounts.csv'), 'name,city\nBlue Lake Trading,Berlin\n');
  server = await startServer({ DATA_DIR: join(folder, 'data'), DEMO: '1' });
  const printed = await vi.waitUntil(() => greeting.exec(server.output()));
  const [, key = '', email, password] = printed;
  Object.assign(printedSignIn, { email, password });
  kept.printed = key;
  kept.session = await signIn();
  const minted = await post('/v1/api-keys', { name: 'Settings', scopes: ['*'] }, kept.session);
  kept.live = (minted.data as { key: string }).key;
  const mintedTest = await post('/v1/api-keys', { name: 'Tests', scopes: ['*'], environment: 'test' }, kept.session);
  kept.test = (mintedTest.data as { key: string }).key;
  kept.inbound = await inboundSecret();
  const command = fileURLToPath(new URL('../../cli/platform-key.ts', import.meta.url));
  const env = { PATH: process.env.PATH ?? '', DATA_DIR: join(folder, 'data') };
  kept.platform = (await run(process.execPath, [command], { env })).stdout.trim();
});

afterAll(async () => {
  await server?.stop();
  rmSync(folder, { recursive: true, force: true });
});

const greeting = /Demo key: +(\S+).*Sign in: +(\S+) \/ (\S+).*Try:/s;

const readDemoKey = async (demo: TestServer): Promise<string> =>
  (await vi.waitUntil(() => greeting.exec(demo.output())))[1] ?? '';

/** Samples with this path change the time of test mode, which others must not see. */
const clockPath = '/v1/test-mode/clock';

/** Returns a new session of the demo's administrator. */
async function signIn(): Promise<string> {
  return (await post('/auth/v1/token?grant_type=password', printedSignIn)).access_token as string;
}

/** Creates the secret that the page tells readers to create. */
async function inboundSecret(): Promise<string> {
  const headers = { 'x-api-key': kept.live };
  const answer = await fetch(`${server.url}/v1/settings/inbound/rotate-secret`, { method: 'POST', headers });
  return ((await answer.json()) as { data: { secret: string } }).data.secret;
}

async function post(path: string, body: object, token?: string): Promise<Record<string, unknown>> {
  const answer = await fetch(server.url + path, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
    },
    body: JSON.stringify(body),
  });
  return (await answer.json()) as Record<string, unknown>;
}

/**
 * Returns the session for a sample: a separate one if the sample ends it or changes the password
 * that another sample uses.
 */
async function sessionFor({ id }: Sample): Promise<string> {
  if (id === 'endSession') return signIn();
  return id === 'updatePassword' ? ownSession : kept.session;
}

/** Runs commands of the page in a shell. @returns their output and the statuses of their calls */
async function inShell(
  commands: string,
  env: Record<string, string>,
  called = server,
): Promise<{ statuses: string[]; answer: string }> {
  const source = commands.replaceAll(shownAddress, called.url);
  const all = { PATH: process.env.PATH ?? '', CURL_HOME: folder, ...env };
  const { stdout, stderr } = await run('bash', ['--norc', '-c', source], {
    cwd: folder,
    env: all,
    maxBuffer: longestAnswer,
  });
  return { statuses: stderr.trim().split('\n'), answer: stdout };
}

async function paste(sample: Sample): Promise<{ status: string; answer: string }> {
  const env = {
    API_KEY: kept[sample.credential],
    SESSION_TOKEN: await sessionFor(sample),
    INBOUND_SECRET: kept.inbound,
  };
  const { statuses, answer } = await inShell(sample.source, env);
  return { status: statuses.join(), answer };
}

/** The number of items of a batch that the sample shows as failing. */
const failures: Record<string, number> = { createRecordBatch: 1 };

/** Lists that are empty after the first start. */
const uncalled = 'lists calls, and the demo workspace is created without any';
const empty: Record<string, string> = {
  listChanges: uncalled,
  listAuditLogs: uncalled,
  listRecordHistory: uncalled,
  listNotifications: 'lists what jobs report, and the jobs of the demo workspace have nothing to report yet',
  listImportParts: 'lists the parts of a file that a later sample uploads',
};

/** Returns the list in a response. */
function readItems(answer: string): unknown {
  return Object.values(JSON.parse(answer).data as object).find((value) => Array.isArray(value));
}

// Runs before the samples, because the last of them delete the pool.
test('books and cancels a slot with the commands of the bookings guide', async () => {
  const guide = document.tags?.find(({ name }) => name === 'Bookings')?.description ?? '';
  const commands = /```\n(export POOL=.*?)```/s.exec(guide)?.[1] ?? '';
  const { statuses, answer } = await inShell(commands, { API_KEY: kept.printed, HOME: folder });
  expect(statuses).toEqual(['200', '201', '201', '200']);
  expect(JSON.parse(answer).data.booking).toMatchObject({ status: 'cancelled', attendee: { name: 'Sara Ali' } });
});

test('prepares and reads a draft with the commands of the drafts guide', async () => {
  const guide = document.tags?.find(({ name }) => name === 'Messages')?.description ?? '';
  const commands = /```\n(export DRAFT=.*?)```/s.exec(guide)?.[1] ?? '';
  const { statuses, answer } = await inShell(commands, { API_KEY: kept.printed });
  expect(statuses).toEqual(['201', '200']);
  expect(JSON.parse(answer).data.draft).toMatchObject({ status: 'draft', to: 'sara@bluelake.example' });
});

test('lets an agent propose, approves it and undoes it with the commands of the guide', async () => {
  const guide = document.tags?.find(({ name }) => name === 'Change sets')?.description ?? '';
  const blocks = [...guide.matchAll(/```\n(.*?)```/gs)].map(([, block = '']) =>
    block.replaceAll(/^export .*….*$/gm, ''),
  );
  const env = { EMAIL: printedSignIn.email, PASSWORD: printedSignIn.password };
  const { statuses, answer } = await inShell(blocks.join('\n'), env);
  const steps = [
    ['200', '201', '201'],
    ['202'],
    ['200', '200', '200', '200'],
    ['200', '200', '200', '200'],
    ['201', '202'],
  ].flat();
  expect(statuses.slice(0, steps.length), answer).toEqual(steps);
  // The revert is read until it has ended, and then the account.
  expect(new Set(statuses.slice(steps.length))).toEqual(new Set(['200']));
  const cities = [...answer.matchAll(/"city":"(\w+)"/g)].map(([, city]) => city);
  expect(cities).toContain('Hamburg');
  expect([cities[0], cities.at(-1)]).toEqual(['Berlin', 'Berlin']);
  expect(answer).toContain('"status":"applied"');
});

// Before the samples, as a newcomer: one of them makes a field mandatory, and the last ones delete all records.
test('runs the samples of the introduction with the printed key and sign-in', async () => {
  const fenced = [...(document.info.description ?? '').matchAll(/```(\w*)\n(.*?)```/gs)];
  // tests/sdk/package.test.ts compiles the blocks in a programming language.
  const blocks = fenced
    .filter(([, language, block]) => language === '' && !block?.includes(clockPath))
    .map(([, , block]) => block ?? '');
  const commands = blocks.map((block) => block.replaceAll(/^export .*….*$/gm, ''));
  const env = {
    API_KEY: kept.printed,
    TEST_API_KEY: kept.test,
    EMAIL: printedSignIn.email,
    PASSWORD: printedSignIn.password,
  };
  const outputs = await Promise.all(commands.map((command) => inShell(command, env)));
  expect(outputs.map(({ statuses }) => statuses)).toEqual([
    ['201', '200'],
    ['200', '201'],
    // A dropped connection and its retry, filters, bulk data, an import, an export, dry runs, undo,
    // debugging, explanations of access, billing and a preview, and the same migration twice.
    ['000', '201'],
    ['200', '200'],
    ['200'],
    ['201', '200', '202', '200'],
    ['202', '200'],
    ['201', '200'],
    ['200'],
    ['400', '200', '200', '201'],
    ['200', '201', '403', '200'],
    ['503', '201', '201', '200'],
    ['200', '200'],
    ['200', '200', '200'],
    ['200'],
    ['200', '200'],
  ]);
  const [story, explanation, retries] = outputs.slice(9, 12).map(({ answer }) => answer);
  expect(story).toContain('"request_body":"{');
  expect(explanation).toContain('"check":"scope","result":"fail"');
  expect(retries).toMatch(/^idempotent-replay: true\r$/im);
  const imports = outputs.at(-1)?.answer.match(/"created":(true|false)/g);
  expect(imports).toEqual(['"created":true', '"created":true', '"created":false', '"created":false']);
  expect(outputs[1]?.answer).toMatch(/"key":"svc_live_[0-9a-f]{32}"/);
});

// In a workspace of its own, because it changes the time of test mode.
test('tests without waiting with the commands of its guide', async () => {
  const own = await startServer({ DATA_DIR: join(folder, 'data-of-clock'), DEMO: '1' });
  try {
    const key = await readDemoKey(own);
    const commands = /```\n([^`]*test-mode\/clock[^`]*)```/.exec(document.info.description ?? '')?.[1] ?? '';
    const started = Date.now();
    const { statuses, answer } = await inShell(commands, { TEST_API_KEY: key }, own);
    expect(new Set(statuses)).toEqual(new Set(['200', '201', '404']));
    const lines = answer.trim().split(/(?<=})\n?(?={"success")/);
    const subscription = lines.find((line) => line.includes('"current_period"')) ?? '{}';
    const { start, end } = JSON.parse(subscription).data.subscription.current_period;
    expect(new Date(start).getTime()).toBeGreaterThan(started);
    expect(new Date(end).getTime()).toBeGreaterThan(started + 42 * 86_400_000);
    expect(answer).toContain('sla.breached');
    expect(JSON.parse(lines.at(-1) ?? '{}').data.clock).toMatchObject({ offset_seconds: 0 });
  } finally {
    await own.stop();
  }
});

describe('the curl sample', () => {
  test.each(samples.filter(({ name }) => !(name in refused)))('$name works as it is', async (sample) => {
    const { status, answer } = await paste(sample);
    const successes = sample.statuses.filter((each) => each.startsWith('2'));
    expect(successes, `${sample.source}\n${answer}`).toContain(status);
    if (sample.name === 'createSession: Sign in') ownSession = JSON.parse(answer).access_token;
    if (/Batch$/.test(sample.id)) {
      // A batch of links has a result for each of its two lists.
      const { created, deleted, ...data } = JSON.parse(answer).data;
      const results = sample.id === 'updateLinkBatch' ? [created, deleted] : [data];
      for (const result of results) expect(result.failed_count).toBe(failures[sample.id] ?? 0);
    }
    if (/^list/.test(sample.id) && !(sample.id in empty)) expect(readItems(answer), answer).not.toEqual([]);
  });

  test.each(samples.filter(({ name }) => name in refused))(
    '$name is rejected, because its values no longer exist',
    async (sample) => {
      expect((await paste(sample)).status).toMatch(/^4/);
    },
  );

  test('has a curl sample for every operation', () => {
    expect(new Set(samples.map(({ id }) => id)).size).toBe(operations.length);
    expect(Object.keys(refused).filter((name) => !samples.some((sample) => sample.name === name))).toEqual([]);
  });
});
