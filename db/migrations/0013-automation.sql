-- Webhooks and their deliveries, workforces and their runs.

-- Webhook subscriptions and the state of their deliveries.
create table webhook_subscriptions (
  company_id uuid not null references companies (id) on delete cascade,
  test_mode boolean not null,
  id uuid not null,
  url text not null,
  description text,
  -- Names of events, record.* or *.
  events text[] not null,
  filter jsonb,
  include text[] not null default '{}',
  skip_own boolean not null,
  -- The tenant's own headers: their names as sent, and all of them encrypted; null: none.
  header_names text[] not null default '{}',
  sealed_headers text,
  max_per_second int not null default 25 check (max_per_second between 1 and 100),
  -- The events of each record are sent one after the other.
  is_ordered boolean not null default false,
  -- Encrypted with SECRET_KEY; shown once.
  sealed_secret text not null,
  secret_last4 text not null,
  secret_rotated_at timestamptz(3),
  sealed_previous_secret text,
  previous_secret_expires_at timestamptz(3),
  -- The Ed25519 key pair of an asymmetric subscription, its private key encrypted; null: symmetric. The previous one
  -- expires with the previous secret.
  public_key text,
  sealed_signing_key text,
  previous_public_key text,
  sealed_previous_signing_key text,
  disabled_reason text check (disabled_reason in ('manual', 'failures', 'gone')),
  disabled_at timestamptz(3),
  -- Hidden from everyone; deliveries remain to be cancelled.
  deleted_at timestamptz(3),
  -- When a sender must process it: a delivery is due, or was leased by a sender that has died.
  -- null: nothing waits.
  due_at timestamptz(3),
  -- More is due than may be in flight at the same time: a sender that finishes a delivery looks for
  -- the next one.
  is_held boolean not null default false,
  -- Attempts of the last second, in milliseconds since 1970, for the rate limit.
  recent_attempts bigint[] not null default '{}'::bigint[],
  -- Attempts of the last 24 hours, three numbers for each hour with attempts: hours since 1970, attempts, successes.
  attempt_counts int[] not null default '{}',
  last_delivery_at timestamptz(3),
  last_success_at timestamptz(3),
  -- Since the last success: when the first attempt failed, how many failed, and how many deliveries were given up.
  failing_since timestamptz(3),
  consecutive_failures int not null default 0,
  exhausted_deliveries int not null default 0,
  warned_at timestamptz(3),
  -- Deliveries that begin after this time are the last probe: it succeeds, or the subscription is disabled.
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
-- Subscriptions that a sender must process.
create index webhook_subscriptions_due on webhook_subscriptions (due_at) where due_at is not null;
create index webhook_subscriptions_listed on webhook_subscriptions (company_id, test_mode, created_at desc, id desc)
  where deleted_at is null;
alter table webhook_subscriptions enable row level security, force row level security;
create policy tenant on webhook_subscriptions to crm_app
  using (company_id = current_company() and test_mode = current_test_mode())
  with check (company_id = current_company() and test_mode = current_test_mode());
create policy platform on webhook_subscriptions to crm_platform using (true) with check (true);
grant select, insert, update, delete on webhook_subscriptions to crm_app;
grant select (company_id, test_mode, id, due_at) on webhook_subscriptions to crm_platform;

-- Deliveries. No foreign key to the subscription: they are shown for 30 days even if it is deleted.
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
  -- When the next attempt is due. Of a delivery in flight: when its sender is considered dead.
  next_attempt_at timestamptz(3),
  -- Until when one sender has it, on the real time.
  leased_until timestamptz(3),
  last_response_code int,
  last_response_snippet text,
  last_error text check (last_error in ('timeout', 'dns', 'tls', 'connect', 'blocked_address', 'http_error')),
  duration_ms int,
  replay_of uuid,
  is_test boolean not null default false,
  -- The record and the position in the feed of the event; null and 0: it has none.
  record_id uuid,
  position bigint not null default 0,
  -- It belongs to the queue of its record. In a queue, only the active delivery has a next_attempt_at.
  is_ordered boolean not null default false,
  -- Byte for byte as it is sent.
  body text not null,
  created_at timestamptz(3) not null,
  completed_at timestamptz(3),
  primary key (company_id, test_mode, id),
  check (not is_ordered or record_id is not null)
);
alter table webhook_deliveries alter column company_id set (n_distinct = 100);
-- Each queue has one active delivery.
create unique index webhook_deliveries_active on webhook_deliveries (company_id, test_mode, subscription_id, record_id)
  where is_ordered and status in ('pending', 'retrying') and next_attempt_at is not null;
-- The sweep removes old rows, except those in queues: the order would break.
create index webhook_deliveries_age on webhook_deliveries (created_at)
  where not (is_ordered and status in ('pending', 'retrying'));
-- Deliveries in flight.
create index webhook_deliveries_leased on webhook_deliveries (company_id, test_mode, subscription_id, leased_until)
  where leased_until is not null;
