-- The schema that db/migrations make, for reading. Derived by `make schema`, never edited.
--
-- Sorted by name, so it cannot be run as it stands. The migrations say why things are as they are.
-- Rows that the migrations insert, and the monthly partitions of audit_logs, are not shown.

create extension btree_gist;

create table accounts (
  company_id uuid not null,
  test_mode boolean not null,
  id uuid not null,
  name text,
  email text,
  phone text,
  extension text,
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
  last_contacted_at timestamptz(3),
  custom jsonb not null default '{}',
  version int not null default 1,
  created_by_kind text not null,
  created_by_id text not null,
  created_by_name text,
  created_at timestamptz(3) not null,
  updated_at timestamptz(3) not null,
  updated_by_id text,
  created_by_user uuid,
  name_key text generated always as (fold_name(btrim(name))) stored,
  primary key (company_id, test_mode, id),
  foreign key (company_id, assigned_to) references users (company_id, id)
);
alter table accounts alter column company_id set (n_distinct = 100);
create index accounts_assigned on accounts (company_id, test_mode, assigned_to, created_at, id)
  where assigned_to is not null;
create index accounts_by_annual_revenue_minor on accounts (company_id, test_mode, annual_revenue_minor, id)
  where annual_revenue_minor is not null;
create index accounts_by_city on accounts (company_id, test_mode, city collate "C", id) where city is not null;
create index accounts_by_country on accounts (company_id, test_mode, country collate "C", id) where country is not null;
create index accounts_by_email on accounts (company_id, test_mode, email collate "C", id) where email is not null;
create index accounts_by_employee_count on accounts (company_id, test_mode, employee_count, id)
  where employee_count is not null;
create index accounts_by_extension on accounts (company_id, test_mode, extension collate "C", id)
  where extension is not null;
create index accounts_by_industry on accounts (company_id, test_mode, industry collate "C", id)
  where industry is not null;
create index accounts_by_last_contacted_at on accounts (company_id, test_mode, last_contacted_at, id)
  where last_contacted_at is not null;
create index accounts_by_name on accounts (company_id, test_mode, name collate "C", id) where name is not null;
create index accounts_by_phone on accounts (company_id, test_mode, phone collate "C", id) where phone is not null;
create index accounts_by_postal_code on accounts (company_id, test_mode, postal_code collate "C", id)
  where postal_code is not null;
create index accounts_by_state on accounts (company_id, test_mode, state collate "C", id) where state is not null;
create index accounts_created on accounts (company_id, test_mode, created_at, id);
create index accounts_in_name_of on accounts (company_id, test_mode, created_by_user, created_at, id)
  where assigned_to is null and created_by_user is not null;
create index accounts_of_creator on accounts (company_id, test_mode, created_by_id collate "C", created_at, id);
create index accounts_of_key on accounts (company_id, test_mode, created_by_id)
  where assigned_to is null and created_by_kind = 'api_key' and created_by_user is null;
create index accounts_of_name on accounts (company_id, test_mode, name_key, updated_at, id) where name_key is not null;
create index accounts_of_updater on accounts (company_id, test_mode, updated_by_id collate "C")
  where updated_by_id is not null;
create index accounts_updated on accounts (company_id, test_mode, updated_at, id);
alter table accounts enable row level security, force row level security;
create policy tenant on accounts to crm_app
  using (company_id = current_company() and test_mode = current_test_mode())
  with check (company_id = current_company() and test_mode = current_test_mode());
create policy purge on accounts to crm_purge
  using (company_id = current_company())
  with check (company_id = current_company());
grant select, insert, update, delete on accounts to crm_app;
grant select, insert, update, delete on accounts to crm_purge;
create trigger accounts_changed_custom_values after update of custom on accounts for each row
  when (old.custom is distinct from new.custom)
  execute function keep_custom_value_hashes('accounts');
create trigger accounts_custom_values after insert on accounts for each row
  when (new.custom <> '{}')
  execute function keep_custom_value_hashes('accounts');
create trigger accounts_removed_custom_values after delete on accounts for each row
  when (old.custom <> '{}')
  execute function keep_custom_value_hashes('accounts');
create trigger forget_account before delete on accounts for each row execute function forget_account();
create trigger note_added_texts after insert on accounts referencing new table as added for each statement
  execute function note_added_texts('accounts');
create trigger note_changed_text after update on accounts for each row
  when (old.name is distinct from new.name or old.email is distinct from new.email
    or old.phone is distinct from new.phone or old.website is distinct from new.website
    or old.industry is distinct from new.industry or old.city is distinct from new.city
    or old.state is distinct from new.state or old.country is distinct from new.country
    or old.postal_code is distinct from new.postal_code or old.custom is distinct from new.custom)
  execute function note_changed_text('accounts');
create trigger note_removed_texts after delete on accounts referencing old table as removed for each statement
  execute function note_removed_texts('accounts');

create table activities (
  company_id uuid not null,
  test_mode boolean not null,
  id uuid not null,
  activity_type_id uuid not null,
  entity_type text not null check (entity_type in ('lead', 'deal', 'customer', 'account')),
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
  updated_by_id text,
  created_by_user uuid,
  duration_seconds int check (duration_seconds >= 0 and duration_seconds <= 86400),
  outcome text,
  primary key (company_id, test_mode, id),
  foreign key (company_id, activity_type_id) references activity_types (company_id, id)
);
alter table activities alter column company_id set (n_distinct = 100);
create index activities_by_followup_at on activities (company_id, test_mode, followup_at, id)
  where followup_at is not null;
create index activities_by_summary on activities (company_id, test_mode, summary collate "C", id)
  where summary is not null;
create index activities_created on activities (company_id, test_mode, created_at, id);
create index activities_in_name_of on activities (company_id, test_mode, created_by_user, performed_at, id)
  where created_by_user is not null;
create index activities_of_creator on activities (company_id, test_mode, created_by_id collate "C", performed_at, id);
create index activities_of_entity on activities (company_id, test_mode, entity_id, performed_at, id);
create index activities_of_entity_type on activities (company_id, test_mode, entity_type, performed_at, id);
create index activities_of_key on activities (company_id, test_mode, created_by_id)
  where created_by_kind = 'api_key' and created_by_user is null;
create index activities_of_type on activities (company_id, test_mode, activity_type_id, performed_at, id);
create index activities_of_updater on activities (company_id, test_mode, updated_by_id collate "C")
  where updated_by_id is not null;
create index activities_performed on activities (company_id, test_mode, performed_at, id);
create index activities_updated on activities (company_id, test_mode, updated_at, id);
alter table activities enable row level security, force row level security;
create policy tenant on activities to crm_app
  using (company_id = current_company() and test_mode = current_test_mode())
  with check (company_id = current_company() and test_mode = current_test_mode());
create policy purge on activities to crm_purge
  using (company_id = current_company())
  with check (company_id = current_company());
grant select, insert, update, delete on activities to crm_app;
grant select, insert, update, delete on activities to crm_purge;
create trigger activities_changed_custom_values after update of custom on activities for each row
  when (old.custom is distinct from new.custom)
  execute function keep_custom_value_hashes('activities');
create trigger activities_custom_values after insert on activities for each row
  when (new.custom <> '{}')
  execute function keep_custom_value_hashes('activities');
create trigger activities_removed_custom_values after delete on activities for each row
  when (old.custom <> '{}')
  execute function keep_custom_value_hashes('activities');
create trigger note_added_texts after insert on activities referencing new table as added for each statement
  execute function note_added_texts('activities');
create trigger note_changed_text after update on activities for each row
  when (old.summary is distinct from new.summary or old.details is distinct from new.details
    or old.custom is distinct from new.custom)
  execute function note_changed_text('activities');
create trigger note_removed_texts after delete on activities referencing old table as removed for each statement
  execute function note_removed_texts('activities');

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
create policy purge on activity_types to crm_purge
  using (company_id = current_company())
  with check (company_id = current_company());
grant select, insert, update, delete on activity_types to crm_app;
grant select, insert, update, delete on activity_types to crm_purge;
create trigger activity_types_version after insert or delete or update on activity_types for each row
  execute function raise_config_version();

create table api_key_days (
  company_id uuid not null references companies (id) on delete cascade,
  day date not null,
  api_key_id uuid not null,
  calls bigint not null,
  failures bigint not null default 0,
  primary key (company_id, day, api_key_id)
) with (
  fillfactor = 70
);
create index api_key_days_age on api_key_days (day);
alter table api_key_days enable row level security, force row level security;
create policy tenant on api_key_days to crm_app
  using (company_id = current_company())
  with check (company_id = current_company());
create policy platform on api_key_days to crm_platform using (true) with check (true);
create policy purge on api_key_days to crm_purge
  using (company_id = current_company())
  with check (company_id = current_company());
grant select on api_key_days to crm_app;
grant select, insert, update, delete on api_key_days to crm_platform;
grant select, insert, update, delete on api_key_days to crm_purge;

create table api_key_places (
  key_hash bytea primary key,
  company_id uuid not null
);
alter table api_key_places enable row level security, force row level security;
create policy tenant on api_key_places to crm_app
  using (company_id = current_company())
  with check (company_id = current_company());
create policy platform on api_key_places for select to crm_platform using (true);
create policy purge on api_key_places to crm_purge
  using (company_id = current_company())
  with check (company_id = current_company());
grant insert on api_key_places to crm_app;
grant select on api_key_places to crm_platform;
grant select, insert, update, delete on api_key_places to crm_purge;

create table api_key_usage (
  company_id uuid not null,
  api_key_id uuid not null,
  total_requests bigint not null default 0,
  last_used_at timestamptz(3),
  last_used_ip text,
  primary key (company_id, api_key_id),
  foreign key (company_id, api_key_id) references api_keys (company_id, id) on delete cascade
) with (
  fillfactor = 50
);
alter table api_key_usage enable row level security, force row level security;
create policy tenant on api_key_usage to crm_app
  using (company_id = current_company())
  with check (company_id = current_company());
create policy platform on api_key_usage to crm_platform using (true) with check (true);
create policy purge on api_key_usage to crm_purge
  using (company_id = current_company())
  with check (company_id = current_company());
grant select, insert, update, delete on api_key_usage to crm_app;
grant select, update on api_key_usage to crm_platform;
grant select, insert, update, delete on api_key_usage to crm_purge;

create table api_keys (
  company_id uuid not null references companies (id) on delete cascade,
  id uuid not null,
  key_hash bytea not null,
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
  write_mode text not null default 'direct' check (write_mode in ('direct', 'propose')),
  expires_at timestamptz(3),
  created_by_id text not null,
  created_by_name text,
  created_at timestamptz(3) not null,
  updated_at timestamptz(3) not null,
  revoked_at timestamptz(3),
  revoked_by text,
  revoke_reason text,
  is_legacy boolean not null default false,
  is_replaced boolean not null default false,
  expiry_notified_for timestamptz(3),
  primary key (company_id, id),
  unique (company_id, key_hash)
);
create index api_keys_expiring on api_keys (expires_at)
  where expires_at is not null and revoked_at is null and expiry_notified_for is distinct from expires_at;
create index api_keys_listed on api_keys (company_id, created_at desc, id desc);
alter table api_keys enable row level security, force row level security;
create policy tenant on api_keys to crm_app
  using (company_id = current_company())
  with check (company_id = current_company());
create policy platform on api_keys to crm_platform using (true) with check (true);
create policy purge on api_keys to crm_purge
  using (company_id = current_company())
  with check (company_id = current_company());
grant select, insert, update, delete on api_keys to crm_app;
grant select (company_id, id, key_hash, name, environment, scopes, rate_limit_per_minute, rate_limit_per_hour,
  ip_allowlist, reach_kind, reach_id, write_mode, expires_at, revoked_at, expiry_notified_for)
  on api_keys to crm_platform;
grant select, insert, update, delete on api_keys to crm_purge;
create constraint trigger raise_credential_version after insert or delete or update
  on api_keys deferrable initially deferred for each row
  execute function raise_credential_version('company_id');

create table api_quota (
  company_id uuid primary key references companies (id) on delete cascade,
  month_start timestamptz(3) not null,
  calls bigint not null default 0
) with (
  fillfactor = 50
);
alter table api_quota enable row level security, force row level security;
create policy tenant on api_quota to crm_app
  using (company_id = current_company())
  with check (company_id = current_company());
create policy platform on api_quota to crm_platform using (true) with check (true);
create policy purge on api_quota to crm_purge
  using (company_id = current_company())
  with check (company_id = current_company());
grant select, insert on api_quota to crm_app;
grant select, insert, update on api_quota to crm_platform;
grant select, insert, update, delete on api_quota to crm_purge;

create table api_quota_blocks (
  company_id uuid not null references companies (id) on delete cascade,
  holder uuid not null,
  month_start timestamptz(3) not null,
  calls bigint not null check (calls >= 0),
  renewed_at timestamptz(3) not null,
  primary key (company_id, holder)
) with (
  fillfactor = 50
);
create index api_quota_blocks_by_age on api_quota_blocks (renewed_at);
alter table api_quota_blocks enable row level security, force row level security;
create policy tenant on api_quota_blocks to crm_app
  using (company_id = current_company())
  with check (company_id = current_company());
create policy platform on api_quota_blocks to crm_platform using (true) with check (true);
create policy purge on api_quota_blocks to crm_purge
  using (company_id = current_company())
  with check (company_id = current_company());
grant select on api_quota_blocks to crm_app;
grant select, insert, update, delete on api_quota_blocks to crm_platform;
grant select, insert, update, delete on api_quota_blocks to crm_purge;

create table attachments (
  company_id uuid not null references companies (id) on delete cascade,
  test_mode boolean not null,
  id uuid not null,
  object text not null,
  record_id uuid not null,
  file_id uuid not null,
  file_name text not null,
  content_type text not null,
  size_bytes bigint not null,
  sha256 text not null,
  created_by_kind text not null,
  created_by_id text not null,
  created_by_name text,
  created_by_user uuid,
  created_at timestamptz(3) not null,
  primary key (company_id, test_mode, id),
  unique (company_id, test_mode, file_id),
  foreign key (company_id, test_mode, file_id) references stored_files (company_id, test_mode, id)
);
alter table attachments alter column company_id set (n_distinct = 100);
create index attachments_of_record on attachments (company_id, test_mode, object, record_id, created_at desc, id desc);
alter table attachments enable row level security, force row level security;
create policy tenant on attachments to crm_app
  using (company_id = current_company() and test_mode = current_test_mode())
  with check (company_id = current_company() and test_mode = current_test_mode());
create policy platform on attachments for select to crm_platform using (true);
create policy purge on attachments to crm_purge
  using (company_id = current_company())
  with check (company_id = current_company());
grant select, insert, update, delete on attachments to crm_app;
grant select (company_id, test_mode, id, file_id, file_name, size_bytes) on attachments to crm_platform;
grant select, insert, update, delete on attachments to crm_purge;
create trigger release_stored_file after delete on attachments for each row execute function release_stored_file();

create table audit_logs (
  company_id uuid not null,
  id uuid not null,
  seq bigint not null generated always as identity,
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
  primary key (company_id, test_mode, occurred_at, id)
) partition by range (occurred_at);
create index audit_logs_of_moves on audit_logs (company_id, test_mode, record_id, occurred_at, id)
  where object = 'leads' and changes ? 'lead_status' or ((object = 'deals') and (changes ? 'stage'));
create index audit_logs_of_record on audit_logs (company_id, test_mode, record_id, occurred_at, id)
  where record_id is not null;
create index audit_logs_of_request on audit_logs (company_id, test_mode, request_id, occurred_at, id);
alter table audit_logs enable row level security, force row level security;
create policy tenant on audit_logs to crm_app
  using (company_id = current_company())
  with check (company_id = current_company());
create policy platform on audit_logs for insert to crm_platform with check (true);
create policy purge on audit_logs to crm_purge
  using (company_id = current_company())
  with check (company_id = current_company());
grant select, insert on audit_logs to crm_app;
grant insert on audit_logs to crm_platform;
grant select, insert, update, delete on audit_logs to crm_purge;
create constraint trigger refuse_late_commit after insert on audit_logs deferrable initially deferred for each row
  execute function refuse_late_commit();

create table audit_logs_other partition of audit_logs default;
create index audit_logs_other_age on audit_logs_other (occurred_at);
alter table audit_logs_other enable row level security, force row level security;
create policy removed on audit_logs_other for delete to crm_platform using (true);
create policy swept on audit_logs_other for select to crm_platform using (true);
grant select (company_id, id, occurred_at), delete on audit_logs_other to crm_platform;

create table billing_operations (
  company_id uuid not null references companies (id) on delete cascade,
  test_mode boolean not null,
  id uuid not null,
  change jsonb not null,
  retry_key text,
  asked_by jsonb,
  status text not null default 'pending' check (status in ('pending', 'done', 'declined')),
  result jsonb,
  leased_until timestamptz(3) not null,
  created_at timestamptz(3) not null,
  finished_at timestamptz(3),
  attempts int not null default 1,
  base jsonb,
  primary key (company_id, test_mode, id)
);
create index billing_operations_of_key on billing_operations (company_id, test_mode, retry_key, id)
  where retry_key is not null;
create index billing_operations_overdue on billing_operations (leased_until) where status = 'pending';
create unique index billing_operations_pending on billing_operations (company_id, test_mode) where status = 'pending';
alter table billing_operations enable row level security, force row level security;
create policy tenant on billing_operations to crm_app
  using (company_id = current_company() and test_mode = current_test_mode())
  with check (company_id = current_company() and test_mode = current_test_mode());
create policy platform on billing_operations for select to crm_platform using (true);
create policy purge on billing_operations to crm_purge
  using (company_id = current_company())
  with check (company_id = current_company());
grant select, insert, update on billing_operations to crm_app;
grant select (company_id, test_mode, id, status, leased_until) on billing_operations to crm_platform;
grant select, insert, update, delete on billing_operations to crm_purge;

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
  guests jsonb not null default '[]',
  answers jsonb not null default '[]',
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
create index bookings_ending on bookings (end_at) where status = 'confirmed';
create index bookings_ending_in_test_mode on bookings (company_id, end_at) where test_mode and status = 'confirmed';
create index bookings_listed on bookings (company_id, test_mode, start_at desc, id desc);
create index bookings_of_attendee on bookings (company_id, test_mode, attendee_email, start_at desc, id desc)
  where attendee_email is not null;
create index bookings_of_pool on bookings (company_id, test_mode, pool_id, start_at desc, id desc)
  where pool_id is not null;
create index bookings_of_record on bookings (company_id, test_mode, object, record_id, start_at desc, id desc)
  where record_id is not null;
create index bookings_of_status on bookings (company_id, test_mode, status, start_at desc, id desc);
create index bookings_of_user on bookings (company_id, test_mode, user_id, start_at desc, id desc);
alter table bookings enable row level security, force row level security;
create policy tenant on bookings to crm_app
  using (company_id = current_company() and test_mode = current_test_mode())
  with check (company_id = current_company() and test_mode = current_test_mode());
create policy platform on bookings to crm_platform using (true);
create policy purge on bookings to crm_purge
  using (company_id = current_company())
  with check (company_id = current_company());
grant select, insert, update, delete on bookings to crm_app;
grant select (company_id, test_mode, id, status, end_at) on bookings to crm_platform;
grant select, insert, update, delete on bookings to crm_purge;

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
  manager_user_id uuid,
  primary key (company_id, id)
);
create index branches_listed on branches (company_id, created_at desc, id desc);
alter table branches enable row level security, force row level security;
create policy tenant on branches to crm_app
  using (company_id = current_company())
  with check (company_id = current_company());
create policy purge on branches to crm_purge
  using (company_id = current_company())
  with check (company_id = current_company());
grant select, insert, update, delete on branches to crm_app;
grant select, insert, update, delete on branches to crm_purge;
create trigger require_changed_manager after update of manager_user_id on branches for each row
  when (new.manager_user_id is distinct from old.manager_user_id and new.manager_user_id is not null)
  execute function require_manager();
create trigger require_manager after insert on branches for each row
  when (new.manager_user_id is not null)
  execute function require_manager();

create table calendar_orders (
  company_id uuid not null references companies (id) on delete cascade,
  booking_id uuid not null,
  user_id uuid not null,
  action text not null check (action in ('write', 'remove')),
  due_at timestamptz(3),
  attempts int not null default 0,
  leased_until timestamptz(3),
  event_url text,
  created_at timestamptz(3) not null,
  primary key (company_id, booking_id)
);
create index calendar_orders_due on calendar_orders (due_at) where due_at is not null;
alter table calendar_orders enable row level security, force row level security;
create policy tenant on calendar_orders to crm_app
  using (company_id = current_company())
  with check (company_id = current_company());
create policy platform on calendar_orders to crm_platform using (true);
create policy purge on calendar_orders to crm_purge
  using (company_id = current_company())
  with check (company_id = current_company());
grant select, insert, update, delete on calendar_orders to crm_app;
grant select (company_id, booking_id, due_at) on calendar_orders to crm_platform;
grant select, insert, update, delete on calendar_orders to crm_purge;

