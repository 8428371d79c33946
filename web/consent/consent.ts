// The consent page: asks a person whether an app may act for them, and stores the decision.
import { v7 as uuidv7 } from 'uuid';
import {
  findActiveGrant,
  type GrantBefore,
  listAdminNames,
  type OAuthGrantRow,
  saveGrant,
} from '../../db/access/oauth-grants.ts';
import {
  type ConsentGroup,
  findUncovered,
  parseRequestedScopes,
  selectConsentGroups,
} from '../../domain/access/oauth-groups.ts';
import type { Person } from '../../runtime/credentials/people.ts';
import type { PageResponse } from '../../runtime/http/page-routes.ts';
import { type Html, html, isolateText, renderHost } from '../../runtime/pages/html.ts';
import { renderBrandedPage, toBrand } from '../pages/brand.ts';
import { type AskedConsent, type ConsoleParts, type PersonalRequest, plainPage, toSignIn } from '../pages/requests.ts';

interface GroupText {
  title: string;
  text: string;
  /** Ticked by default, unless the person chose otherwise before. */
  isOn?: true;
}

const groupTexts: Readonly<Record<ConsentGroup, GroupText>> = {
  records: { title: 'Records', text: 'read, create and edit leads, customers and activities', isOn: true },
  pipeline: {
    title: 'Pipeline',
    isOn: true,
    text: 'read, create and edit deals, accounts, tasks and custom objects; read reports',
  },
  automation: { title: 'Automation', text: 'read and start workflows, manage webhook endpoints', isOn: true },
  calendar: { title: 'Calendar', text: 'read, create and change bookings' },
  messaging: { title: 'Messaging', text: 'prepare messages; sent messages use your paid allowance' },
  billing: { title: 'Billing', text: 'see and change the plan; for API and SDK use only' },
  admin: { title: 'Admin', text: 'manage workspace settings and users' },
};

const purposeOf = { api: 'for the API', mcp: 'for AI assistants (MCP)' };

/** @param recently milliseconds after a sign-in until the password is required again */
export async function showConsent(
  parts: ConsoleParts,
  request: PersonalRequest,
  recently: number,
): Promise<PageResponse> {
  const { people, consents } = parts;
  const { person, now, form, address } = request;
  const asked = await consents?.find(request);
  if (!consents || !asked)
    return plainPage(
      400,
      'No pending request',
      'No app has requested access in this browser, or the request has expired. Start again in the app.',
    );
  const { companyId, userId } = person.caller;
  const user = userId ?? '';
  const known = await people.act(person, false, [], now, ({ db: { sql } }) =>
    findActiveGrant(sql, companyId, user, asked.clientId, asked.audience),
  );
  // Returns a page instead of a redirect. Browsers block redirects after a form to addresses that
  // the page's policy does not name, and the policy of the sign-in page names none.
  if (known && !form && !mustAsk(asked, known))
    return continueToApp(person, asked, await consents.allow(request, user, known.id));
  if (!person.caller.scopes.includes('Company_Admin')) return showNotAllowed(parts, request, asked);
  if (now.getTime() - person.session.signedInAt > recently) return toSignIn(address, true);
  if (!form) return showQuestion(request, asked, known);
  if (form.get('action') !== 'allow') return { redirect: await consents.deny(request) };
  const offered = buildOffer(asked, known);
  const chosen = offered.groups.filter((group) => form.getAll('group').includes(group));
  const extraScopes = offered.scopes.filter((scope) => form.getAll('scope').includes(scope));
  const writeMode = form.get('write_mode') === 'propose' ? ('propose' as const) : ('direct' as const);
  const grantId = await people.act(person, false, [], now, async ({ db: { sql, record } }) => {
    const { clientId, clientName, audience } = asked;
    const app = { userId: user, clientId, clientName, audience };
    const grant = { id: uuidv7(), ...app, groups: chosen, extraScopes, writeMode, createdAt: now };
    const { id, before } = await saveGrant(sql, companyId, grant);
    record({
      action: before === null ? 'oauth_grant.create' : 'oauth_grant.update',
      object: 'oauth_grants',
      recordId: id,
      ...(before === null ? {} : { changes: diffGrant(before, { groups: chosen, extraScopes, writeMode }) }),
      metadata: {
        client_id: clientId,
        client_name: clientName,
        audience,
        groups: chosen,
        extra_scopes: extraScopes,
        write_mode: writeMode,
      },
    });
    return id;
  });
  return { redirect: await consents.allow(request, user, grantId) };
}

/**
 * Returns true if the person must confirm again although a grant exists: the app demands it, it
 * requests more scopes, or it runs on the person's computer. Any program there could pretend to be
 * this app.
 */
const mustAsk = (asked: AskedConsent, { groups, extraScopes }: OAuthGrantRow): boolean =>
  asked.mustAsk ||
  isLoopback(asked.redirectUri) ||
  findUncovered(groups as ConsentGroup[], parseRequestedScopes(asked.scope, asked.audience)).some(
    (scope) => !extraScopes.includes(scope),
  );

