// The apps that may act for people of the workspace, and the end of that.
import type { components } from '../generated/api.ts';
import { html } from '../runtime/html.ts';
import type { ScreenAnswer } from '../runtime/screens.ts';
import { type ConsoleParts, consolePage, type PersonalRequest, plainPage } from './requests.ts';

type OAuthGrant = components['schemas']['OAuthGrant'];

/** On the page. */
const most = 100;

export async function showApps({ perform }: ConsoleParts, request: PersonalRequest): Promise<ScreenAnswer> {
  const { person, query } = request;
  const by = { caller: person.caller, configVersion: 0 };
  const answer = await perform({ operationId: 'listOauthGrants', by, path: {}, query: { limit: String(most) } });
  if (answer.status !== 200) return refused(answer.status);
  const { oauth_grants: grants } = (answer.body as { data: { oauth_grants: OAuthGrant[] } }).data;
  const active = grants.filter(({ revoked_at: revokedAt }) => revokedAt === null);
  const done = query.get('done') === 'revoked' ? html`<p role="status">Revoked. Its next call is refused.</p>` : null;
  return consolePage(
    request,
    200,
    'Apps',
    html`${done}
${active.length === 0 ? html`<p>No app has access.</p>` : null}
${active.map(
  (grant) => html`<article aria-label="${grant.client_name}">
<h2>${grant.client_name}</h2>
<dl>
<dt>Acts for</dt><dd>${grant.user.full_name}</dd>
<dt>May</dt><dd>${grant.groups.length === 0 ? 'nothing' : grant.groups.join(', ')}</dd>
<dt>Since</dt><dd>${grant.created_at.slice(0, 16).replace('T', ' ')} UTC</dd>
</dl>
<form method="post" action="/console/apps/${grant.id}/revoke">
<input type="hidden" name="token" value="${person.formToken}">
<button class="quiet" aria-label="Revoke the access of ${grant.client_name}">Revoke</button>
</form>
</article>`,
)}`,
  );
}

export async function revokeApp({ perform }: ConsoleParts, request: PersonalRequest): Promise<ScreenAnswer> {
  const { person, form, path } = request;
  if (!form) return { redirect: '/console/apps' };
  const by = { caller: person.caller, configVersion: 0 };
  const answer = await perform({ operationId: 'revokeOauthGrant', by, path: { id: path.id ?? '' } });
  return answer.status === 200 ? { redirect: '/console/apps?done=revoked' } : refused(answer.status);
}

const refused = (status: number): ScreenAnswer =>
  status === 403
    ? plainPage(403, 'Only an administrator sees this', 'Ask an administrator of your workspace.')
    : plainPage(status, 'That did not work', 'Go back and try once more.');
