// The question whether an app may act for a person, and the answer.
import { v7 as uuidv7 } from 'uuid';
import { findActiveGrant, listAdminNames, saveGrant } from '../db/access/oauth-grants.ts';
import type { ConsentGroup } from '../domain/access/oauth-groups.ts';
import { type Html, hostOf, html, isolated, page } from '../runtime/html.ts';
import type { ScreenAnswer } from '../runtime/screens.ts';
import { type AskedConsent, type ConsoleParts, type PersonalRequest, plainPage, toSignIn } from './requests.ts';

const groups: readonly { name: ConsentGroup; title: string; text: string; isOn: boolean }[] = [
  { name: 'records', title: 'Records', text: 'read, create and edit leads, customers and activities', isOn: true },
  {
    name: 'automation',
    title: 'Automation',
    text: 'read and start workflows, manage webhook subscriptions',
    isOn: true,
  },
  {
    name: 'messaging',
    title: 'Messaging',
    text: 'prepare messages; what is sent uses up your paid allowance',
    isOn: false,
  },
  { name: 'billing', title: 'Billing', text: 'see and change the plan; for API and SDK use only', isOn: false },
  { name: 'admin', title: 'Admin', text: 'manage settings of the workspace and its users', isOn: false },
];

/** @param recently milliseconds after which the password is asked for again */
export async function consent(parts: ConsoleParts, request: PersonalRequest, recently: number): Promise<ScreenAnswer> {
  const { people, consents } = parts;
  const { person, now, form, address } = request;
  const asked = await consents?.find(request);
  if (!consents || !asked)
    return plainPage(
      400,
      'There is nothing to decide',
      'No app asks in this browser, or it asked too long ago. Begin again in the app.',
    );
  const { companyId, userId } = person.caller;
  const user = userId ?? '';
  const known = await people.act(person, false, [], now, ({ sql }) =>
    findActiveGrant(sql, companyId, user, asked.clientId),
  );
  // A page and no redirect: browsers let a form lead nowhere that its page did not name, and a sign-in names none.
  if (known && !asked.mustAsk && !form) return goOn(asked, await consents.allow(request, user, known.id));
  if (!person.caller.scopes.includes('Company_Admin')) return askSomebodyElse(parts, request, asked);
  if (now.getTime() - person.session.signedInAt > recently) return toSignIn(address, true);
  if (!form) return question(request, asked, known?.groups);
  if (form.get('action') !== 'allow') return { redirect: await consents.deny(request) };
  const chosen = groups.filter(({ name }) => form.getAll('group').includes(name)).map(({ name }) => name);
  const grantId = await people.act(person, false, [], now, async ({ sql, record }) => {
    const { clientId, clientName } = asked;
    const grant = { id: uuidv7(), userId: user, clientId, clientName, groups: chosen, createdAt: now };
    const { id, before } = await saveGrant(sql, companyId, grant);
    record({
      action: before === null ? 'oauth_grant.create' : 'oauth_grant.update',
      object: 'oauth_grants',
      recordId: id,
      ...(before === null ? {} : { changes: { groups: { from: before, to: chosen } } }),
      metadata: { client_id: clientId, client_name: clientName, groups: chosen },
    });
    return id;
  });
  return { redirect: await consents.allow(request, user, grantId) };
}

function question(
  { person, address }: PersonalRequest,
  asked: AskedConsent,
  before: readonly string[] | undefined,
): ScreenAnswer {
  const body = html`${about(asked)}
<form method="post" action="${address}">
<input type="hidden" name="token" value="${person.formToken}">
<fieldset>
<legend>It may, in your name and as far as your role goes</legend>
${groups.map(
  ({ name, title, text, isOn }) =>
    html`<p><label><input type="checkbox" name="group" value="${name}"${
      (before?.includes(name) ?? isOn) ? html` checked` : null
    }> ${title}</label> ${text}</p>`,
)}
</fieldset>
<button name="action" value="allow">Allow</button>
<button class="quiet" name="action" value="deny">Deny</button>
</form>
<p class="note">${isolated(person.caller.actor.name ?? '')}, ${isolated(person.caller.companyName)}. You can revoke this at any time under <a href="/console/apps">Apps</a>.</p>`;
  return {
    status: 200,
    html: page(html`Allow ${isolated(asked.clientName)}?`, body),
    leadsTo: [sourceOf(asked.redirectUri)],
  };
}

/** What is known of an app: the name is its own word, the host is not. */
function about({ clientName, redirectUri, redirectUris }: AskedConsent): Html {
  const isLocal = redirectUris.every((each) => /^http:\/\/(127\.0\.0\.1|\[::1\]|localhost)[:/]/.test(`${each}/`));
  return html`<p><strong>${isolated(clientName)}</strong> asks for access. Your answer goes to ${hostOf(redirectUri)}.</p>
${isLocal ? html`<p role="alert">This app runs on your own computer, so nobody vouches for its name. Go on only if you have just started it yourself.</p>` : null}`;
}

async function askSomebodyElse(
  { people, consents }: ConsoleParts,
  request: PersonalRequest,
  asked: AskedConsent,
): Promise<ScreenAnswer> {
  const { person, now, form, address } = request;
  if (form && consents) return { redirect: await consents.deny(request) };
  const names = await people.act(person, false, [], now, ({ sql }) => listAdminNames(sql, person.caller.companyId, 5));
  const body = html`${about(asked)}
<p role="alert">Only an administrator of ${isolated(person.caller.companyName)} can allow this. Ask ${names.map((name, index) => html`${index === 0 ? null : ', '}${isolated(name)}`)}.</p>
<form method="post" action="${address}">
<input type="hidden" name="token" value="${person.formToken}">
<button class="quiet" name="action" value="deny">Back</button>
</form>`;
  return { status: 403, html: page('You cannot allow this', body), leadsTo: [sourceOf(asked.redirectUri)] };
}

const goOn = ({ clientName }: AskedConsent, address: string): ScreenAnswer => ({
  status: 200,
  html: page(
    html`Back to ${isolated(clientName)}`,
    html`<meta http-equiv="refresh" content="0; url=${address}"><p>You allowed this app before. <a href="${address}">Go on</a></p>`,
  ),
});

/** As a policy names it; it has no words for addresses of IPv6. */
const sourceOf = (address: string): string => {
  const { origin, protocol, hostname } = new URL(address);
  return hostname.startsWith('[') ? protocol : origin;
};
