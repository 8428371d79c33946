// Who calls: what a credential stands for, whose rows it reaches, and how it signs what it does.

import type { Grants } from '../domain/access/scopes.ts';
import type { Modules } from '../domain/billing/plans.ts';

/** Who did it, as audit rows, events and `created_by` name it. */
export interface Actor {
  kind: 'api_key' | 'oauth_client' | 'user' | 'system';
  id: string;
  name: string | null;
}

/** The rows that a credential can see; the id of `own` is the user's. */
export type Reach = { kind: 'company' } | { kind: 'branch' | 'team' | 'own'; id: string };

/**
 * Who calls. For public operations the company is empty and nothing is granted; `person` is somebody who is signed in at a screen of this
 * server, `system` the server itself.
 */
export interface Caller {
  kind: 'anonymous' | 'api_key' | 'oauth_client' | 'session' | 'person' | 'gateway' | 'system';
  companyId: string;
  companyName: string;
  testMode: boolean;
  actor: Actor;
  grants: Grants;
  /** As granted, for showing. */
  scopes: readonly string[];
  reach: Reach;
  /** Where roles decide: how far the caller reaches with the scopes that an operation needs. */
  reachOf?: (scopes: readonly string[]) => Reach;
  expiresAt: Date | null;
  /** The user behind a session token, or in whose name an app acts; null for keys. */
  userId: string | null;
  sessionId: string | null;
  /** True for a person whose password was generated for them: until they change it, they can do nothing else. */
  mustChangePassword: boolean;
  modules: Modules;
  /** Of the credential, and of all calls of its workspace together. */
  limits: { perMinute: number; perHour: number; tenantPerMinute: number; tenantPerDay: number | null };
  ip: string;
  userAgent: string | null;
  requestId: string;
}
