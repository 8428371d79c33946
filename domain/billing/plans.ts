// The limits of plans and add-ons: modules, seats and calls.
import { addOnOfModule, moduleActions } from '../access/scopes.ts';
import { addOns, plans } from './catalogue.ts';

/** The default if no plan sets or implies a limit. */
const defaultCallsPerMinute = 600;

/** Calls per month included in each package; null: unlimited. */
export const callsPerMonth: Readonly<Record<string, number | null>> = Object.fromEntries(
  Object.entries(plans).map(([code, plan]) => [code, plan.callsPerMonth]),
);

/** Additional calls per month of each add-on. */
export const extraCalls: Readonly<Record<string, number>> = Object.fromEntries(
  Object.entries(addOns).flatMap(([key, addOn]) => (addOn.extraCalls ? [[key, addOn.extraCalls]] : [])),
);

/** The call limits of a subscription. Agreed limits belong to a package made for one customer. */
export interface CallTerms {
  packageCode: string | null;
  agreedPerMinute: number | null;
  agreedPerDay: number | null;
  agreedPerMonth: number | null;
}

/**
 * Returns the rate limit of a workspace across all its credentials: as agreed, or as included in
 * its package, or its monthly calls spread over 30 days, or the default.
 */
export function computeCallsPerMinute({ packageCode, agreedPerMinute, agreedPerMonth }: CallTerms): number {
  const included = agreedPerMinute ?? plans[packageCode ?? '']?.callsPerMinute;
  if (included !== undefined) return included;
  return agreedPerMonth === null ? defaultCallsPerMinute : Math.max(60, Math.ceil(agreedPerMonth / (30 * 24 * 60)));
}

/**
 * Returns the calls per day across all credentials of a workspace; null: unlimited, as in every
 * package of the catalog.
 */
export function computeCallsPerDay({ packageCode, agreedPerDay, agreedPerMonth }: CallTerms): number | null {
  if (agreedPerDay !== null) return agreedPerDay;
  if (agreedPerMonth === null || Object.hasOwn(callsPerMonth, packageCode ?? '')) return null;
  return Math.ceil(agreedPerMonth / 30);
}

/**
 * Returns whether the API is accessible under a subscription, or why not. A failed payment does not
 * end access: there are two weeks to fix it.
 */
export function resolveAccess(
  status: string | null,
  trialEndsAt: Date | null,
  now: Date,
): 'open' | 'no_subscription' | 'subscription_ended' {
  switch (status) {
    case 'active':
    case 'past_due':
      return 'open';
    case 'trialing':
      return trialEndsAt === null || trialEndsAt > now ? 'open' : 'no_subscription';
    case 'canceled':
    case 'pending_deletion':
      return 'subscription_ended';
    default:
      return 'no_subscription';
  }
}

/**
 * Returns the maximum number of active users: included in the package or purchased, whichever is
 * more.
 */
export function computeSeatAllowance(packageCode: string | null, purchased: number | null): number {
  return Math.max(plans[packageCode ?? '']?.includedSeats ?? 0, purchased ?? 0);
}

/** The state of each module of the platform. */
export type Modules = ReadonlyMap<string, 'on' | 'not_in_plan' | 'disabled_by_admin'>;

const known = new Map<string, Modules>();

/**
 * Returns the state of each module. A module is on if it is included in the plan or was bought,
 * unless an administrator disabled it.
 * @param packageCode null without a subscription: core modules only
 */
export function computeModules(
  packageCode: string | null,
  bought: readonly string[],
  disabled: readonly string[],
): Modules {
  const key = [packageCode, ...bought, '', ...disabled].join(' ');
  const found = known.get(key);
  if (found) return found;
  const paid = [...(plans[packageCode ?? '']?.addOns ?? []), ...bought];
  const modules = new Map(
    Object.keys(moduleActions).map((module) => {
      const addOn = addOnOfModule[module];
      if (addOn !== undefined && !paid.includes(addOn)) return [module, 'not_in_plan'] as const;
      return [module, disabled.includes(module) ? 'disabled_by_admin' : 'on'] as const;
    }),
  );
  if (known.size < 1000) known.set(key, modules);
  return modules;
}

/** Returns the state of a module. Modules of custom objects are always on. */
export function getModuleState(module: string, modules: Modules): 'on' | 'not_in_plan' | 'disabled_by_admin' {
  return modules.get(module) ?? 'on';
}