create table campaign_runs (
  company_id uuid not null,
  test_mode boolean not null,
  id uuid not null,
  campaign_id uuid not null,
  status text not null check (status in ('queued', 'running', 'completed', 'failed', 'cancelled')),
  content jsonb not null,
  content_hash bytea,
  last_record uuid,
  audience int not null default 0,
  total int not null default 0,
  skipped int not null default 0,
  error_summary text,
  started_at timestamptz(3),
  finished_at timestamptz(3),
  created_by_kind text not null,
  created_by_id text not null,
  created_by_name text,
  created_by_user uuid,
  created_at timestamptz(3) not null,
  decision text check (decision in ('approved', 'rejected')),
  decided_by uuid,
  decided_by_name text,
  decided_at timestamptz(3),
  rejection_reason text,
  decision_due_at timestamptz(3),
  primary key (company_id, test_mode, id),
  foreign key (company_id, test_mode, campaign_id) references campaigns (company_id, test_mode, id) on delete cascade
);
alter table campaign_runs alter column company_id set (n_distinct = 100);
create unique index campaign_runs_active on campaign_runs (company_id, test_mode, campaign_id)
  where status in ('queued', 'running');
create index campaign_runs_decided on campaign_runs (decision_due_at) where decision_due_at is not null;
create index campaign_runs_decided_in_test_mode on campaign_runs (company_id, decision_due_at)
  where test_mode and decision_due_at is not null;
create index campaign_runs_listed on campaign_runs (company_id, test_mode, campaign_id, created_at desc, id desc);
create index campaign_runs_undecided on campaign_runs (company_id, test_mode, created_at desc, id desc)
  where status = 'completed' and decision is null and total > 0;
alter table campaign_runs enable row level security, force row level security;
create policy tenant on campaign_runs to crm_app
  using (company_id = current_company() and test_mode = current_test_mode())
  with check (company_id = current_company() and test_mode = current_test_mode());
create policy platform on campaign_runs to crm_platform using (true);
create policy purge on campaign_runs to crm_purge
  using (company_id = current_company())
  with check (company_id = current_company());
grant select, insert, update, delete on campaign_runs to crm_app;
grant select (company_id, test_mode, id, decision_due_at) on campaign_runs to crm_platform;
grant select, insert, update, delete on campaign_runs to crm_purge;

create table campaigns (
  company_id uuid not null references companies (id) on delete cascade,
  test_mode boolean not null,
  id uuid not null,
  name text not null,
  description text,
  status text not null check (status in ('draft', 'scheduled', 'running', 'paused', 'completed', 'cancelled')),
  object text not null,
  filter jsonb,
  channels jsonb not null,
  audience_size int,
  scheduled_at timestamptz(3),
  started_at timestamptz(3),
  completed_at timestamptz(3),
  due_at timestamptz(3),
  created_by_kind text not null,
  created_by_id text not null,
  created_by_name text,
  created_by_user uuid,
  created_at timestamptz(3) not null,
  updated_at timestamptz(3) not null,
  primary key (company_id, test_mode, id)
);
create index campaigns_due on campaigns (due_at) where due_at is not null;
create index campaigns_due_in_test_mode on campaigns (company_id, due_at) where test_mode and due_at is not null;
create index campaigns_listed on campaigns (company_id, test_mode, created_at desc, id desc);
create index campaigns_of_status on campaigns (company_id, test_mode, status, created_at desc, id desc);
alter table campaigns enable row level security, force row level security;
create policy tenant on campaigns to crm_app
  using (company_id = current_company() and test_mode = current_test_mode())
  with check (company_id = current_company() and test_mode = current_test_mode());
create policy platform on campaigns to crm_platform using (true);
create policy purge on campaigns to crm_purge
  using (company_id = current_company())
  with check (company_id = current_company());
grant select, insert, update, delete on campaigns to crm_app;
grant select (company_id, test_mode, id, due_at) on campaigns to crm_platform;
grant select, insert, update, delete on campaigns to crm_purge;

create table change_sets (
  company_id uuid not null references companies (id) on delete cascade,
  test_mode boolean not null,
  id uuid not null,
  status text not null,
  title text not null,
  reason text,
  atomic boolean not null,
  operations jsonb not null,
  operation_count int not null,
  modules text[] not null,
  digest text not null,
  proposal_digest text,
  created_by_kind text not null,
  created_by_id text not null,
  created_by_name text,
  created_by_user uuid,
  decided_by_id text,
  decided_by_name text,
  decided_at timestamptz(3),
  rejection_reason text,
  request_id uuid,
  error jsonb,
  expires_at timestamptz(3) not null,
  created_at timestamptz(3) not null,
  primary key (company_id, test_mode, id)
);
alter table change_sets alter column company_id set (n_distinct = 100);
create index change_sets_by_status on change_sets (company_id, test_mode, status, created_at desc, id desc);
create index change_sets_due on change_sets (expires_at) where status = 'pending';
create index change_sets_newest on change_sets (company_id, test_mode, created_at desc, id desc);
create index change_sets_old on change_sets (expires_at) where status <> 'pending';
create index change_sets_pending on change_sets (company_id, test_mode, created_by_id, created_by_user)
  where status = 'pending';
create unique index change_sets_same on change_sets (company_id, test_mode, created_by_id, created_by_user,
  proposal_digest) nulls not distinct
  where status = 'pending' and proposal_digest is not null;
alter table change_sets enable row level security, force row level security;
create policy tenant on change_sets to crm_app
  using (company_id = current_company() and test_mode = current_test_mode())
  with check (company_id = current_company() and test_mode = current_test_mode());
create policy platform on change_sets to crm_platform using (true);
create policy purge on change_sets to crm_purge
  using (company_id = current_company())
  with check (company_id = current_company());
grant select, insert, update, delete on change_sets to crm_app;
grant select (company_id, test_mode, id, status, created_by_id, created_by_user, expires_at), delete
  on change_sets to crm_platform;
grant select, insert, update, delete on change_sets to crm_purge;
create constraint trigger raise_version_of_decided_proposer after update
  on change_sets deferrable initially deferred for each row
  when (new.created_by_kind = 'api_key' and old.status <> new.status)
  execute function raise_version_of_proposer();
create constraint trigger raise_version_of_proposer after insert
  on change_sets deferrable initially deferred for each row
  when (new.created_by_kind = 'api_key')
  execute function raise_version_of_proposer();
create constraint trigger raise_version_of_reset_proposer after delete
  on change_sets deferrable initially deferred for each row
  when (old.created_by_kind = 'api_key' and old.status = 'pending')
  execute function raise_credential_version('company_id');

create table checkout_sessions (
  company_id uuid not null references companies (id) on delete cascade,
  test_mode boolean not null,
  id text not null,
  kind text not null check (kind in ('subscribe', 'wallet_topup')),
  package_code text,
  billing_cycle text,
  seats int,
  amount_minor bigint,
  currency text not null,
  success_url text,
  cancel_url text,
  url text,
  created_at timestamptz(3) not null,
  expires_at timestamptz(3) not null,
  completed_at timestamptz(3),
  asked_at timestamptz(3),
  primary key (company_id, test_mode, id)
);
create index checkout_sessions_open on checkout_sessions (company_id, test_mode, expires_at) where completed_at is null;
alter table checkout_sessions enable row level security, force row level security;
create policy tenant on checkout_sessions to crm_app
  using (company_id = current_company() and test_mode = current_test_mode())
  with check (company_id = current_company() and test_mode = current_test_mode());
create policy purge on checkout_sessions to crm_purge
  using (company_id = current_company())
  with check (company_id = current_company());
grant select, insert, update (url, completed_at, asked_at) on checkout_sessions to crm_app;
grant select, insert, update, delete on checkout_sessions to crm_purge;

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
  config_version bigint not null default 1,
  disabled_modules text[] not null default '{}',
  created_at timestamptz(3) not null,
  updated_at timestamptz(3) not null,
  notes_email_engagement boolean not null default false
);
alter table companies enable row level security, force row level security;
create policy tenant on companies to crm_app using (id = current_company()) with check (id = current_company());
create policy platform on companies to crm_platform using (true) with check (true);
create policy purge on companies to crm_purge using (id = current_company()) with check (id = current_company());
grant select, insert, update, delete on companies to crm_app;
grant select (id, name, timezone, status, config_version, disabled_modules) on companies to crm_platform;
grant select, update, delete on companies to crm_purge;
create trigger begin_credential_version after insert on companies for each row
  execute function begin_credential_version();
create constraint trigger raise_credential_version after update on companies deferrable initially deferred for each row
  execute function raise_credential_version('id');

create table company_logos (
  company_id uuid primary key references companies (id) on delete cascade,
  hash text not null,
  content_type text not null check (content_type in ('image/png', 'image/jpeg', 'image/gif', 'image/webp')),
  width int not null,
  height int not null,
  image bytea not null check (length(image) <= 262144)
);
alter table company_logos enable row level security, force row level security;
create policy tenant on company_logos to crm_app
  using (company_id = current_company())
  with check (company_id = current_company());
create policy platform on company_logos for select to crm_platform using (true);
create policy purge on company_logos to crm_purge
  using (company_id = current_company())
  with check (company_id = current_company());
grant select, insert, update, delete on company_logos to crm_app;
grant select (company_id, hash, width, height) on company_logos to crm_platform;
grant select, insert, update, delete on company_logos to crm_purge;

create table credential_versions (
  company_id uuid primary key references companies (id) on delete cascade,
  version bigint not null default 1
) with (
  fillfactor = 50
);
alter table credential_versions enable row level security, force row level security;
create policy tenant on credential_versions to crm_app
  using (company_id = current_company())
  with check (company_id = current_company());
create policy platform on credential_versions to crm_platform using (true) with check (true);
create policy purge on credential_versions to crm_purge
  using (company_id = current_company())
  with check (company_id = current_company());
grant select, insert, update on credential_versions to crm_app;
grant select, insert, update on credential_versions to crm_platform;
grant select, insert, update, delete on credential_versions to crm_purge;

create table custom_fields (
  company_id uuid not null references companies (id) on delete cascade,
  object text not null,
  name text not null,
  label text not null,
  type text not null,
  required boolean not null default false,
  options jsonb,
  enabled boolean not null default true,
  is_unique boolean not null default false,
  seq bigint not null generated always as identity,
  created_at timestamptz(3) not null,
  updated_at timestamptz(3) not null,
  primary key (company_id, object, name)
);
create index custom_fields_unique on custom_fields (company_id, object, name) where is_unique;
alter table custom_fields enable row level security, force row level security;
create policy tenant on custom_fields to crm_app
  using (company_id = current_company())
  with check (company_id = current_company());
create policy purge on custom_fields to crm_purge
  using (company_id = current_company())
  with check (company_id = current_company());
grant select, insert, update, delete on custom_fields to crm_app;
grant select, insert, update, delete on custom_fields to crm_purge;
create trigger custom_fields_version after insert or delete or update on custom_fields for each row
  execute function raise_config_version();

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
alter table custom_objects enable row level security, force row level security;
create policy tenant on custom_objects to crm_app
  using (company_id = current_company())
  with check (company_id = current_company());
create policy platform on custom_objects for select to crm_platform using (true);
create policy purge on custom_objects to crm_purge
  using (company_id = current_company())
  with check (company_id = current_company());
grant select, insert, update, delete on custom_objects to crm_app;
grant select (company_id, slug) on custom_objects to crm_platform;
grant select, insert, update, delete on custom_objects to crm_purge;
create trigger custom_objects_version after insert or delete or update on custom_objects for each row
  execute function raise_config_version();

create table custom_records (
  company_id uuid not null,
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
  updated_by_id text,
  created_by_user uuid,
  primary key (company_id, test_mode, object, id)
);
alter table custom_records alter column company_id set (n_distinct = 100);
create index custom_records_created on custom_records (company_id, test_mode, object, created_at, id);
create index custom_records_in_name_of on custom_records (company_id, test_mode, object, created_by_user, created_at,
  id)
  where created_by_user is not null;
create index custom_records_of_creator on custom_records (company_id, test_mode, object, created_by_id collate "C",
  created_at, id);
create index custom_records_of_key on custom_records (company_id, test_mode, object, created_by_id)
  where created_by_kind = 'api_key' and created_by_user is null;
create index custom_records_of_updater on custom_records (company_id, test_mode, object, updated_by_id collate "C")
  where updated_by_id is not null;
create index custom_records_updated on custom_records (company_id, test_mode, object, updated_at, id);
alter table custom_records enable row level security, force row level security;
create policy tenant on custom_records to crm_app
  using (company_id = current_company() and test_mode = current_test_mode())
  with check (company_id = current_company() and test_mode = current_test_mode());
create policy purge on custom_records to crm_purge
  using (company_id = current_company())
  with check (company_id = current_company());
grant select, insert, update, delete on custom_records to crm_app;
grant select, insert, update, delete on custom_records to crm_purge;
create trigger custom_records_changed_custom_values after update of custom on custom_records for each row
  when (old.custom is distinct from new.custom)
  execute function keep_custom_value_hashes('custom_records');
create trigger custom_records_custom_values after insert on custom_records for each row
  when (new.custom <> '{}')
  execute function keep_custom_value_hashes('custom_records');
create trigger custom_records_removed_custom_values after delete on custom_records for each row
  when (old.custom <> '{}')
  execute function keep_custom_value_hashes('custom_records');
create trigger note_added_texts after insert on custom_records referencing new table as added for each statement
  execute function note_added_texts('custom_records');
create trigger note_changed_text after update on custom_records for each row
  when (old.custom is distinct from new.custom)
  execute function note_changed_text('custom_records');
create trigger note_removed_texts after delete on custom_records referencing old table as removed for each statement
  execute function note_removed_texts('custom_records');

create table custom_value_hashes (
  company_id uuid not null,
  test_mode boolean not null,
  hash bigint not null,
  record_id uuid not null,
  primary key (company_id, test_mode, hash, record_id)
);
alter table custom_value_hashes alter column company_id set (n_distinct = 100);
alter table custom_value_hashes enable row level security, force row level security;
create policy tenant on custom_value_hashes to crm_app
  using (company_id = current_company() and test_mode = current_test_mode())
  with check (company_id = current_company() and test_mode = current_test_mode());
create policy purge on custom_value_hashes to crm_purge
  using (company_id = current_company())
  with check (company_id = current_company());
grant select, insert, delete on custom_value_hashes to crm_app;
grant select, insert, update, delete on custom_value_hashes to crm_purge;

create table customers (
  company_id uuid not null,
  test_mode boolean not null,
  id uuid not null,
  first_name text,
  last_name text,
  email text,
  mobile text,
  phone text,
  extension text,
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
  updated_by_id text,
  created_by_user uuid,
  primary key (company_id, test_mode, id),
  foreign key (company_id, source_id) references sources (company_id, id),
  foreign key (company_id, assigned_to) references users (company_id, id)
);
alter table customers alter column company_id set (n_distinct = 100);
create index customers_assigned on customers (company_id, test_mode, assigned_to, created_at, id)
  where assigned_to is not null;
create index customers_by_city on customers (company_id, test_mode, city collate "C", id) where city is not null;
create index customers_by_company_name on customers (company_id, test_mode, company_name collate "C", id)
  where company_name is not null;
create index customers_by_country on customers (company_id, test_mode, country collate "C", id)
  where country is not null;
create index customers_by_email on customers (company_id, test_mode, email collate "C", id) where email is not null;
create index customers_by_extension on customers (company_id, test_mode, extension collate "C", id)
  where extension is not null;
create index customers_by_first_name on customers (company_id, test_mode, first_name collate "C", id)
  where first_name is not null;
create index customers_by_job_title on customers (company_id, test_mode, job_title collate "C", id)
  where job_title is not null;
create index customers_by_last_contacted_at on customers (company_id, test_mode, last_contacted_at, id)
  where last_contacted_at is not null;
create index customers_by_last_name on customers (company_id, test_mode, last_name collate "C", id)
  where last_name is not null;
create index customers_by_mobile on customers (company_id, test_mode, mobile collate "C", id) where mobile is not null;
create index customers_by_phone on customers (company_id, test_mode, phone collate "C", id) where phone is not null;
create index customers_by_postal_code on customers (company_id, test_mode, postal_code collate "C", id)
  where postal_code is not null;
create index customers_by_state on customers (company_id, test_mode, state collate "C", id) where state is not null;
create index customers_created on customers (company_id, test_mode, created_at, id);
create index customers_in_name_of on customers (company_id, test_mode, created_by_user, created_at, id)
  where assigned_to is null and created_by_user is not null;
create index customers_of_account on customers (company_id, test_mode, account_id, created_at, id)
  where account_id is not null;
create index customers_of_creator on customers (company_id, test_mode, created_by_id collate "C", created_at, id);
create index customers_of_key on customers (company_id, test_mode, created_by_id)
  where assigned_to is null and created_by_kind = 'api_key' and created_by_user is null;
create index customers_of_lead on customers (company_id, test_mode, lead_id) where lead_id is not null;
create index customers_of_source on customers (company_id, source_id) where source_id is not null;
create index customers_of_updater on customers (company_id, test_mode, updated_by_id collate "C")
  where updated_by_id is not null;
create index customers_updated on customers (company_id, test_mode, updated_at, id);
alter table customers enable row level security, force row level security;
create policy tenant on customers to crm_app
  using (company_id = current_company() and test_mode = current_test_mode())
  with check (company_id = current_company() and test_mode = current_test_mode());
create policy purge on customers to crm_purge
  using (company_id = current_company())
  with check (company_id = current_company());
grant select, insert, update, delete on customers to crm_app;
grant select, insert, update, delete on customers to crm_purge;
create trigger customers_changed_custom_values after update of custom on customers for each row
  when (old.custom is distinct from new.custom)
  execute function keep_custom_value_hashes('customers');
create trigger customers_custom_values after insert on customers for each row
  when (new.custom <> '{}')
  execute function keep_custom_value_hashes('customers');
create trigger customers_removed_custom_values after delete on customers for each row
  when (old.custom <> '{}')
  execute function keep_custom_value_hashes('customers');
create trigger forget_customer before delete on customers for each row execute function forget_customer();
create trigger note_added_texts after insert on customers referencing new table as added for each statement
  execute function note_added_texts('customers');
create trigger note_changed_text after update on customers for each row
  when (old.first_name is distinct from new.first_name or old.last_name is distinct from new.last_name
    or old.company_name is distinct from new.company_name or old.email is distinct from new.email
    or old.mobile is distinct from new.mobile or old.phone is distinct from new.phone
    or old.job_title is distinct from new.job_title or old.website is distinct from new.website
    or old.city is distinct from new.city or old.state is distinct from new.state
    or old.country is distinct from new.country or old.postal_code is distinct from new.postal_code
    or old.custom is distinct from new.custom)
  execute function note_changed_text('customers');
create trigger note_removed_texts after delete on customers referencing old table as removed for each statement
  execute function note_removed_texts('customers');
create trigger require_account after insert on customers for each row
  when (new.account_id is not null)
  execute function require_account();
create trigger require_changed_account after update of account_id on customers for each row
  when (new.account_id is distinct from old.account_id and new.account_id is not null)
  execute function require_account();
create trigger require_changed_lead after update of lead_id on customers for each row
  when (new.lead_id is distinct from old.lead_id and new.lead_id is not null)
  execute function require_lead();
create trigger require_lead after insert on customers for each row
  when (new.lead_id is not null)
  execute function require_lead();

create table deals (
  company_id uuid not null,
  test_mode boolean not null,
  id uuid not null,
  name text,
  amount_minor bigint,
  currency_code text,
  pipeline_id uuid,
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
  planned_followup_at timestamptz(3),
  custom jsonb not null default '{}',
  version int not null default 1,
  created_by_kind text not null,
  created_by_id text not null,
  created_by_name text,
  created_at timestamptz(3) not null,
  updated_at timestamptz(3) not null,
  updated_by_id text,
  created_by_user uuid,
  lost_reason_hash bigint generated always as (hashtextextended(lost_reason, 0)) stored,
  description_hash bigint generated always as (hashtextextended(description, 0)) stored,
  primary key (company_id, test_mode, id),
  foreign key (company_id, pipeline_id, stage_id) references statuses (company_id, pipeline_id, id),
  foreign key (company_id, source_id) references sources (company_id, id),
  foreign key (company_id, assigned_to) references users (company_id, id),
  check (stage_id is null or pipeline_id is not null)
);
alter table deals alter column company_id set (n_distinct = 100);
create index deals_assigned on deals (company_id, test_mode, assigned_to, created_at, id) where assigned_to is not null;
create index deals_by_amount_minor on deals (company_id, test_mode, amount_minor, id) where amount_minor is not null;
create index deals_by_currency_code on deals (company_id, test_mode, currency_code collate "C", id)
  where currency_code is not null;
create index deals_by_expected_close_date on deals (company_id, test_mode, expected_close_date, id)
  where expected_close_date is not null;
create index deals_by_last_contacted_at on deals (company_id, test_mode, last_contacted_at, id)
  where last_contacted_at is not null;
create index deals_by_lost_at on deals (company_id, test_mode, lost_at, id) where lost_at is not null;
create index deals_by_name on deals (company_id, test_mode, name collate "C", id) where name is not null;
create index deals_by_next_followup_at on deals (company_id, test_mode, next_followup_at, id)
  where next_followup_at is not null;
create index deals_by_priority on deals (company_id, test_mode, priority, id) where priority is not null;
create index deals_by_probability on deals (company_id, test_mode, probability, id) where probability is not null;
create index deals_by_stage_changed_at on deals (company_id, test_mode, stage_changed_at, id)
  where stage_changed_at is not null;
create index deals_by_won_at on deals (company_id, test_mode, won_at, id) where won_at is not null;
create index deals_created on deals (company_id, test_mode, created_at, id);
create index deals_in_name_of on deals (company_id, test_mode, created_by_user, created_at, id)
  where assigned_to is null and created_by_user is not null;
