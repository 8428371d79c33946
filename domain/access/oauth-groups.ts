// What the groups of the consent screen stand for, and what a token may do in the end.
import type { Permissions } from './role-permissions.ts';
import { concreteScopes, moduleActions, moduleOf } from './scopes.ts';

const consentGroups = [
  ...(['records', 'pipeline', 'automation', 'calendar'] as const),
  ...(['messaging', 'billing', 'admin'] as const),
];
export type ConsentGroup = (typeof consentGroups)[number];

/** What a token is for: the REST API, or the MCP server alone. */
export type Audience = 'api' | 'mcp';

/** Everything that a module offers. */
const all = (module: string): string[] => (moduleActions[module] ?? []).map((action) => `${module}:${action}`);
const work = (module: string): string[] => ['view', 'create', 'edit'].map((action) => `${module}:${action}`);

/** Stands in a group for every custom object of the workspace; it is no scope, and no token has it. */
const customObject = 'object:*';

/** No group sends anything to a customer: messages are prepared as drafts, which a person approves. */
const scopesOfGroup: Readonly<Record<ConsentGroup, readonly string[]>> = {
  records: [...work('leads'), ...work('customers'), ...work('activities')],
  pipeline: [...work('deals'), ...work('accounts'), ...work('tasks'), ...work(customObject), 'reports:view'],
  automation: [...all('workforces'), ...all('webhooks')],
  calendar: [...work('bookings')],
  messaging: [...all('inbox')],
  billing: [...all('billing')],
  admin: [...all('settings'), ...all('users'), 'access_control:view', 'attachments:configure'],
};

/** The groups that the consent page offers: an assistant never spends money. */
export const groupsFor = (audience: Audience): readonly ConsentGroup[] =>
  consentGroups.filter((group) => audience !== 'mcp' || group !== 'billing');

/** How many single scopes the consent page shows at most. */
const mostScopes = 50;

/**
 * Reads the module scopes that an app asks for by name, as single actions.
 * @param asked separated by spaces; identity scopes, unknown ones and `*` are left out
 */
export function askedScopes(asked: string, audience: Audience): string[] {
  const scopes = asked.split(' ').flatMap(concreteScopes);
  return [...new Set(scopes)]
    .filter((scope) => audience !== 'mcp' || moduleOf(scope) !== 'billing')
    .slice(0, mostScopes);
}

/** The scopes of a list that lie in none of the groups. */
export function outsideOf(groups: readonly ConsentGroup[], scopes: readonly string[]): string[] {
  const covered = new Set(groups.flatMap((group) => scopesOfGroup[group]));
  return scopes.filter((scope) => !covered.has(scope) && !covered.has(scope.replace(/^object:[^:]+/, customObject)));
}

/**
 * The scopes of a token: what was consented to or stands in the token, as far as the person may do it.
 * @param grant customObjects are the modules of the workspace's own objects, e.g. object:visits
 * @param asked scopes of the token; those of OpenID Connect and unknown ones count for nothing, and neither does `*`
 */
export function scopesOfToken(
  grant: { groups: readonly string[]; extraScopes: readonly string[]; customObjects: readonly string[] },
  asked: readonly string[],
  permissions: Permissions,
): string[] {
  const groups = grant.groups
    .flatMap((group) => scopesOfGroup[group as ConsentGroup] ?? [])
    .flatMap((scope) =>
      moduleOf(scope) === customObject
        ? grant.customObjects.map((module) => module + scope.slice(customObject.length))
        : [scope],
    );
  const single = [...grant.extraScopes, ...asked].flatMap(concreteScopes);
  return [...new Set([...groups, ...single])].filter((scope) => permissions.allows(scope));
}
