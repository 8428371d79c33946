-- What people allowed apps to do in their name, and for whom apps made records.

create table oauth_grants (
  company_id uuid not null,
  id uuid not null,
  user_id uuid not null,
  client_id text not null,
  client_name text not null,
  groups text[] not null default '{}' check (groups <@ array['records', 'automation', 'messaging', 'billing', 'admin']),
  -- Single scopes beside those of the groups.
  extra_scopes text[] not null default '{}',
  created_at timestamptz(3) not null,
  revoked_at timestamptz(3),
  primary key (company_id, id),
  foreign key (company_id, user_id) references users (company_id, id) on delete cascade
);
create unique index oauth_grants_active on oauth_grants (company_id, user_id, client_id) where revoked_at is null;
create index oauth_grants_of_client on oauth_grants (company_id, user_id, client_id, revoked_at desc);
-- A token names a user and no company.
create index users_by_id on users (id);

alter table oauth_grants enable row level security;
alter table oauth_grants force row level security;
create policy tenant on oauth_grants to crm_app using (company_id = current_company()) with check (company_id = current_company());
create policy platform on oauth_grants to crm_platform using (true) with check (true);
grant select, insert, update on oauth_grants to crm_app;
grant select on oauth_grants to crm_platform;
grant select (branch_id, team_id) on users to crm_platform;

-- The user in whose name an app made the record: the app itself acts for many, who must not see each other's records for it.
do $$
declare
  name text;
begin
  foreach name in array array['accounts', 'leads', 'customers', 'deals', 'tasks', 'activities', 'custom_records']
  loop
    execute format('alter table %I add column created_by_user uuid', name);
  end loop;
end $$;
