-- Scheduling: by which rules people can be met, who is taken when, what was booked, and the calendars that are asked and told.
create extension if not exists btree_gist;

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
  -- [{weekday, start, end}]; null: each user's own.
  working_hours jsonb,
  assignment_strategy text not null check (assignment_strategy in ('round_robin', 'least_busy', 'priority')),
  exposure text not null check (exposure in ('individual', 'merged', 'shared')),
  max_bookings_per_day int,
  meeting_location_kind text not null check (meeting_location_kind in ('video', 'phone', 'in_person')),
  created_at timestamptz(3) not null,
  updated_at timestamptz(3) not null,
  primary key (company_id, id)
);
create unique index scheduling_policies_name on scheduling_policies (company_id, lower(name));
create unique index scheduling_policies_default on scheduling_policies (company_id) where is_default;

create table scheduling_pools (
  company_id uuid not null references companies (id) on delete cascade,
  id uuid not null,
  name text not null,
  description text,
  policy_id uuid,
  -- null: the policy's.
  assignment_strategy text check (assignment_strategy in ('round_robin', 'least_busy', 'priority')),
  -- Raised when members or weights change: turns are counted anew from there on.
  rotation int not null default 1,
  created_at timestamptz(3) not null,
  updated_at timestamptz(3) not null,
  primary key (company_id, id),
  foreign key (company_id, policy_id) references scheduling_policies (company_id, id)
);
create unique index scheduling_pools_name on scheduling_pools (company_id, lower(name));
create index scheduling_pools_policy on scheduling_pools (company_id, policy_id);

create table scheduling_pool_members (
  company_id uuid not null,
  pool_id uuid not null,
  user_id uuid not null,
  position int not null,
  weight int not null check (weight between 1 and 10),
  primary key (company_id, pool_id, user_id),
  foreign key (company_id, pool_id) references scheduling_pools (company_id, id) on delete cascade,
  foreign key (company_id, user_id) references users (company_id, id) on delete cascade
);
create index scheduling_pool_members_user on scheduling_pool_members (company_id, user_id);

-- How often whose turn it was. Live and test have turns of their own.
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

create table user_working_hours (
  company_id uuid not null,
  user_id uuid not null,
  timezone text not null,
  -- [{weekday, start, end}]
  weekly jsonb not null,
  -- [{from, to, reason}]
  days_off jsonb not null,
  created_at timestamptz(3) not null,
  updated_at timestamptz(3) not null,
  primary key (company_id, user_id),
  foreign key (company_id, user_id) references users (company_id, id) on delete cascade
);

-- A calendar outside of this server. Who has none here has the internal one: our own bookings.
create table user_calendars (
  company_id uuid not null,
  user_id uuid not null,
  provider text not null check (provider in ('caldav', 'test')),
  url text,
  username text,
  -- Encrypted under SECRET_KEY; never shown.
  sealed_password text,
  -- null: the last look went well; else why it did not.
  fault text,
  checked_at timestamptz(3) not null,
  -- What the last look that went well has found, and until when: [start, end, start, end, ...] in milliseconds since 1970, in order. As numbers
  -- it is read ten times sooner than as ranges.
  busy json not null default '[]',
  looked_until timestamptz(3) not null,
  -- When it is to be looked at next.
  due_at timestamptz(3) not null,
  created_at timestamptz(3) not null,
  updated_at timestamptz(3) not null,
  primary key (company_id, user_id),
  foreign key (company_id, user_id) references users (company_id, id) on delete cascade
);
create index user_calendars_due on user_calendars (due_at);

create table slot_reservations (
  company_id uuid not null references companies (id) on delete cascade,
  test_mode boolean not null,
  id uuid not null,
  status text not null check (status in ('held', 'released', 'consumed', 'expired')),
  user_id uuid not null,
  -- False: who it is stays open to the caller until it is booked.
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
create index slot_reservations_pool on slot_reservations (company_id, pool_id, expires_at) where status = 'held';
create index slot_reservations_age on slot_reservations (created_at);

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
  -- Of the invitation: the same through all moves, and how often it was changed.
  invitation_id uuid not null,
  invitation_sequence int not null,
  created_by_kind text not null,
  created_by_id text not null,
  created_by_name text,
  created_at timestamptz(3) not null,
  updated_at timestamptz(3) not null,
  primary key (company_id, test_mode, id)
);
create index bookings_listed on bookings (company_id, test_mode, start_at desc, id desc);
create index bookings_of_user on bookings (company_id, test_mode, user_id, start_at desc, id desc);
create index bookings_of_status on bookings (company_id, test_mode, status, start_at desc, id desc);
create index bookings_ending on bookings (end_at) where status = 'confirmed';

