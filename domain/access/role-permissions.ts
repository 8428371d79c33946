// What roles and profiles permit: the actions of each module, and whose records they are for.
import { actionsOfModule, moduleActions, moduleOf } from './scopes.ts';

/** Whose records: one's own, or all of the team, the branch or the company. */
export type RoleReach = 'own' | 'team' | 'branch' | 'company';

export interface Permission {
  /** leads, or object:visits */
  module: string;
  actions: readonly string[];
  /** Null, in custom profiles, means own. */
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
  /** By module; `records` stands for the modules of built-in and custom objects. */
  actions: Readonly<Record<string, readonly string[]>>;
}

/** The narrowest first. */
const widths: readonly RoleReach[] = ['own', 'team', 'branch', 'company'];

const recordModules = new Set(['leads', 'deals', 'customers', 'accounts', 'tasks', 'activities']);

const view = ['view'];
const work = ['view', 'create', 'edit'];

/** Super_Admin is not among them: it is nobody's to see or to grant. */
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
      reports: view,
      users: view,
      access_control: view,
      settings: view,
      webhooks: view,
      attachments: ['view', 'create', 'configure'],
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
      reports: view,
      users: view,
      settings: view,
      attachments: ['view', 'create', 'configure'],
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
      reports: view,
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
      bookings: view,
      inbox: view,
      campaigns: view,
      workforces: view,
    },
  },
};

/** What a system role is for; undefined for roles of old, which have no profile. */
export function describeRole(role: string): string | undefined {
  return systemRole(role)?.description;
}

/** How far a system role sees; undefined for roles without a profile. */
export function scopeOfRole(role: string): RoleReach | undefined {
  return systemRole(role)?.scope;
}

/**
 * What a system role permits, module by module; nothing for roles without a profile.
 * @param customObjects modules of the workspace's own objects, e.g. object:visits
 */
export function permissionsOfRole(role: string, customObjects: readonly string[] = []): Permission[] {
  const found = systemRole(role);
  if (!found) return [];
  return [...Object.keys(moduleActions), ...customObjects].map((module) => ({
    module,
    actions: actionsOf(found, module),
    scope: found.scope,
  }));
}

/** What a custom profile permits: every module, with the actions of its row, and of the workspace's own objects those it mentions. */
export function permissionsOfProfile(rows: readonly ProfileRow[]): Permission[] {
  const actions = new Map(rows.map((row) => [row.module, row.actions]));
  const mentioned = rows.map((row) => row.module).filter((module) => module.startsWith('object:'));
  return [...Object.keys(moduleActions), ...mentioned].map((module) => ({
    module,
    actions: actionsOfModule(module).filter((action) => actions.get(module)?.includes(action)),
    scope: null,
  }));
}

/** What a user may do, for credentials that act for one. */
export interface Permissions {
  /** @param scope module:action */
  allows(scope: string): boolean;
  /**
   * Whose records an action is for that needs all of the scopes: each as far as the widest role that permits it.
   * @param scopes module:action; none: as far as any role
   */
  reachOf(scopes: readonly string[]): RoleReach;
}

/**
 * What a user may do: as the custom profile says or, without one, all the roles together. No role lends its reach to another: who
 * may edit what is their own and view everything does not edit everything.
 * @param profile rows of the custom profile that is assigned to the user
 */
export function permissionsOf(roles: readonly string[], profile: readonly ProfileRow[] | null = null): Permissions {
  if (profile) {
    const allows = (scope: string): boolean => {
      const { module, action } = splitScope(scope);
      const granted = profile.find((each) => each.module === module)?.actions ?? [];
      return granted.includes(action) && actionsOfModule(module).includes(action);
    };
    return { allows, reachOf: () => 'own' };
  }
  const held = roles.flatMap((role) => systemRole(role) ?? []);
  const permitting = (scope: string): SystemRole[] => {
    const { module, action } = splitScope(scope);
    return held.filter((role) => actionsOf(role, module).includes(action));
  };
  return {
    allows: (scope) => permitting(scope).length > 0,
    reachOf(scopes) {
      const reaches = scopes.map((scope) => widest(permitting(scope)));
      return widths.find((width) => reaches.includes(width)) ?? widest(held);
    },
  };
}

function splitScope(scope: string): { module: string; action: string } {
  const module = moduleOf(scope);
  return { module, action: scope.slice(module.length + 1) };
}

function widest(roles: readonly SystemRole[]): RoleReach {
  return widths.findLast((width) => roles.some((role) => role.scope === width)) ?? 'own';
}

/** True when one scope takes in the other. */
export function reachesAtLeast(scope: RoleReach, other: RoleReach): boolean {
  return widths.indexOf(scope) >= widths.indexOf(other);
}

function systemRole(role: string): SystemRole | undefined {
  return Object.hasOwn(systemRoles, role) ? systemRoles[role] : undefined;
}

function actionsOf(role: SystemRole, module: string): readonly string[] {
  const isOfRecords = recordModules.has(module) || module.startsWith('object:');
  const entry = isOfRecords ? 'records' : module;
  const granted = Object.hasOwn(role.actions, entry) ? role.actions[entry] : undefined;
  return actionsOfModule(module).filter((action) => granted?.includes(action));
}
