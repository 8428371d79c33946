// Roles and profiles, read-only.
import { listPermissions, listProfiles, type ProfileRow } from '../../db/access/roles.ts';
import { listGrantableRoles } from '../../db/people/users.ts';
import {
  describeRole,
  listProfilePermissions,
  listRolePermissions,
  type Permission,
} from '../../domain/access/role-permissions.ts';
import { listModuleActions } from '../../domain/access/scopes.ts';
import type { Workspace } from '../../domain/objects/workspace.ts';
import type { components } from '../../generated/api.ts';
import { orNotFound } from '../../runtime/errors.ts';
import type { Handler } from '../../runtime/handler.ts';
import { selectPage } from '../../runtime/paging.ts';

export const listRoles: Handler<'listRoles'> = async (call) => {
  const profiles = await listProfiles(call.db.sql, call.caller);
  const { rows, ...rest } = selectPage(call, ['roles'], profiles, (profile) => profile.id);
  return { status: 200, data: { roles: rows.map(toRoleResponse), ...rest } };
};

export const getRole: Handler<'getRole'> = async (call) => {
  const { caller } = call;
  const { path } = call.request;
  const { sql } = call.db;
  const [first] = await listProfiles(sql, caller, path.id);
  const profile = orNotFound(first);
  const workspace = await call.services.loadWorkspace();
  const permissions =
    profile.roleId === null
      ? listProfilePermissions(await listPermissions(sql, caller.companyId, profile.id))
      : listRolePermissions(profile.name, listCustomModules(workspace));
  return {
    status: 200,
    data: {
      role: {
        ...toRoleResponse(profile),
        permissions: permissions.map((permission) => toPermissionResponse(permission, workspace)),
      },
    },
  };
};

export const listVisibilityScopes: Handler<'listVisibilityScopes'> = async (call) => {
  const [roles, workspace] = await Promise.all([listGrantableRoles(call.db.sql), call.services.loadWorkspace()]);
  const { rows, ...rest } = selectPage(call, ['visibility scopes'], roles, (role) => role.id);
  const scopes = rows.map(({ id, name }) => ({
    role_id: id,
    role: name,
    modules: listRolePermissions(name, listCustomModules(workspace)).map(({ module, scope }) => ({
      module,
      scope: scope ?? 'own',
    })),
  }));
  return { status: 200, data: { visibility_scopes: scopes, ...rest } };
};

function listCustomModules(workspace: Workspace): string[] {
  return [...workspace.objects.values()].filter(({ kind }) => kind === 'custom').map(({ module }) => module);
}

function toRoleResponse(profile: ProfileRow): components['schemas']['Role'] {
  const isRole = profile.roleId !== null;
  return {
    id: profile.id,
    role_id: profile.roleId,
    name: profile.name,
    description: isRole ? (describeRole(profile.name) ?? null) : profile.description,
    kind: isRole ? 'role' : 'profile',
    is_system: isRole,
    has_permissions: profile.hasPermissions,
    active_member_count: profile.activeMemberCount,
  };
}

function toPermissionResponse(
  { module, actions, scope }: Permission,
  workspace: Workspace,
): components['schemas']['RolePermission'] {
  return {
    module,
    label: workspace.objects.get(module)?.plural ?? toLabel(module),
    actions: [...actions],
    available_actions: [...listModuleActions(module)],
    scope,
  };
}

/** access_control → Access control */
function toLabel(module: string): string {
  const words = module.replace(/^object:/, '').replace(/[_-]/g, ' ');
  return words.charAt(0).toUpperCase() + words.slice(1);
}
