// Plans and modules for sale.
import { addOns, billingCurrency, plans } from '../../domain/billing/catalogue.ts';
import { isPaid } from '../../domain/billing/subscription.ts';
import { findModuleEnd, findModuleStatus } from '../../domain/billing/subscription-view.ts';
import type { Handler } from '../../runtime/handler.ts';
import { selectPage } from '../../runtime/paging.ts';
import { readSubscription } from '../../services/billing/subscription.ts';

export const listPlans: Handler<'listPlans'> = async (call) => {
  const subscription = await readSubscription(call);
  const isServed = isPaid(subscription) || subscription.status === 'trialing';
  const items = Object.entries(plans).map(([code, plan]) => ({
    package_code: code,
    name: plan.name,
    price_monthly_minor: plan.prices?.monthly[billingCurrency] ?? null,
    price_yearly_minor: plan.prices?.yearly[billingCurrency] ?? null,
    currency: billingCurrency,
    included_seats: plan.includedSeats,
    extra_seat_price_minor: plan.seatPrices?.[billingCurrency] ?? null,
    api_call_cap: plan.callsPerMonth,
    api_rate_limit_per_minute: plan.callsPerMinute,
    modules: [...plan.addOns],
    is_current: isServed && subscription.packageCode === code,
    is_available: plan.prices !== null,
  }));
  const { rows, ...rest } = selectPage(call, ['plans'], items, ({ package_code }) => package_code);
  return { status: 200, data: { plans: rows, ...rest } };
};

export const listModules: Handler<'listModules'> = async (call) => {
  const subscription = await readSubscription(call);
  const isServed = isPaid(subscription) || subscription.status === 'trialing';
  const items = Object.entries(addOns).map(([key, addOn]) => {
    const isBought = subscription.addOns.includes(key);
    const until = isServed && isBought ? findModuleEnd(subscription, key) : null;
    return {
      module_key: key,
      name: addOn.name,
      price_monthly_minor: addOn.prices.monthly[billingCurrency] ?? 0,
      price_yearly_minor: addOn.prices.yearly[billingCurrency] ?? 0,
      currency: billingCurrency,
      included_in: Object.keys(plans).filter((code) => plans[code]?.addOns.includes(key)),
      status: isServed ? findModuleStatus(subscription, key) : ('inactive' as const),
      active_until: until?.toISOString() ?? null,
    };
  });
  const { rows, ...rest } = selectPage(call, ['modules'], items, ({ module_key }) => module_key);
  return { status: 200, data: { modules: rows, ...rest } };
};
