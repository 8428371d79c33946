-- Configured lists, duplicate checks, SLA policies and their clocks.
--
-- The triggers *_version raise the version of the tenant's configuration. Names of a list are unique without case.

-- Sequences of stages through which deals move.
create table pipelines (
  company_id uuid not null references companies (id) on delete cascade,
  id uuid not null,
  name text not null,
  is_default boolean not null default false,
  order_position int not null,
  created_at timestamptz(3) not null,
  updated_at timestamptz(3) not null,
  primary key (company_id, id)
);
create unique index pipelines_default on pipelines (company_id) where is_default;
create unique index pipelines_name on pipelines (company_id, fold_name(name));
alter table pipelines enable row level security, force row level security;
create policy tenant on pipelines to crm_app
  using (company_id = current_company())
  with check (company_id = current_company());
grant select, insert, update, delete on pipelines to crm_app;
create trigger pipelines_version after insert or delete or update on pipelines for each row
  execute function raise_config_version();

-- Statuses of leads and stages of deals. Each stage belongs to a pipeline.
create table statuses (
  company_id uuid not null references companies (id) on delete cascade,
  id uuid not null,
  object text not null check (object in ('leads', 'deals')),
  pipeline_id uuid,
  name text not null,
  description text,
  order_position int not null,
  is_active boolean not null default true,
  color text not null default '#9CA3AF',
  outcome text not null default 'open',
  pre_condition_fields text[] not null default '{}',
  pre_condition_rules jsonb not null default '[]',
  created_at timestamptz(3) not null,
  updated_at timestamptz(3) not null,
  primary key (company_id, id),
  -- Deals refer to it, so that their pipeline is always that of their stage.
  unique (company_id, pipeline_id, id),
  foreign key (company_id, pipeline_id) references pipelines (company_id, id),
  check ((object = 'deals') = (pipeline_id is not null))
);
create unique index statuses_name on statuses (company_id, object, pipeline_id, fold_name(name)) nulls not distinct;
alter table statuses enable row level security, force row level security;
create policy tenant on statuses to crm_app
  using (company_id = current_company())
  with check (company_id = current_company());
grant select, insert, update, delete on statuses to crm_app;
create trigger statuses_version after insert or delete or update on statuses for each row
  execute function raise_config_version();

-- Which records of which objects can be linked. Each side has a name: records of from_object use `name`, those of
-- to_object use `inverse_name`. The references of records are link types too, but those are part of the code.
create table link_types (
  company_id uuid not null references companies (id) on delete cascade,
  id uuid not null,
  name text not null,
  inverse_name text not null,
  label text not null,
  inverse_label text not null,
  from_object text not null,
  to_object text not null,
  cardinality text not null check (cardinality in ('one_to_one', 'one_to_many', 'many_to_many')),
  is_enabled boolean not null default true,
  created_at timestamptz(3) not null,
  updated_at timestamptz(3) not null,
  primary key (company_id, id)
);
alter table link_types enable row level security, force row level security;
create policy tenant on link_types to crm_app
  using (company_id = current_company())
  with check (company_id = current_company());
grant select, insert, update, delete on link_types to crm_app;
create trigger link_types_version after insert or delete or update on link_types for each row
  execute function raise_config_version();

-- Where leads, customers and deals come from.
create table sources (
  company_id uuid not null references companies (id) on delete cascade,
  id uuid not null,
  name text not null,
  description text,
  is_enabled boolean not null default true,
  created_at timestamptz(3) not null,
  updated_at timestamptz(3) not null,
  primary key (company_id, id)
);
create unique index sources_name on sources (company_id, fold_name(name));
alter table sources enable row level security, force row level security;
create policy tenant on sources to crm_app
  using (company_id = current_company())
  with check (company_id = current_company());
grant select, insert, update, delete on sources to crm_app;
create trigger sources_version after insert or delete or update on sources for each row
  execute function raise_config_version();

