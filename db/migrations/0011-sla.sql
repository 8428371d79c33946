-- SLA policies, the clocks that they start on records, and what the app tells its users.

create table sla_policies (
  company_id uuid not null references companies (id) on delete cascade,
  id uuid not null,
  name text not null,
  entity_type text not null check (entity_type in ('lead', 'customer', 'deal')),
  -- null: of all priorities.
  priority int check (priority between 1 and 4),
  is_active boolean not null,
  -- Minutes.
  first_response_time int check (first_response_time > 0),
  every_response_time int check (every_response_time > 0),
  resolution_time int check (resolution_time > 0),
  mode text not null check (mode in ('24/7', 'business_hours')),
  business_hours_start text,
  business_hours_end text,
  -- 0 is Sunday.
  business_days int[],
  timezone text not null,
  -- [{type, minutes_before, recipient_user_ids}] and [{level, type, minutes_after, recipient_user_ids, message_template}]
  reminders jsonb not null default '[]',
  escalations jsonb not null default '[]',
  -- Set by changes that running clocks have yet to follow; the SLA job clears it.
  revised_at timestamptz(3),
  created_at timestamptz(3) not null,
  updated_at timestamptz(3) not null,
  primary key (company_id, id),
  check (num_nonnulls(first_response_time, every_response_time, resolution_time) > 0)
);
create unique index sla_policies_name on sla_policies (company_id, lower(name));
create index sla_policies_revised on sla_policies (revised_at) where revised_at is not null;
-- When running clocks have followed is no change of configuration.
create trigger sla_policies_version after insert or delete on sla_policies for each row execute function raise_config_version();
create trigger sla_policies_changed after update on sla_policies for each row
  when (old.revised_at is null or new.revised_at is not null) execute function raise_config_version();

-- A clock runs from its start until it is ended: satisfied, or closed because nobody waits for it any more. Neither policies nor
-- records are referred to by a key: what was measured outlives both.
create table sla_clocks (
  company_id uuid not null references companies (id) on delete cascade,
  test_mode boolean not null,
  id uuid not null,
  policy_id uuid not null,
  object text not null check (object in ('leads', 'customers', 'deals')),
  record_id uuid not null,
  kind text not null check (kind in ('first_response', 'every_response', 'resolution')),
  started_at timestamptz(3) not null,
  due_at timestamptz(3) not null,
  -- When the SLA job has to look at it: the next reminder, the deadline or the next escalation; null: never again.
  next_at timestamptz(3),
  -- Reminders and escalations up to here were given, or were not to be.
  handled_at timestamptz(3) not null,
  satisfied_at timestamptz(3),
  ended_at timestamptz(3),
  -- When the breach was found and told; once for each clock.
  breached_at timestamptz(3),
  primary key (company_id, test_mode, id),
  check (satisfied_at is null or ended_at is not null)
);
-- One of a kind runs on a record; also finds the clocks of a record.
create unique index sla_clocks_open on sla_clocks (company_id, test_mode, object, record_id, kind) where ended_at is null;
create index sla_clocks_of_policy on sla_clocks (company_id, policy_id, test_mode, id) where ended_at is null;
create index sla_clocks_due on sla_clocks (next_at) where next_at is not null;
create index sla_clocks_due_of_company on sla_clocks (company_id, test_mode, next_at) where next_at is not null;
create index sla_clocks_ended on sla_clocks (ended_at) where ended_at is not null;

-- What users read in the app; nothing here is ever sent to a customer.
create table notifications (
  company_id uuid not null,
  id uuid not null,
  user_id uuid not null,
  kind text not null,
  text text not null,
  object text,
  record_id uuid,
  created_at timestamptz(3) not null,
  read_at timestamptz(3),
  primary key (company_id, id),
  foreign key (company_id, user_id) references users (company_id, id) on delete cascade
);
create index notifications_of_user on notifications (company_id, user_id, created_at desc, id desc);
create index notifications_age on notifications (created_at);

-- What the server does by itself belongs to no request.
alter table outbox_events alter column request_id drop not null;

do $$
declare
  name text;
begin
  foreach name in array array['sla_policies', 'sla_clocks', 'notifications']
  loop
    execute format('alter table %I enable row level security', name);
    execute format('alter table %I force row level security', name);
    execute format('create policy platform on %I to crm_platform using (true) with check (true)', name);
  end loop;
end $$;
create policy tenant on sla_policies to crm_app using (company_id = current_company()) with check (company_id = current_company());
create policy tenant on notifications to crm_app using (company_id = current_company()) with check (company_id = current_company());
create policy tenant on sla_clocks to crm_app using (company_id = current_company() and test_mode = current_test_mode())
  with check (company_id = current_company() and test_mode = current_test_mode());
grant select, insert, update, delete on sla_policies to crm_app;
grant select, insert, update on sla_clocks to crm_app;
grant select, insert, update (read_at) on notifications to crm_app;
-- The platform role finds whose clocks are due, and removes what is past its time; what is on them it does not see.
grant select (company_id, id, revised_at) on sla_policies to crm_platform;
grant select (company_id, test_mode, id, next_at, ended_at), delete on sla_clocks to crm_platform;
grant select (company_id, id, created_at), delete on notifications to crm_platform;
