-- Customers of a payment provider that keeps books of its own, its events, and what is mirrored of it.

-- The customer that a company is to the provider. Live only: test keys never pay.
create table provider_customers (
  company_id uuid primary key references companies (id) on delete cascade,
  customer_id text not null,
  -- Counts whatever asks for a new look at the customer; a look takes its number before it begins.
  asked bigint not null default 0,
  -- The number of the look that was written last: one that began earlier is not written over it.
  written bigint not null default 0,
  due_at timestamptz(3) not null,
  created_at timestamptz(3) not null
);
create index provider_customers_due on provider_customers (due_at);

-- In which company a customer is, for events, which name no company.
create table provider_customer_places (
  customer_id text primary key,
  company_id uuid not null
);

-- Each event that was taken; it says only that there is something to look at.
create table provider_events (
  company_id uuid not null references companies (id) on delete cascade,
  id text not null,
  received_at timestamptz(3) not null,
  primary key (company_id, id)
);
create index provider_events_age on provider_events (received_at);

do $$
declare
  name text;
begin
  foreach name in array array['provider_customers', 'provider_customer_places', 'provider_events']
  loop
    execute format('alter table %I enable row level security', name);
    execute format('alter table %I force row level security', name);
    execute format('create policy tenant on %I to crm_app using (company_id = current_company()) with check (company_id = current_company())', name);
  end loop;
end $$;
grant select, insert on provider_customers, provider_events to crm_app;
grant update (asked, written, due_at) on provider_customers to crm_app;
grant insert on provider_customer_places to crm_app;

-- The platform role finds whose turn it is and whose an event is, and removes old events.
create policy platform on provider_customers for select to crm_platform using (true);
grant select (company_id, due_at) on provider_customers to crm_platform;
create policy platform on provider_customer_places for select to crm_platform using (true);
grant select on provider_customer_places to crm_platform;
create policy platform on provider_events to crm_platform using (true);
grant select, delete on provider_events to crm_platform;

-- Modules that are to be added once their payment is confirmed.
alter table subscriptions add column pending_add_ons text[] not null default '{}';
alter table test_subscriptions add column pending_add_ons text[] not null default '{}';

-- How often an order was taken up: each try is another to the provider, after it was looked up what became of the ones before.
alter table billing_orders add column attempts int not null default 1;

-- A checkout is written before the provider is asked for its page.
alter table checkout_sessions alter column url drop not null;
grant update (url) on checkout_sessions to crm_app;

-- A payment is known by whatever the provider calls it.
alter table wallet_entries alter column payment_id type text using payment_id::text;

-- Invoices that the provider wrote are of no order of ours.
alter table invoices
  alter column order_id drop not null,
  add column provider_id text,
  add column hosted_url text,
  add column pdf_url text,
  add unique (company_id, test_mode, provider_id);

call open_to_purge();
