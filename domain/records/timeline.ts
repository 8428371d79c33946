// The kinds of items in the timeline of a record, and the scope that each requires.
import type { components } from '../../generated/api.ts';
import { buildFieldProblem, type FieldProblem } from '../objects/field-values.ts';
import { findClosest } from '../objects/suggestions.ts';

export type TimelineKind = components['schemas']['TimelineKind'];

/** The scope besides the view scope of the object; null if that is enough. */
const scopes: Readonly<Record<TimelineKind, string | null>> = {
  note: null,
  activity: 'activities:view',
  task: 'tasks:view',
  message: 'inbox:view',
  booking: 'bookings:view',
  stage_change: null,
  attachment: 'attachments:view',
  link: null,
};

export const timelineKinds = Object.keys(scopes) as TimelineKind[];

export const getKindScope = (kind: TimelineKind): string | null => scopes[kind];

/** Reads the parameter `kinds`. @returns undefined for kinds if it names none */
export function parseKinds(text: string | undefined): { kinds: TimelineKind[] | undefined; problems: FieldProblem[] } {
  const names = new Set((text ?? '').split(',').flatMap((name) => name.trim() || []));
  const rule = `must be one or more of ${timelineKinds.join(', ')}, separated by commas`;
  const problems: FieldProblem[] = [];
  for (const name of names) {
    if (timelineKinds.some((kind) => kind === name)) continue;
    const meant = findClosest(name, timelineKinds);
    problems.push(buildFieldProblem('kinds', 'INVALID_OPTION', rule, { allowed: timelineKinds, meant }));
  }
  const kinds = timelineKinds.filter((kind) => names.has(kind));
  return { kinds: names.size > 0 ? kinds : undefined, problems: problems.slice(0, 1) };
}

/** Characters of a text that a summary shows, as many as a preview of a message. */
const summaryLength = 500;

/** Returns the beginning of a text, on whole characters; null for none. */
export function toSummary(text: string | null | undefined): string | null {
  const trimmed = text?.trim() ?? '';
  return trimmed === '' ? null : [...trimmed.slice(0, 2 * summaryLength)].slice(0, summaryLength).join('');
}
