// The queries of the credential store: statements of db/, with the meaning of plans and roles.
import {
  countUse,
  findCompany,
  findGrants,
  findKeyById,
  findKeys,
  findPerson,
  findSessions,
  type GrantRow,
  type UserRow,
} from '../db/access/credentials.ts';
import type { SubscriptionRow } from '../db/access/paying-subscription.ts';
import { findKeyPlaces, findUserPlaces } from '../db/access/places.ts';
import { findInboundEndpoint } from '../db/messaging/inbound-secrets.ts';
import { resolveTokenScopes } from '../domain/access/oauth-groups.ts';
import { type RoleReach, resolvePermissions } from '../domain/access/role-permissions.ts';
import { computeCallsPerDay, computeCallsPerMinute, computeModules, resolveAccess } from '../domain/billing/plans.ts';
import type { Reach } from '../runtime/caller.ts';
import type { CredentialQueries, Grant, SessionRecord, Subscription } from '../runtime/credentials/credential-store.ts';

type PayingRow = SubscriptionRow & { disabledModules: readonly string[] };

export const addSubscription = <Row extends PayingRow>(row: Row, now: Date) => ({
  ...row,
  subscription: toSubscription(row, now),
});

export const credentialQueries: CredentialQueries = {
  findKeyPlaces,
  findUserPlaces,
  countUse,
  async findKeys(sql, companyId, hashes, now) {
    const rows = await findKeys(sql, companyId, hashes);
    return new Map([...rows].map(([hash, row]) => [hash, addSubscription(row, now)]));
  },
  async findSessions(sql, companyId, ids, now) {
    const rows = await findSessions(sql, companyId, ids);
    return new Map([...rows].map(([id, row]) => [id, { ...addSubscription(row, now), permits: toPermits(row) }]));
  },
  async findGrants(sql, companyId, asked, now) {
    const rows = await findGrants(sql, companyId, asked);
    return rows.map((row) => row && { ...addSubscription(row, now), grant: toGrant(row) });
  },
  async findCompany(sql, companyId, now) {
    const row = await findCompany(sql, companyId);
    return row && addSubscription(row, now);
  },
  async findKeyById(sql, companyId, id, now) {
    const row = await findKeyById(sql, companyId, id);
    return row && addSubscription(row, now);
  },
  async findPerson(sql, companyId, userId, now) {
    const row = await findPerson(sql, companyId, userId);
    return row && { ...addSubscription(row, now), permits: toPermits(row) };
  },
  findInboundEndpoint: (sql, companyId, testMode, now) =>
    findInboundEndpoint(sql, companyId, testMode ? 'test' : 'live', now),
};

/** Returns the access that a subscription gives. */
function toSubscription(row: PayingRow, now: Date): Subscription {
  return {
    access: resolveAccess(row.subscriptionStatus, row.trialEndsAt, now),
    modules: computeModules(row.packageCode, row.addOns, row.disabledModules),
    callsPerMinute: computeCallsPerMinute(row),
    callsPerDay: computeCallsPerDay(row),
  };
}

/** Returns what a user allowed an app to do; null if the user never allowed it anything. */
export function toGrant(row: GrantRow): Grant | null {
  const { grant } = row;
  if (!grant) return null;
  return {
    id: grant.id,
    clientName: grant.clientName,
    writeMode: grant.writeMode,
    revoked: grant.revoked,
    endedFamilies: new Set(Object.keys(grant.endedFamilies)),
    permits(asked) {
      const permissions = resolvePermissions(row.roles, row.profile);
      return {
        scopes: resolveTokenScopes(grant, asked, permissions),
        computeReach: (scopes) => computeReach(permissions.computeReach(scopes), row),
      };
    },
  };
}

/** What a user may do in the console. */
export function toPermits(row: UserRow): SessionRecord['permits'] {
  const permissions = resolvePermissions(row.roles, row.profile);
  return { allows: permissions.allows, computeReach: (scopes) => computeReach(permissions.computeReach(scopes), row) };
}

/** A user whose role needs a team or branch but who has none sees only their own records. */
function computeReach(kind: RoleReach, { branchId, teamId, userId }: UserRow): Reach {
  if (kind === 'company') return { kind };
  const id = { branch: branchId, team: teamId, own: userId }[kind];
  return id === null ? { kind: 'own', id: userId } : { kind, id };
}