create index deals_of_account on deals (company_id, test_mode, account_id, created_at, id) where account_id is not null;
create index deals_of_creator on deals (company_id, test_mode, created_by_id collate "C", created_at, id);
create index deals_of_customer on deals (company_id, test_mode, customer_id, created_at, id)
  where customer_id is not null;
create index deals_of_key on deals (company_id, test_mode, created_by_id)
  where assigned_to is null and created_by_kind = 'api_key' and created_by_user is null;
create index deals_of_lead on deals (company_id, test_mode, lead_id, created_at, id) where lead_id is not null;
create index deals_of_pipeline on deals (company_id, test_mode, pipeline_id, created_at, id);
create index deals_of_source on deals (company_id, source_id) where source_id is not null;
create index deals_of_stage on deals (company_id, test_mode, stage_id, created_at, id);
create index deals_of_updater on deals (company_id, test_mode, updated_by_id collate "C")
  where updated_by_id is not null;
create index deals_same_description_hash on deals (company_id, test_mode, description_hash)
  where description_hash is not null;
create index deals_same_lost_reason_hash on deals (company_id, test_mode, lost_reason_hash)
  where lost_reason_hash is not null;
create index deals_updated on deals (company_id, test_mode, updated_at, id);
alter table deals enable row level security, force row level security;
create policy tenant on deals to crm_app
  using (company_id = current_company() and test_mode = current_test_mode())
  with check (company_id = current_company() and test_mode = current_test_mode());
create policy purge on deals to crm_purge
  using (company_id = current_company())
  with check (company_id = current_company());
grant select, insert, update, delete on deals to crm_app;
grant select, insert, update, delete on deals to crm_purge;
create trigger deals_changed_custom_values after update of custom on deals for each row
  when (old.custom is distinct from new.custom)
  execute function keep_custom_value_hashes('deals');
create trigger deals_custom_values after insert on deals for each row
  when (new.custom <> '{}')
  execute function keep_custom_value_hashes('deals');
create trigger deals_removed_custom_values after delete on deals for each row
  when (old.custom <> '{}')
  execute function keep_custom_value_hashes('deals');
create trigger note_added_texts after insert on deals referencing new table as added for each statement
  execute function note_added_texts('deals');
create trigger note_changed_text after update on deals for each row
  when (old.name is distinct from new.name or old.currency_code is distinct from new.currency_code
    or old.lost_reason is distinct from new.lost_reason or old.description is distinct from new.description
    or old.custom is distinct from new.custom)
  execute function note_changed_text('deals');
create trigger note_removed_texts after delete on deals referencing old table as removed for each statement
  execute function note_removed_texts('deals');
create trigger require_account after insert on deals for each row
  when (new.account_id is not null)
  execute function require_account();
create trigger require_changed_account after update of account_id on deals for each row
  when (new.account_id is distinct from old.account_id and new.account_id is not null)
  execute function require_account();
create trigger require_changed_customer after update of customer_id on deals for each row
  when (new.customer_id is distinct from old.customer_id and new.customer_id is not null)
  execute function require_customer();
create trigger require_changed_lead after update of lead_id on deals for each row
  when (new.lead_id is distinct from old.lead_id and new.lead_id is not null)
  execute function require_lead();
create trigger require_customer after insert on deals for each row
  when (new.customer_id is not null)
  execute function require_customer();
create trigger require_lead after insert on deals for each row
  when (new.lead_id is not null)
  execute function require_lead();

create table deleted_items (
  company_id uuid not null,
  test_mode boolean not null,
  record_id uuid not null,
  kind text not null,
  id uuid not null,
  document jsonb not null,
  primary key (company_id, test_mode, record_id, kind, id)
);
alter table deleted_items alter column company_id set (n_distinct = 100);
create index deleted_items_of_id on deleted_items (company_id, test_mode, kind, id)
  where kind in ('attachments', 'activities', 'tasks');
alter table deleted_items enable row level security, force row level security;
create policy tenant on deleted_items to crm_app
  using (company_id = current_company() and test_mode = current_test_mode())
  with check (company_id = current_company() and test_mode = current_test_mode());
create policy purge on deleted_items to crm_purge
  using (company_id = current_company())
  with check (company_id = current_company());
grant select, insert, update, delete on deleted_items to crm_app;
grant select, insert, update, delete on deleted_items to crm_purge;
create trigger release_trashed_file after delete on deleted_items for each row
  when (old.kind = 'attachments')
  execute function release_trashed_file();

create table deleted_records (
  company_id uuid not null,
  test_mode boolean not null,
  object text not null,
  id uuid not null,
  document jsonb not null,
  children jsonb not null,
  deleted_at timestamptz(3) not null,
  deleted_by_kind text not null,
  deleted_by_id text not null,
  deleted_by_name text,
  purge_at timestamptz(3) not null,
  merged_into uuid,
  assigned_to uuid,
  created_by_kind text not null,
  created_by_id text not null,
  created_by_user uuid,
  restored_by jsonb,
  is_restored boolean not null generated always as (restored_by is not null) stored,
  primary key (company_id, test_mode, id)
);
alter table deleted_records alter column company_id set (n_distinct = 100);
create index deleted_records_assigned on deleted_records (company_id, test_mode, object, assigned_to, deleted_at, id)
  where assigned_to is not null;
create index deleted_records_deleted on deleted_records (company_id, test_mode, object, deleted_at, id);
create index deleted_records_deleted_by on deleted_records (company_id, test_mode, object, deleted_by_id, deleted_at,
  id);
create index deleted_records_in_name_of on deleted_records (company_id, test_mode, object, created_by_user, deleted_at,
  id)
  where assigned_to is null and created_by_user is not null;
create index deleted_records_of_key on deleted_records (company_id, test_mode, object, created_by_id)
  where assigned_to is null and created_by_kind = 'api_key' and created_by_user is null;
create index deleted_records_restored on deleted_records (company_id, test_mode) where is_restored;
create index deleted_records_to_purge on deleted_records (purge_at);
create index deleted_records_to_purge_in_test_mode on deleted_records (company_id, purge_at) where test_mode;
alter table deleted_records enable row level security, force row level security;
create policy tenant on deleted_records to crm_app
  using (company_id = current_company() and test_mode = current_test_mode())
  with check (company_id = current_company() and test_mode = current_test_mode());
create policy platform on deleted_records for select to crm_platform using (true);
create policy purge on deleted_records to crm_purge
  using (company_id = current_company())
  with check (company_id = current_company());
grant select, insert, update, delete on deleted_records to crm_app;
grant select (company_id, test_mode, purge_at, is_restored) on deleted_records to crm_platform;
grant select, insert, update, delete on deleted_records to crm_purge;

create table do_not_call (
  company_id uuid not null references companies (id) on delete cascade,
  test_mode boolean not null,
  id uuid not null,
  phone_number text not null,
  reason text,
  notes text,
  source text not null check (source in ('api', 'app', 'import', 'opt_out')),
  created_by_kind text not null,
  created_by_id text not null,
  created_by_name text,
  created_at timestamptz(3) not null,
  primary key (company_id, test_mode, id)
);
alter table do_not_call alter column company_id set (n_distinct = 100);
create unique index do_not_call_number on do_not_call (company_id, test_mode, phone_number text_pattern_ops);
create index do_not_call_searched on do_not_call (company_id, test_mode, created_at desc,
  id desc) include (phone_number);
alter table do_not_call enable row level security, force row level security;
create policy tenant on do_not_call to crm_app
  using (company_id = current_company() and test_mode = current_test_mode())
  with check (company_id = current_company() and test_mode = current_test_mode());
create policy purge on do_not_call to crm_purge
  using (company_id = current_company())
  with check (company_id = current_company());
grant select, insert, update, delete on do_not_call to crm_app;
grant select, insert, update, delete on do_not_call to crm_purge;

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
create policy purge on duplicate_checks to crm_purge
  using (company_id = current_company())
  with check (company_id = current_company());
grant select, insert, update, delete on duplicate_checks to crm_app;
grant select, insert, update, delete on duplicate_checks to crm_purge;
create trigger duplicate_checks_version after insert or delete or update on duplicate_checks for each row
  execute function raise_config_version();

create table email_suppressions (
  company_id uuid not null references companies (id) on delete cascade,
  test_mode boolean not null,
  id uuid not null,
  email text not null,
  reason text not null check (reason in ('unsubscribed', 'bounced', 'complained', 'manual')),
  source text not null check (source in ('api', 'app', 'import', 'opt_out', 'provider')),
  campaign_id uuid,
  created_at timestamptz(3) not null,
  primary key (company_id, test_mode, id)
);
alter table email_suppressions alter column company_id set (n_distinct = 100);
create unique index email_suppressions_address on email_suppressions (company_id, test_mode, email);
create index email_suppressions_listed on email_suppressions (company_id, test_mode, created_at desc, id desc);
create index email_suppressions_of_reason on email_suppressions (company_id, test_mode, reason, created_at desc,
  id desc);
alter table email_suppressions enable row level security, force row level security;
create policy tenant on email_suppressions to crm_app
  using (company_id = current_company() and test_mode = current_test_mode())
  with check (company_id = current_company() and test_mode = current_test_mode());
create policy purge on email_suppressions to crm_purge
  using (company_id = current_company())
  with check (company_id = current_company());
grant select, insert, update, delete on email_suppressions to crm_app;
grant select, insert, update, delete on email_suppressions to crm_purge;

create table exports (
  company_id uuid not null references companies (id) on delete cascade,
  test_mode boolean not null,
  id uuid not null,
  object text not null,
  format text not null,
  filter jsonb,
  fields text[],
  spreadsheet_safe boolean not null,
  modules text[] not null,
  sources jsonb not null,
  status text not null default 'queued',
  attempt int not null default 0,
  claimed_until timestamptz(3) not null,
  rows bigint,
  feed_position bigint,
  file_id uuid,
  bytes bigint,
  sha256 text,
  error text,
  created_by_kind text not null,
  created_by_id text not null,
  created_by_name text,
  created_by_user uuid,
  created_at timestamptz(3) not null,
  started_at timestamptz(3),
  completed_at timestamptz(3),
  expires_at timestamptz(3),
  primary key (company_id, test_mode, id),
  unique (company_id, test_mode, file_id),
  foreign key (company_id, test_mode, file_id) references stored_files (company_id, test_mode, id)
);
alter table exports alter column company_id set (n_distinct = 100);
create index exports_created on exports (company_id, test_mode, created_at desc, id desc);
create unique index exports_running on exports (company_id, test_mode) where status = 'running';
create index exports_to_delete on exports (created_at);
create index exports_to_expire on exports (expires_at) where status = 'completed';
create index exports_unfinished on exports (claimed_until) where status in ('queued', 'running');
alter table exports enable row level security, force row level security;
create policy tenant on exports to crm_app
  using (company_id = current_company() and test_mode = current_test_mode())
  with check (company_id = current_company() and test_mode = current_test_mode());
create policy platform on exports to crm_platform using (true) with check (true);
create policy purge on exports to crm_purge
  using (company_id = current_company())
  with check (company_id = current_company());
grant select, insert, update, delete on exports to crm_app;
grant select (company_id, test_mode, id, object, format, status, claimed_until, file_id, bytes, created_at, expires_at),
  update (status, file_id), delete on exports to crm_platform;
grant select, insert, update, delete on exports to crm_purge;
create trigger release_deleted after delete on exports for each row
  when (old.file_id is not null)
  execute function release_owned_file();
create trigger release_expired after update of file_id on exports for each row
  when (old.file_id is not null and new.file_id is null)
  execute function release_owned_file();

create table feed_events (
  company_id uuid not null,
  test_mode boolean not null,
  position bigint not null,
  id uuid not null,
  event text not null,
  object text,
  record_id uuid,
  occurred_at timestamptz(3) not null,
  actor jsonb not null,
  request_id uuid,
  data jsonb not null,
  changes jsonb,
  assigned_to uuid,
  created_by_kind text,
  created_by_id text,
  created_by_user uuid,
  primary key (company_id, test_mode, "position")
);
alter table feed_events alter column company_id set (n_distinct = 100);
create index feed_events_of_request on feed_events (company_id, test_mode, request_id) where request_id is not null;
alter table feed_events enable row level security, force row level security;
create policy tenant on feed_events to crm_app
  using (company_id = current_company() and test_mode = current_test_mode())
  with check (company_id = current_company() and test_mode = current_test_mode());
create policy platform on feed_events to crm_platform using (true) with check (true);
create policy purge on feed_events to crm_purge
  using (company_id = current_company())
  with check (company_id = current_company());
grant select, insert, delete on feed_events to crm_app;
grant select (company_id, test_mode, position, occurred_at), delete on feed_events to crm_platform;
grant select, insert, update, delete on feed_events to crm_purge;

create table feeds (
  company_id uuid not null,
  test_mode boolean not null,
  last_position bigint not null default 0,
  primary key (company_id, test_mode)
);
alter table feeds enable row level security, force row level security;
create policy tenant on feeds to crm_app
  using (company_id = current_company() and test_mode = current_test_mode())
  with check (company_id = current_company() and test_mode = current_test_mode());
create policy platform on feeds to crm_platform using (true) with check (true);
create policy purge on feeds to crm_purge
  using (company_id = current_company())
  with check (company_id = current_company());
grant select, insert, update on feeds to crm_app;
grant select on feeds to crm_platform;
grant select, insert, update, delete on feeds to crm_purge;

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
alter table field_overrides enable row level security, force row level security;
create policy tenant on field_overrides to crm_app
  using (company_id = current_company())
  with check (company_id = current_company());
create policy purge on field_overrides to crm_purge
  using (company_id = current_company())
  with check (company_id = current_company());
grant select, insert, update, delete on field_overrides to crm_app;
grant select, insert, update, delete on field_overrides to crm_purge;
create trigger field_overrides_version after insert or delete or update on field_overrides for each row
  execute function raise_config_version();

create table idempotency_records (
  company_id uuid not null,
  test_mode boolean not null,
  endpoint text not null,
  key text not null,
  request_hash bytea not null,
  status int not null,
  body text not null,
  created_at timestamptz(3) not null,
  leased_until timestamptz(3),
  primary key (company_id, test_mode, endpoint, key)
);
alter table idempotency_records alter column company_id set (n_distinct = 100);
create index idempotency_records_age on idempotency_records (created_at);
alter table idempotency_records enable row level security, force row level security;
create policy tenant on idempotency_records to crm_app
  using (company_id = current_company() and test_mode = current_test_mode())
  with check (company_id = current_company() and test_mode = current_test_mode());
create policy platform on idempotency_records to crm_platform using (true) with check (true);
create policy purge on idempotency_records to crm_purge
  using (company_id = current_company())
  with check (company_id = current_company());
grant select, insert, update, delete on idempotency_records to crm_app;
grant select, delete on idempotency_records to crm_platform;
grant select, insert, update, delete on idempotency_records to crm_purge;

create table import_errors (
  company_id uuid not null,
  test_mode boolean not null,
  import_id uuid not null,
  row int not null,
  line int not null,
  code text not null,
  message text not null,
  fields jsonb not null,
  content jsonb not null,
  primary key (company_id, test_mode, import_id, "row"),
  foreign key (company_id, test_mode, import_id) references imports (company_id, test_mode, id) on delete cascade
);
alter table import_errors enable row level security, force row level security;
create policy tenant on import_errors to crm_app
  using (company_id = current_company() and test_mode = current_test_mode())
  with check (company_id = current_company() and test_mode = current_test_mode());
create policy platform on import_errors to crm_platform using (true);
create policy purge on import_errors to crm_purge
  using (company_id = current_company())
  with check (company_id = current_company());
grant select, insert, delete on import_errors to crm_app;
grant select (company_id, test_mode, import_id, row), delete on import_errors to crm_platform;
grant select, insert, update, delete on import_errors to crm_purge;

create table import_parts (
  company_id uuid not null,
  test_mode boolean not null,
  import_id uuid not null,
  number int not null,
  file_id uuid not null,
  bytes bigint not null,
  sha256 text not null,
  primary key (company_id, test_mode, import_id, number),
  foreign key (company_id, test_mode, import_id) references imports (company_id, test_mode, id) on delete cascade,
  foreign key (company_id, test_mode, file_id) references stored_files (company_id, test_mode, id)
);
alter table import_parts enable row level security, force row level security;
create policy tenant on import_parts to crm_app
  using (company_id = current_company() and test_mode = current_test_mode())
  with check (company_id = current_company() and test_mode = current_test_mode());
create policy platform on import_parts to crm_platform using (true);
create policy purge on import_parts to crm_purge
  using (company_id = current_company())
  with check (company_id = current_company());
grant select, insert, update, delete on import_parts to crm_app;
grant select, delete on import_parts to crm_platform;
grant select, insert, update, delete on import_parts to crm_purge;
create trigger release_owned_file after delete on import_parts for each row execute function release_owned_file();

create table imports (
  company_id uuid not null references companies (id) on delete cascade,
  test_mode boolean not null,
  id uuid not null,
  object text not null,
  options jsonb not null,
  dry_run boolean not null,
  status text not null,
  file_name text,
  layout jsonb,
  next_byte bigint not null default 0,
  next_row int not null default 1,
  next_line int not null default 1,
  file_rows int,
  created int not null default 0,
  updated int not null default 0,
  unchanged int not null default 0,
  failed int not null default 0,
  charged_rows int not null default 0,
  attempts int not null default 0,
  error jsonb,
  errors_file_id uuid,
  errors_bytes bigint,
  reach_kind text not null,
  reach_id uuid,
  created_by_kind text not null,
  created_by_id text not null,
  created_by_name text,
  created_by_user uuid,
  status_before_undo text,
  due_at timestamptz(3),
  expires_at timestamptz(3),
  started_at timestamptz(3),
  completed_at timestamptz(3),
  created_at timestamptz(3) not null,
  primary key (company_id, test_mode, id),
  foreign key (company_id, test_mode, errors_file_id) references stored_files (company_id, test_mode, id)
);
create index imports_due on imports (due_at) where due_at is not null;
create index imports_expired on imports (expires_at) where expires_at is not null;
create index imports_newest on imports (company_id, test_mode, created_at desc, id desc);
create index imports_of_creator on imports (company_id, test_mode, created_by_id, created_at desc, id desc);
create index imports_with_status on imports (company_id, test_mode, status, created_at desc, id desc);
alter table imports enable row level security, force row level security;
create policy tenant on imports to crm_app
  using (company_id = current_company() and test_mode = current_test_mode())
  with check (company_id = current_company() and test_mode = current_test_mode());
create policy platform on imports to crm_platform using (true) with check (true);
create policy purge on imports to crm_purge
  using (company_id = current_company())
  with check (company_id = current_company());
grant select, insert, update, delete on imports to crm_app;
grant select (company_id, test_mode, id, status, charged_rows, errors_file_id, due_at, expires_at),
  update (charged_rows, errors_file_id, errors_bytes, expires_at), delete on imports to crm_platform;
grant select, insert, update, delete on imports to crm_purge;
create trigger release_errors_file after delete on imports for each row execute function release_errors_file();

create table inbound_secrets (
  company_id uuid not null references companies (id) on delete cascade,
  environment text not null check (environment in ('live', 'test')),
  sealed_secret text not null,
  secret_last4 text not null,
  sealed_previous_secret text,
  previous_secret_expires_at timestamptz(3),
  created_at timestamptz(3) not null,
  primary key (company_id, environment),
  check ((sealed_previous_secret is null) = (previous_secret_expires_at is null))
);
alter table inbound_secrets enable row level security, force row level security;
create policy tenant on inbound_secrets to crm_app
  using (company_id = current_company())
  with check (company_id = current_company());
create policy platform on inbound_secrets for select to crm_platform using (true);
create policy purge on inbound_secrets to crm_purge
  using (company_id = current_company())
  with check (company_id = current_company());
grant select, insert, update on inbound_secrets to crm_app;
grant select on inbound_secrets to crm_platform;
grant select, insert, update, delete on inbound_secrets to crm_purge;

create table invoices (
  company_id uuid not null references companies (id) on delete cascade,
  test_mode boolean not null,
  id uuid not null,
  operation_id uuid,
  number text not null,
  status text not null check (status in ('draft', 'open', 'paid', 'void', 'uncollectible')),
  kind text not null check (kind in ('subscription', 'wallet_topup', 'adjustment')),
  currency text not null,
  subtotal_minor bigint not null,
  tax_minor bigint not null default 0,
  total_minor bigint not null,
  amount_paid_minor bigint not null,
  period_start timestamptz(3) not null,
  period_end timestamptz(3) not null,
  issued_at timestamptz(3) not null,
  due_at timestamptz(3),
  paid_at timestamptz(3),
  lines jsonb not null,
  provider_id text,
  hosted_url text,
  pdf_url text,
  bill_to jsonb,
  primary key (company_id, test_mode, id),
  unique (company_id, test_mode, operation_id),
  unique (company_id, test_mode, number),
  unique (company_id, test_mode, provider_id)
);
create index invoices_listed on invoices (company_id, test_mode, issued_at desc, id desc);
alter table invoices enable row level security, force row level security;
create policy tenant on invoices to crm_app
  using (company_id = current_company() and test_mode = current_test_mode())
  with check (company_id = current_company() and test_mode = current_test_mode());
create policy purge on invoices to crm_purge
  using (company_id = current_company())
  with check (company_id = current_company());
