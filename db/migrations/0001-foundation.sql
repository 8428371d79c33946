-- The foundation: companies, people, credentials, configuration, the six built-in objects, custom objects, and what every write leaves behind.
--
-- Rules of the schema:
--   every tenant table has company_id first in its primary, unique and foreign keys, so that no row can refer to another tenant's;
--   data tables also carry test_mode in those keys, so that live rows cannot refer to test rows;
--   row-level security is enabled and forced on all of them, and the server's roles own nothing.

create extension if not exists pg_trgm;

-- crm_app serves tenants' requests; crm_platform looks up credentials and sign-ins, the one place that looks across tenants.
do $$
begin
  if not exists (select from pg_roles where rolname = 'crm_app') then create role crm_app nologin; end if;
  if not exists (select from pg_roles where rolname = 'crm_platform') then create role crm_platform nologin; end if;
end $$;
grant crm_app, crm_platform to current_user;

create function current_company() returns uuid language sql stable parallel safe
  return nullif(current_setting('app.company_id', true), '')::uuid;
create function current_test_mode() returns boolean language sql stable parallel safe
  return nullif(current_setting('app.test_mode', true), '')::boolean;

-- Keys of the server itself, encrypted under SECRET_KEY.
create table server_secrets (
  name text primary key,
  sealed text not null,
  created_at timestamptz(3) not null default now()
);

create table companies (
  id uuid primary key,
  name text not null,
  email text not null,
  phone text,
  website text,
  address text,
  city text,
  state text,
  country text,
  postal_code text,
  region text not null,
  industry text not null,
  timezone text not null,
  currency text not null,
  status text not null default 'active',
  -- Raised by every change of configuration; the credential look-up reads it, so that what is kept in memory is never stale.
  config_version bigint not null default 1,
  disabled_modules text[] not null default '{}',
  created_at timestamptz(3) not null,
  updated_at timestamptz(3) not null
);

-- The company that the operator's own keys belong to.
insert into companies (id, name, email, region, industry, timezone, currency, created_at, updated_at)
values ('00000000-0000-7000-8000-000000000000', 'Platform', 'platform@localhost', 'europe', 'platform', 'UTC', 'EUR', now(), now());

create table subscriptions (
  company_id uuid primary key references companies (id) on delete cascade,
  status text not null,
  package_code text not null,
  -- Where an agreement says something other than the package.
  api_rate_limit_per_minute int check (api_rate_limit_per_minute > 0),
  billing_cycle text not null default 'monthly',
  trial_ends_at timestamptz(3),
  period_start timestamptz(3) not null,
  period_end timestamptz(3) not null,
  created_at timestamptz(3) not null,
  updated_at timestamptz(3) not null
);

create table branches (
  company_id uuid not null references companies (id) on delete cascade,
  id uuid not null,
  name text not null,
  code text,
  is_default boolean not null default false,
  is_active boolean not null default true,
  city text,
  country text,
  timezone text,
  created_at timestamptz(3) not null,
  primary key (company_id, id)
);

create table teams (
  company_id uuid not null references companies (id) on delete cascade,
  id uuid not null,
  branch_id uuid not null,
  name text not null,
  created_at timestamptz(3) not null,
  primary key (company_id, id),
  foreign key (company_id, branch_id) references branches (company_id, id)
);

create table users (
  company_id uuid not null references companies (id) on delete cascade,
  id uuid not null,
  email text not null,
  full_name text not null,
  status text not null default 'active' check (status in ('active', 'inactive')),
  branch_id uuid,
  team_id uuid,
  metadata jsonb not null default '{}',
  last_sign_in_at timestamptz(3),
  created_at timestamptz(3) not null,
  updated_at timestamptz(3) not null,
  primary key (company_id, id),
  unique (company_id, email),
  foreign key (company_id, branch_id) references branches (company_id, id),
  foreign key (company_id, team_id) references teams (company_id, id)
);
create index users_oldest_active on users (company_id, created_at, id) where status = 'active';
create index users_of_branch on users (company_id, branch_id);
create index users_of_team on users (company_id, team_id);

