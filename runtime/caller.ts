// The caller of an operation: identity, visibility, scopes and limits of its credential.

import type { Grants } from '../domain/access/scopes.ts';
import type { Modules } from '../domain/billing/plans.ts';

/** The actor that audit rows, events and `created_by` name. */
export interface Actor {
  kind: 'api_key' | 'oauth_client' | 'user' | 'system';
  id: string;
  name: string | null;
}

/** The records that a credential can see. The id of `own` is the user's. */
export type Reach = { kind: 'company' } | { kind: 'branch' | 'team' | 'own'; id: string };

/** What the subscription of a workspace gives to its credentials. */
export type SubscriptionAccess = 'open' | 'no_subscription' | 'subscription_ended';

/**
 * The caller of an operation. For public operations companyId is empty and no scope is granted.
 * `person` is a user who is signed in to the console; `system` is the server itself.
 */
export interface Caller {
  kind: 'anonymous' | 'api_key' | 'oauth_client' | 'session' | 'person' | 'gateway' | 'system';
  companyId: string;
  companyName: string;
  testMode: boolean;
  /** Seconds by which the clock of test mode is ahead; absent: none. It counts only in test mode. */
  clockAheadSeconds?: number;
  actor: Actor;
  grants: Grants;
  /** As granted, for display. */
  scopes: readonly string[];
  reach: Reach;
  /**
   * Returns the visibility that the caller's roles give for the scopes of an operation. Absent if
   * visibility does not depend on roles.
   */
  computeReach?: (scopes: readonly string[]) => Reach;
  /** The permissions of a user by their roles, which a session token uses for few operations. */
  ofUser?: {
    grants: Grants;
    computeReach: (scopes: readonly string[]) => Reach;
    /** What the subscription gives, which admission does not check for people. */
    access: SubscriptionAccess;
  };
  expiresAt: Date | null;
  /** The user of a session token, or the user an app acts for; null for keys. */
  userId: string | null;
  sessionId: string | null;
  /**
   * True while the user has a generated password. Until they change it, they can do nothing else.
   */
  mustChangePassword: boolean;
  /** True if the credential only proposes changes. Absent for people. */
  mustPropose?: boolean;
  /** True if the credential had pending change sets when it was looked up. Absent for people. */
  hasProposals?: boolean;
  modules: Modules;
  /** Limits of the credential, and of all calls of its workspace together. */
  limits: { perMinute: number; perHour: number; tenantPerMinute: number; tenantPerDay: number | null };
  ip: string;
  userAgent: string | null;
  requestId: string;
}
