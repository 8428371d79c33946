// The metadata of an app: its validation, and fetching the document at the app's client_id.
import { isHostName } from '../domain/service/host-names.ts';
import type { OutgoingClient } from '../runtime/outbound/client.ts';
import { removeBidiControls } from '../runtime/pages/html.ts';

/** The name and the redirect URIs of an app, and the fixed values of all apps. */
export interface ClientMetadata {
  client_name: string;
  redirect_uris: string[];
  application_type: 'native' | 'web';
  grant_types: string[];
  response_types: string[];
  token_endpoint_auth_method: 'none';
}

/** An error in an app's metadata, in the format of RFC 7591. */
export interface MetadataProblem {
  error: 'invalid_redirect_uri' | 'invalid_client_metadata';
  error_description: string;
}

const maxRedirects = 20;
const maxRedirectLength = 500;
const maxNameLength = 100;

/**
 * Reads the name and the redirect URIs from an app's metadata. Grant types, scopes and the
 * authentication method are the same for all apps, so other values are ignored, as RFC 7591 allows.
 */
export function readMetadata(given: unknown): ClientMetadata | MetadataProblem {
  if (typeof given !== 'object' || given === null || Array.isArray(given))
    return invalidMetadata('Send a JSON object with client_name and redirect_uris.');
  const { client_name: givenName, redirect_uris: redirects } = given as Record<string, unknown>;
  const name = typeof givenName === 'string' ? removeBidiControls(givenName) : givenName;
  if (name !== undefined && (typeof name !== 'string' || name.trim() === '' || name.length > maxNameLength))
    return invalidMetadata(`client_name must be a string of 1 to ${maxNameLength} characters.`);
  if (name !== undefined && !isStorable(name)) return invalidMetadata(`client_name ${unstorableMessage}`);
  if (!Array.isArray(redirects) || redirects.length === 0 || redirects.length > maxRedirects)
    return invalidRedirect(`redirect_uris must be a list of 1 to ${maxRedirects} URLs.`);
  for (const redirect of redirects) {
    const problem = findRedirectProblem(redirect);
    if (problem) return invalidRedirect(`redirect_uris: ${problem}`);
  }
  const addresses = redirects as string[];
  return {
    client_name: name?.trim() ?? new URL(addresses[0] as string).host,
    redirect_uris: addresses,
    application_type: addresses.some(isLoopback) ? 'native' : 'web',
    grant_types: ['authorization_code', 'refresh_token'],
    response_types: ['code'],
    token_endpoint_auth_method: 'none',
  };
}

/** Returns true if the address is on the same machine as the browser. */
function isLoopback(address: string): boolean {
  return ['127.0.0.1', '[::1]', 'localhost'].includes(new URL(address).hostname);
}

/** Describes the problem with a redirect URI. undefined: the URI is valid. */
function findRedirectProblem(redirect: unknown): string | undefined {
  if (typeof redirect !== 'string' || redirect.length > maxRedirectLength || !URL.canParse(redirect))
    return `each must be an absolute URL of at most ${maxRedirectLength} characters.`;
  if (!isStorable(redirect)) return `each ${unstorableMessage}`;
  const { protocol, hostname, username, password } = new URL(redirect);
  if (protocol !== 'https:' && !(protocol === 'http:' && isLoopback(redirect)))
    return 'each must start with https://, or with http:// for 127.0.0.1, [::1] or localhost.';
  // Some servers read a wildcard as any host. Here it would be a host that cannot exist.
  if (hostname.includes('*')) return 'wildcards in the host are not allowed. List each host that the app uses.';
  if (!hostname.startsWith('[') && !isHostName(hostname)) return 'each must have a host, such as app.example.com.';
  if (redirect.includes('#')) return 'fragments are not allowed.';
  if (username !== '' || password !== '') return 'usernames and passwords are not allowed.';
  return undefined;
}

/** Returns true if the database can store the text. */
const isStorable = (text: string): boolean => !text.includes('\0') && text.isWellFormed();
const unstorableMessage = 'must not contain the NUL character or an unpaired surrogate.';

const invalidMetadata = (text: string): MetadataProblem => ({
  error: 'invalid_client_metadata',
  error_description: text,
});
const invalidRedirect = (text: string): MetadataProblem => ({ error: 'invalid_redirect_uri', error_description: text });

/** Maximum size of a metadata document, in bytes. */
const mostBytes = 10_240;
/** Milliseconds. The authorization request waits for the document. */
const within = 2500;

/** Returns the fetch function of the library. It only fetches metadata documents of apps. */
export function createMetadataFetch(outgoing: OutgoingClient): typeof fetch {
  return async (input) => {
    const url = String(input);
    const headers = { accept: 'application/json' };
    // Never in test mode, which may be allowed to reach private addresses.
    const request = { method: 'GET' as const, url, headers, testMode: false, mostBytes, within };
    const { status, body, isWhole, headers: answered } = await outgoing.send(request);
    if (status !== 200 || !isWhole) return new Response(null, { status: 502 });
    const given = JSON.parse(body.toString()) as Record<string, unknown>;
    const metadata = readMetadata(given);
    if ('error' in metadata) throw new Error(metadata.error_description);
    const age = answered['cache-control'];
    return Response.json(
      { ...metadata, client_id: given.client_id },
      { headers: age === undefined ? {} : { 'cache-control': age } },
    );
  };
}
