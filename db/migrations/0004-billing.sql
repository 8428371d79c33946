-- Subscriptions, the API quota, billing operations, and the mirror of a payment provider.

-- Whole months between two times, in UTC. A month of the quota starts on the day and hour of the subscription's period.
create function whole_months(since timestamptz, until timestamptz) returns int language sql stable parallel safe as $$
  select months - (since at time zone 'UTC' + make_interval(months => months) > until at time zone 'UTC')::int
  from (
    select (extract(year from until at time zone 'UTC') - extract(year from since at time zone 'UTC'))::int * 12
      + (extract(month from until at time zone 'UTC') - extract(month from since at time zone 'UTC'))::int as months
  ) as calendar
$$;

create function add_months(since timestamptz, months int) returns timestamptz language sql stable parallel safe
  return (since at time zone 'UTC' + make_interval(months => months)) at time zone 'UTC';

create function open_quota() returns trigger language plpgsql as $$
begin
  insert into api_quota (company_id, month_start) values (new.company_id, new.period_start) on conflict do nothing;
  return null;
end $$;

-- The live subscription of a tenant.
create table subscriptions (
  company_id uuid primary key references companies (id) on delete cascade,
  status text not null,
  package_code text not null,
  -- If an agreement differs from the package.
  api_rate_limit_per_minute int check (api_rate_limit_per_minute > 0),
  billing_cycle text not null default 'monthly',
  trial_ends_at timestamptz(3),
  period_start timestamptz(3) not null,
  period_end timestamptz(3) not null,
  created_at timestamptz(3) not null,
  updated_at timestamptz(3) not null,
  -- Purchased. A tenant may have this many active users or as many as its package includes, whichever is more.
  seats int check (seats > 0),
  -- If an agreement differs from the package. Without a package of the catalog, null means unlimited.
  api_call_cap bigint check (api_call_cap > 0),
  api_daily_cap int check (api_daily_cap > 0),
  currency text not null default 'USD',
  -- Keys of the modules that are paid for besides the package.
  add_ons text[] not null default '{}',
  cancel_at_period_end boolean not null default false,
  -- Changes at the end of the period: [{action, package_code?, module_key?, seats?}].
  scheduled jsonb not null default '[]',
  -- When it ended. Data is kept for some time after that.
  ended_at timestamptz(3),
  past_due_since timestamptz(3),
  -- Attempts to collect the payment that is due.
  charge_attempts int not null default 0,
  -- Reduces the next invoices.
  credit_minor bigint not null default 0 check (credit_minor >= 0),
  -- {brand, last4, exp_month, exp_year}
  payment_method jsonb,
  has_agreement boolean not null default false,
  agreement_ends_at timestamptz(3),
  -- When a job has to change it next; null: never.
  due_at timestamptz(3),
  -- Modules to add as soon as their payment is confirmed.
  pending_add_ons text[] not null default '{}'
);
-- The operator's company is its own customer: unlimited, with a ceiling as high as the highest plan's.
insert into subscriptions (company_id, status, package_code, api_rate_limit_per_minute, period_start, period_end, created_at, updated_at)
select id, 'active', 'platform', 3000, created_at, created_at, now(), now() from companies;
-- Subscriptions that a job has to change.
create index subscriptions_due on subscriptions (due_at) where due_at is not null;
alter table subscriptions enable row level security, force row level security;
create policy tenant on subscriptions to crm_app
  using (company_id = current_company())
  with check (company_id = current_company());
create policy platform on subscriptions to crm_platform using (true) with check (true);
grant select, insert, update, delete on subscriptions to crm_app;
grant select (company_id, status, package_code, api_rate_limit_per_minute, trial_ends_at, period_start,
  period_end, api_call_cap, api_daily_cap, add_ons, due_at) on subscriptions to crm_platform;
create trigger open_quota after insert on subscriptions for each row execute function open_quota();
create constraint trigger raise_credential_version after insert or delete or update
  on subscriptions deferrable initially deferred for each row
  execute function raise_credential_version('company_id');

-- The subscription that test keys see. A table of its own, so that no credential lookup can confuse the two.
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
-- Subscriptions that a job has to change.
create index test_subscriptions_due_at_idx on test_subscriptions (due_at) where due_at is not null;
alter table test_subscriptions enable row level security, force row level security;
create policy tenant on test_subscriptions to crm_app
  using (company_id = current_company())
  with check (company_id = current_company());
create policy platform on test_subscriptions for select to crm_platform using (true);
grant select, insert, update on test_subscriptions to crm_app;
grant select (company_id, due_at) on test_subscriptions to crm_platform;

