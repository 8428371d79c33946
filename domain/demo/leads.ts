// Invents leads, and the customers and accounts that some of them became.

import { buildActivities, inventHistory } from './history.ts';
import type { Company, Person } from './people.ts';
import { addDays, findEarliest, findLatest } from './random.ts';
import { disqualified, inquiries, leadNotes, roofTypes } from './words.ts';
import type { Account, Activity, Customer, Lead, World } from './world.ts';

/** A lead with its person, until the records are written. */
export interface InventedLead {
  lead: Lead;
  person: Person;
  activities: Activity[];
}

const sourceWeights = { Website: 40, Referral: 18, Exhibition: 14, Partner: 12, Phone: 10, Newsletter: 6 } as const;

const originOf = {
  Website: 'contact form',
  Referral: 'customer',
  Exhibition: 'stand',
  Partner: 'partner portal',
  Phone: 'hotline',
  Newsletter: 'mailing',
} as const;

type LeadStatus = 'New' | 'Contacted' | 'Qualified' | 'Converted' | 'Disqualified';

const contactsOf: Readonly<Record<LeadStatus, readonly [number, number]>> = {
  New: [0, 0],
  Contacted: [1, 2],
  Qualified: [2, 4],
  Converted: [2, 4],
  Disqualified: [1, 2],
};

function pickStatus(world: World, days: number): LeadStatus {
  if (days < 4) return world.random.weighted({ New: 70, Contacted: 30 });
  if (days < 21)
    return world.random.weighted({ New: 20, Contacted: 40, Qualified: 25, Converted: 5, Disqualified: 10 });
  return world.random.weighted({ New: 6, Contacted: 20, Qualified: 24, Converted: 25, Disqualified: 25 });
}

export function inventLead(world: World, company: Company): InventedLead {
  const { random, now } = world;
  const person = world.directory.newPerson(company);
  // More in the last weeks than half a year ago, because the company grows.
  const days = 177 * random.next() ** 1.4;
  const createdAt = random.moment(addDays(now, -days - 3), addDays(now, -days));
  const status = pickStatus(world, days);
  const closedAt =
    status === 'Converted' || status === 'Disqualified'
      ? random.moment(addDays(createdAt, 1), findEarliest(now, addDays(createdAt, 40)))
      : null;
  const history = inventHistory(random, {
    from: createdAt,
    to: closedAt ?? now,
    count: random.int(...contactsOf[status]),
    planned: closedAt === null && random.chance(0.7),
    now,
  });
  const owner = status === 'New' && random.chance(0.25) ? null : random.pick(world.listSellers(company.country.code));
  const lead: Lead = {
    id: random.uuid(createdAt),
    ...inventDetails(world, person, status),
    lead_status: status,
    assigned_to: owner,
    last_contacted_at: history.lastContactedAt,
    next_followup_at: history.nextFollowupAt,
    converted_at: status === 'Converted' ? closedAt : null,
    created_by: owner ?? world.adminId,
    created_at: createdAt,
    updated_at: findLatest(createdAt, closedAt, history.changedAt),
  };
  return { lead, person, activities: buildActivities(random, 'lead', lead, history.contacts) };
}

/** Returns the fields about the person and the inquiry. */
function inventDetails(world: World, person: Person, status: LeadStatus) {
  const { random } = world;
  const { company } = person;
  const source = random.weighted(sourceWeights);
  const hasEmail = random.chance(0.92);
  const inquiry = random
    .pick(inquiries)
    .replace('{area}', String(random.int(3, 60) * 50))
    .replace('{kwp}', String(random.int(3, 30) * 10));
  return {
    first_name: person.firstName,
    last_name: person.lastName,
    email: hasEmail ? person.email : null,
    mobile: !hasEmail || random.chance(0.7) ? person.mobile : null,
    company_name: company.name,
    job_title: random.chance(0.8) ? person.jobTitle : null,
    website: random.chance(0.6) ? `https://www.${company.domain}` : null,
    city: company.place.city,
    state: company.place.state,
    country: company.country.code,
    postal_code: company.place.postalCode,
    inquiry_details: source === 'Website' || random.chance(0.4) ? inquiry : null,
    notes: status === 'Disqualified' ? random.pick(disqualified) : random.chance(0.25) ? random.pick(leadNotes) : null,
    source,
    priority: Number(random.weighted({ 1: 10, 2: 25, 3: 50, 4: 15 })),
    origin: random.chance(0.7) ? originOf[source] : null,
    custom: {
      ...(random.chance(0.7) ? { roof_type: random.pick(roofTypes).value } : {}),
      ...(random.chance(0.6) ? { energy_use_kwh: random.int(20, 900) * 1000 } : {}),
    },
  };
}

/** Returns the converted customer of a person, for the account of the company. */
export function inventCustomer(world: World, person: Person, account: Account, from: Lead | undefined): Customer {
  const { random, now } = world;
  const { company } = person;
  const createdAt = from?.converted_at ?? random.moment(addDays(now, -180), addDays(now, -20));
  return {
    id: random.uuid(createdAt),
    first_name: person.firstName,
    last_name: person.lastName,
    email: person.email,
    mobile: person.mobile,
    phone: random.chance(0.5) ? company.landline : null,
    company_name: company.name,
    account_id: account.id,
    job_title: person.jobTitle,
    website: `https://www.${company.domain}`,
    address: company.address,
    city: company.place.city,
    state: company.place.state,
    country: company.country.code,
    postal_code: company.place.postalCode,
    source: from?.source ?? random.weighted(sourceWeights),
    notes: null,
    lead_id: from?.id ?? null,
    assigned_to: from?.assigned_to ?? account.assigned_to,
    last_contacted_at: null,
    created_by: from?.created_by ?? account.created_by,
    created_at: createdAt,
    updated_at: createdAt,
  };
}

export function inventAccount(world: World, company: Company, createdAt: Date): Account {
  const { random } = world;
  const owner = random.pick(world.listSellers(company.country.code));
  return {
    id: random.uuid(createdAt),
    name: company.name,
    email: `info@${company.domain}`,
    phone: company.landline,
    website: `https://www.${company.domain}`,
    industry: company.industry,
    employee_count: company.employees,
    annual_revenue_minor: company.employees * random.int(80, 240) * 100_000,
    address: company.address,
    city: company.place.city,
    state: company.place.state,
    country: company.country.code,
    postal_code: company.place.postalCode,
    description: null,
    assigned_to: owner,
    created_by: owner,
    created_at: createdAt,
    updated_at: createdAt,
  };
}