-- When people are taken, by reservations and by bookings: nobody twice at the same time.
create table taken_times (
  company_id uuid not null references companies (id) on delete cascade,
  test_mode boolean not null,
  -- Of the reservation or of the booking.
  id uuid not null,
  user_id uuid not null,
  start_at timestamptz(3) not null,
  end_at timestamptz(3) not null,
  -- With the buffers, in milliseconds since 1970: thousands of bounds are read for one search.
  during int8range not null,
  -- Of a reservation: then it is nobody's any more. null: of a booking.
  expires_at timestamptz(3),
  primary key (company_id, test_mode, id),
  exclude using gist (company_id with =, test_mode with =, user_id with =, during with &&)
);
create index taken_times_of_user on taken_times (company_id, test_mode, user_id, start_at);
create index taken_times_expired on taken_times (expires_at) where expires_at is not null;

-- What a calendar outside is to be told of a booking: kept with the booking, done afterwards. Test mode tells none.
create table calendar_orders (
  company_id uuid not null references companies (id) on delete cascade,
  booking_id uuid not null,
  user_id uuid not null,
  action text not null check (action in ('write', 'remove')),
  -- null: it was done, or given up.
  due_at timestamptz(3),
  attempts int not null default 0,
  -- Whoever took it up is at it until then.
  leased_until timestamptz(3),
  -- Where the event is; null: nobody knows of one.
  event_url text,
  created_at timestamptz(3) not null,
  primary key (company_id, booking_id)
);
create index calendar_orders_due on calendar_orders (due_at) where due_at is not null;

do $$
declare
  name text;
begin
  foreach name in array array['scheduling_turns', 'scheduling_assignments', 'slot_reservations', 'bookings', 'taken_times']
  loop
    execute format('alter table %I enable row level security', name);
    execute format('alter table %I force row level security', name);
    execute format('create policy tenant on %I to crm_app using (company_id = current_company() and test_mode = current_test_mode())
      with check (company_id = current_company() and test_mode = current_test_mode())', name);
    execute format('grant select, insert, update, delete on %I to crm_app', name);
  end loop;
  foreach name in array array['scheduling_policies', 'scheduling_pools', 'scheduling_pool_members', 'user_working_hours', 'user_calendars', 'calendar_orders']
  loop
    execute format('alter table %I enable row level security', name);
    execute format('alter table %I force row level security', name);
    execute format('create policy tenant on %I to crm_app using (company_id = current_company()) with check (company_id = current_company())', name);
    execute format('grant select, insert, update, delete on %I to crm_app', name);
  end loop;
end $$;

-- The platform role finds whose turn it is, and removes what is past its time; what is in the rows it does not see.
do $$
declare
  name text;
begin
  foreach name in array array['user_calendars', 'calendar_orders', 'bookings', 'slot_reservations', 'taken_times']
  loop
    execute format('create policy platform on %I to crm_platform using (true)', name);
  end loop;
end $$;
grant select (company_id, user_id, due_at) on user_calendars to crm_platform;
grant select (company_id, booking_id, due_at) on calendar_orders to crm_platform;
grant select (company_id, test_mode, id, status, end_at), update (status, updated_at) on bookings to crm_platform;
grant select (company_id, test_mode, id, created_at), delete on slot_reservations to crm_platform;
grant select (company_id, test_mode, id, expires_at), update (expires_at), delete on taken_times to crm_platform;

-- The policy that every workspace begins with.
insert into scheduling_policies (company_id, id, name, is_default, duration_minutes, slot_interval_minutes, buffer_before_minutes, buffer_after_minutes,
  min_notice_minutes, horizon_days, reservation_ttl_seconds, reservation_hard_cap_seconds, timezone, working_hours, assignment_strategy, exposure,
  meeting_location_kind, created_at, updated_at)
select id, gen_random_uuid(), 'Standard', true, 30, 30, 0, 0, 60, 60, 600, 1800, timezone,
  (select jsonb_agg(jsonb_build_object('weekday', day, 'start', '09:00', 'end', '17:00') order by day) from generate_series(0, 4) day),
  'round_robin', 'individual', 'video', now(), now()
from companies;

call open_to_purge();
