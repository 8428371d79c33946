-- Forms whose result is shown once: the key of each form that was sent, and what it made until somebody has seen it.
create table shown_secrets (
  company_id uuid not null,
  -- The key of the form, under which it does its work once.
  id uuid not null,
  session_id uuid not null,
  created_at timestamptz(3) not null,
  expires_at timestamptz(3) not null,
  -- What the secret is of; null while it is being made.
  made_id uuid,
  -- Under SECRET_KEY; null once it was shown.
  sealed_secret text,
  primary key (company_id, id),
  foreign key (company_id, session_id) references sessions (company_id, id) on delete cascade
);
create index shown_secrets_of_session on shown_secrets (company_id, session_id);
create index shown_secrets_age on shown_secrets (expires_at);

alter table shown_secrets enable row level security;
alter table shown_secrets force row level security;
create policy tenant on shown_secrets to crm_app using (company_id = current_company()) with check (company_id = current_company());
grant select, insert, update (made_id, sealed_secret), delete on shown_secrets to crm_app;
create policy platform on shown_secrets to crm_platform using (true);
grant select (company_id, id, expires_at), delete on shown_secrets to crm_platform;
call open_to_purge();
