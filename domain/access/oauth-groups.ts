// Consent groups: the scopes of each group, and the effective scopes of a token.
import type { Permissions } from './role-permissions.ts';
import { expandScope, getScopeModule, moduleActions } from './scopes.ts';

const consentGroups = [
  ...(['records', 'pipeline', 'automation', 'calendar'] as const),
  ...(['messaging', 'billing', 'admin'] as const),
];
export type ConsentGroup = (typeof consentGroups)[number];

/** The audience of a token: the REST API, or only the MCP server. */
export type Audience = 'api' | 'mcp';

/** Returns all scopes of a module. */
const all = (module: string): string[] => (moduleActions[module] ?? []).map((action) => `${module}:${action}`);
const work = (module: string): string[] => ['view', 'create', 'edit'].map((action) => `${module}:${action}`);

/**
 * A placeholder in groups for every custom object of the workspace. It is not a scope, and no token
 * has it.
 */
const customObject = 'object:*';

/** No group can send to a customer: messages are prepared as drafts, which a person approves. */
const scopesOfGroup: Readonly<Record<ConsentGroup, readonly string[]>> = {
  records: [...work('leads'), ...work('customers'), ...work('activities')],
  pipeline: [...work('deals'), ...work('accounts'), ...work('tasks'), ...work(customObject), 'reports:view'],
  automation: [...all('workforces'), ...all('webhooks')],
  calendar: [...work('bookings')],
  messaging: [...all('inbox')],
  billing: [...all('billing')],
  admin: [...all('settings'), ...all('users'), 'access_control:view', 'attachments:configure'],
};

/**
 * Returns the groups on the consent page. Assistants do not get billing, because they must not
 * spend money.
 */
export const selectConsentGroups = (audience: Audience): readonly ConsentGroup[] =>
  consentGroups.filter((group) => audience !== 'mcp' || group !== 'billing');

/** The maximum number of single scopes on the consent page. */
const maxScopes = 50;

/**
 * Reads the module scopes that an app requests by name, as single actions.
 * @param asked separated by spaces; identity scopes, unknown ones and `*` are ignored
 */
export function parseRequestedScopes(asked: string, audience: Audience): string[] {
  const scopes = asked.split(' ').flatMap(expandScope);
  return [...new Set(scopes)]
    .filter((scope) => audience !== 'mcp' || getScopeModule(scope) !== 'billing')
    .slice(0, maxScopes);
}

/** Returns the scopes that no group contains. */
export function findUncovered(groups: readonly ConsentGroup[], scopes: readonly string[]): string[] {
  const covered = new Set(groups.flatMap((group) => scopesOfGroup[group]));
  return scopes.filter((scope) => !covered.has(scope) && !covered.has(scope.replace(/^object:[^:]+/, customObject)));
}

/**
 * Returns the scopes of a token: those of the consent or of the token itself, limited to the
 * person's permissions.
 * @param grant customObjects are the modules of custom objects, e.g. object:visits
 * @param asked scopes of the token; OpenID Connect scopes, unknown ones and `*` are ignored
 */
export function resolveTokenScopes(
  grant: {
    groups: readonly string[];
    extraScopes: readonly string[];
    customObjects: readonly string[];
    writeMode: 'direct' | 'propose';
  },
  asked: readonly string[],
  permissions: Permissions,
): string[] {
  const groups = grant.groups
    .flatMap((group) => scopesOfGroup[group as ConsentGroup] ?? [])
    .flatMap((scope) =>
      getScopeModule(scope) === customObject
        ? grant.customObjects.map((module) => module + scope.slice(customObject.length))
        : [scope],
    );
  // An app that only proposes changes has to see the decisions about them.
  const ofProposers = grant.writeMode === 'propose' ? ['change_sets:view'] : [];
  const single = [...grant.extraScopes, ...asked, ...ofProposers].flatMap(expandScope);
  return [...new Set([...groups, ...single])].filter((scope) => permissions.allows(scope));
}