/**
 * Lists the groups and single scopes that the page offers. It does not yet remove scopes that a
 * ticked group contains.
 */
const buildOffer = ({ audience, scope }: AskedConsent, known: OAuthGrantRow | undefined) => ({
  groups: selectConsentGroups(audience),
  scopes: [...new Set([...(known?.extraScopes ?? []), ...parseRequestedScopes(scope, audience)])],
});

function diffGrant(before: GrantBefore, after: GrantBefore): Record<string, { from: unknown; to: unknown }> {
  return {
    groups: { from: before.groups, to: after.groups },
    extra_scopes: { from: before.extraScopes, to: after.extraScopes },
    write_mode: { from: before.writeMode, to: after.writeMode },
  };
}

function showQuestion(
  { person, address }: PersonalRequest,
  asked: AskedConsent,
  known: OAuthGrantRow | undefined,
): PageResponse {
  const { groups, scopes } = buildOffer(asked, known);
  const ticked = groups.filter((group) => known?.groups.includes(group) ?? groupTexts[group].isOn === true);
  const single = findUncovered(ticked, scopes);
  const body = html`${describeApp(asked)}
<form method="post" action="${address}">
<input type="hidden" name="token" value="${person.formToken}">
<fieldset>
<legend>Allow it to do the following on your behalf, within the permissions of your role</legend>
${groups.map((group) => checkbox('group', group, groupTexts[group].title, ticked.includes(group), groupTexts[group].text))}
</fieldset>
${
  single.length === 0
    ? null
    : html`<fieldset>
<legend>It also requests these scopes</legend>
${single.map((scope) => checkbox('scope', scope, html`<code>${scope}</code>`, known?.extraScopes.includes(scope) === true))}
</fieldset>`
}
${checkbox('write_mode', 'propose', 'Ask me before each change', known?.writeMode === 'propose', 'The app proposes its changes, and you approve or reject them.')}
<button name="action" value="allow">Allow</button>
<button class="quiet" name="action" value="deny">Deny</button>
</form>
<p class="note">${isolateText(person.caller.actor.name ?? '')}, ${isolateText(person.caller.companyName)}. You can revoke this at any time under <a href="/console/apps">Apps</a>.</p>`;
  return {
    ...renderBrandedPage(200, html`Allow ${isolateText(asked.clientName)}?`, body, toBrand(person)),
    leadsTo: [toPolicySource(asked.redirectUri)],
  };
}

const checkbox = (name: string, value: string, label: string | Html, isTicked: boolean, text = ''): Html =>
  html`<p><label><input type="checkbox" name="${name}" value="${value}"${isTicked ? html` checked` : null}> ${label}</label> ${text}</p>`;

/** Returns true if the address is on the same machine as the browser. */
const isLoopback = (address: string): boolean =>
  ['127.0.0.1', '[::1]', 'localhost'].includes(new URL(address).hostname);

/** Describes the app. Its name is not verified, but the host of its redirect is. */
function describeApp({ clientName, redirectUri, audience }: AskedConsent): Html {
  const isLocal = isLoopback(redirectUri);
  return html`<p><strong>${isolateText(clientName)}</strong> requests access <strong>${purposeOf[audience]}</strong>. You will be redirected to ${renderHost(redirectUri)}.</p>
${isLocal ? html`<p role="alert">This app runs on your own computer, so its name cannot be verified. Continue only if you have just started it yourself.</p>` : null}`;
}

async function showNotAllowed(
  { people, consents }: ConsoleParts,
  request: PersonalRequest,
  asked: AskedConsent,
): Promise<PageResponse> {
  const { person, now, form, address } = request;
  if (form && consents) return { redirect: await consents.deny(request) };
  const names = await people.act(person, false, [], now, ({ db: { sql } }) =>
    listAdminNames(sql, person.caller.companyId, 5),
  );
  const body = html`${describeApp(asked)}
<p role="alert">Only an administrator of ${isolateText(person.caller.companyName)} can allow this. Ask ${names.map((name, index) => html`${index === 0 ? null : ', '}${isolateText(name)}`)}.</p>
<form method="post" action="${address}">
<input type="hidden" name="token" value="${person.formToken}">
<button class="quiet" name="action" value="deny">Back</button>
</form>`;
  return {
    ...renderBrandedPage(403, 'You cannot allow this app', body, toBrand(person)),
    leadsTo: [toPolicySource(asked.redirectUri)],
  };
}

const continueToApp = (person: Person, { clientName }: AskedConsent, address: string): PageResponse =>
  renderBrandedPage(
    200,
    html`Back to ${isolateText(clientName)}`,
    html`<meta http-equiv="refresh" content="0; url=${address}"><p>You have already allowed this app. <a href="${address}">Continue</a></p>`,
    toBrand(person),
  );

/**
 * Returns the source expression of an address for the Content-Security-Policy, which cannot express
 * IPv6 addresses.
 */
const toPolicySource = (address: string): string => {
  const { origin, protocol, hostname } = new URL(address);
  return hostname.startsWith('[') ? protocol : origin;
};