grant select, insert, update on invoices to crm_app;
grant select, insert, update, delete on invoices to crm_purge;

create table leads (
  company_id uuid not null,
  test_mode boolean not null,
  id uuid not null,
  first_name text,
  last_name text,
  email text,
  mobile text,
  extension text,
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
  planned_followup_at timestamptz(3),
  converted_at timestamptz(3),
  converted_customer_id uuid,
  custom jsonb not null default '{}',
  version int not null default 1,
  created_by_kind text not null,
  created_by_id text not null,
  created_by_name text,
  created_at timestamptz(3) not null,
  updated_at timestamptz(3) not null,
  updated_by_id text,
  created_by_user uuid,
  website_hash bigint generated always as (hashtextextended(website, 0)) stored,
  inquiry_details_hash bigint generated always as (hashtextextended(inquiry_details, 0)) stored,
  notes_hash bigint generated always as (hashtextextended(notes, 0)) stored,
  primary key (company_id, test_mode, id),
  foreign key (company_id, source_id) references sources (company_id, id),
  foreign key (company_id, lead_status_id) references statuses (company_id, id),
  foreign key (company_id, assigned_to) references users (company_id, id)
);
alter table leads alter column company_id set (n_distinct = 100);
create index leads_assigned on leads (company_id, test_mode, assigned_to, created_at, id) where assigned_to is not null;
create index leads_by_city on leads (company_id, test_mode, city collate "C", id) where city is not null;
create index leads_by_company_name on leads (company_id, test_mode, company_name collate "C", id)
  where company_name is not null;
create index leads_by_converted_at on leads (company_id, test_mode, converted_at, id) where converted_at is not null;
create index leads_by_country on leads (company_id, test_mode, country collate "C", id) where country is not null;
create index leads_by_email on leads (company_id, test_mode, email collate "C", id) where email is not null;
create index leads_by_extension on leads (company_id, test_mode, extension collate "C", id) where extension is not null;
create index leads_by_first_name on leads (company_id, test_mode, first_name collate "C", id)
  where first_name is not null;
create index leads_by_job_title on leads (company_id, test_mode, job_title collate "C", id) where job_title is not null;
create index leads_by_last_contacted_at on leads (company_id, test_mode, last_contacted_at, id)
  where last_contacted_at is not null;
create index leads_by_last_name on leads (company_id, test_mode, last_name collate "C", id) where last_name is not null;
create index leads_by_mobile on leads (company_id, test_mode, mobile collate "C", id) where mobile is not null;
create index leads_by_next_followup_at on leads (company_id, test_mode, next_followup_at, id)
  where next_followup_at is not null;
create index leads_by_origin on leads (company_id, test_mode, origin collate "C", id) where origin is not null;
create index leads_by_postal_code on leads (company_id, test_mode, postal_code collate "C", id)
  where postal_code is not null;
create index leads_by_priority on leads (company_id, test_mode, priority, id) where priority is not null;
create index leads_by_state on leads (company_id, test_mode, state collate "C", id) where state is not null;
create index leads_created on leads (company_id, test_mode, created_at, id);
create index leads_in_name_of on leads (company_id, test_mode, created_by_user, created_at, id)
  where assigned_to is null and created_by_user is not null;
create index leads_of_creator on leads (company_id, test_mode, created_by_id collate "C", created_at, id);
create index leads_of_customer on leads (company_id, test_mode, converted_customer_id)
  where converted_customer_id is not null;
create index leads_of_key on leads (company_id, test_mode, created_by_id)
  where assigned_to is null and created_by_kind = 'api_key' and created_by_user is null;
create index leads_of_source on leads (company_id, source_id) where source_id is not null;
create index leads_of_status on leads (company_id, test_mode, lead_status_id, created_at, id);
create index leads_of_updater on leads (company_id, test_mode, updated_by_id collate "C")
  where updated_by_id is not null;
create index leads_same_inquiry_details_hash on leads (company_id, test_mode, inquiry_details_hash)
  where inquiry_details_hash is not null;
create index leads_same_notes_hash on leads (company_id, test_mode, notes_hash) where notes_hash is not null;
create index leads_same_website_hash on leads (company_id, test_mode, website_hash) where website_hash is not null;
create index leads_updated on leads (company_id, test_mode, updated_at, id);
alter table leads enable row level security, force row level security;
create policy tenant on leads to crm_app
  using (company_id = current_company() and test_mode = current_test_mode())
  with check (company_id = current_company() and test_mode = current_test_mode());
create policy purge on leads to crm_purge
  using (company_id = current_company())
  with check (company_id = current_company());
grant select, insert, update, delete on leads to crm_app;
grant select, insert, update, delete on leads to crm_purge;
create trigger forget_lead before delete on leads for each row execute function forget_lead();
create trigger leads_changed_custom_values after update of custom on leads for each row
  when (old.custom is distinct from new.custom)
  execute function keep_custom_value_hashes('leads');
create trigger leads_custom_values after insert on leads for each row
  when (new.custom <> '{}')
  execute function keep_custom_value_hashes('leads');
create trigger leads_removed_custom_values after delete on leads for each row
  when (old.custom <> '{}')
  execute function keep_custom_value_hashes('leads');
create trigger note_added_texts after insert on leads referencing new table as added for each statement
  execute function note_added_texts('leads');
create trigger note_changed_text after update on leads for each row
  when (old.first_name is distinct from new.first_name or old.last_name is distinct from new.last_name
    or old.company_name is distinct from new.company_name or old.email is distinct from new.email
    or old.mobile is distinct from new.mobile or old.job_title is distinct from new.job_title
    or old.website is distinct from new.website or old.city is distinct from new.city
    or old.state is distinct from new.state or old.country is distinct from new.country
    or old.postal_code is distinct from new.postal_code or old.origin is distinct from new.origin
    or old.custom is distinct from new.custom)
  execute function note_changed_text('leads');
create trigger note_removed_texts after delete on leads referencing old table as removed for each statement
  execute function note_removed_texts('leads');
create trigger require_changed_converted_customer after update of converted_customer_id on leads for each row
  when (new.converted_customer_id is distinct from old.converted_customer_id and new.converted_customer_id is not null)
  execute function require_converted_customer();
create trigger require_converted_customer after insert on leads for each row
  when (new.converted_customer_id is not null)
  execute function require_converted_customer();

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
create policy purge on link_types to crm_purge
  using (company_id = current_company())
  with check (company_id = current_company());
grant select, insert, update, delete on link_types to crm_app;
grant select, insert, update, delete on link_types to crm_purge;
create trigger link_types_version after insert or delete or update on link_types for each row
  execute function raise_config_version();

create table links (
  company_id uuid not null references companies (id) on delete cascade,
  test_mode boolean not null,
  id uuid not null,
  link_type_id uuid not null,
  from_object text not null,
  from_id uuid not null,
  to_object text not null,
  to_id uuid not null,
  cardinality text not null,
  created_by_kind text not null,
  created_by_id text not null,
  created_by_name text,
  created_by_user uuid,
  created_at timestamptz(3) not null,
  primary key (company_id, test_mode, id),
  foreign key (company_id, link_type_id) references link_types (company_id, id)
);
alter table links alter column company_id set (n_distinct = 100);
create index links_of_from on links (company_id, test_mode, from_id, link_type_id, created_at desc, id desc);
create index links_of_to on links (company_id, test_mode, to_id, link_type_id, created_at desc, id desc);
create unique index links_one_from on links (company_id, test_mode, link_type_id, to_id)
  where cardinality in ('one_to_one', 'one_to_many');
create unique index links_one_to on links (company_id, test_mode, link_type_id, from_id)
  where cardinality = 'one_to_one';
create unique index links_pair on links (company_id, test_mode, link_type_id, from_id, to_id);
alter table links enable row level security, force row level security;
create policy tenant on links to crm_app
  using (company_id = current_company() and test_mode = current_test_mode())
  with check (company_id = current_company() and test_mode = current_test_mode());
create policy purge on links to crm_purge
  using (company_id = current_company())
  with check (company_id = current_company());
grant select, insert, update (from_id, to_id), delete on links to crm_app;
grant select, insert, update, delete on links to crm_purge;

create table mails (
  company_id uuid not null references companies (id) on delete cascade,
  id uuid not null,
  recipient text not null,
  template text not null,
  data jsonb not null,
  status text not null default 'queued' check (status in ('queued', 'sent', 'kept', 'failed')),
  attempts int not null default 0,
  next_attempt_at timestamptz(3) not null,
  created_at timestamptz(3) not null,
  primary key (company_id, id)
);
create index mails_age on mails (created_at);
create index mails_due on mails (next_attempt_at) where status = 'queued';
alter table mails enable row level security, force row level security;
create policy tenant on mails to crm_app
  using (company_id = current_company())
  with check (company_id = current_company());
create policy platform on mails to crm_platform using (true) with check (true);
create policy purge on mails to crm_purge
  using (company_id = current_company())
  with check (company_id = current_company());
grant insert on mails to crm_app;
grant select, update (status, attempts, next_attempt_at), delete on mails to crm_platform;
grant select, insert, update, delete on mails to crm_purge;

create table merges (
  company_id uuid not null references companies (id) on delete cascade,
  test_mode boolean not null,
  id uuid not null,
  object text not null,
  source_id uuid not null,
  target_id uuid not null,
  moved jsonb not null,
  fields jsonb not null,
  undo jsonb,
  status text not null default 'completed' check (status in ('running', 'completed')),
  remaining jsonb,
  caused_by jsonb,
  due_at timestamptz(3),
  attempts int not null default 0,
  undo_until timestamptz(3) not null,
  created_by_kind text not null,
  created_by_id text not null,
  created_by_name text,
  created_by_user uuid,
  created_at timestamptz(3) not null,
  undone_at timestamptz(3),
  primary key (company_id, test_mode, id)
);
alter table merges alter column company_id set (n_distinct = 100);
create index merges_created on merges (company_id, test_mode, object, created_at, id);
create index merges_due on merges (due_at) where due_at is not null;
create index merges_in_name_of on merges (company_id, test_mode, object, created_by_user, created_at, id)
  where created_by_user is not null;
create index merges_of_key on merges (company_id, test_mode, object, created_by_id)
  where created_by_kind = 'api_key' and created_by_user is null;
create index merges_of_source on merges (company_id, test_mode, source_id, created_at, id);
create index merges_of_target on merges (company_id, test_mode, target_id, created_at, id);
create unique index merges_standing on merges (company_id, test_mode, source_id) where undone_at is null;
create index merges_unfinished on merges (company_id, test_mode) where status = 'running';
alter table merges enable row level security, force row level security;
create policy tenant on merges to crm_app
  using (company_id = current_company() and test_mode = current_test_mode())
  with check (company_id = current_company() and test_mode = current_test_mode());
create policy platform on merges for select to crm_platform using (true);
create policy purge on merges to crm_purge
  using (company_id = current_company())
  with check (company_id = current_company());
grant select, insert, update, delete on merges to crm_app;
grant select (company_id, test_mode, due_at) on merges to crm_platform;
grant select, insert, update, delete on merges to crm_purge;

create table message_drafts (
  company_id uuid not null references companies (id) on delete cascade,
  test_mode boolean not null,
  id uuid not null,
  channel text not null check (channel in ('sms', 'email', 'whatsapp')),
  status text not null check (status in ('draft', 'approved', 'sent', 'failed', 'rejected', 'withdrawn')),
  recipient text not null,
  sender text,
  subject text,
  body text not null,
  object text,
  record_id uuid,
  note text,
  campaign_id uuid,
  run_id uuid,
  approved_by uuid,
  approved_by_name text,
  approved_at timestamptz(3),
  rejected_by uuid,
  rejected_by_name text,
  rejected_at timestamptz(3),
  rejection_reason text,
  withdrawal_reason text,
  sent_at timestamptz(3),
  provider_ref text,
  error_code text,
  error_message text,
  due_at timestamptz(3),
  leased_until timestamptz(3),
  attempts int not null default 0,
  created_by_kind text not null,
  created_by_id text not null,
  created_by_name text,
  created_by_user uuid,
  created_at timestamptz(3) not null,
  updated_at timestamptz(3) not null,
  attempted_at timestamptz(3),
  primary key (company_id, test_mode, id)
);
alter table message_drafts alter column company_id set (n_distinct = 100);
create index message_drafts_at_provider on message_drafts (company_id, test_mode, provider_ref)
  where provider_ref is not null;
create index message_drafts_due on message_drafts (company_id, test_mode, channel, due_at) where due_at is not null;
create index message_drafts_in_name_of on message_drafts (company_id, test_mode, created_by_user, created_at, id)
  where created_by_user is not null;
create index message_drafts_listed on message_drafts (company_id, test_mode, created_at desc, id desc);
create index message_drafts_of_campaign on message_drafts (company_id, test_mode, campaign_id, run_id, channel, status)
  where campaign_id is not null;
create index message_drafts_of_channel on message_drafts (company_id, test_mode, channel, created_at desc, id desc);
create index message_drafts_of_key on message_drafts (company_id, test_mode, created_by_id)
  where created_by_kind = 'api_key' and created_by_user is null;
create index message_drafts_of_object on message_drafts (company_id, test_mode, object, created_at desc, id desc)
  where record_id is not null;
create index message_drafts_of_record on message_drafts (company_id, test_mode, record_id, created_at desc, id desc)
  where record_id is not null;
create unique index message_drafts_of_run on message_drafts (company_id, test_mode, run_id, channel, recipient)
  where run_id is not null;
create index message_drafts_of_status on message_drafts (company_id, test_mode, status, created_at desc, id desc);
alter table message_drafts enable row level security, force row level security;
create policy tenant on message_drafts to crm_app
  using (company_id = current_company() and test_mode = current_test_mode())
  with check (company_id = current_company() and test_mode = current_test_mode());
create policy platform on message_drafts to crm_platform using (true);
create policy purge on message_drafts to crm_purge
  using (company_id = current_company())
  with check (company_id = current_company());
grant select, insert, update, delete on message_drafts to crm_app;
grant select (company_id, test_mode, id, channel, due_at) on message_drafts to crm_platform;
grant select, insert, update, delete on message_drafts to crm_purge;

create table messages (
  company_id uuid not null references companies (id) on delete cascade,
  test_mode boolean not null,
  id uuid not null,
  object text,
  record_id uuid,
  channel text not null check (channel in ('sms', 'email', 'whatsapp')),
  direction text not null check (direction in ('inbound', 'outbound')),
  source text check (source in ('campaigns', 'drafts', 'inbox', 'support')),
  sender text,
  recipient text,
  subject text,
  body text not null,
  status text,
  campaign_id uuid,
  draft_id uuid,
  occurred_at timestamptz(3) not null,
  created_at timestamptz(3) not null default now(),
  primary key (company_id, test_mode, id),
  check ((object is null) = (record_id is null))
);
alter table messages alter column company_id set (n_distinct = 100);
create index messages_of_campaign on messages (company_id, test_mode, campaign_id, status) where campaign_id is not null;
create index messages_of_record on messages (company_id, test_mode, object, record_id, occurred_at desc, id desc);
alter table messages enable row level security, force row level security;
create policy tenant on messages to crm_app
  using (company_id = current_company() and test_mode = current_test_mode())
  with check (company_id = current_company() and test_mode = current_test_mode());
create policy purge on messages to crm_purge
  using (company_id = current_company())
  with check (company_id = current_company());
grant select, insert, update, delete on messages to crm_app;
grant select, insert, update, delete on messages to crm_purge;

create table notes (
  company_id uuid not null references companies (id) on delete cascade,
  test_mode boolean not null,
  id uuid not null,
  object text not null,
  record_id uuid not null,
  content text not null,
  created_by_kind text not null,
  created_by_id text not null,
  created_by_name text,
  created_by_user uuid,
  created_at timestamptz(3) not null,
  updated_at timestamptz(3) not null,
  primary key (company_id, test_mode, id)
);
alter table notes alter column company_id set (n_distinct = 100);
create index notes_of_creator on notes (company_id, test_mode, created_by_id, object, created_at desc, id desc);
create index notes_of_object on notes (company_id, test_mode, object, created_at desc, id desc);
create index notes_of_record on notes (company_id, test_mode, object, record_id, created_at desc, id desc);
alter table notes enable row level security, force row level security;
create policy tenant on notes to crm_app
  using (company_id = current_company() and test_mode = current_test_mode())
  with check (company_id = current_company() and test_mode = current_test_mode());
create policy purge on notes to crm_purge
  using (company_id = current_company())
  with check (company_id = current_company());
grant select, insert, update, delete on notes to crm_app;
grant select, insert, update, delete on notes to crm_purge;

create table notifications (
  company_id uuid not null,
  id uuid not null,
  user_id uuid not null,
  kind text not null,
  title text not null,
  object text,
  record_id uuid,
  subject_id uuid,
  created_at timestamptz(3) not null,
  read_at timestamptz(3),
  primary key (company_id, id),
  foreign key (company_id, user_id) references users (company_id, id) on delete cascade
);
create index notifications_age on notifications (created_at);
create index notifications_of_record on notifications (company_id, object, record_id) where record_id is not null;
create index notifications_of_user on notifications (company_id, user_id, created_at desc, id desc);
create index notifications_unread on notifications (company_id, user_id, created_at desc, id desc) where read_at is null;
alter table notifications enable row level security, force row level security;
create policy tenant on notifications to crm_app
  using (company_id = current_company())
  with check (company_id = current_company());
create policy platform on notifications to crm_platform using (true) with check (true);
create policy purge on notifications to crm_purge
  using (company_id = current_company())
  with check (company_id = current_company());
grant select, insert, update (record_id, read_at) on notifications to crm_app;
grant select (company_id, id, created_at), delete on notifications to crm_platform;
grant select, insert, update, delete on notifications to crm_purge;

create table oauth_artifacts (
  model text not null,
  id_hash bytea not null,
  payload jsonb not null,
  grant_hash bytea,
  consumed_at timestamptz(3),
  expires_at timestamptz(3),
  primary key (model, id_hash)
);
create index oauth_artifacts_age on oauth_artifacts (expires_at) where expires_at is not null;
create index oauth_artifacts_of_grant on oauth_artifacts (grant_hash) where grant_hash is not null;
alter table oauth_artifacts enable row level security, force row level security;
create policy oauth on oauth_artifacts to crm_oauth using (true) with check (true);
create policy platform on oauth_artifacts for select to crm_platform using (true);
create policy sweep on oauth_artifacts for delete to crm_platform using (expires_at is not null);
grant select, insert, update, delete on oauth_artifacts to crm_oauth;
grant select (model, id_hash, expires_at), delete on oauth_artifacts to crm_platform;

create table oauth_grants (
  company_id uuid not null,
  id uuid not null,
  user_id uuid not null,
  client_id text not null,
  client_name text not null,
  groups text[] not null default '{}' check (groups <@ array['records', 'pipeline', 'automation', 'calendar', 'messaging',
    'billing', 'admin']),
  extra_scopes text[] not null default '{}',
  write_mode text not null default 'direct' check (write_mode in ('direct', 'propose')),
  created_at timestamptz(3) not null,
  revoked_at timestamptz(3),
  audience text check (audience in ('api', 'mcp')),
  ended_families jsonb not null default '{}',
  primary key (company_id, id),
  foreign key (company_id, user_id) references users (company_id, id) on delete cascade
);
create unique index oauth_grants_active on oauth_grants (company_id, user_id, client_id, audience) nulls not distinct
  where revoked_at is null;
create index oauth_grants_of_client on oauth_grants (company_id, user_id, client_id, revoked_at desc);
alter table oauth_grants enable row level security, force row level security;
create policy tenant on oauth_grants to crm_app
  using (company_id = current_company())
  with check (company_id = current_company());
create policy platform on oauth_grants to crm_platform using (true) with check (true);
create policy purge on oauth_grants to crm_purge
  using (company_id = current_company())
  with check (company_id = current_company());
grant select, insert, update on oauth_grants to crm_app;
grant select on oauth_grants to crm_platform;
grant select, insert, update, delete on oauth_grants to crm_purge;

create table outbox_events (
  company_id uuid not null,
  id uuid not null,
  test_mode boolean not null,
  event text not null,
  occurred_at timestamptz(3) not null,
  actor jsonb not null,
  request_id uuid,
  data jsonb not null,
  seq bigint not null generated always as identity,
  changes jsonb,
  assigned_to uuid,
  created_by_kind text,
  created_by_id text,
  created_by_user uuid,
  primary key (company_id, test_mode, seq)
) with (
  autovacuum_vacuum_scale_factor = 0,
  autovacuum_vacuum_threshold = 2000,
  autovacuum_vacuum_insert_threshold = -1,
  autovacuum_analyze_scale_factor = 0,
  autovacuum_analyze_threshold = 100000,
  vacuum_truncate = false
);
alter table outbox_events enable row level security, force row level security;
create policy tenant on outbox_events to crm_app
  using (company_id = current_company() and test_mode = current_test_mode())
  with check (company_id = current_company() and test_mode = current_test_mode());
create policy platform on outbox_events for select to crm_platform using (true);
create policy purge on outbox_events to crm_purge
  using (company_id = current_company())
  with check (company_id = current_company());
grant select, insert, delete on outbox_events to crm_app;
grant select (company_id, test_mode, occurred_at) on outbox_events to crm_platform;
grant select, insert, update, delete on outbox_events to crm_purge;

