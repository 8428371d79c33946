// What a plan and its add-ons open: modules, seats and calls.
import { addOnOfModule, moduleActions } from '../access/scopes.ts';
import { addOns, plans } from './catalogue.ts';

/** Without a plan that says or implies it. */
const usualCallsPerMinute = 600;

/** Calls per month that each package includes; null: unlimited. */
export const callsPerMonth: Readonly<Record<string, number | null>> = Object.fromEntries(
  Object.entries(plans).map(([code, plan]) => [code, plan.callsPerMonth]),
);

/** Calls per month that an add-on brings beyond those of the package. */
export const extraCalls: Readonly<Record<string, number>> = Object.fromEntries(
  Object.entries(addOns).flatMap(([key, addOn]) => (addOn.extraCalls ? [[key, addOn.extraCalls]] : [])),
);

/** What a subscription says about calls; the agreed figures are those of a package made for one customer. */
export interface CallTerms {
  packageCode: string | null;
  agreedPerMinute: number | null;
  agreedPerDay: number | null;
  agreedPerMonth: number | null;
}

/**
 * The ceiling of a workspace over all its credentials: what was agreed, else what its package includes, else its monthly calls
 * spread over 30 days, else the usual one.
 */
export function callsPerMinute({ packageCode, agreedPerMinute, agreedPerMonth }: CallTerms): number {
  const included = agreedPerMinute ?? plans[packageCode ?? '']?.callsPerMinute;
  if (included !== undefined) return included;
  return agreedPerMonth === null ? usualCallsPerMinute : Math.max(60, Math.ceil(agreedPerMonth / (30 * 24 * 60)));
}

/** Calls per day over all credentials of a workspace; null: no such ceiling. No package of the catalogue has one. */
export function callsPerDay({ packageCode, agreedPerDay, agreedPerMonth }: CallTerms): number | null {
  if (agreedPerDay !== null) return agreedPerDay;
  if (agreedPerMonth === null || Object.hasOwn(callsPerMonth, packageCode ?? '')) return null;
  return Math.ceil(agreedPerMonth / 30);
}

/** Whether a subscription opens the API. A payment that failed does not close it: there are two weeks to mend it. */
export function accessOf(
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

/** Users of a workspace that can be active at the same time: what its package includes or what was purchased, whichever is more. */
export function seatAllowance(packageCode: string | null, purchased: number | null): number {
  return Math.max(plans[packageCode ?? '']?.includedSeats ?? 0, purchased ?? 0);
}

/** Of each module that the platform has: whether it is on, and if not, why. */
export type Modules = ReadonlyMap<string, 'on' | 'not_in_plan' | 'disabled_by_admin'>;

const known = new Map<string, Modules>();

/**
 * What of the modules is on: those of the plan and of what was bought beside it, less those that an administrator switched off.
 * @param packageCode null without a subscription: core modules only
 */
export function modulesOfWorkspace(
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

/** Whether a module is on, missing from a plan, or switched off. Custom objects' modules are always on. */
export function moduleState(module: string, modules: Modules): 'on' | 'not_in_plan' | 'disabled_by_admin' {
  return modules.get(module) ?? 'on';
}
