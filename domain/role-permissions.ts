// What each role may do and whose records it sees, for credentials that act for a person.
import { moduleActions, moduleOf } from './scopes.ts';

export type RoleReach = 'own' | 'team' | 'branch' | 'company';

export interface Permissions {
  allows(scope: string): boolean;
  reach: RoleReach;
}

interface Role {
  reach: RoleReach;
  /** Actions by module; `records` stands for the built-in objects and the tenant's own. */
  actions: Readonly<Record<string, readonly string[]>>;
}

const view = ['view'];
const work = ['view', 'create', 'edit'];
const objects = new Set(['leads', 'deals', 'customers', 'accounts', 'tasks', 'activities']);

/** The strongest first. */
const roles: Readonly<Record<string, Role>> = {
  Company_Admin: { reach: 'company', actions: { ...moduleActions, records: [...work, 'delete'] } },
  Branch_Manager: {
    reach: 'branch',
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
    reach: 'team',
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
    reach: 'own',
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
    reach: 'company',
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

/** What all roles of a person allow together, within the reach of the strongest of them. */
export function permissionsOf(names: readonly string[]): Permissions {
  const held = Object.entries(roles).flatMap(([name, role]) => (names.includes(name) ? [role] : []));
  return {
    reach: held[0]?.reach ?? 'own',
    allows(scope) {
      const module = moduleOf(scope);
      const entry = objects.has(module) || module.startsWith('object:') ? 'records' : module;
      const action = scope.slice(module.length + 1);
      return held.some(({ actions }) => Object.hasOwn(actions, entry) && actions[entry]?.includes(action));
    },
  };
}