create table phone_numbers (
  company_id uuid not null references companies (id) on delete cascade,
  test_mode boolean not null,
  id uuid not null,
  phone_number text not null,
  friendly_name text,
  country text,
  number_type text not null check (number_type in ('local', 'mobile', 'toll_free')),
  can_sms boolean not null,
  can_voice boolean not null,
  can_fax boolean not null,
  status text not null check (status in ('active', 'pending', 'suspended', 'released')),
  monthly_cost_minor int not null,
  currency text not null,
  is_default boolean not null,
  is_default_fax boolean not null,
  assigned_user_id uuid,
  created_at timestamptz(3) not null,
  updated_at timestamptz(3) not null,
  primary key (company_id, test_mode, id)
);
create unique index phone_numbers_default on phone_numbers (company_id, test_mode) where is_default;
create unique index phone_numbers_default_fax on phone_numbers (company_id, test_mode) where is_default_fax;
create unique index phone_numbers_number on phone_numbers (company_id, test_mode, phone_number)
  where status <> 'released';
alter table phone_numbers enable row level security, force row level security;
create policy tenant on phone_numbers to crm_app
  using (company_id = current_company() and test_mode = current_test_mode())
  with check (company_id = current_company() and test_mode = current_test_mode());
create policy purge on phone_numbers to crm_purge
  using (company_id = current_company())
  with check (company_id = current_company());
grant select, insert, update, delete on phone_numbers to crm_app;
grant select, insert, update, delete on phone_numbers to crm_purge;

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
create policy purge on pipelines to crm_purge
  using (company_id = current_company())
  with check (company_id = current_company());
grant select, insert, update, delete on pipelines to crm_app;
grant select, insert, update, delete on pipelines to crm_purge;
create trigger pipelines_version after insert or delete or update on pipelines for each row
  execute function raise_config_version();

create table portal_sessions (
  company_id uuid not null references companies (id) on delete cascade,
  test_mode boolean not null,
  id text not null,
  return_url text,
  created_at timestamptz(3) not null,
  expires_at timestamptz(3) not null,
  primary key (company_id, test_mode, id)
);
alter table portal_sessions enable row level security, force row level security;
create policy tenant on portal_sessions to crm_app
  using (company_id = current_company() and test_mode = current_test_mode())
  with check (company_id = current_company() and test_mode = current_test_mode());
create policy purge on portal_sessions to crm_purge
  using (company_id = current_company())
  with check (company_id = current_company());
grant select, insert on portal_sessions to crm_app;
grant select, insert, update, delete on portal_sessions to crm_purge;

create table profile_permissions (
  company_id uuid not null,
  profile_id uuid not null,
  module text not null,
  actions text[] not null,
  primary key (company_id, profile_id, module),
  foreign key (company_id, profile_id) references profiles (company_id, id) on delete cascade
);
alter table profile_permissions enable row level security, force row level security;
create policy tenant on profile_permissions to crm_app
  using (company_id = current_company())
  with check (company_id = current_company());
create policy platform on profile_permissions to crm_platform using (true) with check (true);
create policy purge on profile_permissions to crm_purge
  using (company_id = current_company())
  with check (company_id = current_company());
grant select, insert, update, delete on profile_permissions to crm_app;
grant select on profile_permissions to crm_platform;
grant select, insert, update, delete on profile_permissions to crm_purge;

create table profiles (
  company_id uuid not null references companies (id) on delete cascade,
  id uuid not null,
  name text not null,
  description text,
  created_at timestamptz(3) not null,
  updated_at timestamptz(3) not null,
  primary key (company_id, id)
);
create unique index profiles_name on profiles (company_id, fold_name(name));
alter table profiles enable row level security, force row level security;
create policy tenant on profiles to crm_app
  using (company_id = current_company())
  with check (company_id = current_company());
create policy platform on profiles to crm_platform using (true) with check (true);
create policy purge on profiles to crm_purge
  using (company_id = current_company())
  with check (company_id = current_company());
grant select, insert, update, delete on profiles to crm_app;
grant select on profiles to crm_platform;
grant select, insert, update, delete on profiles to crm_purge;

create table provider_bills (
  company_id uuid primary key references companies (id) on delete cascade,
  prices jsonb not null,
  discounts jsonb not null,
  pending jsonb,
  next_charge_at timestamptz(3),
  problem text,
  looked_at timestamptz(3) not null
);
alter table provider_bills enable row level security, force row level security;
create policy tenant on provider_bills to crm_app
  using (company_id = current_company())
  with check (company_id = current_company());
create policy purge on provider_bills to crm_purge
  using (company_id = current_company())
  with check (company_id = current_company());
grant select, insert, update on provider_bills to crm_app;
grant select, insert, update, delete on provider_bills to crm_purge;

create table provider_customer_places (
  customer_id text primary key,
  company_id uuid not null
);
alter table provider_customer_places enable row level security, force row level security;
create policy tenant on provider_customer_places to crm_app
  using (company_id = current_company())
  with check (company_id = current_company());
create policy platform on provider_customer_places for select to crm_platform using (true);
create policy purge on provider_customer_places to crm_purge
  using (company_id = current_company())
  with check (company_id = current_company());
grant insert on provider_customer_places to crm_app;
grant select on provider_customer_places to crm_platform;
grant select, insert, update, delete on provider_customer_places to crm_purge;

create table provider_customers (
  company_id uuid primary key references companies (id) on delete cascade,
  customer_id text not null,
  asked bigint not null default 0,
  written bigint not null default 0,
  due_at timestamptz(3) not null,
  created_at timestamptz(3) not null,
  duplicates jsonb not null default '[]'
);
create index provider_customers_due on provider_customers (due_at);
alter table provider_customers enable row level security, force row level security;
create policy tenant on provider_customers to crm_app
  using (company_id = current_company())
  with check (company_id = current_company());
create policy platform on provider_customers for select to crm_platform using (true);
create policy purge on provider_customers to crm_purge
  using (company_id = current_company())
  with check (company_id = current_company());
grant select, insert, update (asked, written, due_at, duplicates) on provider_customers to crm_app;
grant select (company_id, due_at) on provider_customers to crm_platform;
grant select, insert, update, delete on provider_customers to crm_purge;

create table provider_events (
  company_id uuid not null references companies (id) on delete cascade,
  id text not null,
  received_at timestamptz(3) not null,
  primary key (company_id, id)
);
create index provider_events_age on provider_events (received_at);
alter table provider_events enable row level security, force row level security;
create policy tenant on provider_events to crm_app
  using (company_id = current_company())
  with check (company_id = current_company());
create policy platform on provider_events to crm_platform using (true);
create policy purge on provider_events to crm_purge
  using (company_id = current_company())
  with check (company_id = current_company());
grant select, insert on provider_events to crm_app;
grant select, delete on provider_events to crm_platform;
grant select, insert, update, delete on provider_events to crm_purge;

create table purged_companies (
  company_id uuid primary key,
  ended_at timestamptz(3),
  purged_at timestamptz(3),
  removed_rows bigint not null,
  removed_files bigint not null,
  swept_at timestamptz(3)
);
create index purged_companies_to_sweep on purged_companies (purged_at) where swept_at is null;
alter table purged_companies enable row level security, force row level security;
create policy platform on purged_companies for select to crm_platform using (swept_at is null);
create policy purge on purged_companies to crm_purge
  using (company_id = current_company())
  with check (company_id = current_company());
grant select (company_id, purged_at, swept_at) on purged_companies to crm_platform;
grant select, insert, update on purged_companies to crm_purge;

create table received_reports (
  company_id uuid not null references companies (id) on delete cascade,
  test_mode boolean not null,
  id uuid not null,
  provider text not null check (provider in ('generic', 'twilio', 'own')),
  external_id text not null,
  kind text not null check (kind in ('sms', 'whatsapp', 'email', 'email_engagement', 'fax', 'call', 'form')),
  object text,
  record_id uuid,
  details jsonb not null,
  occurred_at timestamptz(3) not null,
  received_at timestamptz(3) not null,
  primary key (company_id, test_mode, id),
  unique (company_id, test_mode, provider, external_id),
  check ((object is null) = (record_id is null))
);
alter table received_reports alter column company_id set (n_distinct = 100);
create index received_reports_age on received_reports (received_at);
create index received_reports_of_record on received_reports (company_id, test_mode, object, record_id)
  where record_id is not null;
alter table received_reports enable row level security, force row level security;
create policy tenant on received_reports to crm_app
  using (company_id = current_company() and test_mode = current_test_mode())
  with check (company_id = current_company() and test_mode = current_test_mode());
create policy platform on received_reports to crm_platform using (true);
create policy purge on received_reports to crm_purge
  using (company_id = current_company())
  with check (company_id = current_company());
grant select, insert, update (record_id), delete on received_reports to crm_app;
grant select (company_id, test_mode, id, received_at), delete on received_reports to crm_platform;
grant select, insert, update, delete on received_reports to crm_purge;

create table record_tags (
  company_id uuid not null,
  test_mode boolean not null,
  object text not null,
  record_id uuid not null,
  tag_id uuid not null,
  is_manual boolean not null,
  primary key (company_id, test_mode, object, record_id, tag_id),
  foreign key (company_id, tag_id) references tags (company_id, id) on delete cascade
);
alter table record_tags alter column company_id set (n_distinct = 100);
create index record_tags_of_tag on record_tags (company_id, tag_id, test_mode, record_id);
alter table record_tags enable row level security, force row level security;
create policy tenant on record_tags to crm_app
  using (company_id = current_company() and test_mode = current_test_mode())
  with check (company_id = current_company() and test_mode = current_test_mode());
create policy purge on record_tags to crm_purge
  using (company_id = current_company())
  with check (company_id = current_company());
grant select, insert, update, delete on record_tags to crm_app;
grant select, insert, update, delete on record_tags to crm_purge;

create table reference_clearings (
  company_id uuid not null references companies (id) on delete cascade,
  test_mode boolean not null,
  object text not null,
  record_id uuid not null,
  caused_by jsonb not null,
  created_at timestamptz(3) not null,
  primary key (company_id, test_mode, object, record_id)
);
alter table reference_clearings enable row level security, force row level security;
create policy tenant on reference_clearings to crm_app
  using (company_id = current_company() and test_mode = current_test_mode())
  with check (company_id = current_company() and test_mode = current_test_mode());
create policy platform on reference_clearings for select to crm_platform using (true);
create policy purge on reference_clearings to crm_purge
  using (company_id = current_company())
  with check (company_id = current_company());
grant select, insert, update (created_at), delete on reference_clearings to crm_app;
grant select (company_id, test_mode) on reference_clearings to crm_platform;
grant select, insert, update, delete on reference_clearings to crm_purge;

create table refresh_tokens (
  token_hash bytea not null,
  company_id uuid not null,
  session_id uuid not null,
  issued_at timestamptz(3) not null,
  used_at timestamptz(3),
  primary key (company_id, token_hash),
  foreign key (company_id, session_id) references sessions (company_id, id) on delete cascade
);
create index refresh_tokens_of_session on refresh_tokens (company_id, session_id);
alter table refresh_tokens enable row level security, force row level security;
create policy tenant on refresh_tokens to crm_app
  using (company_id = current_company())
  with check (company_id = current_company());
create policy platform on refresh_tokens to crm_platform using (true) with check (true);
create policy purge on refresh_tokens to crm_purge
  using (company_id = current_company())
  with check (company_id = current_company());
grant select, insert, update, delete on refresh_tokens to crm_platform;
grant select, insert, update, delete on refresh_tokens to crm_purge;

create table request_log (
  company_id uuid not null,
  test_mode boolean not null,
  id uuid not null,
  first_id uuid not null,
  has_failures boolean not null,
  terms text[] not null,
  requests text not null,
  details text,
  primary key (company_id, test_mode, id)
) partition by range (id);
create index request_log_failures on request_log (company_id, test_mode, id) where has_failures;
alter table request_log enable row level security, force row level security;
create policy tenant on request_log to crm_app
  using (company_id = current_company() and test_mode = current_test_mode())
  with check (company_id = current_company() and test_mode = current_test_mode());
create policy platform on request_log for insert to crm_platform with check (true);
create policy purge on request_log to crm_purge
  using (company_id = current_company())
  with check (company_id = current_company());
grant select, delete on request_log to crm_app;
grant insert on request_log to crm_platform;
grant select, insert, update, delete on request_log to crm_purge;

create table request_log_2026_11_29 partition of request_log for values from ('01a22499-f800-0000-0000-000000000000') to ('01a229c0-5400-0000-0000-000000000000');
alter table request_log_2026_11_29 enable row level security, force row level security;

create table request_log_2026_11_30 partition of request_log for values from ('01a229c0-5400-0000-0000-000000000000') to ('01a22ee6-b000-0000-0000-000000000000');
alter table request_log_2026_11_30 enable row level security, force row level security;

create table request_log_2026_12_01 partition of request_log for values from ('01a22ee6-b000-0000-0000-000000000000') to ('01a2340d-0c00-0000-0000-000000000000');
alter table request_log_2026_12_01 enable row level security, force row level security;

create table request_log_other partition of request_log default;
create index request_log_other_age on request_log_other (id);
alter table request_log_other enable row level security, force row level security;
create policy removed on request_log_other for delete to crm_platform using (true);
create policy swept on request_log_other for select to crm_platform using (true);
grant select (company_id, id), delete on request_log_other to crm_platform;

create table revert_items (
  company_id uuid not null,
  test_mode boolean not null,
  revert_id uuid not null,
  object text not null,
  record_id uuid not null,
  operations int not null,
  existed_before boolean,
  exists_after boolean,
  first_at timestamptz(3) not null,
  last_at timestamptz(3) not null,
  fields jsonb not null,
  step smallint,
  conflicts jsonb not null default '[]',
  primary key (company_id, test_mode, revert_id, object, record_id),
  foreign key (company_id, test_mode, revert_id) references reverts (company_id, test_mode, id) on delete cascade
);
create index revert_items_in_order on revert_items (company_id, test_mode, revert_id, step, object, record_id)
  where step is not null;
alter table revert_items enable row level security, force row level security;
create policy tenant on revert_items to crm_app
  using (company_id = current_company() and test_mode = current_test_mode())
  with check (company_id = current_company() and test_mode = current_test_mode());
create policy platform on revert_items to crm_platform using (true);
create policy purge on revert_items to crm_purge
  using (company_id = current_company())
  with check (company_id = current_company());
grant select, insert, update, delete on revert_items to crm_app;
grant select (company_id, test_mode, revert_id, object, record_id), delete on revert_items to crm_platform;
grant select, insert, update, delete on revert_items to crm_purge;

create table reverts (
  company_id uuid not null references companies (id) on delete cascade,
  test_mode boolean not null,
  id uuid not null,
  status text not null,
  source jsonb not null,
  objects text[],
  phase text not null default 'read',
  read_at timestamptz(3),
  read_id uuid,
  next_step smallint not null default 0,
  next_object text not null default '',
  next_record uuid,
  records int not null default 0,
  operations int not null default 0,
  pending int not null default 0,
  done int not null default 0,
  reverted int not null default 0,
  skipped int not null default 0,
  conflict_count int not null default 0,
  conflicts jsonb not null default '[]',
  scopes text[] not null default '{}',
  digest text not null,
  on_conflict text,
  module text not null,
  applied_by jsonb,
  error jsonb,
  attempts int not null default 0,
  reach_kind text not null,
  reach_id uuid,
  created_by_kind text not null,
  created_by_id text not null,
  created_by_name text,
  created_by_user uuid,
  expires_at timestamptz(3),
  items_until timestamptz(3),
  due_at timestamptz(3),
  started_at timestamptz(3),
  completed_at timestamptz(3),
  created_at timestamptz(3) not null,
  primary key (company_id, test_mode, id)
);
alter table reverts alter column company_id set (n_distinct = 100);
create index reverts_active on reverts (company_id, test_mode) where due_at is not null;
create index reverts_due on reverts (due_at) where due_at is not null;
create index reverts_ended on reverts (items_until) where items_until is not null;
create index reverts_newest on reverts (company_id, test_mode, created_at desc, id desc);
alter table reverts enable row level security, force row level security;
create policy tenant on reverts to crm_app
  using (company_id = current_company() and test_mode = current_test_mode())
  with check (company_id = current_company() and test_mode = current_test_mode());
create policy platform on reverts to crm_platform using (true) with check (true);
create policy purge on reverts to crm_purge
  using (company_id = current_company())
  with check (company_id = current_company());
grant select, insert, update, delete on reverts to crm_app;
grant select (company_id, test_mode, id, status, items_until, due_at), update (status, items_until), delete
  on reverts to crm_platform;
grant select, insert, update, delete on reverts to crm_purge;

create table roles (
  id uuid primary key,
  name text not null unique,
  is_hidden boolean not null default false,
  profile_id uuid unique
);
grant select on roles to crm_app;
grant select on roles to crm_platform;

create table saved_reports (
  company_id uuid not null references companies (id) on delete cascade,
  id uuid not null,
  name text not null,
  object text not null,
  config jsonb not null default '{}',
  is_shared boolean not null default false,
  created_by_kind text not null,
  created_by_id text not null,
  created_by_name text,
  created_by_user uuid,
  created_at timestamptz(3) not null,
  updated_at timestamptz(3) not null,
  primary key (company_id, id)
);
create index saved_reports_listed on saved_reports (company_id, created_at desc, id desc);
create unique index saved_reports_name on saved_reports (company_id, object, coalesce((created_by_user)::text,
  created_by_id), fold_name(name));
alter table saved_reports enable row level security, force row level security;
create policy tenant on saved_reports to crm_app
  using (company_id = current_company())
  with check (company_id = current_company());
create policy purge on saved_reports to crm_purge
  using (company_id = current_company())
  with check (company_id = current_company());
grant select, insert, update, delete on saved_reports to crm_app;
grant select, insert, update, delete on saved_reports to crm_purge;

create table saved_views (
  company_id uuid not null references companies (id) on delete cascade,
  id uuid not null,
  object text not null,
  name text not null,
  filter jsonb,
  sort text,
  fields text[],
  is_shared boolean not null,
  created_by_kind text not null,
  created_by_id text not null,
  created_by_name text,
  created_by_user uuid,
  created_at timestamptz(3) not null,
  updated_at timestamptz(3) not null,
  primary key (company_id, id)
);
create index saved_views_listed on saved_views (company_id, created_at desc, id desc);
create unique index saved_views_name on saved_views (company_id, object, coalesce((created_by_user)::text,
  created_by_id), fold_name(name));
alter table saved_views enable row level security, force row level security;
create policy tenant on saved_views to crm_app
  using (company_id = current_company())
  with check (company_id = current_company());
create policy purge on saved_views to crm_purge
  using (company_id = current_company())
  with check (company_id = current_company());
grant select, insert, update, delete on saved_views to crm_app;
grant select, insert, update, delete on saved_views to crm_purge;

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
create index scheduling_assignments_of_record on scheduling_assignments (company_id, test_mode, object, record_id)
  where record_id is not null;
alter table scheduling_assignments enable row level security, force row level security;
create policy tenant on scheduling_assignments to crm_app
  using (company_id = current_company() and test_mode = current_test_mode())
  with check (company_id = current_company() and test_mode = current_test_mode());
create policy purge on scheduling_assignments to crm_purge
  using (company_id = current_company())
  with check (company_id = current_company());
grant select, insert, update, delete on scheduling_assignments to crm_app;
grant select, insert, update, delete on scheduling_assignments to crm_purge;

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
  working_hours jsonb,
  assignment_strategy text not null check (assignment_strategy in ('round_robin', 'least_busy', 'priority')),
  exposure text not null check (exposure in ('individual', 'merged', 'shared')),
  max_bookings_per_day int,
  meeting_location_kind text not null check (meeting_location_kind in ('video', 'phone', 'in_person')),
  meeting_url_template text,
  questions jsonb not null default '[]',
  created_at timestamptz(3) not null,
  updated_at timestamptz(3) not null,
  primary key (company_id, id)
);
create unique index scheduling_policies_default on scheduling_policies (company_id) where is_default;
create unique index scheduling_policies_name on scheduling_policies (company_id, fold_name(name));
alter table scheduling_policies enable row level security, force row level security;
create policy tenant on scheduling_policies to crm_app
  using (company_id = current_company())
  with check (company_id = current_company());
create policy purge on scheduling_policies to crm_purge
  using (company_id = current_company())
  with check (company_id = current_company());
grant select, insert, update, delete on scheduling_policies to crm_app;
grant select, insert, update, delete on scheduling_policies to crm_purge;

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
create policy purge on scheduling_pool_members to crm_purge
  using (company_id = current_company())
  with check (company_id = current_company());
grant select, insert, update, delete on scheduling_pool_members to crm_app;
grant select, insert, update, delete on scheduling_pool_members to crm_purge;

