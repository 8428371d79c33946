-- Scheduling policies, pools, taken times, bookings, and external calendars.

-- The rules of booking.
create table scheduling_policies (
  company_id uuid not null references companies (id) on delete cascade,
  id uuid not null,
  name text not null,
  is_default boolean not null,
  duration_minutes int not null,
  slot_interval_minutes int not null,
  buffer_before_minutes int not null,
  buffer_after_minutes int not null,
  min_notice_minutes int not null,
  horizon_days int not null,
  reservation_ttl_seconds int not null,
  reservation_hard_cap_seconds int not null,
  timezone text not null,
  -- [{weekday, start, end}], 0 is Sunday; null: each user's own.
  working_hours jsonb,
  assignment_strategy text not null check (assignment_strategy in ('round_robin', 'least_busy', 'priority')),
  exposure text not null check (exposure in ('individual', 'merged', 'shared')),
  max_bookings_per_day int,
  meeting_location_kind text not null check (meeting_location_kind in ('video', 'phone', 'in_person')),
  -- The address of video calls; {booking_id} stands for the booking's id. null: none.
  meeting_url_template text,
  -- [{question, required}]
  questions jsonb not null default '[]',
  created_at timestamptz(3) not null,
  updated_at timestamptz(3) not null,
  primary key (company_id, id)
);
-- The policy that every tenant begins with, for the operator's company too.
insert into scheduling_policies (company_id, id, name, is_default, duration_minutes, slot_interval_minutes, buffer_before_minutes, buffer_after_minutes,
  min_notice_minutes, horizon_days, reservation_ttl_seconds, reservation_hard_cap_seconds, timezone, working_hours, assignment_strategy, exposure,
  meeting_location_kind, created_at, updated_at)
select id, gen_random_uuid(), 'Standard', true, 30, 30, 0, 0, 60, 60, 600, 1800, timezone,
  (select jsonb_agg(jsonb_build_object('weekday', day, 'start', '09:00', 'end', '17:00') order by day) from generate_series(1, 5) day),
  'round_robin', 'individual', 'video', now(), now()
from companies;
-- A tenant has one default policy.
create unique index scheduling_policies_default on scheduling_policies (company_id) where is_default;
create unique index scheduling_policies_name on scheduling_policies (company_id, fold_name(name));
alter table scheduling_policies enable row level security, force row level security;
create policy tenant on scheduling_policies to crm_app
  using (company_id = current_company())
  with check (company_id = current_company());
grant select, insert, update, delete on scheduling_policies to crm_app;

-- Groups of users who share bookings.
create table scheduling_pools (
  company_id uuid not null references companies (id) on delete cascade,
  id uuid not null,
  name text not null,
  description text,
  policy_id uuid,
  -- null: the policy's.
  assignment_strategy text check (assignment_strategy in ('round_robin', 'least_busy', 'priority')),
  -- Raised when members or weights change; turns are counted again from there.
  rotation int not null default 1,
  created_at timestamptz(3) not null,
  updated_at timestamptz(3) not null,
  primary key (company_id, id),
  foreign key (company_id, policy_id) references scheduling_policies (company_id, id)
);
create unique index scheduling_pools_name on scheduling_pools (company_id, fold_name(name));
create index scheduling_pools_policy on scheduling_pools (company_id, policy_id);
alter table scheduling_pools enable row level security, force row level security;
create policy tenant on scheduling_pools to crm_app
  using (company_id = current_company())
  with check (company_id = current_company());
grant select, insert, update, delete on scheduling_pools to crm_app;

