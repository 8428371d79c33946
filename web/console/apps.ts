// Lists the apps that act for people of the workspace, and revokes their access.

import type { PageResponse } from '../../runtime/http/page-routes.ts';
import { type Html, html, isolateText } from '../../runtime/pages/html.ts';
import { doneMessage, emptyState, factList, formatTime, nextPageLink, tabs } from '../pages/components.ts';
import { form } from '../pages/forms.ts';
import { consolePage } from '../pages/layout.ts';
import { ask, buildAddress, type ConsoleParts, type Data, type PersonalRequest } from '../pages/requests.ts';

/** Apps on one page of the list, whether they are shown or not. */
const pageSize = 50;

const home = '/console/apps';
const states = { '': 'With access', revoked: 'Revoked' };

type Grant = Data<'listOauthGrants'>['oauth_grants'][number];

const describeAudience = (audience: 'api' | 'mcp' | null): string =>
  audience === null ? 'defined by its tokens' : { api: 'the API', mcp: 'tools for AI assistants (MCP)' }[audience];

export async function showApps(parts: ConsoleParts, request: PersonalRequest): Promise<PageResponse> {
  const { query, testMode } = request;
  const [state, cursor] = [query.get('state') ?? '', query.get('cursor') ?? ''];
  const { oauth_grants: grants, next_cursor: next } = await ask(parts, request, 'listOauthGrants', {
    query: { cursor, limit: String(pageSize) },
  });
  const shown = grants.filter(({ revoked_at: revokedAt }) => (revokedAt !== null) === (state === 'revoked'));
  const nothing = state === 'revoked' ? 'No app has lost its access' : 'No apps have access';
  const body = html`${doneMessage(request, doneMessages)}
${tabs(request, { path: home, parameter: 'state', shown: states, current: state })}
${shown.length === 0 ? emptyState(next === null ? `${nothing}.` : `${nothing} so far. There are older entries.`) : null}
${shown.map((grant) => showGrant(request, grant))}
${nextPageLink(buildAddress(home, testMode, { state, cursor: next ?? '' }), next)}`;
  return consolePage(request, 200, 'Apps', body);
}

const doneMessages = { revoked: 'Access revoked. Requests of the app are rejected from now on.' };

function showGrant(request: PersonalRequest, grant: Grant): Html {
  const revoke = html`<button class="quiet" aria-label="Revoke access of ${grant.client_name}">Revoke</button>`;
  return html`<article aria-label="${grant.client_name}">
<h2>${isolateText(grant.client_name)}</h2>
${factList({
  User: isolateText(grant.user.full_name),
  Permissions: [...grant.groups, ...grant.extra_scopes].join(', ') || 'none',
  Changes: grant.write_mode === 'propose' ? 'proposed, and you approve them' : 'made by the app',
  'Access to': describeAudience(grant.audience),
  Since: formatTime(grant.created_at),
  Revoked: formatTime(grant.revoked_at),
})}
${grant.revoked_at === null ? form(request, `${home}/${grant.id}`, revoke) : null}
</article>`;
}

export async function revokeApp(parts: ConsoleParts, request: PersonalRequest): Promise<PageResponse> {
  await ask(parts, request, 'revokeOauthGrant', { path: request.path });
  return { redirect: buildAddress(home, request.testMode, { done: 'revoked' }) };
}