create table scheduling_pools (
  company_id uuid not null references companies (id) on delete cascade,
  id uuid not null,
  name text not null,
  description text,
  policy_id uuid,
  assignment_strategy text check (assignment_strategy in ('round_robin', 'least_busy', 'priority')),
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
create policy purge on scheduling_pools to crm_purge
  using (company_id = current_company())
  with check (company_id = current_company());
grant select, insert, update, delete on scheduling_pools to crm_app;
grant select, insert, update, delete on scheduling_pools to crm_purge;

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
create policy purge on scheduling_turns to crm_purge
  using (company_id = current_company())
  with check (company_id = current_company());
grant select, insert, update, delete on scheduling_turns to crm_app;
grant select, insert, update, delete on scheduling_turns to crm_purge;

create table search_blocks (
  company_id uuid not null references companies (id) on delete cascade,
  test_mode boolean not null,
  object text not null,
  block int not null,
  record_ids uuid[] not null,
  texts text[] not null,
  primary key (company_id, test_mode, object, block)
);
alter table search_blocks alter column company_id set (n_distinct = 100);
alter table search_blocks enable row level security, force row level security;
create policy tenant on search_blocks to crm_app
  using (company_id = current_company() and test_mode = current_test_mode())
  with check (company_id = current_company() and test_mode = current_test_mode());
create policy purge on search_blocks to crm_purge
  using (company_id = current_company())
  with check (company_id = current_company());
grant select, insert, update on search_blocks to crm_app;
grant select, insert, update, delete on search_blocks to crm_purge;

create table search_changes (
  company_id uuid not null,
  test_mode boolean not null,
  object text not null,
  id bigint not null generated always as identity,
  record_id uuid not null,
  due_at timestamptz(3),
  primary key (company_id, test_mode, object, id)
);
alter table search_changes alter column company_id set (n_distinct = 100);
alter table search_changes enable row level security, force row level security;
create policy tenant on search_changes to crm_app
  using (company_id = current_company() and test_mode = current_test_mode())
  with check (company_id = current_company() and test_mode = current_test_mode());
create policy platform on search_changes for select to crm_platform using (true);
create policy purge on search_changes to crm_purge
  using (company_id = current_company())
  with check (company_id = current_company());
grant select, insert, delete on search_changes to crm_app;
grant select (company_id, test_mode, object, id, due_at) on search_changes to crm_platform;
grant select, insert, update, delete on search_changes to crm_purge;

create table search_signatures (
  company_id uuid not null references companies (id) on delete cascade,
  test_mode boolean not null,
  object text not null,
  number int not null,
  words bytea not null,
  primary key (company_id, test_mode, object, number)
);
alter table search_signatures alter column words set storage external;
alter table search_signatures enable row level security, force row level security;
create policy tenant on search_signatures to crm_app
  using (company_id = current_company() and test_mode = current_test_mode())
  with check (company_id = current_company() and test_mode = current_test_mode());
create policy purge on search_signatures to crm_purge
  using (company_id = current_company())
  with check (company_id = current_company());
grant select, insert on search_signatures to crm_app;
grant select, insert, update, delete on search_signatures to crm_purge;

create table server_secrets (
  name text primary key,
  sealed text not null,
  created_at timestamptz(3) not null default now()
);

create table sessions (
  company_id uuid not null,
  id uuid not null,
  user_id uuid not null,
  created_at timestamptz(3) not null,
  expires_at timestamptz(3) not null,
  ended_at timestamptz(3),
  ip text,
  user_agent text,
  primary key (company_id, id),
  foreign key (company_id, user_id) references users (company_id, id) on delete cascade
);
create index sessions_age on sessions (expires_at);
create index sessions_of_user on sessions (company_id, user_id) where ended_at is null;
alter table sessions enable row level security, force row level security;
create policy tenant on sessions to crm_app
  using (company_id = current_company())
  with check (company_id = current_company());
create policy platform on sessions to crm_platform using (true) with check (true);
create policy purge on sessions to crm_purge
  using (company_id = current_company())
  with check (company_id = current_company());
grant select, update (ended_at) on sessions to crm_app;
grant select, insert, update, delete on sessions to crm_platform;
grant select, insert, update, delete on sessions to crm_purge;

create table shown_secrets (
  company_id uuid not null,
  id uuid not null,
  session_id uuid not null,
  created_at timestamptz(3) not null,
  expires_at timestamptz(3) not null,
  made_id uuid,
  sealed_secret text,
  primary key (company_id, id),
  foreign key (company_id, session_id) references sessions (company_id, id) on delete cascade
);
create index shown_secrets_age on shown_secrets (expires_at);
create index shown_secrets_of_session on shown_secrets (company_id, session_id);
alter table shown_secrets enable row level security, force row level security;
create policy tenant on shown_secrets to crm_app
  using (company_id = current_company())
  with check (company_id = current_company());
create policy platform on shown_secrets to crm_platform using (true);
create policy purge on shown_secrets to crm_purge
  using (company_id = current_company())
  with check (company_id = current_company());
grant select, insert, update (made_id, sealed_secret), delete on shown_secrets to crm_app;
grant select (company_id, id, expires_at), delete on shown_secrets to crm_platform;
grant select, insert, update, delete on shown_secrets to crm_purge;

create table sign_ins (
  email text not null,
  company_id uuid not null,
  user_id uuid not null,
  password_hash text not null,
  must_change_password boolean not null,
  created_at timestamptz(3) not null,
  primary key (company_id, user_id),
  unique (company_id, email),
  foreign key (company_id, user_id) references users (company_id, id) on delete cascade
);
alter table sign_ins enable row level security, force row level security;
create policy tenant on sign_ins to crm_app
  using (company_id = current_company())
  with check (company_id = current_company());
create policy platform on sign_ins to crm_platform using (true) with check (true);
create policy purge on sign_ins to crm_purge
  using (company_id = current_company())
  with check (company_id = current_company());
grant select (email, company_id, user_id, must_change_password), insert (email, company_id, user_id, password_hash,
  must_change_password, created_at) on sign_ins to crm_app;
grant select, update (password_hash, must_change_password) on sign_ins to crm_platform;
grant select, insert, update, delete on sign_ins to crm_purge;

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
  next_at timestamptz(3),
  handled_at timestamptz(3) not null,
  satisfied_at timestamptz(3),
  ended_at timestamptz(3),
  breached_at timestamptz(3),
  primary key (company_id, test_mode, id),
  check (satisfied_at is null or ended_at is not null)
);
alter table sla_clocks alter column company_id set (n_distinct = 100);
create index sla_clocks_deadlines on sla_clocks (company_id, test_mode, object, due_at, record_id)
  where ended_at is null;
create index sla_clocks_due on sla_clocks (next_at) where next_at is not null;
create index sla_clocks_due_of_company on sla_clocks (company_id, test_mode, next_at) where next_at is not null;
create index sla_clocks_ended on sla_clocks (ended_at) where ended_at is not null;
create index sla_clocks_of_policy on sla_clocks (company_id, policy_id, test_mode, id) where ended_at is null;
create index sla_clocks_of_record on sla_clocks (company_id, test_mode, object, record_id, kind, started_at desc,
  id desc);
create unique index sla_clocks_open on sla_clocks (company_id, test_mode, object, record_id, kind)
  where ended_at is null;
alter table sla_clocks enable row level security, force row level security;
create policy tenant on sla_clocks to crm_app
  using (company_id = current_company() and test_mode = current_test_mode())
  with check (company_id = current_company() and test_mode = current_test_mode());
create policy platform on sla_clocks to crm_platform using (true) with check (true);
create policy purge on sla_clocks to crm_purge
  using (company_id = current_company())
  with check (company_id = current_company());
grant select, insert, update, delete on sla_clocks to crm_app;
grant select (company_id, test_mode, id, next_at, ended_at), delete on sla_clocks to crm_platform;
grant select, insert, update, delete on sla_clocks to crm_purge;

create table sla_policies (
  company_id uuid not null references companies (id) on delete cascade,
  id uuid not null,
  name text not null,
  entity_type text not null check (entity_type in ('lead', 'customer', 'deal')),
  priority int check (priority >= 1 and priority <= 4),
  is_active boolean not null,
  first_response_time int check (first_response_time > 0),
  every_response_time int check (every_response_time > 0),
  resolution_time int check (resolution_time > 0),
  mode text not null check (mode in ('24/7', 'business_hours')),
  business_hours_start text,
  business_hours_end text,
  business_days integer[],
  timezone text not null,
  reminders jsonb not null default '[]',
  escalations jsonb not null default '[]',
  revised_at timestamptz(3),
  created_at timestamptz(3) not null,
  updated_at timestamptz(3) not null,
  primary key (company_id, id),
  check (num_nonnulls(first_response_time, every_response_time, resolution_time) > 0)
);
create unique index sla_policies_name on sla_policies (company_id, fold_name(name));
create index sla_policies_revised on sla_policies (revised_at) where revised_at is not null;
alter table sla_policies enable row level security, force row level security;
create policy tenant on sla_policies to crm_app
  using (company_id = current_company())
  with check (company_id = current_company());
create policy platform on sla_policies to crm_platform using (true) with check (true);
create policy purge on sla_policies to crm_purge
  using (company_id = current_company())
  with check (company_id = current_company());
grant select, insert, update, delete on sla_policies to crm_app;
grant select (company_id, id, revised_at) on sla_policies to crm_platform;
grant select, insert, update, delete on sla_policies to crm_purge;
create trigger sla_policies_changed after update on sla_policies for each row
  when (old.revised_at is null or new.revised_at is not null)
  execute function raise_config_version();
create trigger sla_policies_version after insert or delete on sla_policies for each row
  execute function raise_config_version();

create table slot_reservations (
  company_id uuid not null references companies (id) on delete cascade,
  test_mode boolean not null,
  id uuid not null,
  status text not null check (status in ('held', 'released', 'consumed', 'expired')),
  user_id uuid not null,
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
create index slot_reservations_age on slot_reservations (created_at);
create index slot_reservations_pool on slot_reservations (company_id, pool_id, expires_at) where status = 'held';
alter table slot_reservations enable row level security, force row level security;
create policy tenant on slot_reservations to crm_app
  using (company_id = current_company() and test_mode = current_test_mode())
  with check (company_id = current_company() and test_mode = current_test_mode());
create policy platform on slot_reservations to crm_platform using (true);
create policy purge on slot_reservations to crm_purge
  using (company_id = current_company())
  with check (company_id = current_company());
grant select, insert, update, delete on slot_reservations to crm_app;
grant select (company_id, test_mode, id, created_at), delete on slot_reservations to crm_platform;
grant select, insert, update, delete on slot_reservations to crm_purge;

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
create policy purge on sources to crm_purge
  using (company_id = current_company())
  with check (company_id = current_company());
grant select, insert, update, delete on sources to crm_app;
grant select, insert, update, delete on sources to crm_purge;
create trigger sources_version after insert or delete or update on sources for each row
  execute function raise_config_version();

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
  unique (company_id, pipeline_id, id),
  foreign key (company_id, pipeline_id) references pipelines (company_id, id),
  check ((object = 'deals') = (pipeline_id is not null))
);
create unique index statuses_name on statuses (company_id, object, pipeline_id, fold_name(name)) nulls not distinct;
alter table statuses enable row level security, force row level security;
create policy tenant on statuses to crm_app
  using (company_id = current_company())
  with check (company_id = current_company());
create policy purge on statuses to crm_purge
  using (company_id = current_company())
  with check (company_id = current_company());
grant select, insert, update, delete on statuses to crm_app;
grant select, insert, update, delete on statuses to crm_purge;
create trigger statuses_version after insert or delete or update on statuses for each row
  execute function raise_config_version();

create table stored_files (
  company_id uuid not null,
  test_mode boolean not null,
  id uuid not null,
  remove_after timestamptz(3),
  primary key (company_id, test_mode, id)
);
create index stored_files_to_remove on stored_files (remove_after) where remove_after is not null;
alter table stored_files enable row level security, force row level security;
create policy tenant on stored_files to crm_app
  using (company_id = current_company() and test_mode = current_test_mode())
  with check (company_id = current_company() and test_mode = current_test_mode());
create policy platform on stored_files to crm_platform using (true) with check (true);
create policy purge on stored_files to crm_purge
  using (company_id = current_company())
  with check (company_id = current_company());
grant select, insert, update on stored_files to crm_app;
grant select, update, delete on stored_files to crm_platform;
grant select, insert, update, delete on stored_files to crm_purge;

create table subscriptions (
  company_id uuid primary key references companies (id) on delete cascade,
  status text not null,
  package_code text not null,
  api_rate_limit_per_minute int check (api_rate_limit_per_minute > 0),
  billing_cycle text not null default 'monthly',
  trial_ends_at timestamptz(3),
  period_start timestamptz(3) not null,
  period_end timestamptz(3) not null,
  created_at timestamptz(3) not null,
  updated_at timestamptz(3) not null,
  seats int check (seats > 0),
  api_call_cap bigint check (api_call_cap > 0),
  api_daily_cap int check (api_daily_cap > 0),
  currency text not null default 'USD',
  add_ons text[] not null default '{}',
  cancel_at_period_end boolean not null default false,
  scheduled jsonb not null default '[]',
  ended_at timestamptz(3),
  past_due_since timestamptz(3),
  charge_attempts int not null default 0,
  credit_minor bigint not null default 0 check (credit_minor >= 0),
  payment_method jsonb,
  has_agreement boolean not null default false,
  agreement_ends_at timestamptz(3),
  due_at timestamptz(3),
  pending_add_ons text[] not null default '{}'
);
create index subscriptions_due on subscriptions (due_at) where due_at is not null;
alter table subscriptions enable row level security, force row level security;
create policy tenant on subscriptions to crm_app
  using (company_id = current_company())
  with check (company_id = current_company());
create policy platform on subscriptions to crm_platform using (true) with check (true);
create policy purge on subscriptions to crm_purge
  using (company_id = current_company())
  with check (company_id = current_company());
grant select, insert, update, delete on subscriptions to crm_app;
grant select (company_id, status, package_code, api_rate_limit_per_minute, trial_ends_at, period_start, period_end,
  api_call_cap, api_daily_cap, add_ons, due_at) on subscriptions to crm_platform;
grant select, insert, update, delete on subscriptions to crm_purge;
create trigger open_quota after insert on subscriptions for each row execute function open_quota();
create constraint trigger raise_credential_version after insert or delete or update
  on subscriptions deferrable initially deferred for each row
  execute function raise_credential_version('company_id');

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
create policy purge on tags to crm_purge
  using (company_id = current_company())
  with check (company_id = current_company());
grant select, insert, update, delete on tags to crm_app;
grant select, insert, update, delete on tags to crm_purge;
create trigger tags_version after insert or delete or update on tags for each row
  execute function raise_config_version();

create table taken_times (
  company_id uuid not null references companies (id) on delete cascade,
  test_mode boolean not null,
  id uuid not null,
  user_id uuid not null,
  start_at timestamptz(3) not null,
  end_at timestamptz(3) not null,
  during int8range not null,
  expires_at timestamptz(3),
  primary key (company_id, test_mode, id),
  exclude using gist (company_id with =, test_mode with =, user_id with =, during with &&)
);
create index taken_times_expired on taken_times (expires_at) where expires_at is not null;
create index taken_times_of_user on taken_times (company_id, test_mode, user_id, start_at);
alter table taken_times enable row level security, force row level security;
create policy tenant on taken_times to crm_app
  using (company_id = current_company() and test_mode = current_test_mode())
  with check (company_id = current_company() and test_mode = current_test_mode());
create policy platform on taken_times to crm_platform using (true);
create policy purge on taken_times to crm_purge
  using (company_id = current_company())
  with check (company_id = current_company());
grant select, insert, update, delete on taken_times to crm_app;
grant select (company_id, test_mode, id, expires_at), update (expires_at), delete on taken_times to crm_platform;
grant select, insert, update, delete on taken_times to crm_purge;

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
create policy purge on task_types to crm_purge
  using (company_id = current_company())
  with check (company_id = current_company());
grant select, insert, update, delete on task_types to crm_app;
grant select, insert, update, delete on task_types to crm_purge;
create trigger task_types_version after insert or delete or update on task_types for each row
  execute function raise_config_version();

create table tasks (
  company_id uuid not null,
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
  updated_by_id text,
  created_by_user uuid,
  primary key (company_id, test_mode, id),
  foreign key (company_id, task_type_id) references task_types (company_id, id),
  foreign key (company_id, assigned_to) references users (company_id, id)
);
alter table tasks alter column company_id set (n_distinct = 100);
create index tasks_assigned on tasks (company_id, test_mode, assigned_to, created_at, id) where assigned_to is not null;
create index tasks_by_completed_at on tasks (company_id, test_mode, completed_at, id) where completed_at is not null;
create index tasks_by_priority on tasks (company_id, test_mode, priority, id) where priority is not null;
create index tasks_by_record_id on tasks (company_id, test_mode, record_id, id) where record_id is not null;
create index tasks_by_scheduled_at on tasks (company_id, test_mode, scheduled_at, id) where scheduled_at is not null;
create index tasks_by_status on tasks (company_id, test_mode, status collate "C", id);
create index tasks_by_task_type_id on tasks (company_id, test_mode, task_type_id, id) where task_type_id is not null;
create index tasks_by_title on tasks (company_id, test_mode, title collate "C", id) where title is not null;
create index tasks_created on tasks (company_id, test_mode, created_at, id);
create index tasks_in_name_of on tasks (company_id, test_mode, created_by_user, created_at, id)
  where assigned_to is null and created_by_user is not null;
create index tasks_of_creator on tasks (company_id, test_mode, created_by_id collate "C", created_at, id);
create index tasks_of_key on tasks (company_id, test_mode, created_by_id)
  where assigned_to is null and created_by_kind = 'api_key' and created_by_user is null;
create index tasks_of_record on tasks (company_id, test_mode, object, record_id, created_at, id);
create index tasks_of_updater on tasks (company_id, test_mode, updated_by_id collate "C")
  where updated_by_id is not null;
create index tasks_updated on tasks (company_id, test_mode, updated_at, id);
alter table tasks enable row level security, force row level security;
create policy tenant on tasks to crm_app
  using (company_id = current_company() and test_mode = current_test_mode())
  with check (company_id = current_company() and test_mode = current_test_mode());
create policy purge on tasks to crm_purge
  using (company_id = current_company())
  with check (company_id = current_company());
grant select, insert, update, delete on tasks to crm_app;
grant select, insert, update, delete on tasks to crm_purge;
create trigger note_added_texts after insert on tasks referencing new table as added for each statement
  execute function note_added_texts('tasks');
create trigger note_changed_text after update on tasks for each row
  when (old.title is distinct from new.title or old.description is distinct from new.description
    or old.object is distinct from new.object or old.custom is distinct from new.custom)
  execute function note_changed_text('tasks');
create trigger note_removed_texts after delete on tasks referencing old table as removed for each statement
  execute function note_removed_texts('tasks');
create trigger tasks_changed_custom_values after update of custom on tasks for each row
  when (old.custom is distinct from new.custom)
  execute function keep_custom_value_hashes('tasks');
create trigger tasks_custom_values after insert on tasks for each row
  when (new.custom <> '{}')
  execute function keep_custom_value_hashes('tasks');
create trigger tasks_removed_custom_values after delete on tasks for each row
  when (old.custom <> '{}')
  execute function keep_custom_value_hashes('tasks');

create table teams (
  company_id uuid not null references companies (id) on delete cascade,
  id uuid not null,
  branch_id uuid not null,
  name text not null,
  created_at timestamptz(3) not null,
  manager_user_id uuid,
  primary key (company_id, id),
  foreign key (company_id, branch_id) references branches (company_id, id)
);
create index teams_listed on teams (company_id, created_at desc, id desc);
create index teams_of_branch on teams (company_id, branch_id);
alter table teams enable row level security, force row level security;
create policy tenant on teams to crm_app
  using (company_id = current_company())
  with check (company_id = current_company());
create policy purge on teams to crm_purge
  using (company_id = current_company())
  with check (company_id = current_company());
grant select, insert, update, delete on teams to crm_app;
grant select, insert, update, delete on teams to crm_purge;
create trigger require_changed_manager after update of manager_user_id on teams for each row
  when (new.manager_user_id is distinct from old.manager_user_id and new.manager_user_id is not null)
  execute function require_manager();
create trigger require_manager after insert on teams for each row
  when (new.manager_user_id is not null)
  execute function require_manager();

create table test_charges (
  company_id uuid not null references companies (id) on delete cascade,
  test_mode boolean not null,
  operation_id uuid not null,
  amount_minor bigint not null,
  currency text not null,
  last4 text not null,
  is_declined boolean not null,
  created_at timestamptz(3) not null,
  primary key (company_id, test_mode, operation_id)
);
alter table test_charges enable row level security, force row level security;
create policy tenant on test_charges to crm_app
  using (company_id = current_company() and test_mode = current_test_mode())
  with check (company_id = current_company() and test_mode = current_test_mode());
create policy purge on test_charges to crm_purge
  using (company_id = current_company())
  with check (company_id = current_company());
grant select, insert on test_charges to crm_app;
grant select, insert, update, delete on test_charges to crm_purge;

create table test_clocks (
  company_id uuid primary key references companies (id) on delete cascade,
  ahead_seconds int not null check (ahead_seconds >= 0)
);
alter table test_clocks enable row level security, force row level security;
create policy tenant on test_clocks to crm_app
  using (company_id = current_company())
  with check (company_id = current_company());
create policy platform on test_clocks to crm_platform using (true) with check (true);
create policy purge on test_clocks to crm_purge
  using (company_id = current_company())
  with check (company_id = current_company());
grant select, insert, update, delete on test_clocks to crm_app;
grant select on test_clocks to crm_platform;
grant select, insert, update, delete on test_clocks to crm_purge;
create constraint trigger raise_credential_version after insert or delete or update
  on test_clocks deferrable initially deferred for each row
  execute function raise_credential_version('company_id');

create table test_mode_resets (
  company_id uuid primary key,
  claimed_until timestamptz(3) not null
);
alter table test_mode_resets enable row level security, force row level security;
create policy tenant on test_mode_resets to crm_app
  using (company_id = current_company())
  with check (company_id = current_company());