-- Members of pools.
create table scheduling_pool_members (
  company_id uuid not null,
  pool_id uuid not null,
  user_id uuid not null,
  position int not null,
  weight int not null check (weight >= 1 and weight <= 10),
  primary key (company_id, pool_id, user_id),
  foreign key (company_id, pool_id) references scheduling_pools (company_id, id) on delete cascade,
  foreign key (company_id, user_id) references users (company_id, id) on delete cascade
);
create index scheduling_pool_members_user on scheduling_pool_members (company_id, user_id);
alter table scheduling_pool_members enable row level security, force row level security;
create policy tenant on scheduling_pool_members to crm_app
  using (company_id = current_company())
  with check (company_id = current_company());
grant select, insert, update, delete on scheduling_pool_members to crm_app;

-- How many bookings each member was assigned in this rotation. Live and test mode count separately.
create table scheduling_turns (
  company_id uuid not null,
  test_mode boolean not null,
  pool_id uuid not null,
  user_id uuid not null,
  rotation int not null,
  assigned int not null,
  primary key (company_id, test_mode, pool_id, user_id),
  foreign key (company_id, pool_id) references scheduling_pools (company_id, id) on delete cascade
);
alter table scheduling_turns enable row level security, force row level security;
create policy tenant on scheduling_turns to crm_app
  using (company_id = current_company() and test_mode = current_test_mode())
  with check (company_id = current_company() and test_mode = current_test_mode());
grant select, insert, update, delete on scheduling_turns to crm_app;

-- Why a booking was assigned to a user.
create table scheduling_assignments (
  company_id uuid not null references companies (id) on delete cascade,
  test_mode boolean not null,
  id uuid not null,
  pool_id uuid not null,
  policy_id uuid not null,
  user_id uuid not null,
  strategy text not null,
  rotation_index int not null,
  object text,
  record_id uuid,
  assigned_at timestamptz(3) not null,
  primary key (company_id, test_mode, id)
);
-- Merges of records.
create index scheduling_assignments_of_record on scheduling_assignments (company_id, test_mode, object, record_id)
  where record_id is not null;
alter table scheduling_assignments enable row level security, force row level security;
create policy tenant on scheduling_assignments to crm_app
  using (company_id = current_company() and test_mode = current_test_mode())
  with check (company_id = current_company() and test_mode = current_test_mode());
grant select, insert, update, delete on scheduling_assignments to crm_app;

-- Working hours of users.
create table user_working_hours (
  company_id uuid not null,
  user_id uuid not null,
  timezone text,
  -- [{weekday, start, end}], 0 is Sunday; null with the timezone: days off without own hours.
  weekly jsonb,
  -- [{from, to, reason}]
  days_off jsonb not null,
  -- [{date, windows: [{start, end}]}], instead of the hours of the weekday.
  dates jsonb not null default '[]',
  created_at timestamptz(3) not null,
  updated_at timestamptz(3) not null,
  primary key (company_id, user_id),
  foreign key (company_id, user_id) references users (company_id, id) on delete cascade,
  constraint user_working_hours_whole check ((timezone is null) = (weekly is null))
);
alter table user_working_hours enable row level security, force row level security;
create policy tenant on user_working_hours to crm_app
  using (company_id = current_company())
  with check (company_id = current_company());
grant select, insert, update, delete on user_working_hours to crm_app;

-- External calendars. A user without a row has the internal calendar: our own bookings.
create table user_calendars (
  company_id uuid not null,
  user_id uuid not null,
  provider text not null check (provider in ('caldav', 'test')),
  url text,
  username text,
  -- Encrypted with SECRET_KEY; never shown.
  sealed_password text,
  -- Why the last read failed; null: it succeeded.
  fault text,
  checked_at timestamptz(3) not null,
  -- Busy intervals of the last successful read: [start, end, start, end, ...] in milliseconds since 1970, in order.
  -- Numbers are read ten times faster than ranges.
  busy json not null default '[]',
  -- Until when the intervals were read. null: no read has succeeded yet, so the owner is not free.
  looked_until timestamptz(3),
  -- When to read it next.
  due_at timestamptz(3) not null,
  created_at timestamptz(3) not null,
  updated_at timestamptz(3) not null,
  primary key (company_id, user_id),
  foreign key (company_id, user_id) references users (company_id, id) on delete cascade
);
-- Calendars that are to be read again.
create index user_calendars_due on user_calendars (due_at);
-- First reads do not wait for the regular ones.
create index user_calendars_unread on user_calendars (due_at) where looked_until is null;
alter table user_calendars enable row level security, force row level security;
create policy tenant on user_calendars to crm_app
  using (company_id = current_company())
  with check (company_id = current_company());
