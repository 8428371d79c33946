// Checks that the credential of an export still has the access with which it created the export.
import { findKeyAccess, findUserAccess, isCredentialValid } from '../../db/access/current-access.ts';
import type { Sql } from '../../db/client/pool.ts';
import type { Reach } from '../../db/client/visibility.ts';
import type { ExportRow } from '../../db/records/exports.ts';
import { resolvePermissions } from '../../domain/access/role-permissions.ts';
import { parseGrants } from '../../domain/access/scopes.ts';

/** @returns false if the credential was revoked, lost a scope, or has another visibility now */
export async function isAccessUnchanged(sql: Sql, companyId: string, row: ExportRow): Promise<boolean> {
  const needed = ['exports:create', ...row.modules.map((module) => `${module}:view`)];
  if (row.createdByKind === 'api_key') {
    const key = await findKeyAccess(sql, companyId, row.createdById);
    if (!key) return false;
    const grants = parseGrants(key.scopes);
    const reach =
      key.reachKind === 'company' ? ({ kind: 'company' } as const) : { kind: key.reachKind, id: key.reachId };
    return (
      needed.every((scope) => grants.allows(scope)) && row.sources.every((source) => isSameReach(source.reach, reach))
    );
  }
  const userId = row.createdByUser;
  if (userId === null) return row.createdByKind === 'system';
  const actor = { kind: row.createdByKind, id: row.createdById, name: row.createdByName };
  const isApp = row.createdByKind === 'oauth_client';
  if (isApp && !(await isCredentialValid(sql, { companyId, actor, userId }, actor.id.replace(/^oauth_/, ''))))
    return false;
  const user = await findUserAccess(sql, companyId, userId);
  if (!user) return false;
  const permissions = resolvePermissions(user.roles, user.profile);
  return (
    needed.every((scope) => permissions.allows(scope)) &&
    row.sources.every(({ object, reach }) => {
      const kind = permissions.computeReach(['exports:create', `${object}:view`]);
      const ids = { company: undefined, branch: user.branchId, team: user.teamId, own: userId };
      const id = ids[kind];
      // A user whose role needs a team or branch but who has none sees only their own records.
      return isSameReach(reach, id === null ? { kind: 'own', id: userId } : { kind, id: id ?? null });
    })
  );
}

function isSameReach(reach: Reach, now: { kind: Reach['kind']; id?: string | null }): boolean {
  return reach.kind === now.kind && (reach.kind === 'company' || reach.id === now.id);
}
