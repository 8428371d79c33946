// The permissions of roles and profiles: the actions of each module, and the visible records.
import { getScopeModule, listModuleActions, moduleActions } from './scopes.ts';

/** The visible records: a person's own, or all of the team, the branch or the company. */
export type RoleReach = 'own' | 'team' | 'branch' | 'company';

export interface Permission {
  /** leads, or object:visits */
  module: string;
  actions: readonly string[];
  /** null, in custom profiles, means own. */
  scope: RoleReach | null;
}

/** A row of a custom profile. */
export interface ProfileRow {
  module: string;
  actions: readonly string[];
}

interface SystemRole {
  scope: RoleReach;
  description: string;
  /** By module. `records` stands for the modules of built-in and custom objects. */
  actions: Readonly<Record<string, readonly string[]>>;
}

/** Narrowest first. */
const reachesByWidth: readonly RoleReach[] = ['own', 'team', 'branch', 'company'];

const recordModules = new Set(['leads', 'deals', 'customers', 'accounts', 'tasks', 'activities']);

const view = ['view'];
const work = ['view', 'create', 'edit'];

/** Super_Admin is not included, because it can neither be shown nor granted. */
const systemRoles: Readonly<Record<string, SystemRole>> = {
  Company_Admin: {
    scope: 'company',
    description: 'Can do everything in the whole workspace.',
    actions: { ...moduleActions, records: [...work, 'delete'] },
  },
  Branch_Manager: {
    scope: 'branch',
    description: 'Works with all records of the branch, and sees its users and their permissions.',
    actions: {
      records: [...work, 'delete'],
      reports: work,
      users: view,
      access_control: view,
      settings: view,
      webhooks: view,
      attachments: ['view', 'create', 'configure'],
      exports: ['view', 'create'],
      imports: ['view', 'create'],
      change_sets: ['view', 'create'],
      bookings: [...work, 'configure'],
      inbox: ['view', 'create'],
      campaigns: ['view', 'create'],
      workforces: ['view', 'create'],
    },
  },
  Sales_Manager: {
    scope: 'team',
    description: 'Works with all records of the team, and sees its users.',
    actions: {
      records: [...work, 'delete'],
      reports: work,
      users: view,
      settings: view,
      attachments: ['view', 'create', 'configure'],
      exports: ['view', 'create'],
      imports: ['view', 'create'],
      change_sets: ['view', 'create'],
      bookings: work,
      inbox: ['view', 'create'],
      campaigns: view,
      workforces: ['view', 'create'],
    },
  },
  Sales_Rep: {
    scope: 'own',
    description: 'Works with their own records.',
    actions: {
      records: work,
      reports: work,
      users: view,
      settings: view,
      attachments: ['view', 'create'],
      bookings: work,
      inbox: ['view', 'create'],
      campaigns: view,
    },
  },
  Viewer: {
    scope: 'company',
    description: 'Sees all records of the workspace, but cannot change anything.',
    actions: {
      records: view,
      reports: view,
      users: view,
      settings: view,
      attachments: view,
      exports: view,
      imports: view,
      reverts: view,
      change_sets: view,
      bookings: view,
      inbox: view,
      campaigns: view,
      workforces: view,
    },
  },
};

/** Returns the description of a system role; undefined for legacy roles without a profile. */
export function describeRole(role: string): string | undefined {
  return findSystemRole(role)?.description;
}

/** Returns the visibility of a system role; undefined for roles without a profile. */
export function findRoleReach(role: string): RoleReach | undefined {
  return findSystemRole(role)?.scope;
}

/**
 * Returns the permissions of a system role, by module. Empty for roles without a profile.
 * @param customObjects modules of custom objects, e.g. object:visits
 */
export function listRolePermissions(role: string, customObjects: readonly string[] = []): Permission[] {
  const found = findSystemRole(role);
  if (!found) return [];
  return [...Object.keys(moduleActions), ...customObjects].map((module) => ({
    module,
    actions: listActions(found, module),
    scope: found.scope,
  }));
}

/**
 * Returns the permissions of a custom profile: every built-in module, and the custom objects that
 * it mentions.
 */
export function listProfilePermissions(rows: readonly ProfileRow[]): Permission[] {
  const actions = new Map(rows.map((row) => [row.module, row.actions]));
  const mentioned = rows.map((row) => row.module).filter((module) => module.startsWith('object:'));
  return [...Object.keys(moduleActions), ...mentioned].map((module) => ({
    module,
    actions: listModuleActions(module).filter((action) => actions.get(module)?.includes(action)),
    scope: null,
  }));
}

/** The permissions of a user, for credentials that act on their behalf. */
export interface Permissions {
  /** @param scope module:action */
  allows(scope: string): boolean;
  /**
   * Returns the visibility of an action that needs all of the scopes: for each scope that of the
   * widest role with it, and the narrowest of these.
   * @param scopes module:action; none: the widest of all roles
   */
  computeReach(scopes: readonly string[]): RoleReach;
}

/**
 * Combines the permissions of a user: those of the custom profile, or else of all roles. Each
 * permission keeps the visibility of its own role: editing own records and viewing all records does
 * not allow editing all records.
 * @param profile rows of the user's custom profile
 */
export function resolvePermissions(
  roles: readonly string[],
  profile: readonly ProfileRow[] | null = null,
): Permissions {
  if (profile) {
    const allows = (scope: string): boolean => {
      const { module, action } = splitScope(scope);
      const granted = profile.find((each) => each.module === module)?.actions ?? [];
      return granted.includes(action) && listModuleActions(module).includes(action);
    };
    return { allows, computeReach: () => 'own' };
  }
  const held = roles.flatMap((role) => findSystemRole(role) ?? []);
  const permitting = (scope: string): SystemRole[] => {
    const { module, action } = splitScope(scope);
    return held.filter((role) => listActions(role, module).includes(action));
  };
  return {
    allows: (scope) => permitting(scope).length > 0,
    computeReach(scopes) {
      const reaches = scopes.map((scope) => findWidestReach(permitting(scope)));
      return reachesByWidth.find((width) => reaches.includes(width)) ?? findWidestReach(held);
    },
  };
}

function splitScope(scope: string): { module: string; action: string } {
  const module = getScopeModule(scope);
  return { module, action: scope.slice(module.length + 1) };
}

function findWidestReach(roles: readonly SystemRole[]): RoleReach {
  return reachesByWidth.findLast((width) => roles.some((role) => role.scope === width)) ?? 'own';
}

/** Returns true if the scope includes the other one. */
export function isAtLeastAsWide(scope: RoleReach, other: RoleReach): boolean {
  return reachesByWidth.indexOf(scope) >= reachesByWidth.indexOf(other);
}

function findSystemRole(role: string): SystemRole | undefined {
  return Object.hasOwn(systemRoles, role) ? systemRoles[role] : undefined;
}

function listActions(role: SystemRole, module: string): readonly string[] {
  const isOfRecords = recordModules.has(module) || module.startsWith('object:');
  const entry = isOfRecords ? 'records' : module;
  const granted = Object.hasOwn(role.actions, entry) ? role.actions[entry] : undefined;
  return listModuleActions(module).filter((action) => granted?.includes(action));
}