-- Roles are the same for every company.
create table roles (
  id uuid primary key,
  name text not null unique,
  is_hidden boolean not null default false
);
insert into roles (id, name, is_hidden) values
  ('01900000-0000-7000-8000-000000000001', 'Company_Admin', false),
  ('01900000-0000-7000-8000-000000000002', 'Branch_Manager', false),
  ('01900000-0000-7000-8000-000000000003', 'Sales_Manager', false),
  ('01900000-0000-7000-8000-000000000004', 'Sales_Rep', false),
  ('01900000-0000-7000-8000-000000000005', 'Viewer', false),
  ('01900000-0000-7000-8000-000000000006', 'Super_Admin', true);

create table user_roles (
  company_id uuid not null,
  user_id uuid not null,
  role_id uuid not null references roles (id),
  primary key (company_id, user_id, role_id),
  foreign key (company_id, user_id) references users (company_id, id) on delete cascade
);

-- How people sign in. One address is one person on the whole platform, so the key here is the address alone.
create table sign_ins (
  email text primary key,
  company_id uuid not null,
  user_id uuid not null,
  password_hash text not null,
  must_change_password boolean not null,
  created_at timestamptz(3) not null,
  unique (company_id, user_id),
  foreign key (company_id, user_id) references users (company_id, id) on delete cascade
);

create table sessions (
  company_id uuid not null,
  id uuid not null,
  user_id uuid not null,
  created_at timestamptz(3) not null,
  expires_at timestamptz(3) not null,
  ended_at timestamptz(3),
  primary key (company_id, id),
  foreign key (company_id, user_id) references users (company_id, id) on delete cascade
);
create index sessions_by_id on sessions (id);
create index sessions_age on sessions (expires_at);

create table refresh_tokens (
  token_hash bytea primary key,
  company_id uuid not null,
  session_id uuid not null,
  issued_at timestamptz(3) not null,
  used_at timestamptz(3),
  foreign key (company_id, session_id) references sessions (company_id, id) on delete cascade
);
create index refresh_tokens_of_session on refresh_tokens (company_id, session_id);

create table api_keys (
  company_id uuid not null references companies (id) on delete cascade,
  id uuid not null,
  -- The look-up knows nothing but the hash, so this key is unique across companies.
  key_hash bytea not null unique,
  name text not null,
  description text,
  environment text not null check (environment in ('live', 'test')),
  prefix text not null,
  last4 text not null,
  scopes text[] not null,
  rate_limit_per_minute int not null,
  rate_limit_per_hour int not null,
  rate_limit_per_day int,
  ip_allowlist text[] not null default '{}',
  reach_kind text not null default 'company' check (reach_kind in ('company', 'branch', 'team')),
  reach_id uuid,
  expires_at timestamptz(3),
  created_by_id text not null,
  created_by_name text,
  created_at timestamptz(3) not null,
  updated_at timestamptz(3) not null,
  revoked_at timestamptz(3),
  revoked_by text,
  revoke_reason text,
  is_legacy boolean not null default false,
  primary key (company_id, id)
);
create index api_keys_listed on api_keys (company_id, created_at desc, id desc);

-- Counted apart from the key, so that the key's row is not rewritten by its use.
create table api_key_usage (
  company_id uuid not null,
  api_key_id uuid not null,
  total_requests bigint not null default 0,
  last_used_at timestamptz(3),
  last_used_ip text,
  primary key (company_id, api_key_id),
  foreign key (company_id, api_key_id) references api_keys (company_id, id) on delete cascade
) with (fillfactor = 50);

create table statuses (
  company_id uuid not null references companies (id) on delete cascade,
  id uuid not null,
  object text not null check (object in ('leads', 'deals')),
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
  primary key (company_id, id)
);
create unique index statuses_name on statuses (company_id, object, lower(name));

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
create unique index sources_name on sources (company_id, lower(name));

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
create unique index tags_name on tags (company_id, object, lower(name));

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
create unique index activity_types_name on activity_types (company_id, lower(name));

create table task_types (
  company_id uuid not null references companies (id) on delete cascade,
  id uuid not null,
  name text not null,
  is_active boolean not null default true,
  order_position int not null,
  primary key (company_id, id)
);
create unique index task_types_name on task_types (company_id, lower(name));

create table duplicate_checks (
  company_id uuid not null references companies (id) on delete cascade,
  object text not null check (object in ('leads', 'deals')),
  enabled boolean not null default false,
  fields text[] not null default '{}',
  primary key (company_id, object)
);

