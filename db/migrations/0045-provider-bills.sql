-- What a workspace pays at a provider that keeps books of its own, and credit that is taken out of the wallet again.

-- Prices, discounts and the next invoice as the provider has them, written by each look. Live only: test keys never pay.
create table provider_bills (
  company_id uuid primary key references companies (id) on delete cascade,
  -- Minor units by item, such as {"plan.growth": 9900}; null: the provider has no single price.
  prices jsonb not null,
  -- [{name, percent_off, amount_off_minor, ends_at}]
  discounts jsonb not null,
  -- {currency, subtotal_minor, tax_minor, total_minor, lines}; null: nothing will be charged, or there was no preview.
  pending jsonb,
  next_charge_at timestamptz(3),
  -- Why the provider gave no preview, in its own code; null: it gave one.
  problem text,
  looked_at timestamptz(3) not null
);
alter table provider_bills enable row level security;
alter table provider_bills force row level security;
create policy tenant on provider_bills to crm_app using (company_id = current_company()) with check (company_id = current_company());
grant select, insert, update on provider_bills to crm_app;

-- Entries that take back what a payment brought: the payment, and why. Further entries correct earlier ones.
alter table wallet_entries
  add column reverses text,
  add column reason text check (reason in ('refund', 'dispute')),
  add check ((reverses is null) = (reason is null));
create index wallet_entries_reversing on wallet_entries (company_id, test_mode, reverses) where reverses is not null;

call open_to_purge();
