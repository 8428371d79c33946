// Scheduling policies: their settings, defaults and validation.
import { isTimezone } from '../service/zones-and-currencies.ts';
import type { AssignmentStrategy } from './assignment.ts';
import type { DateHours, DateWindow, DayOff, WorkingWindow } from './working-time.ts';

export type Exposure = 'individual' | 'merged' | 'shared';
export type LocationKind = 'video' | 'phone' | 'in_person';

/** The settings, with the names of the OpenAPI document. */
export interface PolicySettings {
  name: string;
  isDefault: boolean;
  durationMinutes: number;
  slotIntervalMinutes: number;
  bufferBeforeMinutes: number;
  bufferAfterMinutes: number;
  minNoticeMinutes: number;
  horizonDays: number;
  reservationTtlSeconds: number;
  reservationHardCapSeconds: number;
  timezone: string;
  workingHours: readonly WorkingWindow[] | null;
  assignmentStrategy: AssignmentStrategy;
  exposure: Exposure;
  maxBookingsPerDay: number | null;
  meetingLocationKind: LocationKind;
  /** The URL of video calls, in which {booking_id} stands for the booking's id; null: none. */
  meetingUrlTemplate: string | null;
  questions: readonly PolicyQuestion[];
}

/** A question to the attendee. */
interface PolicyQuestion {
  question: string;
  /** True: nothing is booked without an answer. */
  required: boolean;
}

/** Returns the initial policy of a workspace. @param timezone the company's */
export function buildStandardPolicy(timezone: string): PolicySettings {
  return {
    name: 'Standard',
    isDefault: true,
    durationMinutes: 30,
    slotIntervalMinutes: 30,
    bufferBeforeMinutes: 0,
    bufferAfterMinutes: 0,
    minNoticeMinutes: 60,
    horizonDays: 60,
    reservationTtlSeconds: 600,
    reservationHardCapSeconds: 1800,
    timezone,
    workingHours: [1, 2, 3, 4, 5].map((weekday) => ({ weekday, start: '09:00', end: '17:00' })),
    assignmentStrategy: 'round_robin',
    exposure: 'individual',
    maxBookingsPerDay: null,
    meetingLocationKind: 'video',
    meetingUrlTemplate: null,
    questions: [],
  };
}

/** A setting that is invalid. */
export interface SettingProblem {
  field: string;
  code: 'INVALID_FORMAT' | 'OUT_OF_RANGE';
  message: string;
}

export function findPolicyProblems(policy: PolicySettings): SettingProblem[] {
  const problems = [
    ...findTimezoneProblems('timezone', policy.timezone),
    ...findWindowProblems('working_hours', policy.workingHours ?? []),
    ...findQuestionProblems(policy.questions),
    ...findTemplateProblems(policy.meetingUrlTemplate),
  ];
  if (policy.reservationHardCapSeconds < policy.reservationTtlSeconds) {
    const message = `reservation_hard_cap_seconds must be at least reservation_ttl_seconds (${policy.reservationTtlSeconds}).`;
    problems.push({ field: 'reservation_hard_cap_seconds', code: 'OUT_OF_RANGE', message });
  }
  return problems;
}

/** Answers name their question, so no two may be equal. */
function findQuestionProblems(questions: readonly PolicyQuestion[]): SettingProblem[] {
  return questions.flatMap(({ question }, index) => {
    const isTwin = questions.findIndex((other) => other.question.trim() === question.trim()) < index;
    const field = `questions[${index}].question`;
    return isTwin ? [{ field, code: 'INVALID_FORMAT', message: `${field} must not repeat an earlier question.` }] : [];
  });
}

/** Returns true for a web address that mails show as one link. */
function isLink(url: string): boolean {
  if (/[\s{}<>"]/.test(url) || !URL.canParse(url)) return false;
  const { protocol, username, password } = new URL(url);
  return /^https?:$/.test(protocol) && username === '' && password === '';
}

function findTemplateProblems(template: string | null): SettingProblem[] {
  if (template === null) return [];
  const url = template.replaceAll('{booking_id}', 'id');
  if (isLink(url)) return [];
  const message =
    'meeting_url_template must be a web address without spaces and credentials. The only placeholder is {booking_id}, e.g. https://meet.example.com/{booking_id}.';
  return [{ field: 'meeting_url_template', code: 'INVALID_FORMAT', message }];
}

export function findTimezoneProblems(field: string, timezone: string): SettingProblem[] {
  if (isTimezone(timezone)) return [];
  return [{ field, code: 'INVALID_FORMAT', message: `${field} must be an IANA time zone, e.g. Europe/Berlin.` }];
}

/** @param field the field that contains the windows */
export function findWindowProblems(field: string, windows: readonly DateWindow[]): SettingProblem[] {
  return windows.flatMap(({ start, end }, index) =>
    start !== end
      ? []
      : [
          {
            field: `${field}[${index}].end`,
            code: 'OUT_OF_RANGE',
            message: `${field}[${index}].end must differ from start. Use 00:00 to 24:00 for a whole day.`,
          },
        ],
  );
}

/** Problems of hours for single dates. */
export function findDateProblems(dates: readonly DateHours[]): SettingProblem[] {
  return dates.flatMap(({ date, windows }, index) => {
    const isTwin = dates.findIndex((other) => other.date === date) < index;
    const message = `dates[${index}].date must not repeat an earlier date.`;
    return [
      ...(isTwin ? [{ field: `dates[${index}].date`, code: 'INVALID_FORMAT' as const, message }] : []),
      ...findWindowProblems(`dates[${index}].windows`, windows),
    ];
  });
}

export function findDayOffProblems(days: readonly DayOff[]): SettingProblem[] {
  return days.flatMap(({ from, to }, index) =>
    from <= to
      ? []
      : [
          {
            field: `days_off[${index}].to`,
            code: 'OUT_OF_RANGE',
            message: `days_off[${index}].to must not be before from.`,
          },
        ],
  );
}