create index webhook_deliveries_listed on webhook_deliveries (company_id, test_mode, subscription_id, created_at desc,
  id desc);
-- The list over all subscriptions: as it is, and by each filter.
create index webhook_deliveries_newest on webhook_deliveries (company_id, test_mode, created_at desc, id desc);
create index webhook_deliveries_of_status on webhook_deliveries (company_id, test_mode, status, created_at desc, id desc);
create index webhook_deliveries_of_event on webhook_deliveries (company_id, test_mode, event, created_at desc, id desc);
-- The queue of a record.
create index webhook_deliveries_queue on webhook_deliveries (company_id, test_mode, subscription_id, record_id,
  "position", id) where is_ordered and status in ('pending', 'retrying');
-- Deliveries that wait for an attempt.
create index webhook_deliveries_open on webhook_deliveries (company_id, test_mode, subscription_id, next_attempt_at, id)
  where status in ('pending', 'retrying');
alter table webhook_deliveries enable row level security, force row level security;
create policy tenant on webhook_deliveries to crm_app
  using (company_id = current_company() and test_mode = current_test_mode())
  with check (company_id = current_company() and test_mode = current_test_mode());
create policy platform on webhook_deliveries to crm_platform using (true) with check (true);
grant select, insert, update, delete on webhook_deliveries to crm_app;
grant select (company_id, test_mode, id, status, is_ordered, created_at), delete on webhook_deliveries to crm_platform;

-- Queue: ranges of feeds whose deliveries are not created yet. The dispatcher appends rows, the matcher deletes them,
-- and neither waits for the other. Vacuumed like outbox_events.
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
grant select, insert, update (first_position), delete on webhook_backlog to crm_app;
grant select (company_id, test_mode, noted_at) on webhook_backlog to crm_platform;

-- Workforces: steps that are performed for a record one after the other.
create table workforces (
  company_id uuid not null references companies (id) on delete cascade,
  id uuid not null,
  name text not null,
  description text,
  kind text not null check (kind in ('sequence', 'workflow', 'agent')),
  status text not null check (status in ('active', 'paused', 'draft')),
  subject_types text[] not null,
  steps jsonb not null,
  -- A condition of the filter grammar; null: none.
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
grant select, insert, update, delete on workforces to crm_app;

-- Runs: records that are enrolled in a workforce.
create table workforce_runs (
  company_id uuid not null,
  test_mode boolean not null,
  id uuid not null,
  workforce_id uuid not null,
  status text not null check (status in ('queued', 'running', 'waiting', 'completed', 'stopped', 'failed', 'cancelled')),
  object text not null,
  record_id uuid not null,
  context jsonb not null,
  -- As they were when the run began.
  steps jsonb not null,
  stop_when jsonb,
  stop_when_replied boolean not null,
  -- The next step, from 0.
  position int not null,
  -- When the next step is to be done; null: the run has ended.
  next_step_at timestamptz(3),
  -- When a job must process it; null: never, because it has ended or its workforce is not active.
  due_at timestamptz(3),
  -- Identifies the attempt: a worker that was too slow changes nothing.
  attempts int not null,
  -- Of the next step: since when it is tried, and the call that performs it. Both null: it has not begun.
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
-- A record is in a workforce once at a time.
create unique index workforce_runs_active on workforce_runs (company_id, test_mode, workforce_id, object, record_id)
  where ended_at is null;
-- The sweep removes old rows.
create index workforce_runs_age on workforce_runs (ended_at) where ended_at is not null;
-- Runs that a job must process.
create index workforce_runs_due on workforce_runs (due_at) where due_at is not null;
-- Merges of records.
create index workforce_runs_of_record on workforce_runs (company_id, test_mode, object, record_id);
create index workforce_runs_listed on workforce_runs (company_id, test_mode, workforce_id, enrolled_at desc, id desc);
alter table workforce_runs enable row level security, force row level security;
create policy tenant on workforce_runs to crm_app
  using (company_id = current_company() and test_mode = current_test_mode())
  with check (company_id = current_company() and test_mode = current_test_mode());
create policy platform on workforce_runs to crm_platform using (true);
grant select, insert, update, delete on workforce_runs to crm_app;
grant select (company_id, test_mode, id, due_at, ended_at), delete on workforce_runs to crm_platform;

-- The outcome of each step of a run.
create table workforce_run_steps (
  company_id uuid not null,
  test_mode boolean not null,
  run_id uuid not null,
  position int not null,
  status text not null check (status in ('done', 'skipped', 'failed')),
  -- The record that the step created; null: none.
  made_object text,
  made_id uuid,
  -- Why the step was skipped.
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
grant select, insert, update, delete on workforce_run_steps to crm_app;

call open_to_purge();

-- So that the planner takes these tables for empty, and not for ten pages, until they are analyzed with rows.
analyze webhook_deliveries, workforce_runs;