create table custom_objects (
  company_id uuid not null references companies (id) on delete cascade,
  slug text not null,
  label text not null,
  plural text not null,
  enabled boolean not null default true,
  created_at timestamptz(3) not null,
  updated_at timestamptz(3) not null,
  primary key (company_id, slug)
);

-- object is the API's name: leads, or object:visits.
create table custom_fields (
  company_id uuid not null references companies (id) on delete cascade,
  object text not null,
  name text not null,
  label text not null,
  type text not null,
  required boolean not null default false,
  -- [{label, value, retired?}]; retired options stay readable and are not accepted on writes.
  options jsonb,
  enabled boolean not null default true,
  -- The order of creation, which is the order to show fields in.
  seq bigint generated always as identity,
  created_at timestamptz(3) not null,
  updated_at timestamptz(3) not null,
  primary key (company_id, object, name)
);

-- What a tenant changed about a built-in field.
create table field_overrides (
  company_id uuid not null references companies (id) on delete cascade,
  object text not null,
  name text not null,
  label text,
  required boolean,
  enabled boolean,
  updated_at timestamptz(3) not null,
  primary key (company_id, object, name)
);

-- Any change of configuration raises the company's version, whoever makes it.
create function raise_config_version() returns trigger language plpgsql as $$
begin
  update companies set config_version = config_version + 1
  where id = case tg_op when 'DELETE' then old.company_id else new.company_id end;
  return null;
end $$;
do $$
declare configuration text;
begin
  foreach configuration in array array['statuses', 'sources', 'tags', 'activity_types', 'task_types', 'duplicate_checks', 'custom_objects', 'custom_fields', 'field_overrides']
  loop
    execute format('create trigger %I after insert or update or delete on %I for each row execute function raise_config_version()',
      configuration || '_version', configuration);
  end loop;
end $$;

create table accounts (
  company_id uuid not null references companies (id) on delete cascade,
  test_mode boolean not null,
  id uuid not null,
  name text,
  email text,
  phone text,
  website text,
  industry text,
  employee_count bigint,
  annual_revenue_minor bigint,
  address text,
  city text,
  state text,
  country text,
  postal_code text,
  description text,
  assigned_to uuid,
  custom jsonb not null default '{}',
  version int not null default 1,
  created_by_kind text not null,
  created_by_id text not null,
  created_by_name text,
  created_at timestamptz(3) not null,
  updated_at timestamptz(3) not null,
  primary key (company_id, test_mode, id),
  foreign key (company_id, assigned_to) references users (company_id, id)
);

create table leads (
  company_id uuid not null references companies (id) on delete cascade,
  test_mode boolean not null,
  id uuid not null,
  first_name text,
  last_name text,
  email text,
  mobile text,
  company_name text,
  job_title text,
  website text,
  city text,
  state text,
  country text,
  postal_code text,
  inquiry_details text,
  notes text,
  source_id uuid,
  priority int,
  origin text,
  lead_status_id uuid,
  assigned_to uuid,
  last_contacted_at timestamptz(3),
  next_followup_at timestamptz(3),
  converted_at timestamptz(3),
  converted_customer_id uuid,
  custom jsonb not null default '{}',
  version int not null default 1,
  created_by_kind text not null,
  created_by_id text not null,
  created_by_name text,
  created_at timestamptz(3) not null,
  updated_at timestamptz(3) not null,
  primary key (company_id, test_mode, id),
  foreign key (company_id, source_id) references sources (company_id, id),
  foreign key (company_id, lead_status_id) references statuses (company_id, id),
  foreign key (company_id, assigned_to) references users (company_id, id)
);

