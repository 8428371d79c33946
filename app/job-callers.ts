// The caller that a job writes as: the one that asked for the work, with its current rights.
import { findCompany, findGrants, findKeyById } from '../db/access/credentials.ts';
import type { CreatedByRow } from '../db/client/created-by.ts';
import type { Pool } from '../db/client/pool.ts';
import type { TenantScope } from '../db/client/tenant.ts';
import { type Grants, parseGrants } from '../domain/access/scopes.ts';
import { getModuleState } from '../domain/billing/plans.ts';
import type { Caller, Reach } from '../runtime/caller.ts';
import { addSubscription, toGrant, toPermits } from './credentials.ts';

/** Who asked for work of a job, and what they saw then. */
export interface Requester extends CreatedByRow {
  createdByUser: string | null;
  reachKind: Reach['kind'];
  reachId: string | null;
}

/** The work, and what it takes. */
interface JobWork {
  /** All changes of the work have it as their request. */
  id: string;
  /** For messages. */
  name: string;
  modules: readonly string[];
  /** Scopes that decide what the caller sees. */
  scopes: readonly string[];
  /** All scopes. */
  needed: readonly string[];
  /** False if it only reads. */
  isWrite: boolean;
}

/** Why the work cannot go on. */
interface Failure {
  code: string;
  message: string;
}

/** The rights that a credential has now. */
interface Rights {
  grants: Pick<Grants, 'allows'>;
  reach: Reach;
  companyName: string;
  access: string;
  mustPropose: boolean;
  modules: Caller['modules'];
}

/** Returns the caller that the work is done as, with the visibility of the time at which it was asked for. */
export async function findJobCaller(
  platform: Pool,
  { companyId, testMode }: TenantScope,
  row: Requester,
  { id, name, modules: needs, scopes, needed, isWrite }: JobWork,
  now: Date,
): Promise<{ caller: Caller } | { failure: Failure }> {
  const { reachKind, reachId } = row;
  const reach: Reach =
    reachKind === 'company' || reachId === null ? { kind: 'company' } : { kind: reachKind, id: reachId };
  const found = await findRights(platform, companyId, row, name, scopes, needed, now);
  if ('failure' in found) return found;
  const { grants, access, modules, companyName } = found;
  const fail = (code: string, message: string) => ({ failure: { code, message } });
  if (access !== 'open') return fail(access.toUpperCase(), 'The subscription of the workspace has ended.');
  for (const module of needs)
    if (getModuleState(module, modules) !== 'on') return fail('MODULE_DISABLED', `The module ${module} is off.`);
  const missing = needed.find((scope) => !grants.allows(scope));
  if (missing !== undefined)
    return fail('FORBIDDEN_SCOPE', `The credential that created the ${name} no longer has the scope ${missing}.`);
  if (isWrite && found.mustPropose)
    return fail('FORBIDDEN_SCOPE', `The credential that created the ${name} now only proposes changes.`);
  const isAsWide = found.reach.kind === 'company' || JSON.stringify(found.reach) === JSON.stringify(reach);
  if (!isAsWide)
    return fail('FORBIDDEN_SCOPE', `The credential that created the ${name} now sees fewer records than then.`);
  const kind = row.createdByKind === 'user' ? 'person' : row.createdByKind;
  const caller: Caller = {
    kind,
    companyId,
    companyName,
    testMode,
    actor: { kind: row.createdByKind, id: row.createdById, name: row.createdByName },
    grants,
    scopes,
    reach,
    modules,
    expiresAt: null,
    userId: row.createdByUser,
    sessionId: null,
    mustChangePassword: false,
    limits: { perMinute: 0, perHour: 0, tenantPerMinute: 0, tenantPerDay: null },
    ip: '',
    userAgent: null,
    requestId: id,
  };
  return { caller };
}

async function findRights(
  platform: Pool,
  companyId: string,
  row: Requester,
  name: string,
  scopes: readonly string[],
  needed: readonly string[],
  now: Date,
): Promise<Rights | { failure: Failure }> {
  const fail = (code: string, message: string) => ({ failure: { code, message } });
  if (row.createdByKind === 'api_key') {
    const found = await platform.use((sql) => findKeyById(sql, companyId, row.createdById));
    if (!found || found.revokedAt) return fail('API_KEY_REVOKED', `The API key that created the ${name} was revoked.`);
    if (found.expiresAt && found.expiresAt <= now)
      return fail('API_KEY_EXPIRED', `The API key that created the ${name} has expired.`);
    const { reachKind, reachId, companyName } = found;
    const reach: Reach =
      reachKind === 'company' || reachId === null ? { kind: 'company' } : { kind: reachKind, id: reachId };
    const mustPropose = found.writeMode === 'propose';
    const { subscription } = addSubscription(found, now);
    return { grants: parseGrants(found.scopes), reach, companyName, mustPropose, ...subscription };
  }
  if (row.createdByUser !== null) {
    const clientId = row.createdByKind === 'oauth_client' ? row.createdById.replace(/^oauth_/, '') : '';
    const asked = [{ userId: row.createdByUser, clientId, audience: 'api' as const }];
    const [found] = await platform.use((sql) => findGrants(sql, companyId, asked));
    if (!found) return fail('FORBIDDEN_SCOPE', `The user who created the ${name} is inactive.`);
    const { subscription } = addSubscription(found, now);
    const rest = { companyName: found.companyName, ...subscription };
    if (row.createdByKind === 'user') {
      const { allows, computeReach } = toPermits(found);
      return { grants: { allows }, reach: computeReach(scopes), mustPropose: false, ...rest };
    }
    const grant = toGrant(found);
    if (!grant || grant.revoked)
      return fail('FORBIDDEN_SCOPE', `The user has revoked the access of the app that created the ${name}.`);
    const permitted = grant.permits([...needed]);
    const mustPropose = grant.writeMode === 'propose';
    return { grants: parseGrants(permitted.scopes), reach: permitted.computeReach(scopes), mustPropose, ...rest };
  }
  const company = await platform.use((sql) => findCompany(sql, companyId));
  if (!company) return fail('FORBIDDEN_SCOPE', 'The workspace is not active.');
  return {
    grants: { allows: () => true },
    reach: { kind: 'company' },
    mustPropose: false,
    companyName: company.companyName,
    ...addSubscription(company, now).subscription,
  };
}
