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

/**
 * The ceiling of a workspace: what was agreed, else what its package includes, else its monthly calls spread over 30 days, else
 * the usual one.
 * @param monthlyCalls of a package made for one customer
 */
export function callsPerMinute(
  packageCode: string | null,
  agreed: number | null = null,
  monthlyCalls: number | null = null,
): number {
  const included = agreed ?? callsPerMinuteOf[packageCode ?? ''];
  if (included !== undefined) return included;
  return monthlyCalls === null ? usualCallsPerMinute : Math.max(60, Math.ceil(monthlyCalls / (30 * 24 * 60)));
}

/** Users that can be active at the same time, by package. */
const seatsOfPackage: Readonly<Record<string, number>> = { starter: 3, growth: 10, scale: 25, enterprise: 100 };

/** Users of a workspace that can be active at the same time: what its package includes or what was purchased, whichever is more. */
export function seatAllowance(packageCode: string | null, purchased: number | null): number {
  return Math.max(seatsOfPackage[packageCode ?? ''] ?? 0, purchased ?? 0);
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
