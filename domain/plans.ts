// The plan catalogue, and which modules a plan opens.
import { addOnOfModule, moduleActions } from './scopes.ts';

/** Add-ons that each package includes. */
const addOnsOfPackage: Readonly<Record<string, readonly string[]>> = {
  starter: [],
  growth: ['scheduling', 'inbox'],
  scale: ['scheduling', 'inbox', 'campaigns'],
  enterprise: ['scheduling', 'inbox', 'campaigns', 'workforces'],
};

/** Calls per minute, over all credentials of a workspace, that each package includes. */
const callsPerMinuteOf: Readonly<Record<string, number>> = { starter: 120, growth: 600, scale: 1200, enterprise: 3000 };

/** Without a plan that says or implies it. */
const usualCallsPerMinute = 600;

/** Calls per month that each package includes; null: unlimited. */
export const callsPerMonth: Readonly<Record<string, number | null>> = {
  starter: 50_000,
  growth: 500_000,
  scale: 3_000_000,
  enterprise: null,
};

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
  const included = agreedPerMinute ?? callsPerMinuteOf[packageCode ?? ''];
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

/** Days of the trial that a new workspace gets, of the package growth. */
export const trialDays = 14;

const known = new Map<string, ReadonlySet<string>>();

/**
 * The modules that are on: those of the plan, less those that an administrator switched off.
 * @param packageCode null without a subscription: core modules only
 */
export function activeModules(packageCode: string | null, disabled: readonly string[]): ReadonlySet<string> {
  const key = `${packageCode} ${disabled.join(' ')}`;
  const found = known.get(key);
  if (found) return found;
  const addOns = addOnsOfPackage[packageCode ?? ''] ?? [];
  const modules = new Set(
    Object.keys(moduleActions).filter((module) => {
      const addOn = addOnOfModule[module];
      return !disabled.includes(module) && (addOn === undefined || addOns.includes(addOn));
    }),
  );
  if (known.size < 1000) known.set(key, modules);
  return modules;
}

/** Whether a module is missing from a plan, or switched off. Custom objects' modules are always on. */
export function moduleState(
  module: string,
  packageCodeModules: ReadonlySet<string>,
): 'on' | 'not_in_plan' | 'disabled_by_admin' {
  if (packageCodeModules.has(module) || !Object.hasOwn(moduleActions, module)) return 'on';
  return addOnOfModule[module] === undefined ? 'disabled_by_admin' : 'not_in_plan';
}