create table customers (
  company_id uuid not null references companies (id) on delete cascade,
  test_mode boolean not null,
  id uuid not null,
  first_name text,
  last_name text,
  email text,
  mobile text,
  phone text,
  company_name text,
  account_id uuid,
  job_title text,
  website text,
  address text,
  city text,
  state text,
  country text,
  postal_code text,
  source_id uuid,
  notes text,
  assigned_to uuid,
  lead_id uuid,
  last_contacted_at timestamptz(3),
  custom jsonb not null default '{}',
  version int not null default 1,
  created_by_kind text not null,
  created_by_id text not null,
  created_by_name text,
  created_at timestamptz(3) not null,
  updated_at timestamptz(3) not null,
  primary key (company_id, test_mode, id),
  foreign key (company_id, source_id) references sources (company_id, id),
  foreign key (company_id, assigned_to) references users (company_id, id),
  foreign key (company_id, test_mode, account_id) references accounts (company_id, test_mode, id) on delete set null (account_id),
  foreign key (company_id, test_mode, lead_id) references leads (company_id, test_mode, id) on delete set null (lead_id)
);
alter table leads add foreign key (company_id, test_mode, converted_customer_id)
  references customers (company_id, test_mode, id) on delete set null (converted_customer_id);

create table deals (
  company_id uuid not null references companies (id) on delete cascade,
  test_mode boolean not null,
  id uuid not null,
  name text,
  amount_minor bigint,
  currency_code text,
  stage_id uuid,
  probability int,
  expected_close_date date,
  priority int,
  source_id uuid,
  lost_reason text,
  description text,
  customer_id uuid,
  account_id uuid,
  lead_id uuid,
  assigned_to uuid,
  stage_changed_at timestamptz(3),
  won_at timestamptz(3),
  lost_at timestamptz(3),
  last_contacted_at timestamptz(3),
  next_followup_at timestamptz(3),
  custom jsonb not null default '{}',
  version int not null default 1,
  created_by_kind text not null,
  created_by_id text not null,
  created_by_name text,
  created_at timestamptz(3) not null,
  updated_at timestamptz(3) not null,
  primary key (company_id, test_mode, id),
  foreign key (company_id, stage_id) references statuses (company_id, id),
  foreign key (company_id, source_id) references sources (company_id, id),
  foreign key (company_id, assigned_to) references users (company_id, id),
  foreign key (company_id, test_mode, customer_id) references customers (company_id, test_mode, id) on delete set null (customer_id),
  foreign key (company_id, test_mode, account_id) references accounts (company_id, test_mode, id) on delete set null (account_id),
  foreign key (company_id, test_mode, lead_id) references leads (company_id, test_mode, id) on delete set null (lead_id)
);

create table tasks (
  company_id uuid not null references companies (id) on delete cascade,
  test_mode boolean not null,
  id uuid not null,
  title text,
  description text,
  task_type_id uuid,
  status text not null default 'open',
  priority int,
  scheduled_at timestamptz(3),
  object text,
  record_id uuid,
  assigned_to uuid,
  completed_at timestamptz(3),
  custom jsonb not null default '{}',
  version int not null default 1,
  created_by_kind text not null,
  created_by_id text not null,
  created_by_name text,
  created_at timestamptz(3) not null,
  updated_at timestamptz(3) not null,
  primary key (company_id, test_mode, id),
  foreign key (company_id, task_type_id) references task_types (company_id, id),
  foreign key (company_id, assigned_to) references users (company_id, id)
);
create index tasks_of_record on tasks (company_id, test_mode, object, record_id, created_at desc, id desc);

create table activities (
  company_id uuid not null references companies (id) on delete cascade,
  test_mode boolean not null,
  id uuid not null,
  activity_type_id uuid not null,
  entity_type text not null check (entity_type in ('lead', 'deal')),
  entity_id uuid not null,
  summary text,
  details text,
  performed_at timestamptz(3) not null,
  followup_at timestamptz(3),
  custom jsonb not null default '{}',
  version int not null default 1,
  created_by_kind text not null,
  created_by_id text not null,
  created_by_name text,
  created_at timestamptz(3) not null,
  updated_at timestamptz(3) not null,
  primary key (company_id, test_mode, id),
  foreign key (company_id, activity_type_id) references activity_types (company_id, id)
);
create index activities_of_entity on activities (company_id, test_mode, entity_type, entity_id, performed_at desc, id desc);
create index activities_performed on activities (company_id, test_mode, performed_at desc, id desc);

