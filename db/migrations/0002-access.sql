-- Roles and profiles, API keys, the audit log, and what the OAuth server stores.
--
-- Everything about signing in refers to users and is in 0003-people.sql.

-- The same for every tenant.
create table roles (
  id uuid primary key,
  name text not null unique,
  is_hidden boolean not null default false,
  -- The system profile of the role. Its permissions are the same for everyone (domain/access/role-permissions.ts).
  profile_id uuid unique
);
insert into roles (id, name, is_hidden, profile_id) values
  ('01900000-0000-7000-8000-000000000001', 'Company_Admin', false, '01900000-0000-7000-8001-000000000001'),
  ('01900000-0000-7000-8000-000000000002', 'Branch_Manager', false, '01900000-0000-7000-8001-000000000002'),
  ('01900000-0000-7000-8000-000000000003', 'Sales_Manager', false, '01900000-0000-7000-8001-000000000003'),
  ('01900000-0000-7000-8000-000000000004', 'Sales_Rep', false, '01900000-0000-7000-8001-000000000004'),
  ('01900000-0000-7000-8000-000000000005', 'Viewer', false, '01900000-0000-7000-8001-000000000005'),
  ('01900000-0000-7000-8000-000000000006', 'Super_Admin', true, '01900000-0000-7000-8001-000000000006');
grant select on roles to crm_app;
grant select on roles to crm_platform;

-- Custom profiles of a tenant. A profile replaces the permissions of the role for the users it is assigned to.
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
grant select, insert, update, delete on profiles to crm_app;
grant select on profiles to crm_platform;

-- Permissions of a custom profile.
create table profile_permissions (
  company_id uuid not null,
  profile_id uuid not null,
  -- leads, or object:visits.
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
grant select, insert, update, delete on profile_permissions to crm_app;
grant select on profile_permissions to crm_platform;

-- The tenant of a credential, for the lookup that does not know the tenant yet. Small, without foreign keys, and a
-- row never changes, so it can be copied to every node of a distributed database. The removal of a key, a user
-- or a tenant removes these rows too.
create table api_key_places (
  key_hash bytea primary key,
  company_id uuid not null
);
alter table api_key_places enable row level security, force row level security;
create policy tenant on api_key_places to crm_app
  using (company_id = current_company())
  with check (company_id = current_company());
create policy platform on api_key_places for select to crm_platform using (true);
grant insert on api_key_places to crm_app;
grant select on api_key_places to crm_platform;

-- API keys. Only the hash of a key is stored.
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
  -- Rotated: it expires after an overlap.
  is_replaced boolean not null default false,
  -- The expiry that was last announced. It is announced again if the expiry moves.
  expiry_notified_for timestamptz(3),
  primary key (company_id, id),
  unique (company_id, key_hash)
);
-- Keys whose expiry is to be announced.
create index api_keys_expiring on api_keys (expires_at)
  where expires_at is not null and revoked_at is null and expiry_notified_for is distinct from expires_at;
create index api_keys_listed on api_keys (company_id, created_at desc, id desc);
alter table api_keys enable row level security, force row level security;
create policy tenant on api_keys to crm_app
  using (company_id = current_company())
  with check (company_id = current_company());
create policy platform on api_keys to crm_platform using (true) with check (true);
grant select, insert, update, delete on api_keys to crm_app;
grant select (company_id, id, key_hash, name, environment, scopes, rate_limit_per_minute, rate_limit_per_hour,
  ip_allowlist, reach_kind, reach_id, write_mode, expires_at, revoked_at, expiry_notified_for) on api_keys to crm_platform;
create constraint trigger raise_credential_version after insert or delete or update
  on api_keys deferrable initially deferred for each row
  execute function raise_credential_version('company_id');

