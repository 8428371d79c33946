-- What providers report: the secrets that their reports are signed with, and the reports themselves.

-- One of each mode; kept readable, since a signature is checked by making it again.
create table inbound_secrets (
  company_id uuid not null references companies (id) on delete cascade,
  environment text not null check (environment in ('live', 'test')),
  sealed_secret text not null,
  secret_last4 text not null,
  -- The one before, while gateways are given the new one.
  sealed_previous_secret text,
  previous_secret_expires_at timestamptz(3),
  created_at timestamptz(3) not null,
  primary key (company_id, environment),
  check ((sealed_previous_secret is null) = (previous_secret_expires_at is null))
);
alter table inbound_secrets enable row level security;
alter table inbound_secrets force row level security;
create policy tenant on inbound_secrets to crm_app using (company_id = current_company()) with check (company_id = current_company());
grant select, insert, update on inbound_secrets to crm_app;
-- Who signed is found out before the request has a tenant.
create policy platform on inbound_secrets for select to crm_platform using (true);
grant select on inbound_secrets to crm_platform;

-- Each report once, by the provider's own id. Texts and mails are in messages, under the same id.
create table received_reports (
  company_id uuid not null references companies (id) on delete cascade,
  test_mode boolean not null,
  id uuid not null,
  provider text not null check (provider in ('generic', 'twilio')),
  external_id text not null,
  kind text not null check (kind in ('sms', 'whatsapp', 'email', 'email_engagement', 'fax', 'call', 'form')),
  -- Whom it came from; null: nobody that the workspace knows.
  object text,
  record_id uuid,
  details jsonb not null,
  occurred_at timestamptz(3) not null,
  received_at timestamptz(3) not null,
  primary key (company_id, test_mode, id),
  unique (company_id, test_mode, provider, external_id),
  check ((object is null) = (record_id is null))
);
create index received_reports_of_record on received_reports (company_id, test_mode, object, record_id) where record_id is not null;
alter table received_reports enable row level security;
alter table received_reports force row level security;
create policy tenant on received_reports to crm_app using (company_id = current_company() and test_mode = current_test_mode())
  with check (company_id = current_company() and test_mode = current_test_mode());
grant select, insert, delete on received_reports to crm_app;

-- What comes from somebody unknown is kept, too.
alter table messages
  alter column object drop not null,
  alter column record_id drop not null,
  add check ((object is null) = (record_id is null));

call open_to_purge();