create table custom_records (
  company_id uuid not null references companies (id) on delete cascade,
  test_mode boolean not null,
  object text not null,
  id uuid not null,
  custom jsonb not null default '{}',
  version int not null default 1,
  created_by_kind text not null,
  created_by_id text not null,
  created_by_name text,
  created_at timestamptz(3) not null,
  updated_at timestamptz(3) not null,
  primary key (company_id, test_mode, object, id)
);
create index custom_records_created on custom_records (company_id, test_mode, object, created_at desc, id desc);
create index custom_records_updated on custom_records (company_id, test_mode, object, updated_at desc, id desc);

do $$
declare data text;
begin
  foreach data in array array['leads', 'deals', 'customers', 'accounts', 'tasks', 'activities']
  loop
    execute format('create index %I on %I (company_id, test_mode, created_at desc, id desc)', data || '_created', data);
    execute format('create index %I on %I (company_id, test_mode, updated_at desc, id desc)', data || '_updated', data);
  end loop;
  foreach data in array array['leads', 'deals', 'customers', 'accounts', 'tasks']
  loop
    execute format('create index %I on %I (company_id, test_mode, assigned_to, created_at desc, id desc)', data || '_assigned', data);
  end loop;
  foreach data in array array['leads', 'customers', 'accounts']
  loop
    execute format('create index %I on %I (company_id, test_mode, email) where email is not null', data || '_email', data);
  end loop;
end $$;
create index leads_mobile on leads (company_id, test_mode, mobile) where mobile is not null;
create index leads_of_status on leads (company_id, test_mode, lead_status_id, created_at desc, id desc);
create index leads_of_source on leads (company_id, source_id) where source_id is not null;
create index deals_of_stage on deals (company_id, test_mode, stage_id, created_at desc, id desc);
create index deals_of_source on deals (company_id, source_id) where source_id is not null;
create index deals_of_customer on deals (company_id, test_mode, customer_id) where customer_id is not null;
create index deals_of_account on deals (company_id, test_mode, account_id) where account_id is not null;
create index deals_of_lead on deals (company_id, test_mode, lead_id) where lead_id is not null;
create index customers_of_account on customers (company_id, test_mode, account_id) where account_id is not null;
create index customers_of_lead on customers (company_id, test_mode, lead_id) where lead_id is not null;
create index leads_of_customer on leads (company_id, test_mode, converted_customer_id) where converted_customer_id is not null;

create table record_tags (
  company_id uuid not null,
  test_mode boolean not null,
  object text not null,
  record_id uuid not null,
  tag_id uuid not null,
  -- False for tags that conditions put on.
  is_manual boolean not null,
  primary key (company_id, test_mode, object, record_id, tag_id),
  foreign key (company_id, tag_id) references tags (company_id, id) on delete cascade
);

create table idempotency_records (
  company_id uuid not null,
  test_mode boolean not null,
  endpoint text not null,
  key text not null,
  request_hash bytea not null,
  status int not null,
  body text not null,
  created_at timestamptz(3) not null,
  primary key (company_id, test_mode, endpoint, key)
);
create index idempotency_records_age on idempotency_records (created_at);

create table audit_logs (
  company_id uuid not null,
  id uuid not null,
  seq bigint generated always as identity,
  occurred_at timestamptz(3) not null,
  actor_kind text not null,
  actor_id text not null,
  api_key_id uuid,
  key_name text,
  request_id uuid not null,
  ip text not null,
  user_agent text,
  action text not null,
  object text,
  record_id text,
  changes jsonb,
  metadata jsonb,
  test_mode boolean not null,
  idempotency_key_hash bytea,
  primary key (company_id, occurred_at, id)
) partition by range (occurred_at);
create table audit_logs_other partition of audit_logs default;

-- Makes the partitions of this month and the next; called at every start and daily.
create function make_audit_partitions(day date) returns void language plpgsql security definer set search_path = public as $$
declare
  month date;
begin
  foreach month in array array[date_trunc('month', day)::date, (date_trunc('month', day) + interval '1 month')::date] loop
    if to_regclass('audit_logs_' || to_char(month, 'YYYY_MM')) is null then
      execute format('create table %I partition of audit_logs for values from (%L) to (%L)',
        'audit_logs_' || to_char(month, 'YYYY_MM'), month, (month + interval '1 month')::date);
      execute format('alter table %I enable row level security', 'audit_logs_' || to_char(month, 'YYYY_MM'));
      execute format('alter table %I force row level security', 'audit_logs_' || to_char(month, 'YYYY_MM'));
    end if;
  end loop;
