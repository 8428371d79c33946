// The shapes of a tenant's configuration: what is kept of lists, fields, conditions and policies.
import type { FieldOption, FieldType } from './builtin.ts';

/** An item of a configured list. */
export interface NamedItem {
  id: string;
  name: string;
  /** Accepted on writes. */
  isActive: boolean;
}

/** A comparison of a field with a value; ids in place of configured names, so that a rename does not break it. */
export interface KeptComparison {
  field: string;
  operator: string;
  value: unknown;
}

/** Whether all conditions of several must hold, or one of them. */
export type ConditionLogic = 'AND' | 'OR';

/** A rule of a status by itself; ids in place of configured names. */
export type SingleRule =
  | { kind: 'field'; field: string; op: string; value: unknown; message?: string }
  | { kind: 'activity'; activity_type?: string; min_count: number; within_days?: number }
  | { kind: 'attachment'; min_count: number }
  | { kind: 'tasks_completed' };

/** A rule of a status; alternatives are not nested. */
type PreConditionRule = SingleRule | { or: readonly SingleRule[] };

export interface Status {
  id: string;
  object: 'leads' | 'deals';
  name: string;
  outcome: string;
  isActive: boolean;
  position: number;
  /** Fields that a record must have a value in when it enters. */
  preConditionFields: readonly string[];
  /** What else must hold then. */
  preConditionRules: readonly PreConditionRule[];
}

export const clockKinds = ['first_response', 'every_response', 'resolution'] as const;
export type ClockKind = (typeof clockKinds)[number];

/** When a company works, by the clock on its wall. */
export interface BusinessHours {
  /** HH:MM; the first minute of work. */
  start: string;
  /** HH:MM, later than start; the first minute after work. */
  end: string;
  /** Days of the week, 0 is Sunday. */
  days: readonly number[];
  /** IANA name. */
  timezone: string;
}

export interface Reminder {
  type: ClockKind;
  minutes_before: number;
  recipient_user_ids: string[];
}

export interface Escalation {
  level: number;
  type: ClockKind;
  minutes_after: number;
  recipient_user_ids: string[];
  message_template: string;
}

export interface SlaPolicy {
  id: string;
  name: string;
  entityType: 'lead' | 'customer' | 'deal';
  /** null: all. */
  priority: number | null;
  isActive: boolean;
  /** Minutes; null: there is no such clock. */
  times: Readonly<Record<ClockKind, number | null>>;
  /** null: around the clock. */
  hours: BusinessHours | null;
  timezone: string;
  reminders: readonly Reminder[];
  escalations: readonly Escalation[];
}

/** An option as it is stored; a retired one stays readable and is not accepted on writes. */
export interface StoredOption extends FieldOption {
  retired?: boolean;
}

/** How many records one record can be linked to, from `fromObject` to `toObject`. */
export type LinkCardinality = 'one_to_one' | 'one_to_many' | 'many_to_many';

/** A link type of a workspace. */
export interface LinkType {
  id: string;
  /** The name that records of `fromObject` use. */
  name: string;
  /** The name that records of `toObject` use. */
  inverseName: string;
  fromObject: string;
  toObject: string;
  cardinality: LinkCardinality;
  isEnabled: boolean;
}

/** The rows that a workspace is built from. */
export interface WorkspaceRows {
  currency: string;
  timezone: string;
  /** As given at onboarding: free text, often an ISO code. */
  country: string | null;
  statuses: Status[];
  sources: NamedItem[];
  /** In the order that they are shown. Without conditions they are put on by hand only. */
  tags: { id: string; object: string; name: string; conditions: KeptComparison[]; logic: ConditionLogic }[];
  activityTypes: (NamedItem & { icon: string | null; color: string; isSystem: boolean; position: number })[];
  taskTypes: (NamedItem & { position: number })[];
  /** The oldest first. */
  slaPolicies: SlaPolicy[];
  /** The oldest first. */
  linkTypes: LinkType[];
  duplicateChecks: { object: string; enabled: boolean; fields: string[] }[];
  customObjects: { slug: string; label: string; plural: string; enabled: boolean }[];
  customFields: {
    object: string;
    name: string;
    label: string;
    type: FieldType;
    required: boolean;
    options: StoredOption[] | null;
    enabled: boolean;
    unique: boolean;
  }[];
  fieldOverrides: {
    object: string;
    name: string;
    label: string | null;
    required: boolean | null;
    enabled: boolean | null;
  }[];
}
