// The catalog of modules and actions, legacy scopes, and the grants of a set of scopes.

/** The actions of each module, in display order. */
export const moduleActions: Readonly<Record<string, readonly string[]>> = {
  leads: ['view', 'create', 'edit', 'delete'],
  deals: ['view', 'create', 'edit', 'delete'],
  customers: ['view', 'create', 'edit', 'delete'],
  accounts: ['view', 'create', 'edit', 'delete'],
  tasks: ['view', 'create', 'edit', 'delete'],
  activities: ['view', 'create', 'edit', 'delete'],
  reports: ['view', 'create', 'edit'],
  users: ['view', 'configure'],
  access_control: ['view'],
  settings: ['view', 'configure'],
  billing: ['view', 'configure'],
  webhooks: ['view', 'configure'],
  attachments: ['view', 'create', 'configure'],
  exports: ['view', 'create'],
  imports: ['view', 'create'],
  reverts: ['view', 'create'],
  change_sets: ['view', 'create'],
  bookings: ['view', 'create', 'edit', 'configure'],
  inbox: ['view', 'create'],
  campaigns: ['view', 'create'],
  workforces: ['view', 'create'],
};

export const customObjectActions = ['view', 'create', 'edit', 'delete'];

/** Returns the actions of a module, including custom objects. Empty for an unknown module. */
export function listModuleActions(module: string): readonly string[] {
  if (/^object:[a-z][a-z0-9-]{1,39}$/.test(module)) return customObjectActions;
  return Object.hasOwn(moduleActions, module) ? (moduleActions[module] as readonly string[]) : [];
}

/**
 * Legacy scopes and the scopes that they grant. Least privilege: leads:write does not include
 * editing.
 */
export const legacyScopes: Readonly<Record<string, string>> = {
  'leads:read': 'leads:view',
  'leads:write': 'leads:create',
  'customers:read': 'customers:view',
  'customers:write': 'customers:create',
  'activities:read': 'activities:view',
  'activities:write': 'activities:create',
  'activities:update': 'activities:edit',
};

/**
 * The scope of the operator's own keys. Keys of workspaces cannot have it, and `*` does not include
 * it.
 */
export const platformScope = 'onboarding';

/** The plan add-on that a module needs. Modules not listed belong to every plan. */
export const addOnOfModule: Readonly<Record<string, string>> = {
  bookings: 'scheduling',
  inbox: 'inbox',
  campaigns: 'campaigns',
  workforces: 'workforces',
};

/**
 * Returns the module of a scope: `leads:view` → `leads`, `object:visits:view` → `object:visits`.
 */
export function getScopeModule(scope: string): string {
  return scope.slice(0, scope.lastIndexOf(':'));
}

/** Returns the current name of a scope. */
function toCurrentName(scope: string): string {
  return Object.hasOwn(legacyScopes, scope) ? (legacyScopes[scope] as string) : scope;
}

/**
 * Returns true if a workspace key may have the scope: from the catalog, legacy, a wildcard, or of a
 * custom object.
 */
export function isGrantable(scope: string): boolean {
  if (scope === '*') return true;
  if (Object.hasOwn(legacyScopes, scope)) return true;
  const module = getScopeModule(scope);
  const action = scope.slice(module.length + 1);
  const actions = listModuleActions(module);
  return actions.length > 0 && (action === '*' || actions.includes(action));
}

/**
 * Returns the single actions of a scope. Empty for `*`, which is unbounded, and for scopes that
 * cannot be granted.
 */
export function expandScope(scope: string): string[] {
  if (scope === '*' || !isGrantable(scope)) return [];
  const module = getScopeModule(scope);
  if (!scope.endsWith(':*')) return [toCurrentName(scope)];
  return (moduleActions[module] ?? customObjectActions).map((action) => `${module}:${action}`);
}

/** The permissions of a list of scopes. */
export interface Grants {
  /**
   * Returns true if the scope is granted directly, by a wildcard or by its legacy name. The
   * argument may be a legacy name.
   */
  allows(scope: string): boolean;
}

/** Builds the grants of a credential from its stored scopes. */
export function parseGrants(scopes: readonly string[]): Grants {
  const exact = new Set<string>();
  const modules = new Set<string>();
  let everything = false;
  for (const scope of scopes) {
    if (scope === '*') everything = true;
    else if (scope.endsWith(':*')) modules.add(scope.slice(0, -2));
    else exact.add(toCurrentName(scope));
  }
  return {
    allows(asked) {
      const scope = toCurrentName(asked);
      if (scope === platformScope) return exact.has(platformScope);
      return everything || exact.has(scope) || modules.has(getScopeModule(scope));
    },
  };
}

export const noGrants: Grants = { allows: () => false };
