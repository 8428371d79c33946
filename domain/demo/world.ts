// The types of the demo workspace's records, and the state of the functions that invent them.
import { Directory } from './people.ts';
import { addDays, Random } from './random.ts';
import { type Colleague, colleagues } from './workspace.ts';

/** Users are referred to by id; statuses, sources and types by name. */
interface Stamped {
  id: string;
  created_by: string;
  created_at: Date;
  updated_at: Date;
}

type Custom = Readonly<Record<string, string | number | boolean>>;

interface Located {
  city: string;
  state: string;
  country: string;
  postal_code: string;
}

export interface Lead extends Stamped, Located {
  first_name: string;
  last_name: string;
  email: string | null;
  mobile: string | null;
  company_name: string;
  job_title: string | null;
  website: string | null;
  inquiry_details: string | null;
  notes: string | null;
  source: string;
  priority: number;
  origin: string | null;
  lead_status: string;
  assigned_to: string | null;
  last_contacted_at: Date | null;
  next_followup_at: Date | null;
  converted_at: Date | null;
  custom: Custom;
}

export interface Account extends Stamped, Located {
  name: string;
  email: string;
  phone: string;
  website: string;
  industry: string;
  employee_count: number;
  annual_revenue_minor: number;
  address: string;
  description: string | null;
  assigned_to: string;
}

export interface Customer extends Stamped, Located {
  first_name: string;
  last_name: string;
  email: string;
  mobile: string;
  phone: string | null;
  company_name: string;
  account_id: string;
  job_title: string;
  website: string;
  address: string;
  source: string;
  notes: string | null;
  lead_id: string | null;
  assigned_to: string | null;
  last_contacted_at: Date | null;
}

export interface Deal extends Stamped {
  name: string;
  amount_minor: number;
  currency_code: string;
  stage: string;
  probability: number;
  /** YYYY-MM-DD. */
  expected_close_date: string;
  priority: number;
  source: string;
  lost_reason: string | null;
  customer_id: string | null;
  account_id: string | null;
  lead_id: string | null;
  assigned_to: string;
  stage_changed_at: Date;
  won_at: Date | null;
  lost_at: Date | null;
  last_contacted_at: Date | null;
  next_followup_at: Date | null;
}

export interface Task extends Stamped {
  title: string;
  task_type: string;
  status: string;
  priority: number;
  scheduled_at: Date;
  object: 'leads' | 'deals' | 'customers' | 'accounts';
  record_id: string;
  assigned_to: string;
  completed_at: Date | null;
}

/** A contact, before it is logged on a lead or a deal. */
export interface Contact {
  activity_type: string;
  summary: string;
  details: string | null;
  performed_at: Date;
  followup_at: Date | null;
  /** When it was logged. */
  created_at: Date;
}

export interface Activity extends Stamped, Contact {
  entity_type: 'lead' | 'deal';
  entity_id: string;
}

interface OnRecord {
  object: string;
  record_id: string;
}

export interface Note extends Stamped, OnRecord {
  content: string;
}

export interface Message extends OnRecord {
  id: string;
  channel: 'email';
  direction: 'inbound' | 'outbound';
  sender: string;
  recipient: string;
  subject: string;
  body: string;
  status: string;
  occurred_at: Date;
}

export interface Attachment extends Omit<Stamped, 'updated_at'>, OnRecord {
  file_name: string;
  content_type: string;
}

/** A record of the custom object. */
export interface Visit extends Stamped {
  object: string;
  custom: Custom;
}

/** A tag on a record. */
export interface Tagged {
  object: 'leads' | 'customers';
  record_id: string;
  tag: string;
  is_manual: boolean;
}

export interface DemoUser extends Colleague {
  id: string;
  createdAt: Date;
}

/** The state while records are invented. */
export interface World {
  random: Random;
  now: Date;
  directory: Directory;
  /** When the company was set up. */
  founded: Date;
  adminId: string;
  users: readonly DemoUser[];
  /** Returns the sales people for a country. */
  listSellers(country: string): readonly string[];
}

export function newWorld(seed: number, now: Date): World {
  const random = new Random(seed);
  const founded = random.moment(addDays(now, -203), addDays(now, -200));
  const adminId = random.uuid(founded);
  const users = colleagues.map((colleague, index) => {
    const createdAt = random.moment(addDays(founded, index * 3 + 1), addDays(founded, index * 3 + 4));
    return { ...colleague, id: colleague.id ?? random.uuid(createdAt), createdAt };
  });
  const main = users.filter((user) => user.branch === 'main').map((user) => user.id);
  const second = users.filter((user) => user.branch === 'second').map((user) => user.id);
  return {
    random,
    now,
    directory: new Directory(random),
    founded,
    adminId,
    users,
    listSellers: (country) => (country === 'GB' || country === 'IE' ? second : main),
  };
}
