// The texts of SLA reminders and escalations.

/** The placeholders of a message template, between double braces. */
export const placeholders = [
  'record_name',
  'entity_type',
  'policy_name',
  'deadline',
  'overdue_minutes',
  'assigned_to',
] as const;

export type MessageValues = Readonly<Record<(typeof placeholders)[number], string>>;

/** Fills the placeholders of a template. Placeholders in the values are not filled. */
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

export function buildReminderText(kind: string, values: MessageValues): string {
  const { record_name: name, entity_type: type, deadline, policy_name: policy } = values;
  return `${titles[kind]} for the ${type} ${name} is due at ${deadline} (${policy}).`;
}

const shown: Intl.DateTimeFormatOptions = {
  year: 'numeric',
  month: '2-digit',
  day: '2-digit',
  hour: '2-digit',
  minute: '2-digit',
  hourCycle: 'h23',
  timeZoneName: 'short',
};

/** Formats a time for people in a time zone: 2026-11-20 23:55 GMT+1. */
export function formatReadableTime(moment: Date, timezone: string): string {
  const parts = new Intl.DateTimeFormat('en', { ...shown, timeZone: timezone }).formatToParts(moment);
  const { year, month, day, hour, minute, timeZoneName } = Object.fromEntries(
    parts.map(({ type, value }) => [type, value]),
  );
  return `${year}-${month}-${day} ${hour}:${minute} ${timeZoneName}`;
}

export function countOverdueMinutes(dueAt: Date, now: Date): number {
  return Math.floor((now.getTime() - dueAt.getTime()) / 60_000);
}
