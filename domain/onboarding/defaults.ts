// The initial configuration of every new workspace.

export interface DefaultStatus {
  name: string;
  outcome: string;
}

/** The default pipeline, with the stages `dealStatuses`. */
export const pipelineName = 'Sales';

/** The stages of every new pipeline. */
export const dealStatuses: readonly DefaultStatus[] = [
  { name: 'New', outcome: 'open' },
  { name: 'Contacted', outcome: 'open' },
  { name: 'Qualified', outcome: 'open' },
  { name: 'Proposal', outcome: 'open' },
  { name: 'Won', outcome: 'won' },
  { name: 'Lost', outcome: 'lost' },
];

export const leadStatuses: readonly DefaultStatus[] = [
  { name: 'New', outcome: 'open' },
  { name: 'Contacted', outcome: 'open' },
  { name: 'Qualified', outcome: 'open' },
  { name: 'Converted', outcome: 'converted' },
  { name: 'Disqualified', outcome: 'disqualified' },
];

export const activityTypes: readonly string[] = [
  'Call',
  'Email',
  'Meeting',
  'Note',
  'Task',
  'LinkedIn',
  'WhatsApp',
  'SMS',
  'Postal Mail',
  'Other',
];

export const sources: readonly string[] = ['Website', 'Referral', 'Phone', 'Email', 'Event', 'Other'];

export const taskTypes: readonly string[] = [
  'Call',
  'Email',
  'Meeting',
  'Follow-up',
  'Demo',
  'Proposal',
  'To-do',
  'Other',
];

export type Region = 'middle_east' | 'europe' | 'america';

/** Time zone and currency of a region. */
export const regions: Readonly<Record<Region, { timezone: string; currency: string }>> = {
  middle_east: { timezone: 'Asia/Dubai', currency: 'AED' },
  europe: { timezone: 'Europe/Berlin', currency: 'EUR' },
  america: { timezone: 'America/New_York', currency: 'USD' },
};
