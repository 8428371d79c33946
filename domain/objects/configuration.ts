// The types of a tenant's configuration: stored lists, fields, conditions and policies.
import type { FieldOption, FieldType } from './builtin.ts';

/** An item of a configured list. */
export interface NamedItem {
  id: string;
  name: string;
  /** Accepted on writes. */
  isActive: boolean;
}

/**
 * A comparison of a field with a value. It has ids instead of configured names, so that a rename
 * does not break it.
 */
export interface KeptComparison {
  field: string;
  operator: string;
  value: unknown;
}

/** AND: all conditions must hold. OR: at least one. */
export type ConditionLogic = 'AND' | 'OR';

/** A single rule of a status, with ids instead of configured names. */
export type SingleRule =
  | { kind: 'field'; field: string; op: string; value: unknown; message?: string }
  | { kind: 'activity'; activity_type?: string; min_count: number; within_days?: number }
  | { kind: 'attachment'; min_count: number }
  | { kind: 'tasks_completed' };

/** A rule of a status; alternatives are not nested. */
type PreConditionRule = SingleRule | { or: readonly SingleRule[] };

/** A sequence of stages through which deals move. */
export interface Pipeline extends NamedItem {
  /** New deals belong to it unless they name another one. One pipeline is the default. */
  isDefault: boolean;
}

export interface Status {
  id: string;
  object: 'leads' | 'deals';
  /** The pipeline of a stage of deals; null for a status of leads. */
  pipelineId: string | null;
  name: string;
  outcome: string;
  isActive: boolean;
  position: number;
  /** Fields that a record must have a value in when it enters. */
  preConditionFields: readonly string[];
  /** Other conditions for entering the status. */
  preConditionRules: readonly PreConditionRule[];
}

export const clockKinds = ['first_response', 'every_response', 'resolution'] as const;
export type ClockKind = (typeof clockKinds)[number];

/** When a company works, in local time. */
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

/** A stored option. A retired one stays readable and is not accepted on writes. */
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
  /** In display order. */
  pipelines: Pipeline[];
  /** Stages are in the order of their pipelines. */
  statuses: Status[];
  sources: NamedItem[];
  /** In display order. Tags without conditions are only applied by hand. */
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
