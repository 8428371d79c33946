-- Webhooks: who wants to be told of what, and every delivery on its way or past it.

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
  -- Encrypted under SECRET_KEY; shown once.
  sealed_secret text not null,
  secret_last4 text not null,
  secret_rotated_at timestamptz(3),
  sealed_previous_secret text,
  previous_secret_expires_at timestamptz(3),
  disabled_reason text check (disabled_reason in ('manual', 'failures', 'gone')),
  disabled_at timestamptz(3),
  -- Still has deliveries to cancel; nobody sees it any more.
  deleted_at timestamptz(3),
  -- When a sender has to look at it: a delivery is due, or was taken by a sender that has ended since; null: nothing waits.
  due_at timestamptz(3),
  -- More is due than may be on its way at once: whoever ends a delivery has the next one looked for.
  is_held boolean not null default false,
  -- Attempts of the last second, in milliseconds since 1970, for the limit on them.
  recent_attempts bigint[] not null default '{}',
  last_delivery_at timestamptz(3),
  last_success_at timestamptz(3),
  -- Since the last success: when the first attempt failed, how many did, and how many deliveries were given up.
  failing_since timestamptz(3),
  consecutive_failures int not null default 0,
  exhausted_deliveries int not null default 0,
  warned_at timestamptz(3),
  -- What begins from here on is the last probe: it succeeds, or the subscription is disabled.
  probing_since timestamptz(3),
  created_by_kind text not null,
  created_by_id text not null,
  created_by_name text,
  created_at timestamptz(3) not null,
  updated_at timestamptz(3) not null,
  primary key (company_id, test_mode, id),
  check ((disabled_reason is null) = (disabled_at is null))
);
create index webhook_subscriptions_listed on webhook_subscriptions (company_id, test_mode, created_at desc, id desc) where deleted_at is null;
create index webhook_subscriptions_due on webhook_subscriptions (due_at) where due_at is not null;

-- Not tied to its subscription by a key: what was sent is shown for its 30 days even when that is gone.
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
  -- When the next attempt is due; of one on its way, when its sender is taken for ended.
  next_attempt_at timestamptz(3),
  -- While a sender has it: until when it may.
  leased_until timestamptz(3),
  last_response_code int,
  last_response_snippet text,
  last_error text check (last_error in ('timeout', 'dns', 'tls', 'connect', 'blocked_address', 'http_error')),
  duration_ms int,
  replay_of uuid,
  is_test boolean not null default false,
  -- Byte for byte as it is sent.
  body text not null,
  created_at timestamptz(3) not null,
  completed_at timestamptz(3),
  primary key (company_id, test_mode, id)
);
create index webhook_deliveries_listed on webhook_deliveries (company_id, test_mode, subscription_id, created_at desc, id desc);
create index webhook_deliveries_open on webhook_deliveries (company_id, test_mode, subscription_id, next_attempt_at, id)
  where status in ('pending', 'retrying');
create index webhook_deliveries_leased on webhook_deliveries (company_id, test_mode, subscription_id, leased_until) where leased_until is not null;
create index webhook_deliveries_age on webhook_deliveries (created_at);

do $$
declare
  name text;
begin
  foreach name in array array['webhook_subscriptions', 'webhook_deliveries']
  loop
    execute format('alter table %I enable row level security', name);
    execute format('alter table %I force row level security', name);
    execute format('create policy tenant on %I to crm_app using (company_id = current_company() and test_mode = current_test_mode())
      with check (company_id = current_company() and test_mode = current_test_mode())', name);
    execute format('create policy platform on %I to crm_platform using (true) with check (true)', name);
    execute format('grant select, insert, update on %I to crm_app', name);
  end loop;
end $$;
grant delete on webhook_subscriptions, webhook_deliveries to crm_app;
-- The platform role finds whose subscriptions are due and removes what is past its time; what is in them it does not see.
grant select (company_id, test_mode, id, due_at) on webhook_subscriptions to crm_platform;
grant select (company_id, test_mode, id, created_at, status), delete on webhook_deliveries to crm_platform;
