-- Billing: what a subscription is made of, orders that are carried out by a payment provider, and their invoices.

alter table subscriptions
  add column currency text not null default 'USD',
  -- Keys of the modules that are paid for beside the package.
  add column add_ons text[] not null default '{}',
  add column cancel_at_period_end boolean not null default false,
  -- What else happens when the period ends: [{action, package_code?, module_key?, seats?}]
  add column scheduled jsonb not null default '[]',
  -- When it ended: the data is kept for a time from here on.
  add column ended_at timestamptz(3),
  add column past_due_since timestamptz(3),
  -- Of the payment that is due.
  add column charge_attempts int not null default 0,
  -- What the next invoices are less by.
  add column credit_minor bigint not null default 0 check (credit_minor >= 0),
  -- {brand, last4, exp_month, exp_year}
  add column payment_method jsonb,
  add column has_agreement boolean not null default false,
  add column agreement_ends_at timestamptz(3),
  -- When something becomes of it by itself; null: never.
  add column due_at timestamptz(3);

alter table subscriptions no force row level security;
update subscriptions set due_at = trial_ends_at where status = 'trialing';
alter table subscriptions force row level security;
create index subscriptions_due on subscriptions (due_at) where due_at is not null;

-- What test keys subscribe to: a table of its own, so that nothing that looks a credential up can take one for the other.
create table test_subscriptions (like subscriptions including defaults including constraints including indexes);
alter table test_subscriptions add foreign key (company_id) references companies (id) on delete cascade;

-- Written and committed before the provider is asked. The id is the provider's own idempotency key.
create table billing_orders (
  company_id uuid not null references companies (id) on delete cascade,
  test_mode boolean not null,
  id uuid not null,
  change jsonb not null,
  -- What a retry of the same call has in common with it.
  retry_key text,
  -- null: nobody but the calendar, or a page of the provider.
  asked_by jsonb,
  status text not null default 'pending' check (status in ('pending', 'done', 'declined')),
  -- What the caller was told.
  result jsonb,
  -- When whoever carries it out is taken for dead.
  leased_until timestamptz(3) not null,
  created_at timestamptz(3) not null,
  finished_at timestamptz(3),
  primary key (company_id, test_mode, id)
);
-- One at a time.
create unique index billing_orders_pending on billing_orders (company_id, test_mode) where status = 'pending';
create index billing_orders_of_key on billing_orders (company_id, test_mode, retry_key) where retry_key is not null;
create index billing_orders_overdue on billing_orders (leased_until) where status = 'pending';

create table invoices (
  company_id uuid not null references companies (id) on delete cascade,
  test_mode boolean not null,
  id uuid not null,
  -- The order that it is of; one order has one invoice at most.
  order_id uuid not null,
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
  primary key (company_id, test_mode, id),
  unique (company_id, test_mode, order_id),
  unique (company_id, test_mode, number)
);
create index invoices_listed on invoices (company_id, test_mode, issued_at desc, id desc);

-- What the test provider has charged: its own books, written apart from ours.
create table test_charges (
  company_id uuid not null references companies (id) on delete cascade,
  test_mode boolean not null,
  order_id uuid not null,
  amount_minor bigint not null,
  currency text not null,
  last4 text not null,
  is_declined boolean not null,
  created_at timestamptz(3) not null,
  primary key (company_id, test_mode, order_id)
);

do $$
declare
  name text;
begin
  foreach name in array array['billing_orders', 'invoices', 'test_charges']
  loop
    execute format('alter table %I enable row level security', name);
    execute format('alter table %I force row level security', name);
    execute format('create policy tenant on %I to crm_app using (company_id = current_company() and test_mode = current_test_mode())
      with check (company_id = current_company() and test_mode = current_test_mode())', name);
  end loop;
end $$;
alter table test_subscriptions enable row level security;
alter table test_subscriptions force row level security;
create policy tenant on test_subscriptions to crm_app using (company_id = current_company()) with check (company_id = current_company());
grant select, insert, update on test_subscriptions, billing_orders, invoices to crm_app;
-- What was charged is charged.
grant select, insert on test_charges to crm_app;

-- The platform role finds whose subscriptions are due and whose orders were left in the middle; what is in them it does not see.
create policy platform on billing_orders for select to crm_platform using (true);
create policy platform on test_subscriptions for select to crm_platform using (true);
grant select (company_id, test_mode, id, status, leased_until) on billing_orders to crm_platform;
grant select (company_id, due_at) on test_subscriptions to crm_platform;
grant select (add_ons, due_at) on subscriptions to crm_platform;
