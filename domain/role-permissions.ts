// What roles and profiles permit: the actions of each module, and whose records they are for.
import { actionsOfModule, moduleActions } from './scopes.ts';

/** Whose records: one's own, or all of the team, the branch or the company. */
export type RoleScope = 'own' | 'team' | 'branch' | 'company';

export interface Permission {
  /** leads, or object:visits */
  module: string;
  actions: readonly string[];
  /** Null, in custom profiles, means own. */
  scope: RoleScope | null;
}

/** A row of a custom profile. */
export interface ProfileRow {
  module: string;
  actions: readonly string[];
}

interface SystemRole {
  scope: RoleScope;
  description: string;
  /** Actions of single modules; 'records' stands for the modules of built-in and custom objects. */
  actions: 'all' | 'view' | Readonly<Record<string, readonly string[]>>;
}

const recordModules = new Set(['leads', 'deals', 'customers', 'accounts', 'tasks', 'activities']);

const managerActions: Readonly<Record<string, readonly string[]>> = {
  records: ['view', 'create', 'edit', 'delete'],
  reports: ['view'],
  users: ['view'],
  settings: ['view'],
  attachments: ['view', 'create', 'configure'],
  bookings: ['view', 'create', 'edit'],
  inbox: ['view', 'create'],
  campaigns: ['view', 'create'],
  workforces: ['view', 'create'],
};

/** Super_Admin is not among them: it is nobody's to see or to grant. */
const systemRoles: Readonly<Record<string, SystemRole>> = {
  Company_Admin: { scope: 'company', description: 'May do everything in the whole company.', actions: 'all' },
  Branch_Manager: {
    scope: 'branch',
    description: 'Works with all records of the branch and sees its people.',
    actions: managerActions,
  },
  Sales_Manager: {
    scope: 'team',
    description: 'Works with all records of the team and sees its people.',
    actions: managerActions,
  },
  Sales_Rep: {
    scope: 'own',
    description: 'Works with their own records.',
    actions: {
      records: ['view', 'create', 'edit'],
      reports: ['view'],
      settings: ['view'],
      attachments: ['view', 'create'],
      bookings: ['view', 'create', 'edit'],
      inbox: ['view', 'create'],
      campaigns: ['view'],
      workforces: ['view'],
    },
  },
  Viewer: {
    scope: 'company',
    description: 'Sees everything in the whole company and changes nothing.',
    actions: 'view',
  },
};

/** What a system role is for; undefined for roles of old, which have no profile. */
export function describeRole(role: string): string | undefined {
  return systemRole(role)?.description;
}

/** How far a system role sees; undefined for roles without a profile. */
export function scopeOfRole(role: string): RoleScope | undefined {
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

/**
 * What a user may do in a module, and with whose records: as the custom profile says or, without one, the roles, the widest of them.
 * @param profile rows of the custom profile that is assigned to the user
 */
export function permissionOfUser(
  roles: readonly string[],
  profile: readonly ProfileRow[] | null,
  module: string,
): { actions: ReadonlySet<string>; scope: RoleScope } {
  if (profile) {
    const row = profile.find((each) => each.module === module);
    return {
      actions: new Set(actionsOfModule(module).filter((action) => row?.actions.includes(action))),
      scope: 'own',
    };
  }
  let scope: RoleScope = 'own';
  const actions = new Set<string>();
  for (const role of roles) {
    const found = systemRole(role);
    if (!found) continue;
    const granted = actionsOf(found, module);
    for (const action of granted) actions.add(action);
    if (granted.length > 0 && reachesAtLeast(found.scope, scope)) scope = found.scope;
  }
  return { actions, scope };
}

const widths: readonly RoleScope[] = ['own', 'team', 'branch', 'company'];

/** True when one scope takes in the other. */
export function reachesAtLeast(scope: RoleScope, other: RoleScope): boolean {
  return widths.indexOf(scope) >= widths.indexOf(other);
}

function systemRole(role: string): SystemRole | undefined {
  return Object.hasOwn(systemRoles, role) ? systemRoles[role] : undefined;
}

function actionsOf(role: SystemRole, module: string): readonly string[] {
  const offered = actionsOfModule(module);
  if (role.actions === 'all') return offered;
  if (role.actions === 'view') return offered.filter((action) => action === 'view');
  const isOfRecords = recordModules.has(module) || module.startsWith('object:');
  return role.actions[isOfRecords ? 'records' : module] ?? [];
}
