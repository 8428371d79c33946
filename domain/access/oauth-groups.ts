// What the groups of the consent screen stand for, and what a token may do in the end.
import type { Permissions } from './role-permissions.ts';
import { concreteScopes, moduleActions } from './scopes.ts';

export type ConsentGroup = 'records' | 'automation' | 'messaging' | 'billing' | 'admin';

/** Everything that a module offers. */
const all = (module: string): string[] => (moduleActions[module] ?? []).map((action) => `${module}:${action}`);
const work = (module: string): string[] => ['view', 'create', 'edit'].map((action) => `${module}:${action}`);

/** No group sends anything to a customer: messages are prepared as drafts, which a person approves. */
export const scopesOfGroup: Readonly<Record<ConsentGroup, readonly string[]>> = {
  records: [...work('leads'), ...work('customers'), ...work('activities')],
  automation: [...all('workforces'), ...all('webhooks')],
  messaging: [...all('inbox')],
  billing: [...all('billing')],
  admin: [...all('settings'), ...all('users'), 'access_control:view', 'attachments:configure'],
};

/**
 * The scopes of a token: what was consented to or stands in the token, as far as the person may do it.
 * @param asked scopes of the token; those of OpenID Connect and unknown ones count for nothing, and neither does `*`
 */
export function scopesOfToken(
  grant: { groups: readonly string[]; extraScopes: readonly string[] },
  asked: readonly string[],
  permissions: Permissions,
): string[] {
  const groups = grant.groups.flatMap((group) => scopesOfGroup[group as ConsentGroup] ?? []);
  const single = [...grant.extraScopes, ...asked].flatMap(concreteScopes);
  return [...new Set([...groups, ...single])].filter((scope) => permissions.allows(scope));
}
