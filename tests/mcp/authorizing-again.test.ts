// Official clients ask for consent again after a revocation.
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { Client as EarlierClient } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport as EarlierTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { expectStatus, type Json, useServer } from '../support/client.ts';
import { besideCommon } from '../support/databases.ts';
import { findFreePort } from '../support/free-port.ts';
import { type Generation, generations, mcpPath, post as postToMcp } from '../support/mcp.ts';
import { AppVisitor, type Registered, register, type Tokens } from '../support/oauth-apps.ts';
import { newWideTenant } from '../support/requests.ts';
import { startServer, type TestServer } from '../support/servers.ts';
import { adminToken } from '../support/sessions.ts';
import { testSettings } from '../support/setup.ts';
import type { Tenant } from '../support/tenants.ts';

const callback = 'https://app.example/callback';

let server: TestServer;
let base: string;
let tenant: Tenant;

beforeAll(async () => {
  const port = await findFreePort();
  base = `http://127.0.0.1:${port}`;
  server = await startServer({
    ...testSettings,
    ...besideCommon(),
    DATA_DIR: '.test-data',
    PORT: String(port),
    BASE_URL: base,
  });
  useServer(base);
  tenant = await newWideTenant();
});
afterAll(async () => {
  useServer(undefined);
  await server?.stop();
});

/** The stored data of an app, and the address to which it sends the person. */
class Kept {
  readonly app: Registered;
  kept: Tokens | undefined;
  sentTo: URL | undefined;
  #verifier = '';

  constructor(app: Registered) {
    this.app = app;
  }

  readonly redirectUrl = callback;
  readonly clientMetadata = { client_name: 'Assistant', redirect_uris: [callback] };
  clientInformation = () => ({ client_id: this.app.client_id });
  tokens = () => this.kept as Json;
  saveTokens = (tokens: Json) => {
    this.kept = tokens;
  };
  redirectToAuthorization = (address: URL) => {
    this.sentTo = address;
  };
  saveCodeVerifier = (verifier: string) => {
    this.#verifier = verifier;
  };
  codeVerifier = () => this.#verifier;
  invalidateCredentials = () => {
    this.kept = undefined;
  };
}

/** Returns a client that is not connected yet, and a function that completes the authorization. */
function createClient(generation: Generation, authProvider: Kept) {
  const url = new URL(mcpPath, base);
  const info = { name: 'test', version: '1.0.0' };
  if (generation === '2025-11-25') {
    const client = new EarlierClient(info);
    const transport = () => new EarlierTransport(url, { authProvider });
    return { client, connect: (over: Json) => client.connect(over), transport };
  }
  const client = new Client(info, { versionNegotiation: { mode: { pin: generation } } });
  const transport = () => new StreamableHTTPClientTransport(url, { authProvider } as never);
  return { client, connect: (over: Json) => client.connect(over), transport };
}

/** Consents as the person, and passes the result of the browser to the client. */
async function consent({ sentTo }: Kept, transport: Json): Promise<void> {
  const visitor = new AppVisitor(base);
  await visitor.signIn(tenant.admin.email);
  const { to } = await visitor.ask(sentTo?.href ?? '');
  const back = await visitor.decide(to ?? '', 'allow', ['records']);
  await transport.finishAuth(back.searchParams.get('code'), back.searchParams.get('iss'));
}

test.each(generations)(
  'sends a client of %s to the consent page again at its first call after a revocation',
  async (generation) => {
    const kept = new Kept(await register(base, callback));
    const first = createClient(generation, kept);
    const unauthorized = first.transport();
    await expect(first.connect(unauthorized)).rejects.toThrow();
    expect(kept.sentTo?.searchParams.get('resource')).toBe(base + mcpPath);
    await consent(kept, unauthorized);

    const { client, connect, transport } = createClient(generation, kept);
    const connected = transport();
    await connect(connected);
    const call = { name: 'search', arguments: { q: 'ada' } };
    expect((await client.callTool(call)).isError).not.toBe(true);

    const token = await adminToken(tenant);
    const list = await expectStatus(200, 'GET', '/v1/oauth-grants', { token });
    const grant = list.body.data.oauth_grants.find((each: Json) => each.client_id === kept.app.client_id);
    await expectStatus(200, 'DELETE', `/v1/oauth-grants/${grant.id}`, { token });

    kept.sentTo = undefined;
    await expect(client.callTool(call)).rejects.toThrow();
    expect((kept.sentTo as URL | undefined)?.pathname).toBe('/auth/v1/oauth/authorize');
    await consent(kept, connected);
    expect((await client.callTool(call)).isError).not.toBe(true);
    await client.close();
  },
);

test('names the scopes of the metadata in challenges without a token and after a revocation', async () => {
  const metadata = (await (await fetch(`${base}/.well-known/oauth-protected-resource${mcpPath}`)).json()) as Json;
  const scope = `scope="${metadata.scopes_supported.join(' ')}"`;
  const missing = await postToMcp('tools/list');
  expect([missing.status, missing.headers.get('www-authenticate')]).toEqual([401, expect.stringContaining(scope)]);
  const kept = new Kept(await register(base, callback));
  const { connect, transport } = createClient('2025-11-25', kept);
  const over = transport();
  await expect(connect(over)).rejects.toThrow();
  await consent(kept, over);
  const headers = { token: kept.kept?.access_token };
  expect((await postToMcp('tools/list', {}, headers)).status).toBe(200);
  const form = new URLSearchParams({ token: kept.kept?.refresh_token ?? '', client_id: kept.app.client_id });
  await fetch(`${base}/auth/v1/oauth/revoke`, { method: 'POST', body: form });
  const refused = await postToMcp('tools/list', {}, headers);
  expect(refused.status).toBe(403);
  const challenge = refused.headers.get('www-authenticate');
  expect(challenge).toBe(
    `Bearer error="insufficient_scope", resource_metadata="${base}/.well-known/oauth-protected-resource${mcpPath}", ${scope}`,
  );
});