-- Tags, with the conditions that apply them automatically.
create table tags (
  company_id uuid not null references companies (id) on delete cascade,
  id uuid not null,
  object text not null check (object in ('leads', 'customers')),
  name text not null,
  description text,
  color text not null default '#9CA3AF',
  priority int not null default 100,
  fields jsonb not null default '[]',
  conditions jsonb not null default '[]',
  condition_logic text not null default 'AND',
  created_at timestamptz(3) not null,
  updated_at timestamptz(3) not null,
  primary key (company_id, id)
);
create unique index tags_name on tags (company_id, object, fold_name(name));
alter table tags enable row level security, force row level security;
create policy tenant on tags to crm_app
  using (company_id = current_company())
  with check (company_id = current_company());
grant select, insert, update, delete on tags to crm_app;
create trigger tags_version after insert or delete or update on tags for each row
  execute function raise_config_version();

-- Types of activities.
create table activity_types (
  company_id uuid not null references companies (id) on delete cascade,
  id uuid not null,
  name text not null,
  icon text,
  color text not null default '#9CA3AF',
  is_active boolean not null default true,
  is_system boolean not null default false,
  order_position int not null,
  primary key (company_id, id)
);
create unique index activity_types_name on activity_types (company_id, fold_name(name));
alter table activity_types enable row level security, force row level security;
create policy tenant on activity_types to crm_app
  using (company_id = current_company())
  with check (company_id = current_company());
grant select, insert, update, delete on activity_types to crm_app;
create trigger activity_types_version after insert or delete or update on activity_types for each row
  execute function raise_config_version();

-- Types of tasks.
create table task_types (
  company_id uuid not null references companies (id) on delete cascade,
  id uuid not null,
  name text not null,
  is_active boolean not null default true,
  order_position int not null,
  primary key (company_id, id)
);
create unique index task_types_name on task_types (company_id, fold_name(name));
alter table task_types enable row level security, force row level security;
create policy tenant on task_types to crm_app
  using (company_id = current_company())
  with check (company_id = current_company());
grant select, insert, update, delete on task_types to crm_app;
create trigger task_types_version after insert or delete or update on task_types for each row
  execute function raise_config_version();

-- The fields that new leads and deals are compared by.
create table duplicate_checks (
  company_id uuid not null references companies (id) on delete cascade,
  object text not null check (object in ('leads', 'deals')),
  enabled boolean not null default false,
  fields text[] not null default '{}',
  primary key (company_id, object)
);
alter table duplicate_checks enable row level security, force row level security;
create policy tenant on duplicate_checks to crm_app
  using (company_id = current_company())
  with check (company_id = current_company());
grant select, insert, update, delete on duplicate_checks to crm_app;
create trigger duplicate_checks_version after insert or delete or update on duplicate_checks for each row
  execute function raise_config_version();

-- SLA policies: the time within which a record needs a response or must be closed.
create table sla_policies (
  company_id uuid not null references companies (id) on delete cascade,
  id uuid not null,
  name text not null,
  entity_type text not null check (entity_type in ('lead', 'customer', 'deal')),
  -- null: all priorities.
  priority int check (priority >= 1 and priority <= 4),
  is_active boolean not null,
  -- Minutes.
  first_response_time int check (first_response_time > 0),
  every_response_time int check (every_response_time > 0),
  resolution_time int check (resolution_time > 0),
  mode text not null check (mode in ('24/7', 'business_hours')),
  business_hours_start text,
  business_hours_end text,
  -- 0 is Sunday.
  business_days integer[],
  timezone text not null,
  -- [{type, minutes_before, recipient_user_ids}]
  reminders jsonb not null default '[]',
  -- [{level, type, minutes_after, recipient_user_ids, message_template}]
  escalations jsonb not null default '[]',
  -- Set by changes that running clocks have to follow; the SLA job clears it.
  revised_at timestamptz(3),
  created_at timestamptz(3) not null,
  updated_at timestamptz(3) not null,
  primary key (company_id, id),
  check (num_nonnulls(first_response_time, every_response_time, resolution_time) > 0)
);
create unique index sla_policies_name on sla_policies (company_id, fold_name(name));
-- Policies whose running clocks have to follow a change.
create index sla_policies_revised on sla_policies (revised_at) where revised_at is not null;
alter table sla_policies enable row level security, force row level security;
create policy tenant on sla_policies to crm_app
  using (company_id = current_company())
  with check (company_id = current_company());
