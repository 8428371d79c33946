// All records of the demo workspace, determined by a seed and the time of creation.

import { inventDeal, inventTask, inventVisit } from './deals.ts';
import { buildExampleRecords, exampleLeadCount } from './examples.ts';
import { exampleIds } from './ids.ts';
import { type InventedLead, inventAccount, inventCustomer, inventLead } from './leads.ts';
import type { Company } from './people.ts';
import { addDays, findLatest } from './random.ts';
import { leadNotes } from './words.ts';
import { type TagCondition, tags } from './workspace.ts';
import {
  type Account,
  type Activity,
  type Attachment,
  type Customer,
  type Deal,
  type DemoUser,
  type Lead,
  type Message,
  type Note,
  newWorld,
  type Tagged,
  type Task,
  type Visit,
  type World,
} from './world.ts';

export interface DemoData {
  founded: Date;
  adminId: string;
  users: readonly DemoUser[];
  leads: Lead[];
  accounts: Account[];
  customers: Customer[];
  deals: Deal[];
  activities: Activity[];
  tasks: Task[];
  visits: Visit[];
  tagged: Tagged[];
  notes: Note[];
  messages: Message[];
  attachments: Attachment[];
}

/** The seed that servers use. */
export const demoSeed = 20_261_120;

export const leadCount = 320;
/** Customers that existed before the leads. */
const earlierCustomers = 60;

/** The same seed and time give the same records. */
export function buildDemoData(seed: number, now: Date): DemoData {
  const world = newWorld(seed, now);
  const { random } = world;
  const invented = inventLeads(world);
  const leads = invented.map((each) => each.lead);
  const { accounts, customers } = inventCustomers(world, invented);
  const made = [
    ...customers.flatMap((customer) =>
      Array.from({ length: random.pick([0, 1, 1, 1, 2]) }, () => inventDeal(world, { customer })),
    ),
    ...leads
      .filter((lead) => lead.lead_status === 'Qualified' && random.chance(0.5))
      .map((lead) => inventDeal(world, { lead })),
  ];
  const deals = made.map((each) => each.deal);
  const examples = buildExampleRecords(world);
  return {
    founded: world.founded,
    adminId: world.adminId,
    users: world.users,
    leads: [...leads, ...examples.leads],
    accounts: [...accounts, ...examples.accounts],
    customers: [...customers.map((customer) => withLastContact(customer, leads, deals)), ...examples.customers],
    deals: [...deals, ...examples.deals],
    activities: [...[...invented, ...made].flatMap((each) => each.activities), ...examples.activities],
    tasks: [...inventTasks(world, leads, customers, deals), ...examples.tasks],
    visits: inventVisits(world, customers, deals),
    tagged: tagRecords(world, [...leads, ...examples.leads], [...customers, ...examples.customers]),
    notes: [...inventNotes(world, leads), ...examples.notes],
    messages: examples.messages,
    attachments: examples.attachments,
  };
}

function inventLeads(world: World): InventedLead[] {
  const invented: InventedLead[] = [];
  const count = leadCount - exampleLeadCount;
  while (invented.length < count) {
    const company = world.directory.newCompany();
    const people = Math.min(world.random.pick([1, 1, 1, 2, 2, 3]), count - invented.length);
    for (let person = 0; person < people; person += 1) invented.push(inventLead(world, company));
  }
  return invented;
}

/** Invents converted leads, and customers that existed before. */
function inventCustomers(
  world: World,
  invented: readonly InventedLead[],
): { accounts: Account[]; customers: Customer[] } {
  const accounts = new Map<Company, Account>();
  const customers: Customer[] = [];
  const converted = invented
    .filter(({ lead }) => lead.converted_at !== null)
    .sort((a, b) => Number(a.lead.converted_at) - Number(b.lead.converted_at));
  for (const { lead, person } of converted) {
    const { company } = person;
    const account = accounts.get(company) ?? inventAccount(world, company, lead.converted_at as Date);
    accounts.set(company, account);
    customers.push(inventCustomer(world, person, account, lead));
  }
  for (let count = 0; count < earlierCustomers; count += 1) {
    const company = world.directory.newCompany();
    const account = inventAccount(
      world,
      company,
      world.random.moment(addDays(world.now, -180), addDays(world.now, -20)),
    );
    accounts.set(company, account);
    customers.push(inventCustomer(world, world.directory.newPerson(company), account, undefined));
  }
  return { accounts: [...accounts.values()], customers };
}

/** Returns the customer with the time of the last contact, as a lead or about a deal. */
function withLastContact(customer: Customer, leads: readonly Lead[], deals: readonly Deal[]): Customer {
  const contacts = [
    ...leads.filter((lead) => lead.id === customer.lead_id),
    ...deals.filter((deal) => deal.customer_id === customer.id),
  ].flatMap((record) => record.last_contacted_at ?? []);
  const [first, ...others] = contacts;
  if (!first) return customer;
  return { ...customer, last_contacted_at: findLatest(first, ...others) };
}

function inventTasks(
  world: World,
  leads: readonly Lead[],
  customers: readonly Customer[],
  deals: readonly Deal[],
): Task[] {
  const { random } = world;
  return [
    ...leads
      .filter((lead) => lead.lead_status !== 'New' && random.chance(0.25))
      .map((lead) => inventTask(world, 'leads', lead)),
    ...deals.filter(() => random.chance(0.8)).map((deal) => inventTask(world, 'deals', deal)),
    ...customers.filter(() => random.chance(0.15)).map((customer) => inventTask(world, 'customers', customer)),
  ];
}

/** Invents notes about leads that were called. */
function inventNotes(world: World, leads: readonly Lead[]): Note[] {
  const { random, now } = world;
  return leads
    .filter((lead) => lead.last_contacted_at !== null && random.chance(0.15))
    .map((lead) => {
      const createdAt = random.moment(lead.created_at, now);
      return {
        id: random.uuid(createdAt),
        object: 'leads',
        record_id: lead.id,
        content: random.pick(leadNotes),
        created_by: lead.created_by,
        created_at: createdAt,
        updated_at: createdAt,
      };
    });
}

function inventVisits(world: World, customers: readonly Customer[], deals: readonly Deal[]): Visit[] {
  return customers.flatMap((customer) => {
    const deal = deals.find((each) => each.customer_id === customer.id && each.stage !== 'New');
    return deal && world.random.chance(0.5) ? [inventVisit(world, customer, deal)] : [];
  });
}

/** Applies tags by their conditions, and some by hand. */
function tagRecords(world: World, leads: readonly Lead[], customers: readonly Customer[]): Tagged[] {
  const { random } = world;
  const tagged: Tagged[] = [];
  for (const { id, object, name, conditions } of tags) {
    for (const record of object === 'leads' ? leads : customers) {
      const holds = conditions.length > 0 && conditions.every((condition) => isMet(record, condition));
      // A person may add a tag by hand, even if its conditions do not hold.
      const isExample = id === exampleIds.recordTag && record.id === exampleIds.lead;
      const byHand = !holds && (isExample || random.chance(conditions.length === 0 ? 0.15 : 0.02));
      if (holds || byHand) tagged.push({ object, record_id: record.id, tag: name, is_manual: byHand });
    }
  }
  return tagged;
}

function isMet(record: Lead | Customer, { field, value }: TagCondition): boolean {
  const values: Record<string, unknown> = { ...record, ...('custom' in record ? record.custom : {}) };
  return values[field] === value;
}