-- Calls of the current month. Separate from subscriptions, so that calls do not rewrite that row; inserted with it,
-- so that counting needs no insert.
create table api_quota (
  company_id uuid primary key references companies (id) on delete cascade,
  month_start timestamptz(3) not null,
  calls bigint not null default 0
) with (fillfactor = 50);
insert into api_quota (company_id, month_start) select company_id, period_start from subscriptions;
alter table api_quota enable row level security, force row level security;
create policy tenant on api_quota to crm_app
  using (company_id = current_company())
  with check (company_id = current_company());
create policy platform on api_quota to crm_platform using (true) with check (true);
grant select, insert on api_quota to crm_app;
grant select, insert, update on api_quota to crm_platform;

-- Calls that a process acquired ahead and has not used yet, so that not every call is a write. Unused calls of a
-- process that died return to the month.
create table api_quota_blocks (
  company_id uuid not null references companies (id) on delete cascade,
  holder uuid not null,
  month_start timestamptz(3) not null,
  calls bigint not null check (calls >= 0),
  renewed_at timestamptz(3) not null,
  primary key (company_id, holder)
) with (fillfactor = 50);
-- Blocks of processes that died.
create index api_quota_blocks_by_age on api_quota_blocks (renewed_at);
alter table api_quota_blocks enable row level security, force row level security;
create policy tenant on api_quota_blocks to crm_app
  using (company_id = current_company())
  with check (company_id = current_company());
create policy platform on api_quota_blocks to crm_platform using (true) with check (true);
grant select on api_quota_blocks to crm_app;
grant select, insert, update, delete on api_quota_blocks to crm_platform;

-- Billing operations. Committed before the payment provider is called; the id is the idempotency key at the provider.
create table billing_operations (
  company_id uuid not null references companies (id) on delete cascade,
  test_mode boolean not null,
  id uuid not null,
  change jsonb not null,
  -- Equal for retries of the same call.
  retry_key text,
  -- null: scheduled, or requested on a page of the provider.
  asked_by jsonb,
  status text not null default 'pending' check (status in ('pending', 'done', 'declined')),
  -- The result that the caller received.
  result jsonb,
  -- After this time the process that performs it is considered dead.
  leased_until timestamptz(3) not null,
  created_at timestamptz(3) not null,
  finished_at timestamptz(3),
  -- How often it was started. Each attempt is a new request to the provider, after the outcome of the earlier ones
  -- was looked up.
  attempts int not null default 1,
  -- The subscription that the operation was computed from, if the provider keeps its own books. A retry compares it
  -- with the provider's present state. null: the stored subscription is the truth.
  base jsonb,
  primary key (company_id, test_mode, id)
);
create index billing_operations_of_key on billing_operations (company_id, test_mode, retry_key, id) where retry_key is not null;
-- Operations whose process died.
create index billing_operations_overdue on billing_operations (leased_until) where status = 'pending';
-- One operation at a time.
create unique index billing_operations_pending on billing_operations (company_id, test_mode) where status = 'pending';
alter table billing_operations enable row level security, force row level security;
create policy tenant on billing_operations to crm_app
  using (company_id = current_company() and test_mode = current_test_mode())
  with check (company_id = current_company() and test_mode = current_test_mode());
create policy platform on billing_operations for select to crm_platform using (true);
grant select, insert, update on billing_operations to crm_app;
grant select (company_id, test_mode, id, status, leased_until) on billing_operations to crm_platform;

