-- Checkout sessions, sessions of the portal, and the wallet.

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
  -- Where the person pays.
  url text not null,
  created_at timestamptz(3) not null,
  expires_at timestamptz(3) not null,
  completed_at timestamptz(3),
  primary key (company_id, test_mode, id)
);

create table portal_sessions (
  company_id uuid not null references companies (id) on delete cascade,
  test_mode boolean not null,
  id text not null,
  return_url text,
  created_at timestamptz(3) not null,
  expires_at timestamptz(3) not null,
  primary key (company_id, test_mode, id)
);

-- What was paid into the wallet, and what was taken out of it; the balance is the sum. A payment counts once.
create table wallet_entries (
  company_id uuid not null references companies (id) on delete cascade,
  test_mode boolean not null,
  payment_id uuid not null,
  amount_minor bigint not null,
  created_at timestamptz(3) not null,
  primary key (company_id, test_mode, payment_id)
);

do $$
declare
  name text;
begin
  foreach name in array array['checkout_sessions', 'portal_sessions', 'wallet_entries']
  loop
    execute format('alter table %I enable row level security', name);
    execute format('alter table %I force row level security', name);
    execute format('create policy tenant on %I to crm_app using (company_id = current_company() and test_mode = current_test_mode())
      with check (company_id = current_company() and test_mode = current_test_mode())', name);
  end loop;
end $$;
grant select, insert on checkout_sessions, portal_sessions, wallet_entries to crm_app;
grant update (completed_at) on checkout_sessions to crm_app;
