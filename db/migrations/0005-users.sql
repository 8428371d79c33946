-- Users and what they may do: custom profiles, purchased seats, managers in the org structure, and mails that wait for delivery.

-- Purchased; a company may have as many active users as this or its package says, whichever is more.
alter table subscriptions add column seats int check (seats > 0);

alter table branches add column manager_user_id uuid;
alter table branches add foreign key (company_id, manager_user_id) references users (company_id, id) on delete set null (manager_user_id);
alter table teams add column manager_user_id uuid;
alter table teams add foreign key (company_id, manager_user_id) references users (company_id, id) on delete set null (manager_user_id);
create index branches_listed on branches (company_id, created_at desc, id desc);
create index teams_listed on teams (company_id, created_at desc, id desc);
create index teams_of_branch on teams (company_id, branch_id);
create index users_listed on users (company_id, created_at desc, id desc);
create index user_roles_of_role on user_roles (company_id, role_id);
create index sessions_of_user on sessions (company_id, user_id) where ended_at is null;

-- The system profile of a role; roles of old without one permit nothing. What it permits is the same everywhere: domain/role-permissions.ts.
alter table roles add column profile_id uuid unique;
update roles set profile_id = ('01900000-0000-7000-8001-' || right(id::text, 12))::uuid;

-- Profiles that a company made itself: in place of what its role permits, for the users they are assigned to.
create table profiles (
  company_id uuid not null references companies (id) on delete cascade,
  id uuid not null,
  name text not null,
  description text,
  created_at timestamptz(3) not null,
  updated_at timestamptz(3) not null,
  primary key (company_id, id)
);
create unique index profiles_name on profiles (company_id, lower(name));
create table profile_permissions (
  company_id uuid not null,
  profile_id uuid not null,
  -- leads, or object:visits
  module text not null,
  actions text[] not null,
  primary key (company_id, profile_id, module),
  foreign key (company_id, profile_id) references profiles (company_id, id) on delete cascade
);
alter table users add column profile_id uuid;
alter table users add foreign key (company_id, profile_id) references profiles (company_id, id);
create index users_of_profile on users (company_id, profile_id) where profile_id is not null;

-- Written with the change that they tell of, delivered after its commit. Never holds a password or a secret link.
create table mails (
  company_id uuid not null references companies (id) on delete cascade,
  id uuid not null,
  recipient text not null,
  template text not null,
  data jsonb not null,
  -- kept: there is no mail server; failed: refused for good, or tried too often.
  status text not null default 'queued' check (status in ('queued', 'sent', 'kept', 'failed')),
  attempts int not null default 0,
  -- Of a queued one; while it is being delivered, the time when it is taken for abandoned.
  next_attempt_at timestamptz(3) not null,
  created_at timestamptz(3) not null,
  primary key (company_id, id)
);
create index mails_due on mails (next_attempt_at) where status = 'queued';
create index mails_age on mails (created_at);

do $$
declare
  name text;
begin
  foreach name in array array['profiles', 'profile_permissions', 'mails']
  loop
    execute format('alter table %I enable row level security', name);
    execute format('alter table %I force row level security', name);
    execute format('create policy tenant on %I to crm_app using (company_id = current_company()) with check (company_id = current_company())', name);
    execute format('create policy platform on %I to crm_platform using (true) with check (true)', name);
  end loop;
end $$;
grant select, insert, update, delete on profiles, profile_permissions to crm_app;
grant insert on mails to crm_app;
grant select (must_change_password) on sign_ins to crm_app;
-- What a signed-in user may do is found with the credential.
grant select on profiles, profile_permissions to crm_platform;
grant select (branch_id, team_id, profile_id) on users to crm_platform;
grant select, update (status, attempts, next_attempt_at), delete on mails to crm_platform;
