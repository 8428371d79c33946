// The consent page of apps: who asks, what can be chosen, and where the answer may come from.
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { useServer } from '../support/client.ts';
import { freePort } from '../support/free-port.ts';
import { AppVisitor, authorizeAddress, newProof, post, type Registered, register } from '../support/oauth-apps.ts';
import { newWideTenant } from '../support/requests.ts';
import { startServer, type TestServer } from '../support/servers.ts';
import { testSettings } from '../support/setup.ts';
import { database, type Tenant } from '../support/tenants.ts';

let server: TestServer;
let base: string;
let tenant: Tenant;

beforeAll(async () => {
  const port = await freePort();
  base = `http://127.0.0.1:${port}`;
  server = await startServer({
    ...testSettings,
    DATABASE_URL: inject('databaseUrl'),
    SECRET_KEY: inject('secretKey'),
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

async function signedIn(of: Tenant = tenant): Promise<AppVisitor> {
  const visitor = new AppVisitor(base);
  await visitor.signIn(of.admin.email);
  return visitor;
}

/** Asks for consent. @returns the address of the page, and what it shows */
async function consentPage(visitor: AppVisitor, app: Registered, more: Record<string, string> = {}) {
  const { to } = await visitor.ask(authorizeAddress(app, newProof().challenge, more));
  const address = to ?? '';
  return { address, text: (await visitor.ask(address)).text };
}

describe('who asks', () => {
  /** Without isolation the page reads: Claude … Your answer goes to oi.x.edualc.ai … */
  const disguised = '\u202EedualC';

  test('is shown without characters that reorder the page, and the host apart from the name', async () => {
    const app = await register(base, 'https://ia.edualc.x.io/callback', { client_name: disguised });
    expect(app).toMatchObject({ client_name: 'edualC' });
    const { text } = await consentPage(await signedIn(), app);
    expect(text).not.toMatch(/\p{Bidi_Control}/u);
    expect(text).toContain('<h1>Allow <bdi>edualC</bdi>?</h1>');
    expect(text).toContain('Your answer goes to <code>ia.edualc.x.io</code>.');
  });

  test('is shown so if the app was registered before names were cleaned, and is stored without them', async () => {
    const app = await register(base);
    await database()`
      update oauth_artifacts set payload = jsonb_set(payload, '{client_name}', ${JSON.stringify(disguised)}::text::jsonb)
      where model = 'Client' and payload ->> 'client_id' = ${app.client_id}`;
    const visitor = await signedIn();
    const { address, text } = await consentPage(visitor, app);
    expect(text).toContain('<h1>Allow <bdi>edualC</bdi>?</h1>');
    await visitor.decide(address, 'allow', ['records']);
    const rows = await database()`select client_name from oauth_grants where client_id = ${app.client_id}`;
    expect(rows).toEqual([{ client_name: 'edualC' }]);
  });

  test('has a host in ASCII', async () => {
    const app = await register(base, 'https://\u0430pple.example/callback');
    const { text } = await consentPage(await signedIn(), app);
    expect(text).toContain('<code>xn--pple-43d.example</code>');
    expect(text).not.toContain('\u0430pple');
  });

  test('has a name of more than such characters', async () => {
    const { status, body } = await post(base, '/auth/v1/oauth/clients/register', {
      client_name: '\u202E\u2066 ',
      redirect_uris: ['https://app.example/callback'],
    });
    expect([status, body.error]).toEqual([400, 'invalid_client_metadata']);
  });
});
