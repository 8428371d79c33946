// Grants of people to apps: list and revoke.
import * as db from '../../db/access/oauth-grants.ts';
import type { components } from '../../generated/api.ts';
import { orNotFound } from '../../runtime/errors.ts';
import type { Handler } from '../../runtime/handler.ts';
import { readPage } from '../../runtime/paging.ts';

type OAuthGrant = components['schemas']['OAuthGrant'];

export const listOauthGrants: Handler<'listOauthGrants'> = async (call) => {
  const { caller } = call;
  const { sql } = call.db;
  const { rows, ...rest } = await readPage(
    call,
    ['OAuth grants'],
    (after, limit) => db.listGrants(sql, caller.companyId, after, limit),
    (last: db.OAuthGrantRow) => [last.createdAt.toISOString(), last.id],
  );
  return { status: 200, data: { oauth_grants: rows.map(toOAuthGrantResponse), ...rest } };
};

export const revokeOauthGrant: Handler<'revokeOauthGrant'> = async (call) => {
  const { caller, now } = call;
  const { path } = call.request;
  const { sql } = call.db;
  const isNew = await db.revokeGrant(sql, caller.companyId, path.id, now);
  const grant = orNotFound(await db.findGrant(sql, caller.companyId, path.id));
  if (isNew) {
    const metadata = { client_id: grant.clientId, client_name: grant.clientName, user_id: grant.userId };
    call.db.record({ action: 'oauth_grant.revoke', object: 'oauth_grants', recordId: grant.id, metadata });
  }
  return { status: 200, data: { oauth_grant: toOAuthGrantResponse(grant) } };
};

function toOAuthGrantResponse(row: db.OAuthGrantRow): OAuthGrant {
  return {
    id: row.id,
    client_id: row.clientId,
    client_name: row.clientName,
    user: { id: row.userId, full_name: row.userName },
    audience: row.audience,
    groups: row.groups as OAuthGrant['groups'],
    extra_scopes: row.extraScopes,
    write_mode: row.writeMode,
    created_at: row.createdAt.toISOString(),
    revoked_at: row.revokedAt?.toISOString() ?? null,
  };
}
