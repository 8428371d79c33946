// What SLA reminders and escalations say.
import { DateTime } from 'luxon';

/** What a message template can have filled in, between double braces. */
export const placeholders = [
  'record_name',
  'entity_type',
  'policy_name',
  'deadline',
  'overdue_minutes',
  'assigned_to',
] as const;

export type MessageValues = Readonly<Record<(typeof placeholders)[number], string>>;

/** Fills a template in; what is filled in is not looked at again. */
export function fillTemplate(template: string, values: MessageValues): string {
  return template.replace(/\{\{\s*([a-z_]+)\s*\}\}/g, (written, name: string) =>
    Object.hasOwn(values, name) ? values[name as keyof MessageValues] : written,
  );
}

const titles: Readonly<Record<string, string>> = {
  first_response: 'First response',
  every_response: 'Next response',
  resolution: 'Resolution',
};

export function reminderText(kind: string, values: MessageValues): string {
  const { record_name: name, entity_type: type, deadline, policy_name: policy } = values;
  return `${titles[kind]} for the ${type} ${name} is due at ${deadline} (${policy}).`;
}

/** A moment as people of a time zone read it: 2026-11-20 23:55 GMT+1. */
export function readableTime(moment: Date, timezone: string): string {
  return DateTime.fromJSDate(moment, { zone: timezone }).setLocale('en').toFormat('yyyy-MM-dd HH:mm ZZZZ');
}

export function overdueMinutes(dueAt: Date, now: Date): number {
  return Math.floor((now.getTime() - dueAt.getTime()) / 60_000);
}