create policy purge on test_mode_resets to crm_purge
  using (company_id = current_company())
  with check (company_id = current_company());
grant select, insert, update, delete on test_mode_resets to crm_app;
grant select, insert, update, delete on test_mode_resets to crm_purge;

create table test_subscriptions (
  company_id uuid primary key references companies (id) on delete cascade,
  status text not null,
  package_code text not null,
  api_rate_limit_per_minute int check (api_rate_limit_per_minute > 0),
  billing_cycle text not null default 'monthly',
  trial_ends_at timestamptz(3),
  period_start timestamptz(3) not null,
  period_end timestamptz(3) not null,
  created_at timestamptz(3) not null,
  updated_at timestamptz(3) not null,
  seats int check (seats > 0),
  api_call_cap bigint check (api_call_cap > 0),
  api_daily_cap int check (api_daily_cap > 0),
  currency text not null default 'USD',
  add_ons text[] not null default '{}',
  cancel_at_period_end boolean not null default false,
  scheduled jsonb not null default '[]',
  ended_at timestamptz(3),
  past_due_since timestamptz(3),
  charge_attempts int not null default 0,
  credit_minor bigint not null default 0 check (credit_minor >= 0),
  payment_method jsonb,
  has_agreement boolean not null default false,
  agreement_ends_at timestamptz(3),
  due_at timestamptz(3),
  pending_add_ons text[] not null default '{}'
);
create index test_subscriptions_due_at_idx on test_subscriptions (due_at) where due_at is not null;
alter table test_subscriptions enable row level security, force row level security;
create policy tenant on test_subscriptions to crm_app
  using (company_id = current_company())
  with check (company_id = current_company());
create policy platform on test_subscriptions for select to crm_platform using (true);
create policy purge on test_subscriptions to crm_purge
  using (company_id = current_company())
  with check (company_id = current_company());
grant select, insert, update on test_subscriptions to crm_app;
grant select (company_id, due_at) on test_subscriptions to crm_platform;
grant select, insert, update, delete on test_subscriptions to crm_purge;

create table user_calendars (
  company_id uuid not null,
  user_id uuid not null,
  provider text not null check (provider in ('caldav', 'test')),
  url text,
  username text,
  sealed_password text,
  fault text,
  checked_at timestamptz(3) not null,
  busy json not null default '[]',
  looked_until timestamptz(3),
  due_at timestamptz(3) not null,
  created_at timestamptz(3) not null,
  updated_at timestamptz(3) not null,
  primary key (company_id, user_id),
  foreign key (company_id, user_id) references users (company_id, id) on delete cascade
);
create index user_calendars_due on user_calendars (due_at);
create index user_calendars_unread on user_calendars (due_at) where looked_until is null;
alter table user_calendars enable row level security, force row level security;
create policy tenant on user_calendars to crm_app
  using (company_id = current_company())
  with check (company_id = current_company());
create policy platform on user_calendars to crm_platform using (true);
create policy purge on user_calendars to crm_purge
  using (company_id = current_company())
  with check (company_id = current_company());
grant select, insert, update, delete on user_calendars to crm_app;
grant select (company_id, user_id, looked_until, due_at) on user_calendars to crm_platform;
grant select, insert, update, delete on user_calendars to crm_purge;

create table user_places (
  user_id uuid primary key,
  company_id uuid not null,
  email text unique
);
alter table user_places enable row level security, force row level security;
create policy tenant on user_places to crm_app
  using (company_id = current_company())
  with check (company_id = current_company());
create policy platform on user_places for select to crm_platform using (true);
create policy purge on user_places to crm_purge
  using (company_id = current_company())
  with check (company_id = current_company());
grant insert on user_places to crm_app;
grant select on user_places to crm_platform;
grant select, insert, update, delete on user_places to crm_purge;

create table user_roles (
  company_id uuid not null,
  user_id uuid not null,
  role_id uuid not null references roles (id),
  primary key (company_id, user_id, role_id),
  foreign key (company_id, user_id) references users (company_id, id) on delete cascade
);
create index user_roles_of_role on user_roles (company_id, role_id);
alter table user_roles enable row level security, force row level security;
create policy tenant on user_roles to crm_app
  using (company_id = current_company())
  with check (company_id = current_company());
create policy platform on user_roles to crm_platform using (true) with check (true);
create policy purge on user_roles to crm_purge
  using (company_id = current_company())
  with check (company_id = current_company());
grant select, insert, update, delete on user_roles to crm_app;
grant select on user_roles to crm_platform;
grant select, insert, update, delete on user_roles to crm_purge;

create table user_working_hours (
  company_id uuid not null,
  user_id uuid not null,
  timezone text,
  weekly jsonb,
  days_off jsonb not null,
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
create policy purge on user_working_hours to crm_purge
  using (company_id = current_company())
  with check (company_id = current_company());
grant select, insert, update, delete on user_working_hours to crm_app;
grant select, insert, update, delete on user_working_hours to crm_purge;

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
  profile_id uuid,
  primary key (company_id, id),
  unique (company_id, email),
  foreign key (company_id, branch_id) references branches (company_id, id),
  foreign key (company_id, team_id) references teams (company_id, id),
  foreign key (company_id, profile_id) references profiles (company_id, id)
);
create index users_listed on users (company_id, created_at desc, id desc);
create index users_of_branch on users (company_id, branch_id);
create index users_of_profile on users (company_id, profile_id) where profile_id is not null;
create index users_of_team on users (company_id, team_id);
create index users_oldest_active on users (company_id, created_at, id) where status = 'active';
alter table users enable row level security, force row level security;
create policy tenant on users to crm_app
  using (company_id = current_company())
  with check (company_id = current_company());
create policy platform on users to crm_platform using (true) with check (true);
create policy purge on users to crm_purge
  using (company_id = current_company())
  with check (company_id = current_company());
grant select, insert, update, delete on users to crm_app;
grant select (company_id, id, email, full_name, status, branch_id, team_id, profile_id), update (last_sign_in_at)
  on users to crm_platform;
grant select, insert, update, delete on users to crm_purge;
create trigger forget_user before delete on users for each row execute function forget_user();

create table wallet_entries (
  company_id uuid not null references companies (id) on delete cascade,
  test_mode boolean not null,
  payment_id text not null,
  amount_minor bigint not null,
  created_at timestamptz(3) not null,
  reverses text,
  reason text check (reason in ('refund', 'dispute')),
  primary key (company_id, test_mode, payment_id),
  check ((reverses is null) = (reason is null))
);
create index wallet_entries_reversing on wallet_entries (company_id, test_mode, reverses) where reverses is not null;
alter table wallet_entries enable row level security, force row level security;
create policy tenant on wallet_entries to crm_app
  using (company_id = current_company() and test_mode = current_test_mode())
  with check (company_id = current_company() and test_mode = current_test_mode());
create policy purge on wallet_entries to crm_purge
  using (company_id = current_company())
  with check (company_id = current_company());
grant select, insert on wallet_entries to crm_app;
grant select, insert, update, delete on wallet_entries to crm_purge;

create table webhook_backlog (
  company_id uuid not null references companies (id) on delete cascade,
  test_mode boolean not null,
  first_position bigint not null,
  last_position bigint not null,
  noted_at timestamptz(3) not null default now(),
  primary key (company_id, test_mode, first_position),
  check (first_position <= last_position)
) with (
  autovacuum_vacuum_scale_factor = 0,
  autovacuum_vacuum_threshold = 2000,
  autovacuum_vacuum_insert_threshold = -1,
  autovacuum_analyze_scale_factor = 0,
  autovacuum_analyze_threshold = 100000,
  vacuum_truncate = false
);
alter table webhook_backlog enable row level security, force row level security;
create policy tenant on webhook_backlog to crm_app
  using (company_id = current_company() and test_mode = current_test_mode())
  with check (company_id = current_company() and test_mode = current_test_mode());
create policy platform on webhook_backlog for select to crm_platform using (true);
create policy purge on webhook_backlog to crm_purge
  using (company_id = current_company())
  with check (company_id = current_company());
grant select, insert, update (first_position), delete on webhook_backlog to crm_app;
grant select (company_id, test_mode, noted_at) on webhook_backlog to crm_platform;
grant select, insert, update, delete on webhook_backlog to crm_purge;

create table webhook_deliveries (
  company_id uuid not null references companies (id) on delete cascade,
  test_mode boolean not null,
  id uuid not null,
  subscription_id uuid not null,
  event_id uuid not null,
  event text not null,
  status text not null check (status in ('pending', 'retrying', 'succeeded', 'failed', 'cancelled', 'skipped')),
  attempts int not null default 0,
  max_attempts int not null,
  next_attempt_at timestamptz(3),
  leased_until timestamptz(3),
  last_response_code int,
  last_response_snippet text,
  last_error text check (last_error in ('timeout', 'dns', 'tls', 'connect', 'blocked_address', 'http_error')),
  duration_ms int,
  replay_of uuid,
  is_test boolean not null default false,
  record_id uuid,
  position bigint not null default 0,
  is_ordered boolean not null default false,
  body text not null,
  created_at timestamptz(3) not null,
  completed_at timestamptz(3),
  primary key (company_id, test_mode, id),
  check (not is_ordered or record_id is not null)
);
alter table webhook_deliveries alter column company_id set (n_distinct = 100);
create unique index webhook_deliveries_active on webhook_deliveries (company_id, test_mode, subscription_id, record_id)
  where is_ordered and status in ('pending', 'retrying') and next_attempt_at is not null;
create index webhook_deliveries_age on webhook_deliveries (created_at)
  where not (is_ordered and status in ('pending', 'retrying'));
create index webhook_deliveries_leased on webhook_deliveries (company_id, test_mode, subscription_id, leased_until)
  where leased_until is not null;
create index webhook_deliveries_listed on webhook_deliveries (company_id, test_mode, subscription_id, created_at desc,
  id desc);
create index webhook_deliveries_newest on webhook_deliveries (company_id, test_mode, created_at desc, id desc);
create index webhook_deliveries_of_event on webhook_deliveries (company_id, test_mode, event, created_at desc, id desc);
create index webhook_deliveries_of_status on webhook_deliveries (company_id, test_mode, status, created_at desc,
  id desc);
create index webhook_deliveries_open on webhook_deliveries (company_id, test_mode, subscription_id, next_attempt_at, id)
  where status in ('pending', 'retrying');
create index webhook_deliveries_queue on webhook_deliveries (company_id, test_mode, subscription_id, record_id,
  "position", id)
  where is_ordered and status in ('pending', 'retrying');
alter table webhook_deliveries enable row level security, force row level security;
create policy tenant on webhook_deliveries to crm_app
  using (company_id = current_company() and test_mode = current_test_mode())
  with check (company_id = current_company() and test_mode = current_test_mode());
create policy platform on webhook_deliveries to crm_platform using (true) with check (true);
create policy purge on webhook_deliveries to crm_purge
  using (company_id = current_company())
  with check (company_id = current_company());
grant select, insert, update, delete on webhook_deliveries to crm_app;
grant select (company_id, test_mode, id, status, is_ordered, created_at), delete on webhook_deliveries to crm_platform;
grant select, insert, update, delete on webhook_deliveries to crm_purge;

create table webhook_subscriptions (
  company_id uuid not null references companies (id) on delete cascade,
  test_mode boolean not null,
  id uuid not null,
  url text not null,
  description text,
  events text[] not null,
  filter jsonb,
  include text[] not null default '{}',
  skip_own boolean not null,
  header_names text[] not null default '{}',
  sealed_headers text,
  max_per_second int not null default 25 check (max_per_second >= 1 and max_per_second <= 100),
  is_ordered boolean not null default false,
  sealed_secret text not null,
  secret_last4 text not null,
  secret_rotated_at timestamptz(3),
  sealed_previous_secret text,
  previous_secret_expires_at timestamptz(3),
  public_key text,
  sealed_signing_key text,
  previous_public_key text,
  sealed_previous_signing_key text,
  disabled_reason text check (disabled_reason in ('manual', 'failures', 'gone')),
  disabled_at timestamptz(3),
  deleted_at timestamptz(3),
  due_at timestamptz(3),
  is_held boolean not null default false,
  recent_attempts bigint[] not null default '{}'::bigint[],
  attempt_counts integer[] not null default '{}'::integer[],
  last_delivery_at timestamptz(3),
  last_success_at timestamptz(3),
  failing_since timestamptz(3),
  consecutive_failures int not null default 0,
  exhausted_deliveries int not null default 0,
  warned_at timestamptz(3),
  probing_since timestamptz(3),
  created_by_kind text not null,
  created_by_id text not null,
  created_by_name text,
  created_at timestamptz(3) not null,
  updated_at timestamptz(3) not null,
  primary key (company_id, test_mode, id),
  check ((disabled_reason is null) = (disabled_at is null)),
  check ((sealed_headers is null) = (header_names = '{}')),
  check ((sealed_signing_key is null) = (public_key is null)),
  check ((sealed_previous_signing_key is null) = (previous_public_key is null))
);
create index webhook_subscriptions_due on webhook_subscriptions (due_at) where due_at is not null;
create index webhook_subscriptions_listed on webhook_subscriptions (company_id, test_mode, created_at desc, id desc)
  where deleted_at is null;
alter table webhook_subscriptions enable row level security, force row level security;
create policy tenant on webhook_subscriptions to crm_app
  using (company_id = current_company() and test_mode = current_test_mode())
  with check (company_id = current_company() and test_mode = current_test_mode());
create policy platform on webhook_subscriptions to crm_platform using (true) with check (true);
create policy purge on webhook_subscriptions to crm_purge
  using (company_id = current_company())
  with check (company_id = current_company());
grant select, insert, update, delete on webhook_subscriptions to crm_app;
grant select (company_id, test_mode, id, due_at) on webhook_subscriptions to crm_platform;
grant select, insert, update, delete on webhook_subscriptions to crm_purge;

create table workforce_run_steps (
  company_id uuid not null,
  test_mode boolean not null,
  run_id uuid not null,
  position int not null,
  status text not null check (status in ('done', 'skipped', 'failed')),
  made_object text,
  made_id uuid,
  reason text,
  error_code text,
  error_message text,
  at timestamptz(3) not null,
  primary key (company_id, test_mode, run_id, "position"),
  foreign key (company_id, test_mode, run_id) references workforce_runs (company_id, test_mode, id) on delete cascade
);
alter table workforce_run_steps enable row level security, force row level security;
create policy tenant on workforce_run_steps to crm_app
  using (company_id = current_company() and test_mode = current_test_mode())
  with check (company_id = current_company() and test_mode = current_test_mode());
create policy purge on workforce_run_steps to crm_purge
  using (company_id = current_company())
  with check (company_id = current_company());
grant select, insert, update, delete on workforce_run_steps to crm_app;
grant select, insert, update, delete on workforce_run_steps to crm_purge;

create table workforce_runs (
  company_id uuid not null,
  test_mode boolean not null,
  id uuid not null,
  workforce_id uuid not null,
  status text not null check (status in ('queued', 'running', 'waiting', 'completed', 'stopped', 'failed', 'cancelled')),
  object text not null,
  record_id uuid not null,
  context jsonb not null,
  steps jsonb not null,
  stop_when jsonb,
  stop_when_replied boolean not null,
  position int not null,
  next_step_at timestamptz(3),
  due_at timestamptz(3),
  attempts int not null,
  tried_since timestamptz(3),
  call jsonb,
  error_code text,
  error_message text,
  created_by_kind text not null,
  created_by_id text not null,
  created_by_name text,
  created_by_user uuid,
  enrolled_at timestamptz(3) not null,
  ended_at timestamptz(3),
  primary key (company_id, test_mode, id),
  foreign key (company_id, workforce_id) references workforces (company_id, id)
);
alter table workforce_runs alter column company_id set (n_distinct = 100);
create unique index workforce_runs_active on workforce_runs (company_id, test_mode, workforce_id, object, record_id)
  where ended_at is null;
create index workforce_runs_age on workforce_runs (ended_at) where ended_at is not null;
create index workforce_runs_due on workforce_runs (due_at) where due_at is not null;
create index workforce_runs_listed on workforce_runs (company_id, test_mode, workforce_id, enrolled_at desc, id desc);
create index workforce_runs_of_record on workforce_runs (company_id, test_mode, object, record_id);
alter table workforce_runs enable row level security, force row level security;
create policy tenant on workforce_runs to crm_app
  using (company_id = current_company() and test_mode = current_test_mode())
  with check (company_id = current_company() and test_mode = current_test_mode());
create policy platform on workforce_runs to crm_platform using (true);
create policy purge on workforce_runs to crm_purge
  using (company_id = current_company())
  with check (company_id = current_company());
grant select, insert, update, delete on workforce_runs to crm_app;
grant select (company_id, test_mode, id, due_at, ended_at), delete on workforce_runs to crm_platform;
grant select, insert, update, delete on workforce_runs to crm_purge;

create table workforces (
  company_id uuid not null references companies (id) on delete cascade,
  id uuid not null,
  name text not null,
  description text,
  kind text not null check (kind in ('sequence', 'workflow', 'agent')),
  status text not null check (status in ('active', 'paused', 'draft')),
  subject_types text[] not null,
  steps jsonb not null,
  stop_when jsonb,
  stop_when_replied boolean not null,
  created_at timestamptz(3) not null,
  updated_at timestamptz(3) not null,
  primary key (company_id, id)
);
create unique index workforces_name on workforces (company_id, fold_name(name));
alter table workforces enable row level security, force row level security;
create policy tenant on workforces to crm_app
  using (company_id = current_company())
  with check (company_id = current_company());
create policy purge on workforces to crm_purge
  using (company_id = current_company())
  with check (company_id = current_company());
grant select, insert, update, delete on workforces to crm_app;
grant select, insert, update, delete on workforces to crm_purge;

CREATE OR REPLACE FUNCTION add_months(since timestamp with time zone, months integer)
 RETURNS timestamp with time zone
 LANGUAGE sql
 STABLE PARALLEL SAFE
RETURN (((since AT TIME ZONE 'UTC'::text) + make_interval(months => months)) AT TIME ZONE 'UTC'::text);

CREATE OR REPLACE FUNCTION analyze_records(records text, written integer)
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public'
 SET lock_timeout TO '200ms'
AS $function$
declare
  stale text;
begin
  if records not in ('leads', 'accounts', 'customers', 'deals', 'activities', 'tasks', 'custom_records') then
    raise exception '% is not a table of records', records;
  end if;
  for stale in
    select c.relname from pg_class c
    where c.oid in (records::regclass, 'record_tags'::regclass, 'custom_value_hashes'::regclass)
      and greatest(written, pg_stat_get_mod_since_analyze(c.oid)) > greatest(c.reltuples, 0) * case
        when greatest(pg_stat_get_last_analyze_time(c.oid), pg_stat_get_last_autoanalyze_time(c.oid)) > now() - interval '1 minute'
        then 1 else 0.1 end
  loop
    execute format('analyze (skip_locked) %I', stale);
  end loop;
end $function$;

CREATE OR REPLACE FUNCTION begin_credential_version()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  insert into credential_versions (company_id) values (new.id);
  return null;
end $function$;

CREATE OR REPLACE FUNCTION claim_key(of_company uuid, in_test_mode boolean, at_endpoint text, of_key text, key_lock bigint, body_lock bigint)
 RETURNS void
 LANGUAGE plpgsql
 SET enable_seqscan TO 'off'
AS $function$
declare
  locked boolean;
begin
  select pg_try_advisory_xact_lock(key_lock) into locked
  from (select pg_advisory_xact_lock_shared(body_lock) from companies where id = of_company offset 0) as shared;
  if locked is null then
    raise exception 'an Idempotency-Key is claimed in a company that is not there';
  end if;
  if not locked or exists (
    select from idempotency_records
    where company_id = of_company and test_mode = in_test_mode and endpoint = at_endpoint and key = of_key
      and created_at > now() - interval '24 hours' and (leased_until is null or leased_until > now())
  ) then
    raise exception 'the key is taken' using errcode = 'CK001';
  end if;
end $function$;

CREATE OR REPLACE FUNCTION current_company()
 RETURNS uuid
 LANGUAGE sql
 STABLE PARALLEL SAFE
RETURN (NULLIF(current_setting('app.company_id'::text, true), ''::text))::uuid;

CREATE OR REPLACE FUNCTION current_test_mode()
 RETURNS boolean
 LANGUAGE sql
 STABLE PARALLEL SAFE
RETURN (NULLIF(current_setting('app.test_mode'::text, true), ''::text))::boolean;

CREATE OR REPLACE FUNCTION custom_field_hash(object text, field text)
 RETURNS bigint
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
RETURN (hashtextextended(((object || '.'::text) || field), (0)::bigint) & '-281474976710656'::bigint);

CREATE OR REPLACE FUNCTION custom_value_hash(object text, field text, value text)
 RETURNS bigint
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
RETURN (custom_field_hash(object, field) | (hashtextextended(((((object || '.'::text) || field) || '='::text) || value), (0)::bigint) & '281474976710655'::bigint));

CREATE OR REPLACE FUNCTION drop_audit_partitions(before date)
 RETURNS integer
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public'
AS $function$
declare
  month text;
  dropped int := 0;