-- Separate from api_keys, so that the use of a key does not rewrite its row.
create table api_key_usage (
  company_id uuid not null,
  api_key_id uuid not null,
  total_requests bigint not null default 0,
  last_used_at timestamptz(3),
  last_used_ip text,
  primary key (company_id, api_key_id),
  foreign key (company_id, api_key_id) references api_keys (company_id, id) on delete cascade
) with (fillfactor = 50);
alter table api_key_usage enable row level security, force row level security;
create policy tenant on api_key_usage to crm_app
  using (company_id = current_company())
  with check (company_id = current_company());
create policy platform on api_key_usage to crm_platform using (true) with check (true);
grant select, insert, update, delete on api_key_usage to crm_app;
grant select, update on api_key_usage to crm_platform;

-- Calls per key and day, and those that were answered with an error, written in the same statement as the count of
-- the key.
create table api_key_days (
  company_id uuid not null references companies (id) on delete cascade,
  day date not null,
  api_key_id uuid not null,
  calls bigint not null,
  failures bigint not null default 0,
  primary key (company_id, day, api_key_id)
) with (fillfactor = 70);
-- The sweep removes old rows.
create index api_key_days_age on api_key_days (day);
alter table api_key_days enable row level security, force row level security;
create policy tenant on api_key_days to crm_app
  using (company_id = current_company())
  with check (company_id = current_company());
create policy platform on api_key_days to crm_platform using (true) with check (true);
grant select on api_key_days to crm_app;
grant select, insert, update, delete on api_key_days to crm_platform;

-- Every change has an audit row, so no change is committed too late where its rows are.
create function refuse_late_commit() returns trigger language plpgsql as $$
begin
  if clock_timestamp() > nullif(current_setting('app.deadline', true), '')::timestamptz then
    raise exception 'the time of the transaction has run out' using errcode = 'query_canceled';
  end if;
  return null;
end $$;

-- Append-only, partitioned by month. Rows of months without a partition go to audit_logs_other.
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
-- The history of one record.
create index audit_logs_of_record on audit_logs (company_id, test_mode, record_id, occurred_at, id)
  where record_id is not null;
-- The moves of one record through its statuses, among however many other changes.
create index audit_logs_of_moves on audit_logs (company_id, test_mode, record_id, occurred_at, id)
  where object = 'leads' and changes ? 'lead_status' or object = 'deals' and changes ? 'stage';
-- The operations of one request, import or revert, in their order.
create index audit_logs_of_request on audit_logs (company_id, test_mode, request_id, occurred_at, id);
alter table audit_logs enable row level security, force row level security;
create policy tenant on audit_logs to crm_app
  using (company_id = current_company())
  with check (company_id = current_company());
create policy platform on audit_logs for insert to crm_platform with check (true);
grant select, insert on audit_logs to crm_app;
grant insert on audit_logs to crm_platform;
create constraint trigger refuse_late_commit after insert on audit_logs deferrable initially deferred for each row
  execute function refuse_late_commit();

create table audit_logs_other partition of audit_logs default;
-- Rows without a monthly partition are removed one by one when they are too old.
create index audit_logs_other_age on audit_logs_other (occurred_at);
alter table audit_logs_other enable row level security, force row level security;
create policy removed on audit_logs_other for delete to crm_platform using (true);
create policy swept on audit_logs_other for select to crm_platform using (true);
grant select (company_id, id, occurred_at), delete on audit_logs_other to crm_platform;

-- Creates the partitions of a month and the next. Called at every start and by the sweeps. A month whose first rows are
-- already in audit_logs_other stays there, so that such rows stop neither a start nor the sweeps. The rows are looked up
-- first, because creating a partition locks the log. An owner that row-level security applies to does not see them.
create function make_audit_partitions(day date) returns void language plpgsql security definer set search_path = public as $$
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
end $$;
revoke execute on function make_audit_partitions(date) from public;
grant execute on function make_audit_partitions(date) to crm_platform;

-- Drops the partitions of months that ended before a day and returns their number. It does not wait for a lock,
-- because every writer would wait behind it: a later call tries again.
create function drop_audit_partitions(before date) returns int language plpgsql security definer set search_path = public as $$
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
end $$;
revoke execute on function drop_audit_partitions(date) from public;
grant execute on function drop_audit_partitions(date) to crm_platform;

