// Lists the apps that act for people of the workspace, and revokes their access.

import type { PageResponse } from '../../runtime/http/page-routes.ts';
import { html, isolateText } from '../../runtime/pages/html.ts';
import { consolePage } from '../pages/layout.ts';
import { ask, buildAddress, type ConsoleParts, type PersonalRequest } from '../pages/requests.ts';

/** Apps on the page. */
const pageSize = 100;

const describeAudience = (audience: 'api' | 'mcp' | null): string =>
  audience === null ? 'defined by its tokens' : { api: 'the API', mcp: 'tools for AI assistants (MCP)' }[audience];

export async function showApps(parts: ConsoleParts, request: PersonalRequest): Promise<PageResponse> {
  const { person, query } = request;
  const { oauth_grants: grants } = await ask(parts, request, 'listOauthGrants', { query: { limit: String(pageSize) } });
  const active = grants.filter(({ revoked_at: revokedAt }) => revokedAt === null);
  const done =
    query.get('done') === 'revoked'
      ? html`<p role="status">Access revoked. Requests of the app are rejected from now on.</p>`
      : null;
  return consolePage(
    request,
    200,
    'Apps',
    html`${done}
${active.length === 0 ? html`<p>No apps have access.</p>` : null}
${active.map(
  (grant) => html`<article aria-label="${grant.client_name}">
<h2>${isolateText(grant.client_name)}</h2>
<dl>
<dt>User</dt><dd>${isolateText(grant.user.full_name)}</dd>
<dt>Permissions</dt><dd>${[...grant.groups, ...grant.extra_scopes].join(', ') || 'none'}</dd>
<dt>Changes</dt><dd>${grant.write_mode === 'propose' ? 'proposed, and you approve them' : 'made by the app'}</dd>
<dt>Access to</dt><dd>${describeAudience(grant.audience)}</dd>
<dt>Since</dt><dd>${grant.created_at.slice(0, 16).replace('T', ' ')} UTC</dd>
</dl>
<form method="post" action="/console/apps/${grant.id}">
<input type="hidden" name="token" value="${person.formToken}">
<input type="hidden" name="mode" value="${request.testMode ? 'test' : 'live'}">
<button class="quiet" aria-label="Revoke access of ${grant.client_name}">Revoke</button>
</form>
</article>`,
)}`,
  );
}

export async function revokeApp(parts: ConsoleParts, request: PersonalRequest): Promise<PageResponse> {
  await ask(parts, request, 'revokeOauthGrant', { path: request.path });
  return { redirect: buildAddress('/console/apps', request.testMode, { done: 'revoked' }) };
}