end $$;

create table outbox_events (
  company_id uuid not null,
  id uuid not null,
  test_mode boolean not null,
  event text not null,
  occurred_at timestamptz(3) not null,
  actor jsonb not null,
  request_id uuid not null,
  data jsonb not null,
  primary key (company_id, id)
);

-- Row-level security: without a tenant nothing is visible and nothing can be written.
do $$
declare
  name text;
begin
  foreach name in array array['subscriptions', 'branches', 'teams', 'users', 'user_roles', 'sign_ins', 'sessions', 'refresh_tokens', 'api_keys',
    'api_key_usage', 'statuses', 'sources', 'tags', 'activity_types', 'task_types', 'duplicate_checks', 'custom_objects', 'custom_fields', 'field_overrides']
  loop
    execute format('alter table %I enable row level security', name);
    execute format('alter table %I force row level security', name);
    execute format('create policy tenant on %I to crm_app using (company_id = current_company()) with check (company_id = current_company())', name);
  end loop;
  foreach name in array array['leads', 'deals', 'customers', 'accounts', 'tasks', 'activities', 'custom_records', 'record_tags', 'idempotency_records', 'outbox_events']
  loop
    execute format('alter table %I enable row level security', name);
    execute format('alter table %I force row level security', name);
    execute format('create policy tenant on %I to crm_app using (company_id = current_company() and test_mode = current_test_mode())
      with check (company_id = current_company() and test_mode = current_test_mode())', name);
  end loop;
end $$;
alter table companies enable row level security;
alter table companies force row level security;
create policy tenant on companies to crm_app using (id = current_company()) with check (id = current_company());
alter table audit_logs enable row level security;
alter table audit_logs force row level security;
alter table audit_logs_other enable row level security;
alter table audit_logs_other force row level security;
create policy tenant on audit_logs to crm_app using (company_id = current_company()) with check (company_id = current_company());
-- A sign-in is noted for the company of the person, which is known only after the password was checked.
create policy platform on audit_logs for insert to crm_platform with check (true);

grant select, insert, update, delete on subscriptions, branches, teams, users, user_roles, api_keys, api_key_usage, statuses, sources, tags, activity_types,
  task_types, duplicate_checks, custom_objects, custom_fields, field_overrides, leads, deals, customers, accounts, tasks, activities, custom_records,
  record_tags, companies to crm_app;
grant select, insert, update on idempotency_records to crm_app;
-- Append-only: what happened cannot be changed by a request.
grant select, insert on audit_logs, outbox_events to crm_app;
-- A tenant's request may add its own sign-ins and end its own sessions, and never reads a password.
grant insert (email, company_id, user_id, password_hash, must_change_password, created_at), select (email, company_id, user_id) on sign_ins to crm_app;
grant select, update (ended_at) on sessions to crm_app;
grant select on roles to crm_app, crm_platform;

-- The platform role: credentials, usage, sign-ins and sessions of everybody, and nothing else.
do $$
declare
  name text;
begin
  foreach name in array array['api_keys', 'api_key_usage', 'companies', 'subscriptions', 'users', 'user_roles', 'sign_ins', 'sessions', 'refresh_tokens', 'idempotency_records']
  loop
    execute format('create policy platform on %I to crm_platform using (true) with check (true)', name);
  end loop;
end $$;
grant select (company_id, id, key_hash, name, environment, scopes, rate_limit_per_minute, rate_limit_per_hour, ip_allowlist, reach_kind, reach_id, expires_at, revoked_at)
  on api_keys to crm_platform;
grant select, update on api_key_usage to crm_platform;
grant select (id, name, status, config_version, disabled_modules) on companies to crm_platform;
grant select (company_id, package_code, api_rate_limit_per_minute, status) on subscriptions to crm_platform;
grant select (company_id, id, email, full_name, status), update (last_sign_in_at) on users to crm_platform;
grant select on user_roles to crm_platform;
grant select, update (password_hash, must_change_password) on sign_ins to crm_platform;
grant select, insert, update, delete on sessions, refresh_tokens to crm_platform;
grant insert on audit_logs to crm_platform;
grant select, delete on idempotency_records to crm_platform;
grant execute on function make_audit_partitions(date) to crm_platform;