create policy platform on sla_policies to crm_platform using (true) with check (true);
grant select, insert, update, delete on sla_policies to crm_app;
grant select (company_id, id, revised_at) on sla_policies to crm_platform;
create trigger sla_policies_changed after update on sla_policies for each row
  when (old.revised_at is null or new.revised_at is not null)
  execute function raise_config_version();
create trigger sla_policies_version after insert or delete on sla_policies for each row
  execute function raise_config_version();

-- A clock runs from its start until it ends: it is satisfied, or closed because it no longer
-- applies. No foreign keys to policies and records, because measurements outlive both.
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
  -- When the SLA job must process it: the next reminder, the deadline or the next escalation. null:
  -- never again.
  next_at timestamptz(3),
  -- Reminders and escalations up to this time are done.
  handled_at timestamptz(3) not null,
  satisfied_at timestamptz(3),
  ended_at timestamptz(3),
  -- When the breach was found and announced; once for each clock.
  breached_at timestamptz(3),
  primary key (company_id, test_mode, id),
  check (satisfied_at is null or ended_at is not null)
);
alter table sla_clocks alter column company_id set (n_distinct = 100);
-- Clocks that the SLA job must process.
create index sla_clocks_due on sla_clocks (next_at) where next_at is not null;
create index sla_clocks_due_of_company on sla_clocks (company_id, test_mode, next_at) where next_at is not null;
-- The sweep removes old rows.
create index sla_clocks_ended on sla_clocks (ended_at) where ended_at is not null;
create index sla_clocks_of_policy on sla_clocks (company_id, policy_id, test_mode, id) where ended_at is null;
-- Records by their deadlines.
create index sla_clocks_deadlines on sla_clocks (company_id, test_mode, object, due_at, record_id) where ended_at is null;
-- The last clock of each kind of a record.
create index sla_clocks_of_record on sla_clocks (company_id, test_mode, object, record_id, kind, started_at desc, id desc);
-- A record has one running clock of each kind.
create unique index sla_clocks_open on sla_clocks (company_id, test_mode, object, record_id, kind)
  where ended_at is null;
alter table sla_clocks enable row level security, force row level security;
create policy tenant on sla_clocks to crm_app
  using (company_id = current_company() and test_mode = current_test_mode())
  with check (company_id = current_company() and test_mode = current_test_mode());
create policy platform on sla_clocks to crm_platform using (true) with check (true);
grant select, insert, update, delete on sla_clocks to crm_app;
grant select (company_id, test_mode, id, next_at, ended_at), delete on sla_clocks to crm_platform;

-- In-app notifications of users. Never sent to a customer.
create table notifications (
  company_id uuid not null,
  id uuid not null,
  user_id uuid not null,
  kind text not null,
  title text not null,
  object text,
  record_id uuid,
  -- The import, webhook endpoint or API key that it is about.
  subject_id uuid,
  created_at timestamptz(3) not null,
  read_at timestamptz(3),
  primary key (company_id, id),
  foreign key (company_id, user_id) references users (company_id, id) on delete cascade
);
-- The sweep removes old rows.
create index notifications_age on notifications (created_at);
-- Merges of records.
create index notifications_of_record on notifications (company_id, object, record_id) where record_id is not null;
create index notifications_of_user on notifications (company_id, user_id, created_at desc, id desc);
create index notifications_unread on notifications (company_id, user_id, created_at desc, id desc) where read_at is null;
alter table notifications enable row level security, force row level security;
create policy tenant on notifications to crm_app
  using (company_id = current_company())
  with check (company_id = current_company());
create policy platform on notifications to crm_platform using (true) with check (true);
grant select, insert, update (read_at, record_id) on notifications to crm_app;
grant select (company_id, id, created_at), delete on notifications to crm_platform;

call open_to_purge();

-- So that the planner takes these tables for empty, and not for ten pages, until they are analyzed with rows.
analyze sla_clocks;
