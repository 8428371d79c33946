// Invents the history of a lead or a deal, and the resulting field values of the record.
import { addDays, findLatest, type Random } from './random.ts';
import { activityDetails, summaries } from './words.ts';
import type { Activity, Contact } from './world.ts';

export interface History {
  contacts: Contact[];
  lastContactedAt: Date | null;
  nextFollowupAt: Date | null;
  /** When the last contact was logged, or the start. */
  changedAt: Date;
}

const typeWeights = { Call: 35, Email: 30, Meeting: 12, Note: 10, LinkedIn: 5, WhatsApp: 8 } as const;

/** The share of planned follow-ups that are overdue. */
const overdueShare = 0.15;

/**
 * Invents contacts between two times.
 * @param planned true if each contact says when the next one is due; the last one's date is then
 * the record's next follow-up
 */
export function inventHistory(
  random: Random,
  span: { from: Date; to: Date; count: number; planned: boolean; now: Date },
): History {
  const { from, to, now } = span;
  const times = [...new Set(Array.from({ length: span.count }, () => random.moment(from, to).getTime()))]
    .sort((a, b) => a - b)
    .map((time) => new Date(time));
  const contacts = times.map((performedAt, index): Contact => {
    // A history begins with a call or an email.
    const type = index === 0 ? random.pick(['Call', 'Email'] as const) : random.weighted(typeWeights);
    const next = times[index + 1] ?? pickDueTime(random, performedAt, now);
    return {
      activity_type: type,
      summary: random.pick(summaries[type]),
      details: random.chance(0.3) ? random.pick(activityDetails) : null,
      performed_at: performedAt,
      followup_at: span.planned ? next : null,
      created_at: performedAt,
    };
  });
  return {
    contacts,
    lastContactedAt: contacts.at(-1)?.performed_at ?? null,
    nextFollowupAt: contacts.at(-1)?.followup_at ?? null,
    changedAt: findLatest(from, contacts.at(-1)?.created_at ?? null),
  };
}

function pickDueTime(random: Random, performedAt: Date, now: Date): Date {
  const overdue = random.chance(overdueShare) && addDays(performedAt, 3) < now;
  return overdue ? random.moment(addDays(performedAt, 1), now) : random.moment(addDays(now, 1), addDays(now, 21));
}

/** Returns the activities of one lead or deal, logged by its creator. */
export function buildActivities(
  random: Random,
  entityType: 'lead' | 'deal',
  entity: { id: string; created_by: string },
  contacts: readonly Contact[],
): Activity[] {
  return contacts.map((contact) => ({
    id: random.uuid(contact.created_at),
    entity_type: entityType,
    entity_id: entity.id,
    ...contact,
    created_by: entity.created_by,
    updated_at: contact.created_at,
  }));
}
