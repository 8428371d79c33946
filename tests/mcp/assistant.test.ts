// An assistant that knows only the address, and a person who approves what it prepares.
import { Client, type OAuthClientProvider, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { anyAddress, call, expectStatus, type Json, useServer } from '../support/client.ts';
import { besideCommon } from '../support/databases.ts';
import { findFreePort } from '../support/free-port.ts';
import { mcpPath } from '../support/mcp.ts';
import { AppVisitor, authorizeAddress, exchangeForm, newProof, post, register } from '../support/oauth-apps.ts';
import { hiddenFields } from '../support/page-client.ts';
import { newWideTenant } from '../support/requests.ts';
import { startServer, type TestServer } from '../support/servers.ts';
import { testSettings } from '../support/setup.ts';
import type { Tenant } from '../support/tenants.ts';

let server: TestServer;
let base: string;
let tenant: Tenant;
let admin: AppVisitor;

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
  admin = new AppVisitor(base);
  await admin.signIn(tenant.admin.email);
});
afterAll(async () => {
  useServer(undefined);
  await server?.stop();
});

/** What an assistant stores, and the address to which it sends its person. */
class Memory implements OAuthClientProvider {
  redirectUrl = 'http://127.0.0.1:3118/callback';
  asked: URL | undefined;
  readonly #kept: Record<string, Json> = {};
  get clientMetadata() {
    return { client_name: 'Assistant', redirect_uris: [this.redirectUrl] };
  }
  clientInformation = () => this.#kept.client;
  saveClientInformation(client: Json): void {
    this.#kept.client = client;
  }
  tokens = () => this.#kept.tokens;
  saveTokens(tokens: Json): void {
    this.#kept.tokens = tokens;
  }
  codeVerifier = () => this.#kept.verifier;
  saveCodeVerifier(verifier: string): void {
    this.#kept.verifier = verifier;
  }
  redirectToAuthorization(address: URL): void {
    this.asked = address;
  }
}

function transport(authProvider: Memory): StreamableHTTPClientTransport {
  const requestInit = { headers: { 'x-forwarded-for': anyAddress() } };
  return new StreamableHTTPClientTransport(new URL(mcpPath, base), { authProvider, requestInit });
}

const newClient = () => new Client({ name: 'assistant', version: '1.0.0' });

test('connects an assistant by consent, lets it draft an approved email, and ends with the revocation', async () => {
  const memory = new Memory();
  const first = transport(memory);
  await expect(newClient().connect(first)).rejects.toThrow();
  const consent = await admin.ask(memory.asked?.href ?? '');
  const back = await admin.decide(consent.to ?? '', 'allow', ['records', 'messaging']);
  expect(back.origin + back.pathname).toBe(memory.redirectUrl);
  await first.finishAuth(back.searchParams);
  const client = newClient();
  await client.connect(transport(memory));
  const use = async (name: string, args: Record<string, unknown>): Promise<Json> => {
    const result = await client.callTool({ name, arguments: args });
    expect(result.isError, JSON.stringify(result.content)).toBeUndefined();
    return result.structuredContent;
  };
  const email = 'sara-of-the-assistant@example.com';
  const { lead } = await use('create_lead', { first_name: 'Sara', email });
  const about = { object: 'leads', record_id: lead.id };
  const { draft } = await use('draft_message', { channel: 'email', to: email, subject: 'Hi', body: 'Hello', ...about });

  const page = (await admin.ask('/console/messages')).text;
  expect(page).toContain('Assistant');
  const action = `/console/messages/${draft.id}`;
  expect((await admin.ask(action, { ...hiddenFields(page, action), action: 'approve' })).status).toBe(303);
  const timeline = `/v1/objects/leads/records/${lead.id}/messages`;
  await expect
    .poll(async () => (await expectStatus(200, 'GET', timeline, { key: tenant.key })).body.data.messages)
    .toMatchObject([{ direction: 'outbound', subject: 'Hi' }]);

  const apps = (await admin.ask('/console/apps')).text;
  const revoke = /action="(\/console\/apps\/[\w-]+)"/.exec(apps)?.[1] ?? '';
  const confirmed = { ...hiddenFields(apps, revoke), confirmed: 'yes' };
  expect((await admin.ask(revoke, confirmed)).to).toContain('done=revoked');
  await expect(use('whoami', {})).rejects.toThrow();
  await client.close();
});

test('accepts tokens of an assistant at this address only, and rejects tokens for the API', async () => {
  const app = await register(base);
  const tokenFor = async (more: Record<string, string>): Promise<string> => {
    const { verifier, challenge } = newProof();
    const asked = await admin.ask(authorizeAddress(app, challenge, { prompt: 'consent', ...more }));
    const back = await admin.decide(asked.to ?? '', 'allow', ['records']);
    const form = exchangeForm(app, back.searchParams.get('code') ?? '', verifier);
    return (await post(base, '/auth/v1/oauth/token', form)).body.access_token;
  };
  const opened = async (token: string) => ({
    api: (await call('GET', '/v1/objects/leads/records', { token })).status,
    agents: (
      await call('POST', mcpPath, {
        token,
        body: { jsonrpc: '2.0', id: 1, method: 'tools/list' },
        headers: { accept: 'application/json, text/event-stream', 'mcp-protocol-version': '2025-11-25' },
      })
    ).status,
  });
  expect(await opened(await tokenFor({ resource: base + mcpPath }))).toEqual({ api: 401, agents: 200 });
  expect(await opened(await tokenFor({}))).toEqual({ api: 200, agents: 401 });
});
