// The availability of modules by country: only telephony differs.

type AvailabilityStatus = 'available' | 'limited' | 'unavailable';

/** When this data last changed. */
export const availabilityUpdatedAt = '2026-11-01T00:00:00.000Z';

const coreModules = {
  leads: 'Leads',
  deals: 'Deals',
  customers: 'Customers',
  accounts: 'Accounts',
  tasks: 'Tasks',
  activities: 'Activities',
  reports: 'Reports',
  bookings: 'Bookings',
  attachments: 'Attachments',
  inbox: 'Inbox',
  campaigns: 'Campaigns',
  workforces: 'Workforces',
} as const;

const telephonyModules = { phone_voice: 'Phone calls', phone_sms: 'SMS', fax: 'Fax', whatsapp: 'WhatsApp' } as const;

type TelephonyModule = keyof typeof telephonyModules;
type AvailabilityModule = keyof typeof coreModules | TelephonyModule;

const labels: Readonly<Record<AvailabilityModule, string>> = { ...coreModules, ...telephonyModules };
const moduleNames = Object.keys(labels) as AvailabilityModule[];

const notes: Readonly<Record<AvailabilityStatus, string | null>> = {
  available: null,
  limited: 'Local rules apply. The number or the sender may have to be registered before use.',
  unavailable: 'Not offered in this country.',
};

interface Group {
  region: 'america' | 'europe' | 'middle_east';
  countries: Readonly<Record<string, string>>;
  telephony: Readonly<Record<TelephonyModule, AvailabilityStatus>>;
}

const groups: readonly Group[] = [
  {
    region: 'america',
    countries: { US: 'United States', CA: 'Canada' },
    telephony: { phone_voice: 'available', phone_sms: 'available', fax: 'available', whatsapp: 'available' },
  },
  {
    region: 'america',
    countries: { MX: 'Mexico', BR: 'Brazil', CL: 'Chile', CO: 'Colombia' },
    telephony: { phone_voice: 'available', phone_sms: 'limited', fax: 'unavailable', whatsapp: 'available' },
  },
  {
    region: 'europe',
    countries: {
      GB: 'United Kingdom',
      IE: 'Ireland',
      DE: 'Germany',
      FR: 'France',
      ES: 'Spain',
      IT: 'Italy',
      NL: 'Netherlands',
      BE: 'Belgium',
      AT: 'Austria',
      CH: 'Switzerland',
      SE: 'Sweden',
      NO: 'Norway',
      DK: 'Denmark',
      FI: 'Finland',
      PL: 'Poland',
      PT: 'Portugal',
    },
    telephony: { phone_voice: 'available', phone_sms: 'available', fax: 'limited', whatsapp: 'available' },
  },
  {
    region: 'middle_east',
    countries: { AE: 'United Arab Emirates', SA: 'Saudi Arabia' },
    telephony: { phone_voice: 'limited', phone_sms: 'limited', fax: 'unavailable', whatsapp: 'available' },
  },
  {
    region: 'middle_east',
    countries: { QA: 'Qatar', KW: 'Kuwait', BH: 'Bahrain', OM: 'Oman', JO: 'Jordan', EG: 'Egypt' },
    telephony: { phone_voice: 'limited', phone_sms: 'limited', fax: 'unavailable', whatsapp: 'limited' },
  },
];

interface ModuleAvailability {
  module: AvailabilityModule;
  label: string;
  status: AvailabilityStatus;
  note: string | null;
}

export interface CountryAvailability {
  code: string;
  name: string;
  region: Group['region'];
  modules: ModuleAvailability[];
}

const isTelephony = (module: AvailabilityModule): module is TelephonyModule => Object.hasOwn(telephonyModules, module);

/** All countries by code, each with all modules. */
export const availability: readonly CountryAvailability[] = groups
  .flatMap(({ region, countries, telephony }) =>
    Object.entries(countries).map(([code, name]) => ({
      code,
      name,
      region,
      modules: moduleNames.map((module) => {
        const status = isTelephony(module) ? telephony[module] : 'available';
        return { module, label: labels[module], status, note: notes[status] };
      }),
    })),
  )
  .sort((a, b) => (a.code < b.code ? -1 : 1));
