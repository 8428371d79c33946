// Invents deals with their history, and the tasks and site visits that belong to them.
import { buildActivities, inventHistory } from './history.ts';
import { addDays, findEarliest, findLatest, toDay } from './random.ts';
import { findings, lostReasons, products, taskTitles } from './words.ts';
import { demoCompany, visitOutcomes, visitsObject } from './workspace.ts';
import type { Activity, Customer, Deal, Lead, Task, Visit, World } from './world.ts';

type Stage = 'New' | 'Contacted' | 'Qualified' | 'Proposal' | 'Won' | 'Lost';

/** The number of contacts of a deal in a stage, and its probability. */
const stages: Readonly<Record<Stage, { contacts: readonly [number, number]; probabilities: readonly number[] }>> = {
  New: { contacts: [0, 1], probabilities: [10] },
  Contacted: { contacts: [1, 2], probabilities: [20, 25] },
  Qualified: { contacts: [2, 3], probabilities: [40, 50] },
  Proposal: { contacts: [2, 5], probabilities: [60, 70, 80] },
  Won: { contacts: [3, 6], probabilities: [100] },
  Lost: { contacts: [2, 4], probabilities: [0] },
};

function pickStage(world: World, days: number, openOnly: boolean): Stage {
  const { random } = world;
  if (openOnly) return random.weighted({ New: 20, Contacted: 30, Qualified: 35, Proposal: 15 });
  if (days < 10) return random.weighted({ New: 50, Contacted: 30, Qualified: 20 });
  if (days < 35) return random.weighted({ New: 8, Contacted: 20, Qualified: 30, Proposal: 27, Won: 10, Lost: 5 });
  return random.weighted({ Contacted: 6, Qualified: 10, Proposal: 16, Won: 40, Lost: 28 });
}

/** The other party of a deal: a customer, or a lead that is not converted yet. */
export type Party = { customer: Customer } | { lead: Lead };

export function inventDeal(world: World, party: Party): { deal: Deal; activities: Activity[] } {
  const { random, now } = world;
  const from = 'customer' in party ? party.customer : party.lead;
  const createdAt = random.moment(from.created_at, findEarliest(now, addDays(from.created_at, 60)));
  const stage = pickStage(world, (now.getTime() - createdAt.getTime()) / 86_400_000, 'lead' in party);
  const closed = stage === 'Won' || stage === 'Lost';
  const closedAt = closed ? random.moment(addDays(createdAt, 5), findEarliest(now, addDays(createdAt, 75))) : null;
  const history = inventHistory(random, {
    from: createdAt,
    to: closedAt ?? now,
    count: random.int(...stages[stage].contacts),
    planned: !closed && random.chance(0.75),
    now,
  });
  const stageChangedAt = closedAt ?? (stage === 'New' ? createdAt : random.moment(createdAt, now));
  const product = random.pick(products);
  const kwp = random.int(3, 60) * 10;
  const owner = from.assigned_to ?? random.pick(world.listSellers(from.country));
  const deal: Deal = {
    id: random.uuid(createdAt),
    name: `${product.name.replace('{kwp}', String(kwp))}, ${from.company_name}`,
    amount_minor: kwp * product.pricePerKwp,
    currency_code: demoCompany.currency,
    stage,
    probability: random.pick(stages[stage].probabilities),
    // Some open deals are overdue.
    expected_close_date: toDay(closedAt ?? random.moment(addDays(now, -10), addDays(now, 90))),
    priority: Number(random.weighted({ 1: 12, 2: 28, 3: 45, 4: 15 })),
    source: from.source,
    lost_reason: stage === 'Lost' ? random.pick(lostReasons) : null,
    customer_id: 'customer' in party ? party.customer.id : null,
    account_id: 'customer' in party ? party.customer.account_id : null,
    lead_id: 'customer' in party ? party.customer.lead_id : party.lead.id,
    assigned_to: owner,
    stage_changed_at: stageChangedAt,
    won_at: stage === 'Won' ? closedAt : null,
    lost_at: stage === 'Lost' ? closedAt : null,
    last_contacted_at: history.lastContactedAt,
    next_followup_at: history.nextFollowupAt,
    created_by: owner,
    created_at: createdAt,
    updated_at: findLatest(stageChangedAt, history.changedAt),
  };
  return { deal, activities: buildActivities(random, 'deal', deal, history.contacts) };
}

/** The record of a task. */
type Subject = { id: string; created_at: Date; assigned_to: string | null };

export function inventTask(world: World, object: Task['object'], subject: Subject): Task {
  const { random, now } = world;
  const createdAt = random.moment(subject.created_at, now);
  const scheduledAt = random.moment(addDays(createdAt, 1), addDays(createdAt, 24));
  const status =
    scheduledAt < now
      ? random.weighted({ completed: 78, cancelled: 8, open: 9, in_progress: 5 })
      : random.weighted({ open: 85, in_progress: 15 });
  const endedAt =
    status === 'completed' || status === 'cancelled'
      ? random.moment(createdAt, findEarliest(now, addDays(scheduledAt, 2)))
      : null;
  const type = random.weighted({ Call: 25, Email: 15, Meeting: 10, 'Follow-up': 25, Proposal: 15, 'To-do': 10 });
  const owner = subject.assigned_to ?? world.adminId;
  return {
    id: random.uuid(createdAt),
    title: random.pick(taskTitles[type]),
    task_type: type,
    status,
    priority: Number(random.weighted({ 1: 10, 2: 25, 3: 50, 4: 15 })),
    scheduled_at: scheduledAt,
    object,
    record_id: subject.id,
    assigned_to: owner,
    completed_at: status === 'completed' ? endedAt : null,
    created_by: owner,
    created_at: createdAt,
    updated_at: endedAt ?? createdAt,
  };
}

/**
 * Invents a visit to the customer's roof, some weeks after the deal was created. Its findings are
 * known once it is over.
 */
export function inventVisit(world: World, customer: Customer, deal: Deal): Visit {
  const { random, now } = world;
  const startsAt = random.moment(addDays(deal.created_at, 2), addDays(deal.created_at, 28));
  const createdAt = random.moment(deal.created_at, findEarliest(now, startsAt));
  const isOver = startsAt < now;
  return {
    id: random.uuid(createdAt),
    object: visitsObject,
    custom: {
      name: `Site visit, ${customer.company_name}`,
      starts_at: startsAt.toISOString(),
      location: `${customer.address}, ${customer.postal_code} ${customer.city}`,
      contact_email: customer.email,
      contact_phone: customer.mobile,
      ...(isOver
        ? {
            outcome: random.pick(visitOutcomes).value,
            roof_area_m2: random.int(3, 60) * 50,
            has_shade: random.chance(0.3),
            offer_due_on: toDay(addDays(startsAt, 7)),
            travel_cost_minor: random.int(20, 240) * 100,
            report_url: `https://files.demo-solar.example/visits/${toDay(startsAt)}-${random.int(100, 999)}.pdf`,
            findings: random.pick(findings),
          }
        : {}),
    },
    created_by: deal.assigned_to,
    created_at: createdAt,
    updated_at: isOver ? findEarliest(now, addDays(startsAt, 1)) : createdAt,
  };
}
