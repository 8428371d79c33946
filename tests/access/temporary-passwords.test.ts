// Temporary passwords: they only permit choosing another password, on every path.
import { randomUUID } from 'node:crypto';
import { beforeAll, describe, expect, inject, test } from 'vitest';
import { type Answer, call, expectStatus } from '../support/client.ts';
import { type DeclaredOperation, operations } from '../support/document.ts';
import { post as postToMcp } from '../support/mcp.ts';
import { AppVisitor, authorizeAddress, newProof, register } from '../support/oauth-apps.ts';
import { hiddenFields } from '../support/page-client.ts';

interface Newcomer {
  email: string;
  password: string;
  token: string;
  refreshToken: string;
}

/**
 * Signs up a workspace without a password, and signs in its administrator with the generated one.
 */
async function signUpWithoutPassword(): Promise<Newcomer> {
  const email = `${randomUUID()}@newcomer.example`;
  const { body: signup } = await expectStatus(201, 'POST', '/v1/onboarding', {
    body: {
      company: { name: 'Newcomer', email: 'office@newcomer.example' },
      admin_user: { email, full_name: 'Nina Newcomer' },
      region: 'europe',
      industry: 'Retail',
    },
  });
  const password = signup.data.temp_password;
  const { body: session } = await expectStatus(200, 'POST', '/auth/v1/token', {
    query: { grant_type: 'password' },
    body: { email, password },
  });
  return { email, password, token: session.access_token, refreshToken: session.refresh_token };
}

/** Uses random ids in the path, because the rejection must not depend on them. */
const send = ({ method, path }: DeclaredOperation, token: string): Promise<Answer> =>
  call(
    method,
    path.replace('{object}', 'leads').replace(/\{\w+\}/g, () => randomUUID()),
    {
      token,
      ...(['POST', 'PUT', 'PATCH'].includes(method) ? { body: {} } : {}),
    },
  );

const needCredential = operations.filter(
  ({ declared }) => declared.security?.length !== 0 && declared.security?.every((each) => Object.keys(each).length > 0),
);
const takeSessions = needCredential.filter(({ declared }) => declared.security?.some((each) => 'session' in each));
/** Operations that a person with a temporary password can call. */
const openBefore = ['getMe', 'updatePassword', 'endSession'];

let newcomer: Newcomer;

beforeAll(async () => {
  newcomer = await signUpWithoutPassword();
});

describe('a session with a temporary password', () => {
  test('rejects a session with a temporary password, except for GET /v1/me, the password change and the sign-out', async () => {
    expect(takeSessions.length).toBeGreaterThan(10);
    for (const operation of needCredential.filter(({ id }) => !openBefore.includes(id))) {
      const { status, body } = await send(operation, newcomer.token);
      expect([operation.id, status, body.error?.code, body.error?.details]).toEqual([
        operation.id,
        403,
        'FORBIDDEN_SCOPE',
        { required_scopes: [], reason: 'password_change_required' },
      ]);
      expect(body.error.message).toContain('PATCH /v1/me/password');
    }
    await expectStatus(200, 'GET', '/v1/me', { token: newcomer.token });
  });

  test('creates no API key with a temporary password, and permits everything after the change', async () => {
    const { token, refreshToken, password } = await signUpWithoutPassword();
    const mint = { token, body: { name: 'Import', scopes: ['*'] } };
    await expectStatus(403, 'POST', '/v1/api-keys', mint);
    const renewed = await expectStatus(200, 'POST', '/auth/v1/token', {
      query: { grant_type: 'refresh_token' },
      body: { refresh_token: refreshToken },
    });
    expect(renewed.body.user.must_change_password).toBe(true);
    await expectStatus(403, 'POST', '/v1/api-keys', { ...mint, token: renewed.body.access_token });
    const body = { current_password: password, password: 'a phrase of mine' };
    await expectStatus(200, 'PATCH', '/v1/me/password', { token, body });
    await expectStatus(201, 'POST', '/v1/api-keys', mint);
  });

  test('lets a session with a temporary password sign out', async () => {
    const { token } = await signUpWithoutPassword();
    await expectStatus(200, 'POST', '/auth/v1/logout', { token });
    await expectStatus(401, 'GET', '/v1/me', { token });
  });

  test('rejects a session with a temporary password at the MCP server', async () => {
    const answer = await postToMcp('tools/list', {}, { token: newcomer.token });
    expect(answer.status).toBe(401);
  });
});

describe('a temporary password at the console', () => {
  test('asks for a new password before the consent page, and then returns to it', async () => {
    const base = inject('baseUrl');
    const { email, password } = await signUpWithoutPassword();
    const visitor = new AppVisitor(base);
    await visitor.signIn(email, password);
    const app = await register(base);
    const { to } = await visitor.ask(authorizeAddress(app, newProof().challenge));
    const consent = new URL(to ?? '').pathname;
    expect(consent).toMatch(/^\/console\/consent\//);
    const led = (await visitor.ask(consent)).to ?? '';
    expect(led).toBe(`/console/password?${new URLSearchParams({ next: consent })}`);

    const shown = await visitor.ask(led);
    const form = hiddenFields(shown.text, '/console/password');
    const refused = await visitor.ask(consent, { ...form, action: 'allow', group: 'records' });
    expect(refused.to).toBe('/console/password');
    const wrong = { current_password: 'wrong', password: 'a phrase of mine', repeated: 'a phrase of mine' };
    const again = await visitor.ask('/console/password', { ...form, ...wrong });
    expect(again.status).toBe(400);
    const kept = hiddenFields(again.text, '/console/password');
    const changed = await visitor.ask('/console/password', { ...kept, ...wrong, current_password: password });
    expect(changed.to).toBe(consent);
    expect((await visitor.ask(changed.to ?? '')).text).toContain('Assistant');
  });

  test('redirects to no other site after the password change', async () => {
    const { email, password } = await signUpWithoutPassword();
    const visitor = new AppVisitor(inject('baseUrl'));
    await visitor.signIn(email, password);
    const form = hiddenFields((await visitor.ask('/console/password')).text, '/console/password');
    const chosen = { current_password: password, password: 'a phrase of mine', repeated: 'a phrase of mine' };
    const changed = await visitor.ask('/console/password', {
      ...form,
      ...chosen,
      next: 'https://evil.example/console',
    });
    expect(changed.to).toBe('/console/password?done=changed');
  });
});
