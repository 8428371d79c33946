// Apps without registration, whose client_id is the URL of their metadata document.
import { once } from 'node:events';
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:https';
import type { AddressInfo } from 'node:net';
import { resolve } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { expectStatus, useServer } from '../support/client.ts';
import { besideCommon } from '../support/databases.ts';
import { findFreePort } from '../support/free-port.ts';
import { AppVisitor, authorizeAddress, exchangeForm, newProof, post } from '../support/oauth-apps.ts';
import { newWideTenant } from '../support/requests.ts';
import { startServer, type TestServer } from '../support/servers.ts';
import { testSettings } from '../support/setup.ts';
import type { Tenant } from '../support/tenants.ts';
import { localCertificate, localKey } from '../support/tls.ts';

const folder = resolve('.test-data', `client-documents-${process.pid}`);
const redirect = 'https://app.example/callback';

let documents: Server;
let server: TestServer;
let base: string;
let origin: string;
let tenant: Tenant;
/** Documents by path. */
const served = new Map<string, object>();
const fetched: string[] = [];

beforeAll(async () => {
  documents = createServer({ key: localKey, cert: localCertificate }, (request, response) => {
    fetched.push(request.url ?? '');
    const found = served.get(request.url ?? '');
    response.writeHead(found ? 200 : 404, { 'content-type': 'application/json', 'cache-control': 'max-age=60' });
    response.end(JSON.stringify(found ?? {}));
  }).listen(0, 'localhost');
  await once(documents, 'listening');
  origin = `https://localhost:${(documents.address() as AddressInfo).port}`;
  mkdirSync(folder, { recursive: true });
  const trusted = resolve(folder, 'trusted.pem');
  writeFileSync(trusted, localCertificate);
  const port = await findFreePort();
  base = `http://127.0.0.1:${port}`;
  server = await startServer({
    ...testSettings,
    ...besideCommon(),
    DATA_DIR: folder,
    PORT: String(port),
    BASE_URL: base,
    OAUTH_ALLOW_PRIVATE: '1',
    NODE_EXTRA_CA_CERTS: trusted,
  });
  useServer(base);
  tenant = await newWideTenant();
});
afterAll(async () => {
  useServer(undefined);
  await server?.stop();
  documents?.close();
  rmSync(folder, { recursive: true, force: true });
});

/** Serves a metadata document. It names its own URL unless overridden. */
function describeAt(path: string, more: object = {}) {
  const client_id = origin + path;
  served.set(path, { client_id, client_name: 'Unregistered', redirect_uris: [redirect], ...more });
  return { client_id, redirect_uris: [redirect] };
}

async function signedIn(): Promise<AppVisitor> {
  const visitor = new AppVisitor(base);
  await visitor.signIn(tenant.admin.email);
  return visitor;
}

test('authorizes an app by its metadata document alone, and lists it by its URL', async () => {
  const app = describeAt('/app.json');
  const visitor = await signedIn();
  const { verifier, challenge } = newProof();
  const asked = await visitor.ask(authorizeAddress(app, challenge));
  const page = await visitor.ask(asked.to ?? '');
  expect(page.text).toContain('Unregistered');
  const back = await visitor.decide(asked.to ?? '', 'allow', ['records']);
  const code = back.searchParams.get('code') ?? '';
  const { status, body } = await post(base, '/auth/v1/oauth/token', exchangeForm(app, code, verifier));
  expect(status).toBe(200);
  const { body: me } = await expectStatus(200, 'GET', '/v1/me', { token: body.access_token });
  expect(me.data.actor).toMatchObject({ id: `oauth_${app.client_id}`, name: 'Unregistered' });
  // Fetched once, because the response is cacheable.
  expect(fetched.filter((path) => path === '/app.json')).toHaveLength(1);
});

test.each([
  ['names another address', '/other.json', { client_id: 'https://app.example/app.json' }],
  ['redirects to plain http', '/http.json', { redirect_uris: ['http://app.example/callback'] }],
  ['has no name', '/nameless.json', { client_name: '' }],
])('rejects a metadata document that %s', async (_what, path, more) => {
  const visitor = await signedIn();
  const asked = await visitor.ask(authorizeAddress(describeAt(path, more), newProof().challenge));
  expect([asked.status, asked.to]).toEqual([400, null]);
  expect(fetched).toContain(path);
});

test('rejects an app without a metadata document', async () => {
  const missing = { client_id: `${origin}/missing.json`, redirect_uris: [redirect] };
  const asked = await (await signedIn()).ask(authorizeAddress(missing, newProof().challenge));
  expect([asked.status, asked.to]).toEqual([400, null]);
});