create policy platform on user_calendars to crm_platform using (true);
grant select, insert, update, delete on user_calendars to crm_app;
grant select (company_id, user_id, looked_until, due_at) on user_calendars to crm_platform;

-- Slots that are held until they are booked or expire.
create table slot_reservations (
  company_id uuid not null references companies (id) on delete cascade,
  test_mode boolean not null,
  id uuid not null,
  status text not null check (status in ('held', 'released', 'consumed', 'expired')),
  user_id uuid not null,
  -- False: the caller does not learn the user until the slot is booked.
  is_assigned boolean not null,
  pool_id uuid not null,
  policy_id uuid not null,
  start_at timestamptz(3) not null,
  end_at timestamptz(3) not null,
  ttl_seconds int not null,
  expires_at timestamptz(3) not null,
  hard_cap_at timestamptz(3) not null,
  created_by_kind text not null,
  created_by_id text not null,
  created_by_name text,
  created_at timestamptz(3) not null,
  primary key (company_id, test_mode, id)
);
alter table slot_reservations alter column company_id set (n_distinct = 100);
-- The sweep removes old rows.
create index slot_reservations_age on slot_reservations (created_at);
create index slot_reservations_pool on slot_reservations (company_id, pool_id, expires_at) where status = 'held';
alter table slot_reservations enable row level security, force row level security;
create policy tenant on slot_reservations to crm_app
  using (company_id = current_company() and test_mode = current_test_mode())
  with check (company_id = current_company() and test_mode = current_test_mode());
create policy platform on slot_reservations to crm_platform using (true);
grant select, insert, update, delete on slot_reservations to crm_app;
grant select (company_id, test_mode, id, created_at), delete on slot_reservations to crm_platform;

-- Bookings.
create table bookings (
  company_id uuid not null references companies (id) on delete cascade,
  test_mode boolean not null,
  id uuid not null,
  status text not null check (status in ('confirmed', 'cancelled', 'rescheduled', 'completed', 'no_show')),
  user_id uuid not null,
  pool_id uuid,
  policy_id uuid not null,
  start_at timestamptz(3) not null,
  end_at timestamptz(3) not null,
  timezone text not null,
  attendee_name text not null,
  attendee_email text,
  attendee_phone text,
  attendee_timezone text,
  attendee_locale text,
  -- Email addresses of others who are invited, as a list.
  guests jsonb not null default '[]',
  -- [{question, answer}]
  answers jsonb not null default '[]',
  -- Data of the caller, which the service does not use.
  metadata jsonb not null default '{}',
  meeting_title text not null,
  meeting_description text,
  location_kind text not null,
  location text,
  meeting_url text,
  provider text not null check (provider in ('google', 'microsoft', 'caldav', 'internal', 'test')),
  calendar_event_link text,
  object text,
  record_id uuid,
  rescheduled_from uuid,
  rescheduled_to uuid,
  cancelled_at timestamptz(3),
  cancellation_reason text,
  -- Of the invitation: the id stays the same through all moves, the sequence counts its changes.
  invitation_id uuid not null,
  invitation_sequence int not null,
  created_by_kind text not null,
  created_by_id text not null,
  created_by_name text,
  created_at timestamptz(3) not null,
  updated_at timestamptz(3) not null,
  primary key (company_id, test_mode, id)
);
alter table bookings alter column company_id set (n_distinct = 100);
-- Bookings that are over and have to be completed.
create index bookings_ending on bookings (end_at) where status = 'confirmed';
-- The same of one test mode, whose clock may be ahead.
create index bookings_ending_in_test_mode on bookings (company_id, end_at) where test_mode and status = 'confirmed';
create index bookings_listed on bookings (company_id, test_mode, start_at desc, id desc);
create index bookings_of_attendee on bookings (company_id, test_mode, attendee_email, start_at desc, id desc)
  where attendee_email is not null;