-- The requests of a workspace, kept for 30 days. They are written after the responses, in blocks: a row has the
-- requests of a second, because a row for each would cost a quarter of the throughput of reads. Ids of requests are
-- UUIDs of version 7, which begin with the time, so the table is partitioned by ranges of ids: one partition for each
-- day. Blocks of days without a partition go to request_log_other.
create table request_log (
  company_id uuid not null,
  test_mode boolean not null,
  -- Of the last request. The first one is at most two seconds earlier.
  id uuid not null,
  first_id uuid not null,
  has_failures boolean not null,
  -- The values of all requests that filters can ask for.
  terms text[] not null,
  -- JSON as text (domain/access/request-blocks.ts).
  requests text not null,
  -- Bodies and errors of failed requests: JSON as text.
  details text,
  primary key (company_id, test_mode, id)
) partition by range (id);
create index request_log_failures on request_log (company_id, test_mode, id) where has_failures;
alter table request_log enable row level security, force row level security;
create policy tenant on request_log to crm_app
  using (company_id = current_company() and test_mode = current_test_mode())
  with check (company_id = current_company() and test_mode = current_test_mode());
create policy platform on request_log for insert to crm_platform with check (true);
grant select, delete on request_log to crm_app;
grant insert on request_log to crm_platform;

create table request_log_other partition of request_log default;
-- Rows without a daily partition are removed one by one when they are too old.
create index request_log_other_age on request_log_other (id);
alter table request_log_other enable row level security, force row level security;
create policy removed on request_log_other for delete to crm_platform using (true);
create policy swept on request_log_other for select to crm_platform using (true);
grant select (company_id, id), delete on request_log_other to crm_platform;

-- Returns the lowest id of a day.
create function first_request_id(day date) returns uuid language sql immutable as $$
  select (lpad(to_hex((extract(epoch from day) * 1000)::bigint), 12, '0') || '00000000000000000000')::uuid
$$;

-- Creates the partitions of a day and the next two. Called at every start and by the sweeps. A day whose first rows
-- are already in request_log_other stays there. It does not wait for a lock, because every insertion would wait behind
-- it: a later call tries again.
create function make_request_partitions(day date) returns void language plpgsql security definer set search_path = public as $$
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
end $$;
revoke execute on function make_request_partitions(date) from public;
grant execute on function make_request_partitions(date) to crm_platform;

-- Drops the partitions of the days before a day and returns their number. It does not wait for a lock: a later call
-- tries again.
create function drop_request_partitions(before date) returns int language plpgsql security definer set search_path = public as $$
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
end $$;
revoke execute on function drop_request_partitions(date) from public;
grant execute on function drop_request_partitions(date) to crm_platform;

-- State of the OAuth server: apps, codes, tokens and interactions in progress. Not bound to a tenant, because a
-- code names none.
create table oauth_artifacts (
  model text not null,
  -- A digest: a reader of this table can use no code and no token.
  id_hash bytea not null,
  payload jsonb not null,
  -- Common to everything issued for one consent, which is revoked together.
  grant_hash bytea,
  consumed_at timestamptz(3),
  -- null: an app, which does not expire.
  expires_at timestamptz(3),
  primary key (model, id_hash)
);
-- The sweep removes expired rows.
create index oauth_artifacts_age on oauth_artifacts (expires_at) where expires_at is not null;
create index oauth_artifacts_of_grant on oauth_artifacts (grant_hash) where grant_hash is not null;
alter table oauth_artifacts enable row level security, force row level security;
create policy oauth on oauth_artifacts to crm_oauth using (true) with check (true);
create policy platform on oauth_artifacts for select to crm_platform using (true);
create policy sweep on oauth_artifacts for delete to crm_platform using (expires_at is not null);
grant select, insert, update, delete on oauth_artifacts to crm_oauth;
grant select (model, id_hash, expires_at), delete on oauth_artifacts to crm_platform;

call open_to_purge();
