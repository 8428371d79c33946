// What a scheduling policy sets, and which of its settings contradict each other.
import { isTimezone } from '../service/zones-and-currencies.ts';
import type { AssignmentStrategy } from './assignment.ts';
import type { DayOff, WorkingWindow } from './working-time.ts';

export type Exposure = 'individual' | 'merged' | 'shared';
export type LocationKind = 'video' | 'phone' | 'in_person';

/** Named as the document names them. */
export interface PolicySettings {
  name: string;
  is_default: boolean;
  duration_minutes: number;
  slot_interval_minutes: number;
  buffer_before_minutes: number;
  buffer_after_minutes: number;
  min_notice_minutes: number;
  horizon_days: number;
  reservation_ttl_seconds: number;
  reservation_hard_cap_seconds: number;
  timezone: string;
  working_hours: readonly WorkingWindow[] | null;
  assignment_strategy: AssignmentStrategy;
  exposure: Exposure;
  max_bookings_per_day: number | null;
  meeting_location_kind: LocationKind;
}

/** The policy that every workspace begins with. @param timezone the company's */
export function standardPolicy(timezone: string): PolicySettings {
  return {
    name: 'Standard',
    is_default: true,
    duration_minutes: 30,
    slot_interval_minutes: 30,
    buffer_before_minutes: 0,
    buffer_after_minutes: 0,
    min_notice_minutes: 60,
    horizon_days: 60,
    reservation_ttl_seconds: 600,
    reservation_hard_cap_seconds: 1800,
    timezone,
    working_hours: [1, 2, 3, 4, 5].map((weekday) => ({ weekday, start: '09:00', end: '17:00' })),
    assignment_strategy: 'round_robin',
    exposure: 'individual',
    max_bookings_per_day: null,
    meeting_location_kind: 'video',
  };
}

/** A setting that cannot be as it is. */
export interface SettingProblem {
  field: string;
  code: 'INVALID_FORMAT' | 'OUT_OF_RANGE';
  message: string;
}

export function policyProblems(policy: PolicySettings): SettingProblem[] {
  const problems = [
    ...timezoneProblems('timezone', policy.timezone),
    ...windowProblems('working_hours', policy.working_hours ?? []),
  ];
  if (policy.reservation_hard_cap_seconds < policy.reservation_ttl_seconds) {
    const message = `reservation_hard_cap_seconds must be at least reservation_ttl_seconds (${policy.reservation_ttl_seconds}).`;
    problems.push({ field: 'reservation_hard_cap_seconds', code: 'OUT_OF_RANGE', message });
  }
  return problems;
}

export function timezoneProblems(field: string, timezone: string): SettingProblem[] {
  if (isTimezone(timezone)) return [];
  return [{ field, code: 'INVALID_FORMAT', message: `${field} must be an IANA time zone, e.g. Europe/Berlin.` }];
}

/** @param field that the windows are in */
export function windowProblems(field: string, windows: readonly WorkingWindow[]): SettingProblem[] {
  return windows.flatMap(({ start, end }, index) =>
    start < end
      ? []
      : [
          {
            field: `${field}[${index}].end`,
            code: 'OUT_OF_RANGE',
            message: `${field}[${index}].end must be after start.`,
          },
        ],
  );
}

export function dayOffProblems(days: readonly DayOff[]): SettingProblem[] {
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
