// An OAuth app, and the browser of a user who consents to it, without a screen.
import { createHash, randomBytes } from 'node:crypto';
import { anyAddress } from './client.ts';
import { Visitor } from './page-client.ts';

export interface Registered {
  client_id: string;
  redirect_uris: string[];
}

export interface Tokens {
  access_token: string;
  refresh_token: string;
  scope: string;
}

/** Returns a PKCE verifier and its challenge. */
export function newProof(): { verifier: string; challenge: string } {
  const verifier = randomBytes(32).toString('base64url');
  return { verifier, challenge: createHash('sha256').update(verifier).digest('base64url') };
}

/** A user whom an app sends to the consent pages. */
export class AppVisitor extends Visitor {
  /**
   * Submits the consent page, and follows the redirects.
   * @returns the app's URL that the browser reaches
   */
  async decide(
    page: string,
    action: 'allow' | 'deny',
    groups: readonly string[],
    scopes: readonly string[] = [],
    writeMode: 'direct' | 'propose' = 'direct',
  ): Promise<URL> {
    const consent = await this.ask(page);
    const token = /name="token" value="([^"]+)"/.exec(consent.text)?.[1] ?? '';
    const form = new URLSearchParams({ token, action });
    for (const group of groups) form.append('group', group);
    for (const scope of scopes) form.append('scope', scope);
    if (writeMode === 'propose') form.append('write_mode', writeMode);
    const sent = await this.ask(page, form);
    if (sent.to === null) throw new Error(`the consent page answered ${sent.status}: ${sent.text}`);
    return this.follow(sent.to);
  }

  /** Follows redirects until they leave this server. */
  async follow(start: string): Promise<URL> {
    let address = new URL(start, this.base);
    for (let step = 0; step < 5 && address.href.startsWith(this.base); step += 1) {
      const { to, status, text } = await this.ask(address.href);
      const refreshed = /http-equiv="refresh" content="0; url=([^"]+)"/.exec(text)?.[1];
      const next = to ?? refreshed?.replaceAll('&amp;', '&');
      if (next === undefined) throw new Error(`${address} answered ${status}: ${text}`);
      address = new URL(next, address);
    }
    return address;
  }
}

/** Posts as an app does. */
export async function post(base: string, path: string, body: URLSearchParams | object) {
  const isForm = body instanceof URLSearchParams;
  const answer = await fetch(base + path, {
    method: 'POST',
    headers: { 'x-forwarded-for': anyAddress(), ...(isForm ? {} : { 'content-type': 'application/json' }) },
    body: isForm ? body : JSON.stringify(body),
  });
  const text = await answer.text();
  // biome-ignore lint/suspicious/noExplicitAny: tests read any JSON.
  return { status: answer.status, body: (text === '' ? undefined : JSON.parse(text)) as any, headers: answer.headers };
}

export async function register(
  base: string,
  redirect = 'https://app.example/callback',
  more: object = {},
): Promise<Registered> {
  const { status, body } = await post(base, '/auth/v1/oauth/clients/register', {
    client_name: 'Assistant',
    redirect_uris: [redirect],
    grant_types: ['authorization_code'],
    token_endpoint_auth_method: 'none',
    ...more,
  });
  if (status !== 201) throw new Error(`registration answered ${status}: ${JSON.stringify(body)}`);
  return body;
}

/** Returns the URL to which an app sends the browser. */
export function authorizeAddress(app: Registered, challenge: string, more: Record<string, string> = {}): string {
  const query = new URLSearchParams({
    response_type: 'code',
    client_id: app.client_id,
    redirect_uri: app.redirect_uris[0] ?? '',
    scope: 'openid profile email',
    state: 'state-of-the-app',
    code_challenge: challenge,
    code_challenge_method: 'S256',
    ...more,
  });
  return `/auth/v1/oauth/authorize?${query}`;
}

/** Returns the form with which an app gets its tokens. */
export function exchangeForm(
  app: Registered,
  code: string,
  verifier: string,
  more: Record<string, string> = {},
): URLSearchParams {
  return new URLSearchParams({
    grant_type: 'authorization_code',
    code,
    redirect_uri: app.redirect_uris[0] ?? '',
    client_id: app.client_id,
    code_verifier: verifier,
    ...more,
  });
}
