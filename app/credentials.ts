// What the rows of a credential's look-up stand for, in the words of the runtime.
import type { GrantRow, UserRow } from '../db/access/credentials.ts';
import type { SubscriptionRow } from '../db/access/paying-subscription.ts';
import { scopesOfToken } from '../domain/access/oauth-groups.ts';
import { permissionsOf, type RoleReach } from '../domain/access/role-permissions.ts';
import { accessOf, callsPerDay, callsPerMinute, modulesOfWorkspace } from '../domain/billing/plans.ts';
import type { Reach } from '../runtime/caller.ts';
import type { Grant, SessionRecord, Subscription } from '../runtime/database.ts';

/** What a company's subscription opens. */
export function subscriptionOf(row: SubscriptionRow & { disabledModules: readonly string[] }, now: Date): Subscription {
  return {
    access: accessOf(row.subscriptionStatus, row.trialEndsAt, now),
    modules: modulesOfWorkspace(row.packageCode, row.addOns, row.disabledModules),
    callsPerMinute: callsPerMinute(row),
    callsPerDay: callsPerDay(row),
  };
}

/** What a user allowed an app to do; null when the user never allowed it anything. */
export function grantOf(row: GrantRow): Grant | null {
  const { grant } = row;
  if (!grant) return null;
  return {
    id: grant.id,
    clientName: grant.clientName,
    revoked: grant.revoked,
    endedFamilies: new Set(Object.keys(grant.endedFamilies)),
    permits(asked) {
      const permissions = permissionsOf(row.roles, row.profile);
      return {
        scopes: scopesOfToken(grant, asked, permissions),
        reachOf: (scopes) => reachOf(permissions.reachOf(scopes), row),
      };
    },
  };
}

/** What a user may do at screens. */
export function permitsOf(row: UserRow): SessionRecord['permits'] {
  const permissions = permissionsOf(row.roles, row.profile);
  return { allows: permissions.allows, reachOf: (scopes) => reachOf(permissions.reachOf(scopes), row) };
}

/** Who belongs to no team or branch sees what is their own. */
function reachOf(kind: RoleReach, { branchId, teamId, userId }: UserRow): Reach {
  if (kind === 'company') return { kind };
  const id = { branch: branchId, team: teamId, own: userId }[kind];
  return id === null ? { kind: 'own', id: userId } : { kind, id };
}