-- Invoices of billing operations, and of a provider that keeps its own invoices.
create table invoices (
  company_id uuid not null references companies (id) on delete cascade,
  test_mode boolean not null,
  id uuid not null,
  -- The billing operation; it has at most one invoice. null: the provider created the invoice.
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
  -- [{description, quantity, unit_amount_minor, amount_minor, proration}]
  lines jsonb not null,
  provider_id text,
  hosted_url text,
  pdf_url text,
  -- {name, address, tax_ids}, as on the provider's invoice.
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
grant select, insert, update on invoices to crm_app;

-- Charges of the test provider, stored separately like those of a real provider.
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
grant select, insert on test_charges to crm_app;

-- Pages of the payment provider on which a person pays.
create table checkout_sessions (
  company_id uuid not null references companies (id) on delete cascade,
  test_mode boolean not null,
  id text not null,
  kind text not null check (kind in ('subscribe', 'wallet_topup')),
  -- Of a subscription.
  package_code text,
  billing_cycle text,
  seats int,
  -- Of a top-up.
  amount_minor bigint,
  currency text not null,
  success_url text,
  cancel_url text,
  -- The page on which the person pays; null until the provider has created it.
  url text,
  created_at timestamptz(3) not null,
  expires_at timestamptz(3) not null,
  completed_at timestamptz(3),
  -- When the provider was last queried because a client polled this checkout.
  asked_at timestamptz(3),
  primary key (company_id, test_mode, id)
);
-- Checkouts that may still be paid. They decide how soon the customer is read again.
create index checkout_sessions_open on checkout_sessions (company_id, test_mode, expires_at) where completed_at is null;
alter table checkout_sessions enable row level security, force row level security;
create policy tenant on checkout_sessions to crm_app
  using (company_id = current_company() and test_mode = current_test_mode())
  with check (company_id = current_company() and test_mode = current_test_mode());
grant select, insert, update (url, completed_at, asked_at) on checkout_sessions to crm_app;

-- Pages of the payment provider on which a person manages payment methods.
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
grant select, insert on portal_sessions to crm_app;

-- Payments into the wallet and withdrawals from it. The balance is the sum; a payment counts once.
create table wallet_entries (
  company_id uuid not null references companies (id) on delete cascade,
  test_mode boolean not null,
  -- The id that the provider gave the payment.
  payment_id text not null,
  amount_minor bigint not null,
  created_at timestamptz(3) not null,
  -- Set if the entry takes back a payment, with the reason. Later entries correct earlier ones.
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
grant select, insert on wallet_entries to crm_app;

-- The customer at the payment provider. Live only, because test keys never pay.
create table provider_customers (
  company_id uuid primary key references companies (id) on delete cascade,
  customer_id text not null,
  -- Counts requests to read the customer again. A read takes its number before it starts.
  asked bigint not null default 0,
  -- The number of the read that was stored last. A read that started earlier is not stored over it.
  written bigint not null default 0,
  due_at timestamptz(3) not null,
  created_at timestamptz(3) not null,
  -- Live subscriptions of the customer besides the one that is mirrored.
  duplicates jsonb not null default '[]'
);
-- Customers that are to be read again.
create index provider_customers_due on provider_customers (due_at);
alter table provider_customers enable row level security, force row level security;
create policy tenant on provider_customers to crm_app
  using (company_id = current_company())
  with check (company_id = current_company());
create policy platform on provider_customers for select to crm_platform using (true);
grant select, insert, update (asked, written, due_at, duplicates) on provider_customers to crm_app;
grant select (company_id, due_at) on provider_customers to crm_platform;

-- The tenant of a customer at the payment provider, because its events name no tenant.
create table provider_customer_places (
  customer_id text primary key,
  company_id uuid not null
);
alter table provider_customer_places enable row level security, force row level security;
create policy tenant on provider_customer_places to crm_app
  using (company_id = current_company())
  with check (company_id = current_company());
create policy platform on provider_customer_places for select to crm_platform using (true);
grant insert on provider_customer_places to crm_app;
grant select on provider_customer_places to crm_platform;

-- Events received from the payment provider, each once. An event only says that there is something to look at.
create table provider_events (
  company_id uuid not null references companies (id) on delete cascade,
  id text not null,
  received_at timestamptz(3) not null,
  primary key (company_id, id)
);
-- The sweep removes old rows.
create index provider_events_age on provider_events (received_at);
alter table provider_events enable row level security, force row level security;
create policy tenant on provider_events to crm_app
  using (company_id = current_company())
  with check (company_id = current_company());
create policy platform on provider_events to crm_platform using (true);
grant select, insert on provider_events to crm_app;
grant select, delete on provider_events to crm_platform;

-- Prices, discounts and the next invoice as the payment provider reports them. Live only.
create table provider_bills (
  company_id uuid primary key references companies (id) on delete cascade,
  -- Minor units by item, such as {"plan.growth": 9900}; null in an item: the provider has no single price.
  prices jsonb not null,
  -- [{name, percent_off, amount_off_minor, ends_at}]
  discounts jsonb not null,
  -- {currency, subtotal_minor, tax_minor, total_minor, lines}; null: nothing will be charged, or there was no
  -- preview.
  pending jsonb,
  next_charge_at timestamptz(3),
  -- Why the provider gave no preview, as the provider's own code; null: it gave one.
  problem text,
  looked_at timestamptz(3) not null
);
alter table provider_bills enable row level security, force row level security;
create policy tenant on provider_bills to crm_app
  using (company_id = current_company())
  with check (company_id = current_company());
grant select, insert, update on provider_bills to crm_app;

call open_to_purge();
