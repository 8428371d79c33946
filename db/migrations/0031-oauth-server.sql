-- What the OAuth server remembers of apps, codes, tokens and requests that are under way. It is of no company: a code names none.

-- Runs the OAuth server's statements, and reaches nothing else.
do $$
begin
  if not exists (select from pg_roles where rolname = 'crm_oauth') then create role crm_oauth nologin; end if;
end $$;
grant crm_oauth to current_user;

create table oauth_artifacts (
  model text not null,
  -- A digest: who reads the table can use no code and no token.
  id_hash bytea not null,
  payload jsonb not null,
  -- What comes of one consent, and is revoked together.
  grant_hash bytea,
  consumed_at timestamptz(3),
  -- null: an app, which stays.
  expires_at timestamptz(3),
  primary key (model, id_hash)
);
create index oauth_artifacts_of_grant on oauth_artifacts (grant_hash) where grant_hash is not null;
create index oauth_artifacts_age on oauth_artifacts (expires_at) where expires_at is not null;

alter table oauth_artifacts enable row level security;
alter table oauth_artifacts force row level security;
create policy oauth on oauth_artifacts to crm_oauth using (true) with check (true);
create policy platform on oauth_artifacts for select to crm_platform using (true);
create policy sweep on oauth_artifacts for delete to crm_platform using (expires_at is not null);
grant select, insert, update, delete on oauth_artifacts to crm_oauth;
grant select (model, id_hash, expires_at), delete on oauth_artifacts to crm_platform;
