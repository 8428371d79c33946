// Plans, add-ons and prices: the single source of all amounts.

export type BillingCycle = 'monthly' | 'yearly';

/** Minor units by currency. */
type Prices = Readonly<Record<string, number>>;

export interface Plan {
  name: string;
  /** Prices per period, by billing cycle; null: sold by agreement only. */
  prices: Readonly<Record<BillingCycle, Prices>> | null;
  includedSeats: number;
  /** Per month and additional seat; null: as agreed. */
  seatPrices: Prices | null;
  /** Calls per month; null: unlimited. */
  callsPerMonth: number | null;
  /** Across all credentials of a workspace. */
  callsPerMinute: number;
  /** Keys of included add-ons. */
  addOns: readonly string[];
}

export interface AddOn {
  name: string;
  prices: Readonly<Record<BillingCycle, Prices>>;
  /** Additional calls per month. */
  extraCalls?: number;
}

/** The billing currency. */
export const billingCurrency = 'USD';

/** Days of the trial of a new workspace, on the plan growth. */
export const trialDays = 14;

export const plans: Readonly<Record<string, Plan>> = {
  starter: {
    name: 'Starter',
    prices: { monthly: { USD: 2900 }, yearly: { USD: 29_000 } },
    includedSeats: 3,
    seatPrices: { USD: 1200 },
    callsPerMonth: 50_000,
    callsPerMinute: 120,
    addOns: [],
  },
  growth: {
    name: 'Growth',
    prices: { monthly: { USD: 9900 }, yearly: { USD: 99_000 } },
    includedSeats: 10,
    seatPrices: { USD: 1000 },
    callsPerMonth: 500_000,
    callsPerMinute: 600,
    addOns: ['scheduling', 'inbox'],
  },
  scale: {
    name: 'Scale',
    prices: { monthly: { USD: 29_900 }, yearly: { USD: 299_000 } },
    includedSeats: 25,
    seatPrices: { USD: 900 },
    callsPerMonth: 3_000_000,
    callsPerMinute: 1200,
    addOns: ['scheduling', 'inbox', 'campaigns'],
  },
  enterprise: {
    name: 'Enterprise',
    prices: null,
    includedSeats: 100,
    seatPrices: null,
    callsPerMonth: null,
    callsPerMinute: 3000,
    addOns: ['scheduling', 'inbox', 'campaigns', 'workforces', 'phone_numbers', 'extra_api_calls_1m'],
  },
};

export const addOns: Readonly<Record<string, AddOn>> = {
  scheduling: { name: 'Scheduling', prices: { monthly: { USD: 2900 }, yearly: { USD: 29_000 } } },
  inbox: { name: 'Inbox', prices: { monthly: { USD: 1900 }, yearly: { USD: 19_000 } } },
  campaigns: { name: 'Campaigns', prices: { monthly: { USD: 4900 }, yearly: { USD: 49_000 } } },
  workforces: { name: 'Workforces', prices: { monthly: { USD: 9900 }, yearly: { USD: 99_000 } } },
  phone_numbers: { name: 'Phone numbers', prices: { monthly: { USD: 1500 }, yearly: { USD: 15_000 } } },
  extra_api_calls_1m: {
    name: 'One million extra API calls',
    prices: { monthly: { USD: 4900 }, yearly: { USD: 49_000 } },
    extraCalls: 1_000_000,
  },
};