begin
  set local lock_timeout = '100ms';
  for month in
    select c.relname from pg_inherits i join pg_class c on c.oid = i.inhrelid
    where i.inhparent = 'audit_logs'::regclass and c.relname ~ '^audit_logs_\d{4}_\d{2}$'
      and to_date(substr(c.relname, 12), 'YYYY_MM') + interval '1 month' <= before
    order by 1
  loop
    execute format('drop table %I', month);
    dropped := dropped + 1;
  end loop;
  return dropped;
end $function$;

CREATE OR REPLACE FUNCTION drop_request_partitions(before date)
 RETURNS integer
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public'
AS $function$
declare
  day text;
  dropped int := 0;
begin
  set local lock_timeout = '100ms';
  for day in
    select c.relname from pg_inherits i join pg_class c on c.oid = i.inhrelid
    where i.inhparent = 'request_log'::regclass and c.relname ~ '^request_log_\d{4}_\d{2}_\d{2}$'
      and to_date(substr(c.relname, 13), 'YYYY_MM_DD') < before
    order by 1
  loop
    execute format('drop table %I', day);
    dropped := dropped + 1;
  end loop;
  return dropped;
end $function$;

CREATE OR REPLACE FUNCTION first_request_id(day date)
 RETURNS uuid
 LANGUAGE sql
 IMMUTABLE
AS $function$
  select (lpad(to_hex((extract(epoch from day) * 1000)::bigint), 12, '0') || '00000000000000000000')::uuid
$function$;

CREATE OR REPLACE FUNCTION fold_name(name text)
 RETURNS text
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE STRICT
AS $function$
  select normalize(replace(lower(upper(normalize(name, NFC) collate "und-x-icu") collate "und-x-icu"), U&'i\0307', 'i'), NFC)
$function$;

CREATE OR REPLACE FUNCTION forget_account()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  if not references_are_noted() and exists (select from companies where id = old.company_id) then
    update customers set account_id = null where company_id = old.company_id and test_mode = old.test_mode and account_id = old.id;
    update deals set account_id = null where company_id = old.company_id and test_mode = old.test_mode and account_id = old.id;
  end if;
  return old;
end $function$;

CREATE OR REPLACE FUNCTION forget_customer()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  if not references_are_noted() and exists (select from companies where id = old.company_id) then
    update leads set converted_customer_id = null
    where company_id = old.company_id and test_mode = old.test_mode and converted_customer_id = old.id;
    update deals set customer_id = null where company_id = old.company_id and test_mode = old.test_mode and customer_id = old.id;
  end if;
  return old;
end $function$;

CREATE OR REPLACE FUNCTION forget_lead()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  if not references_are_noted() and exists (select from companies where id = old.company_id) then
    update customers set lead_id = null where company_id = old.company_id and test_mode = old.test_mode and lead_id = old.id;
    update deals set lead_id = null where company_id = old.company_id and test_mode = old.test_mode and lead_id = old.id;
  end if;
  return old;
end $function$;

CREATE OR REPLACE FUNCTION forget_user()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  if exists (select from companies where id = old.company_id) then
    update branches set manager_user_id = null where company_id = old.company_id and manager_user_id = old.id;
    update teams set manager_user_id = null where company_id = old.company_id and manager_user_id = old.id;
  end if;
  return old;
end $function$;

CREATE OR REPLACE FUNCTION half_even_mean(total numeric, numbers bigint)
 RETURNS numeric
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN ((numbers = 0) OR (total IS NULL)) THEN NULL::numeric WHEN ((((2)::numeric * abs(mod((total * (100)::numeric), (numbers)::numeric))) < (numbers)::numeric) OR ((((2)::numeric * abs(mod((total * (100)::numeric), (numbers)::numeric))) = (numbers)::numeric) AND (mod(div((total * (100)::numeric), (numbers)::numeric), (2)::numeric) = (0)::numeric))) THEN (div((total * (100)::numeric), (numbers)::numeric) / (100)::numeric) ELSE ((div((total * (100)::numeric), (numbers)::numeric) + sign(total)) / (100)::numeric) END;

CREATE OR REPLACE FUNCTION holder_has_body(key_lock bigint, body_lock bigint)
 RETURNS boolean
 LANGUAGE sql
AS $function$
  select exists (
    select from pg_locks other
    where other.pid = held.pid and other.locktype = 'advisory' and other.granted
      and other.classid = ((body_lock >> 32) & 4294967295)::oid and other.objid = (body_lock & 4294967295)::oid
  )
  from pg_locks held
  where held.locktype = 'advisory' and held.granted and held.mode = 'ExclusiveLock'
    and held.classid = ((key_lock >> 32) & 4294967295)::oid and held.objid = (key_lock & 4294967295)::oid
  limit 1
$function$;

CREATE OR REPLACE FUNCTION keep_custom_value_hashes()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
declare
  source text := tg_argv[0];
begin
  if tg_op <> 'INSERT' and old.custom <> '{}' then
    if tg_argv[0] = 'custom_records' then source := old.object; end if;
    delete from custom_value_hashes
    where company_id = old.company_id and test_mode = old.test_mode and record_id = old.id
      and hash in (select custom_value_hash(source, key, value) from jsonb_each_text(old.custom));
  end if;
  if tg_op <> 'DELETE' and new.custom <> '{}' then
    if tg_argv[0] = 'custom_records' then source := new.object; end if;
    perform pg_advisory_xact_lock_shared(unique_fields_lock(new.company_id, source));
    -- A separate statement: it must see what the lock's last holder committed.
    if exists (
      select from custom_fields f
      where f.company_id = new.company_id and f.object = source and f.is_unique
        and new.custom ? f.name and new.custom -> f.name is distinct from old.custom -> f.name
        and position(' ' || source || '.' || f.name || ' ' in coalesce(current_setting('app.checked_unique_fields', true), '')) = 0
    ) then
      raise exception 'a field of the record has become unique' using errcode = 'CK003';
    end if;
    insert into custom_value_hashes (company_id, test_mode, hash, record_id)
    select new.company_id, new.test_mode, custom_value_hash(source, key, value), new.id
    from jsonb_each_text(new.custom)
    where value is not null;
  end if;
  return null;
end $function$;

CREATE OR REPLACE FUNCTION make_audit_partitions(day date)
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public'
AS $function$
declare
  month date;
  name text;
begin
  foreach month in array array[date_trunc('month', day)::date, (date_trunc('month', day) + interval '1 month')::date] loop
    name := 'audit_logs_' || to_char(month, 'YYYY_MM');
    if to_regclass(name) is null and not exists (
      select from audit_logs_other where occurred_at >= month and occurred_at < month + interval '1 month'
    ) then
      begin
        execute format('create table %I partition of audit_logs for values from (%L) to (%L)',
          name, month, (month + interval '1 month')::date);
        execute format('alter table %I enable row level security, force row level security', name);
      exception when check_violation or duplicate_table then
        raise warning '% was not created: %', name, sqlerrm;
      end;
    end if;
  end loop;
end $function$;

CREATE OR REPLACE FUNCTION make_request_partitions(day date)
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public'
AS $function$
declare
  each date;
  name text;
begin
  set local lock_timeout = '100ms';
  foreach each in array array[day, day + 1, day + 2] loop
    name := 'request_log_' || to_char(each, 'YYYY_MM_DD');
    if to_regclass(name) is null then
      begin
        execute format('create table %I partition of request_log for values from (%L) to (%L)',
          name, first_request_id(each), first_request_id(each + 1));
        execute format('alter table %I enable row level security, force row level security', name);
      exception when check_violation or duplicate_table or lock_not_available then
        null;
      end;
    end if;
  end loop;
end $function$;

CREATE OR REPLACE FUNCTION note_added_texts()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  if tg_argv[0] = 'custom_records' then
    insert into search_changes (company_id, test_mode, object, record_id) select company_id, test_mode, object, id from added;
  else
    insert into search_changes (company_id, test_mode, object, record_id) select company_id, test_mode, tg_argv[0], id from added;
  end if;
  return null;
end $function$;

CREATE OR REPLACE FUNCTION note_changed_text()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
declare
  object text := tg_argv[0];
begin
  if object = 'custom_records' then object := new.object; end if;
  insert into search_changes (company_id, test_mode, object, record_id, due_at)
  values (new.company_id, new.test_mode, object, new.id, now() + interval '1 hour');
  return null;
end $function$;

CREATE OR REPLACE FUNCTION note_removed_texts()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  if tg_argv[0] = 'custom_records' then
    insert into search_changes (company_id, test_mode, object, record_id, due_at)
    select r.company_id, r.test_mode, r.object, r.id, now() from removed r join companies c on c.id = r.company_id;
  else
    insert into search_changes (company_id, test_mode, object, record_id, due_at)
    select r.company_id, r.test_mode, tg_argv[0], r.id, now() from removed r join companies c on c.id = r.company_id;
  end if;
  return null;
end $function$;

CREATE OR REPLACE FUNCTION open_quota()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  insert into api_quota (company_id, month_start) values (new.company_id, new.period_start) on conflict do nothing;
  return null;
end $function$;

CREATE OR REPLACE PROCEDURE open_to_purge()
 LANGUAGE plpgsql
AS $procedure$
declare
  name text;
begin
  for name in select tables_of_companies() loop
    if not exists (select from pg_policies where schemaname = 'public' and tablename = name and policyname = 'purge') then
      execute format('create policy purge on %I to crm_purge using (company_id = current_company()) with check (company_id = current_company())', name);
    end if;
    execute format('grant select, insert, update, delete on %I to crm_purge', name);
  end loop;
end $procedure$;

CREATE OR REPLACE FUNCTION own_texts(custom jsonb)
 RETURNS text
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
RETURN (SELECT string_agg("left"((jsonb_each.value #>> '{}'::text[]), 1000), chr(31)) AS string_agg FROM jsonb_each(own_texts.custom) jsonb_each(key, value) WHERE (jsonb_typeof(jsonb_each.value) = 'string'::text));

CREATE OR REPLACE FUNCTION purge_some(of_company uuid, most integer)
 RETURNS integer
 LANGUAGE plpgsql
AS $function$
declare
  name text;
  keys text;
  removed int;
  blocked boolean := false;
begin
  for name in select t from tables_of_companies() t where t not in ('subscriptions', 'stored_files', 'api_quota') loop
    select string_agg(quote_ident(a.attname), ', ' order by a.attnum) into keys
    from pg_index i join pg_attribute a on a.attrelid = i.indrelid and a.attnum = any(i.indkey)
    where i.indrelid = name::regclass and i.indisprimary;
    begin
      execute format('delete from %1$I where company_id = $1 and (%2$s) in (select %2$s from %1$I where company_id = $1 limit $2)', name, keys)
      using of_company, most;
      get diagnostics removed = row_count;
      if removed > 0 then return removed; end if;
    exception when foreign_key_violation then
      blocked := true;
    end;
  end loop;
  if blocked then
    raise exception 'what is left of a company refers to itself';
  end if;
  return 0;
end $function$;

CREATE OR REPLACE FUNCTION raise_config_version()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  update companies set config_version = config_version + 1
  where id = case tg_op when 'DELETE' then old.company_id else new.company_id end;
  return null;
end $function$;

CREATE OR REPLACE FUNCTION raise_credential_version()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
declare
  changed jsonb := to_jsonb(case when tg_op = 'DELETE' then old else new end);
begin
  -- With a parameter, so that the statement names its company even if it runs alone at a commit.
  execute 'update credential_versions set version = version + 1 where company_id = $1' using (changed ->> tg_argv[0])::uuid;
  return null;
end $function$;

CREATE OR REPLACE FUNCTION raise_version_of_proposer()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
declare
  others_wait boolean;
begin
  execute 'select from credential_versions where company_id = $1 for update' using new.company_id;
  execute 'select exists (
      select from change_sets
      where company_id = $1 and test_mode = $2 and status = ''pending'' and created_by_id = $3 and id <> $4
    )'
    into others_wait using new.company_id, new.test_mode, new.created_by_id, new.id;
  if not others_wait then
    execute 'update credential_versions set version = version + 1 where company_id = $1' using new.company_id;
  end if;
  return null;
end $function$;

CREATE OR REPLACE FUNCTION references_are_noted()
 RETURNS boolean
 LANGUAGE sql
 STABLE
RETURN (COALESCE(current_setting('app.references_are_noted'::text, true), ''::text) = 'on'::text);

CREATE OR REPLACE FUNCTION refuse(reason text, code text)
 RETURNS text
 LANGUAGE plpgsql
AS $function$
begin
  raise exception using message = reason, errcode = code;
end $function$;

CREATE OR REPLACE FUNCTION refuse_late_commit()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  if clock_timestamp() > nullif(current_setting('app.deadline', true), '')::timestamptz then
    raise exception 'the time of the transaction has run out' using errcode = 'query_canceled';
  end if;
  return null;
end $function$;

CREATE OR REPLACE FUNCTION release_errors_file()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  update stored_files set remove_after = now()
  where company_id = old.company_id and test_mode = old.test_mode and id = old.errors_file_id;
  return null;
end $function$;

CREATE OR REPLACE FUNCTION release_owned_file()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  update stored_files set remove_after = now()
  where company_id = old.company_id and test_mode = old.test_mode and id = old.file_id;
  return null;
end $function$;

CREATE OR REPLACE FUNCTION release_stored_file()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  update stored_files set remove_after = now()
  where company_id = old.company_id and test_mode = old.test_mode and id = old.file_id
    and not exists (
      select from deleted_items
      where company_id = old.company_id and test_mode = old.test_mode and kind = 'attachments' and id = old.id);
  return null;
end $function$;

CREATE OR REPLACE FUNCTION release_trashed_file()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  update stored_files set remove_after = now()
  where company_id = old.company_id and test_mode = old.test_mode and id = (old.document ->> 'file_id')::uuid
    and not exists (
      select from attachments
      where company_id = old.company_id and test_mode = old.test_mode and id = old.id);
  return null;
end $function$;

CREATE OR REPLACE FUNCTION require_account()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  perform from accounts
  where company_id = new.company_id and test_mode = new.test_mode and id = new.account_id
  for key share;
  if not found then
    raise foreign_key_violation using message = 'the account that a record refers to is not there', table = tg_table_name, column = 'account_id';
  end if;
  return null;
end $function$;

CREATE OR REPLACE FUNCTION require_converted_customer()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  perform from customers
  where company_id = new.company_id and test_mode = new.test_mode and id = new.converted_customer_id
  for key share;
  if not found then
    raise foreign_key_violation using message = 'the customer of a converted lead is not there', table = 'leads', column = 'converted_customer_id';
  end if;
  return null;
end $function$;

CREATE OR REPLACE FUNCTION require_customer()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  perform from customers
  where company_id = new.company_id and test_mode = new.test_mode and id = new.customer_id
  for key share;
  if not found then
    raise foreign_key_violation using message = 'the customer that a record refers to is not there', table = tg_table_name, column = 'customer_id';
  end if;
  return null;
end $function$;

CREATE OR REPLACE FUNCTION require_lead()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  perform from leads
  where company_id = new.company_id and test_mode = new.test_mode and id = new.lead_id
  for key share;
  if not found then
    raise foreign_key_violation using message = 'the lead that a record refers to is not there', table = tg_table_name, column = 'lead_id';
  end if;
  return null;
end $function$;

CREATE OR REPLACE FUNCTION require_manager()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  perform from users where company_id = new.company_id and id = new.manager_user_id for key share;
  if not found then
    raise foreign_key_violation using message = 'the manager of a branch or team is not there', column = 'manager_user_id';
  end if;
  return null;
end $function$;

CREATE OR REPLACE PROCEDURE require_time_left(IN milliseconds integer)
 LANGUAGE plpgsql
AS $procedure$
declare
  deadline timestamptz := transaction_timestamp() + milliseconds * interval '1 ms';
begin
  if clock_timestamp() > deadline then
    raise exception 'the time of the transaction has run out' using errcode = 'query_canceled';
  end if;
  execute format('set local app.deadline = %L', deadline);
end $procedure$;

CREATE OR REPLACE FUNCTION searched_text(r accounts)
 RETURNS text
 LANGUAGE sql
 STABLE PARALLEL SAFE
RETURN ((chr(31) || lower(concat_ws(chr(31), "left"((r).name, 1000), "left"((r).email, 1000), "left"((r).phone, 1000), "left"((r).website, 1000), "left"((r).industry, 1000), "left"((r).city, 1000), "left"((r).state, 1000), "left"((r).country, 1000), "left"((r).postal_code, 1000), CASE WHEN ((r).custom <> '{}'::jsonb) THEN own_texts((r).custom) ELSE NULL::text END))) || chr(31));

CREATE OR REPLACE FUNCTION searched_text(r activities)
 RETURNS text
 LANGUAGE sql
 STABLE PARALLEL SAFE
RETURN ((chr(31) || lower(concat_ws(chr(31), "left"((r).summary, 1000), "left"((r).details, 1000), CASE WHEN ((r).custom <> '{}'::jsonb) THEN own_texts((r).custom) ELSE NULL::text END))) || chr(31));

CREATE OR REPLACE FUNCTION searched_text(r custom_records)
 RETURNS text
 LANGUAGE sql
 STABLE PARALLEL SAFE
RETURN ((chr(31) || lower(concat_ws(chr(31), CASE WHEN ((r).custom <> '{}'::jsonb) THEN own_texts((r).custom) ELSE NULL::text END))) || chr(31));

CREATE OR REPLACE FUNCTION searched_text(r customers)
 RETURNS text
 LANGUAGE sql
 STABLE PARALLEL SAFE
RETURN ((chr(31) || lower(concat_ws(chr(31), "left"((r).first_name, 1000), "left"((r).last_name, 1000), "left"((r).company_name, 1000), "left"((r).email, 1000), "left"((r).mobile, 1000), "left"((r).phone, 1000), "left"((r).job_title, 1000), "left"((r).website, 1000), "left"((r).city, 1000), "left"((r).state, 1000), "left"((r).country, 1000), "left"((r).postal_code, 1000), (((r).first_name || ' '::text) || (r).last_name), CASE WHEN ((r).custom <> '{}'::jsonb) THEN own_texts((r).custom) ELSE NULL::text END))) || chr(31));

CREATE OR REPLACE FUNCTION searched_text(r deals)
 RETURNS text
 LANGUAGE sql
 STABLE PARALLEL SAFE
RETURN ((chr(31) || lower(concat_ws(chr(31), "left"((r).name, 1000), "left"((r).currency_code, 1000), "left"((r).lost_reason, 1000), "left"((r).description, 1000), CASE WHEN ((r).custom <> '{}'::jsonb) THEN own_texts((r).custom) ELSE NULL::text END))) || chr(31));

CREATE OR REPLACE FUNCTION searched_text(r leads)
 RETURNS text
 LANGUAGE sql
 STABLE PARALLEL SAFE
RETURN ((chr(31) || lower(concat_ws(chr(31), "left"((r).first_name, 1000), "left"((r).last_name, 1000), "left"((r).company_name, 1000), "left"((r).email, 1000), "left"((r).mobile, 1000), "left"((r).job_title, 1000), "left"((r).website, 1000), "left"((r).city, 1000), "left"((r).state, 1000), "left"((r).country, 1000), "left"((r).postal_code, 1000), "left"((r).origin, 1000), (((r).first_name || ' '::text) || (r).last_name), CASE WHEN ((r).custom <> '{}'::jsonb) THEN own_texts((r).custom) ELSE NULL::text END))) || chr(31));

CREATE OR REPLACE FUNCTION searched_text(r tasks)
 RETURNS text
 LANGUAGE sql
 STABLE PARALLEL SAFE
RETURN ((chr(31) || lower(concat_ws(chr(31), "left"((r).title, 1000), "left"((r).description, 1000), "left"((r).object, 1000), CASE WHEN ((r).custom <> '{}'::jsonb) THEN own_texts((r).custom) ELSE NULL::text END))) || chr(31));

CREATE OR REPLACE FUNCTION tables_of_companies()
 RETURNS SETOF text
 LANGUAGE sql
 STABLE
AS $function$
  select c.relname::text
  from pg_class c
  join pg_attribute a on a.attrelid = c.oid and a.attname = 'company_id' and not a.attisdropped
  where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition and c.relname <> 'purged_companies'
  order by 1
$function$;

CREATE OR REPLACE FUNCTION unique_fields_lock(company_id uuid, object text)
 RETURNS bigint
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
RETURN hashtextextended(((('unique fields '::text || company_id) || ' '::text) || object), (0)::bigint);

CREATE OR REPLACE FUNCTION whole_months(since timestamp with time zone, until timestamp with time zone)
 RETURNS integer
 LANGUAGE sql
 STABLE PARALLEL SAFE
AS $function$
  select months - (since at time zone 'UTC' + make_interval(months => months) > until at time zone 'UTC')::int
  from (
    select (extract(year from until at time zone 'UTC') - extract(year from since at time zone 'UTC'))::int * 12
      + (extract(month from until at time zone 'UTC') - extract(month from since at time zone 'UTC'))::int as months
  ) as calendar
$function$;

revoke execute on function analyze_records(text,integer) from public;

revoke execute on function drop_audit_partitions(date) from public;

revoke execute on function drop_request_partitions(date) from public;

revoke execute on function make_audit_partitions(date) from public;

revoke execute on function make_request_partitions(date) from public;

grant execute on function analyze_records(text,integer) to crm_app;

grant execute on function drop_audit_partitions(date) to crm_platform;

grant execute on function drop_request_partitions(date) to crm_platform;

grant execute on function make_audit_partitions(date) to crm_platform;

grant execute on function make_request_partitions(date) to crm_platform;
