// The catalogue of modules and actions, the legacy names, and what a set of scopes grants.

/** Actions that each module offers, in the order they are shown. */
export const moduleActions: Readonly<Record<string, readonly string[]>> = {
  leads: ['view', 'create', 'edit', 'delete'],
  deals: ['view', 'create', 'edit', 'delete'],
  customers: ['view', 'create', 'edit', 'delete'],
  accounts: ['view', 'create', 'edit', 'delete'],
  tasks: ['view', 'create', 'edit', 'delete'],
  activities: ['view', 'create', 'edit', 'delete'],
  reports: ['view'],
  users: ['view', 'configure'],
  access_control: ['view'],
  settings: ['view', 'configure'],
  billing: ['view', 'configure'],
  webhooks: ['view', 'configure'],
  attachments: ['view', 'create', 'configure'],
  bookings: ['view', 'create', 'edit', 'configure'],
  inbox: ['view', 'create'],
  campaigns: ['view', 'create'],
  workforces: ['view', 'create'],
};

export const customObjectActions = ['view', 'create', 'edit', 'delete'];

/** The actions that a module offers, custom objects' modules included; none for what is no module. */
export function actionsOfModule(module: string): readonly string[] {
  if (/^object:[a-z][a-z0-9-]{1,39}$/.test(module)) return customObjectActions;
  return Object.hasOwn(moduleActions, module) ? (moduleActions[module] as readonly string[]) : [];
}

/** Legacy scope to the one it grants; least privilege: leads:write does not edit. */
export const legacyScopes: Readonly<Record<string, string>> = {
  'leads:read': 'leads:view',
  'leads:write': 'leads:create',
  'customers:read': 'customers:view',
  'customers:write': 'customers:create',
  'activities:read': 'activities:view',
  'activities:write': 'activities:create',
  'activities:update': 'activities:edit',
};

/** The scope of the operator's own keys; no workspace key can hold it, and `*` does not include it. */
export const platformScope = 'onboarding';

/** Add-on module of the plan that a scope's module needs; modules that are not listed belong to every plan. */
export const addOnOfModule: Readonly<Record<string, string>> = {
  bookings: 'scheduling',
  inbox: 'inbox',
  campaigns: 'campaigns',
  workforces: 'workforces',
};

/** The module of a scope: `leads:view` → `leads`, `object:visits:view` → `object:visits`. */
export function moduleOf(scope: string): string {
  return scope.slice(0, scope.lastIndexOf(':'));
}

/** What a scope is called today: legacy names stand for the scope that they grant. */
function currentName(scope: string): string {
  return Object.hasOwn(legacyScopes, scope) ? (legacyScopes[scope] as string) : scope;
}

/** True for a scope that a workspace key may hold: the catalogue's, legacy ones, wildcards and custom objects'. */
export function isGrantable(scope: string): boolean {
  if (scope === '*') return true;
  if (Object.hasOwn(legacyScopes, scope)) return true;
  const module = moduleOf(scope);
  const action = scope.slice(module.length + 1);
  const actions = actionsOfModule(module);
  return actions.length > 0 && (action === '*' || actions.includes(action));
}

/** The single actions that a scope stands for; none for `*`, which has no end, and for what cannot be granted. */
export function concreteScopes(scope: string): string[] {
  if (scope === '*' || !isGrantable(scope)) return [];
  const module = moduleOf(scope);
  if (!scope.endsWith(':*')) return [currentName(scope)];
  return (moduleActions[module] ?? customObjectActions).map((action) => `${module}:${action}`);
}

/** What a list of scopes opens. */
export interface Grants {
  /** True when the scope is granted, directly, by a wildcard or by its legacy name. A legacy name may be asked for too. */
  allows(scope: string): boolean;
}

/** Builds the grants of a credential from the scopes stored with it. */
export function grantsOf(scopes: readonly string[]): Grants {
  const exact = new Set<string>();
  const modules = new Set<string>();
  let everything = false;
  for (const scope of scopes) {
    if (scope === '*') everything = true;
    else if (scope.endsWith(':*')) modules.add(scope.slice(0, -2));
    else exact.add(currentName(scope));
  }
  return {
    allows(asked) {
      const scope = currentName(asked);
      if (scope === platformScope) return exact.has(platformScope);
      return everything || exact.has(scope) || modules.has(moduleOf(scope));
    },
  };
}

export const noGrants: Grants = { allows: () => false };