create index bookings_of_pool on bookings (company_id, test_mode, pool_id, start_at desc, id desc) where pool_id is not null;
create index bookings_of_record on bookings (company_id, test_mode, object, record_id, start_at desc, id desc)
  where record_id is not null;
create index bookings_of_status on bookings (company_id, test_mode, status, start_at desc, id desc);
create index bookings_of_user on bookings (company_id, test_mode, user_id, start_at desc, id desc);
alter table bookings enable row level security, force row level security;
create policy tenant on bookings to crm_app
  using (company_id = current_company() and test_mode = current_test_mode())
  with check (company_id = current_company() and test_mode = current_test_mode());
create policy platform on bookings to crm_platform using (true);
grant select, insert, update, delete on bookings to crm_app;
grant select (company_id, test_mode, id, status, end_at) on bookings to crm_platform;

-- Busy intervals of reservations and bookings. The exclusion constraint prevents double bookings.
create table taken_times (
  company_id uuid not null references companies (id) on delete cascade,
  test_mode boolean not null,
  -- The id of the reservation or the booking.
  id uuid not null,
  user_id uuid not null,
  start_at timestamptz(3) not null,
  end_at timestamptz(3) not null,
  -- With the buffers, in milliseconds since 1970, because one search reads thousands of bounds.
  during int8range not null,
  -- Of a reservation: after this time, it no longer blocks the slot. null: a booking.
  expires_at timestamptz(3),
  primary key (company_id, test_mode, id),
  exclude using gist (company_id with =, test_mode with =, user_id with =, during with &&)
);
-- Intervals of reservations that have expired.
create index taken_times_expired on taken_times (expires_at) where expires_at is not null;
create index taken_times_of_user on taken_times (company_id, test_mode, user_id, start_at);
alter table taken_times enable row level security, force row level security;
create policy tenant on taken_times to crm_app
  using (company_id = current_company() and test_mode = current_test_mode())
  with check (company_id = current_company() and test_mode = current_test_mode());
create policy platform on taken_times to crm_platform using (true);
grant select, insert, update, delete on taken_times to crm_app;
grant select (company_id, test_mode, id, expires_at), update (expires_at), delete on taken_times to crm_platform;

-- Queue: changes to write to external calendars. Committed with the booking, done afterwards. Test mode writes none.
create table calendar_orders (
  company_id uuid not null references companies (id) on delete cascade,
  booking_id uuid not null,
  user_id uuid not null,
  action text not null check (action in ('write', 'remove')),
  -- null: it is done, or given up.
  due_at timestamptz(3),
  attempts int not null default 0,
  -- Until when one worker has it.
  leased_until timestamptz(3),
  -- The event in the calendar; null: unknown.
  event_url text,
  created_at timestamptz(3) not null,
  primary key (company_id, booking_id)
);
-- Changes that are to be written.
create index calendar_orders_due on calendar_orders (due_at) where due_at is not null;
alter table calendar_orders enable row level security, force row level security;
create policy tenant on calendar_orders to crm_app
  using (company_id = current_company())
  with check (company_id = current_company());
create policy platform on calendar_orders to crm_platform using (true);
grant select, insert, update, delete on calendar_orders to crm_app;
grant select (company_id, booking_id, due_at) on calendar_orders to crm_platform;

call open_to_purge();

-- So that the planner takes these tables for empty, and not for ten pages, until they are analyzed with rows.
analyze slot_reservations, bookings;
