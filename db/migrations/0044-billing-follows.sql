-- The subscription that a billing operation was computed from, for operations at a provider that keeps its own books. A retry
-- compares it with the provider's present state. Null: the stored subscription is the truth, or the operation is older.
alter table billing_orders add column base jsonb;

-- When somebody who polls a checkout last had the provider asked about it.
alter table checkout_sessions add column asked_at timestamptz(3);
grant update (asked_at) on checkout_sessions to crm_app;
-- Checkouts that may still be paid, for the look-up that decides how soon their customer is looked at again.
create index checkout_sessions_open on checkout_sessions (company_id, test_mode, expires_at) where completed_at is null;

-- Live subscriptions of a customer beside the one that is mirrored.
alter table provider_customers add column duplicates jsonb not null default '[]';
grant update (duplicates) on provider_customers to crm_app;
