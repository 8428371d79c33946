// The plan catalogue, and which modules a plan opens.
import { addOnOfModule, moduleActions } from './scopes.ts';

/** Add-ons that each package includes. */
const addOnsOfPackage: Readonly<Record<string, readonly string[]>> = {
  starter: [],
  growth: ['scheduling', 'inbox'],
  scale: ['scheduling', 'inbox', 'campaigns'],
  enterprise: ['scheduling', 'inbox', 'campaigns', 'workforces'],
};

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
