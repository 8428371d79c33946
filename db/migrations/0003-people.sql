-- The org structure, users, and how they sign in.

-- branches and teams name a manager, and users name a branch and a team. A foreign key would close that circle, and
-- tables that refer to each other in a circle cannot be distributed. Triggers take its place, with the same lock and
-- the same error.
create function require_manager() returns trigger language plpgsql as $$
begin
  perform from users where company_id = new.company_id and id = new.manager_user_id for key share;
  if not found then
    raise foreign_key_violation using message = 'the manager of a branch or team is not there', column = 'manager_user_id';
  end if;
  return null;
end $$;

-- Clears the references to a deleted user. If the company itself is deleted, the rows that refer to the user are too.
create function forget_user() returns trigger language plpgsql as $$
begin
  if exists (select from companies where id = old.company_id) then
    update branches set manager_user_id = null where company_id = old.company_id and manager_user_id = old.id;
    update teams set manager_user_id = null where company_id = old.company_id and manager_user_id = old.id;
  end if;
  return old;
end $$;

-- Branches of a company.
create table branches (
  company_id uuid not null references companies (id) on delete cascade,
  id uuid not null,
  name text not null,
  code text,
  is_default boolean not null default false,
  is_active boolean not null default true,
  city text,
  country text,
  timezone text,
  created_at timestamptz(3) not null,
  manager_user_id uuid,
  primary key (company_id, id)
);
create index branches_listed on branches (company_id, created_at desc, id desc);
alter table branches enable row level security, force row level security;
create policy tenant on branches to crm_app
  using (company_id = current_company())
  with check (company_id = current_company());
grant select, insert, update, delete on branches to crm_app;
create trigger require_changed_manager after update of manager_user_id on branches for each row
  when (new.manager_user_id is distinct from old.manager_user_id and new.manager_user_id is not null)
  execute function require_manager();
create trigger require_manager after insert on branches for each row
  when (new.manager_user_id is not null)
  execute function require_manager();

-- Teams of a branch.
create table teams (
  company_id uuid not null references companies (id) on delete cascade,
  id uuid not null,
  branch_id uuid not null,
  name text not null,
  created_at timestamptz(3) not null,
  manager_user_id uuid,
  primary key (company_id, id),
  foreign key (company_id, branch_id) references branches (company_id, id)
);
create index teams_listed on teams (company_id, created_at desc, id desc);
create index teams_of_branch on teams (company_id, branch_id);
alter table teams enable row level security, force row level security;
create policy tenant on teams to crm_app
  using (company_id = current_company())
  with check (company_id = current_company());
grant select, insert, update, delete on teams to crm_app;
create trigger require_changed_manager after update of manager_user_id on teams for each row
  when (new.manager_user_id is distinct from old.manager_user_id and new.manager_user_id is not null)
  execute function require_manager();
create trigger require_manager after insert on teams for each row
  when (new.manager_user_id is not null)
  execute function require_manager();

-- People who work in a tenant.
create table users (
  company_id uuid not null references companies (id) on delete cascade,
  id uuid not null,
  email text not null,
  full_name text not null,
  status text not null default 'active' check (status in ('active', 'inactive')),
  branch_id uuid,
  team_id uuid,
  metadata jsonb not null default '{}',
  last_sign_in_at timestamptz(3),
  created_at timestamptz(3) not null,
  updated_at timestamptz(3) not null,
  profile_id uuid,
  primary key (company_id, id),
  unique (company_id, email),
  foreign key (company_id, branch_id) references branches (company_id, id),
  foreign key (company_id, team_id) references teams (company_id, id),
  foreign key (company_id, profile_id) references profiles (company_id, id)
);
create index users_listed on users (company_id, created_at desc, id desc);
create index users_of_branch on users (company_id, branch_id);
create index users_of_profile on users (company_id, profile_id) where profile_id is not null;
create index users_of_team on users (company_id, team_id);
-- The longest-standing active user.
create index users_oldest_active on users (company_id, created_at, id) where status = 'active';
alter table users enable row level security, force row level security;
create policy tenant on users to crm_app
  using (company_id = current_company())
  with check (company_id = current_company());
create policy platform on users to crm_platform using (true) with check (true);
grant select, insert, update, delete on users to crm_app;
grant select (company_id, id, email, full_name, status, branch_id, team_id, profile_id), update (last_sign_in_at)
  on users to crm_platform;
create trigger forget_user before delete on users for each row execute function forget_user();

-- Roles of users.
create table user_roles (
  company_id uuid not null,
  user_id uuid not null,
  role_id uuid not null references roles (id),
  primary key (company_id, user_id, role_id),
  foreign key (company_id, user_id) references users (company_id, id) on delete cascade
);
create index user_roles_of_role on user_roles (company_id, role_id);
alter table user_roles enable row level security, force row level security;
create policy tenant on user_roles to crm_app
  using (company_id = current_company())
  with check (company_id = current_company());
create policy platform on user_roles to crm_platform using (true) with check (true);
grant select, insert, update, delete on user_roles to crm_app;
grant select on user_roles to crm_platform;

-- The tenant of a user, as api_key_places is for keys.
create table user_places (
  user_id uuid primary key,
  company_id uuid not null,
  -- Set for users who can sign in; unique on the whole platform.
  email text unique
);
alter table user_places enable row level security, force row level security;
create policy tenant on user_places to crm_app
  using (company_id = current_company())
  with check (company_id = current_company());
create policy platform on user_places for select to crm_platform using (true);
grant insert on user_places to crm_app;
grant select on user_places to crm_platform;

-- How people sign in. user_places enforces that an address belongs to one person on the whole
-- platform.
create table sign_ins (
  email text not null,
  company_id uuid not null,
  user_id uuid not null,
  password_hash text not null,
  must_change_password boolean not null,
  created_at timestamptz(3) not null,
  primary key (company_id, user_id),
  unique (company_id, email),
  foreign key (company_id, user_id) references users (company_id, id) on delete cascade
);
alter table sign_ins enable row level security, force row level security;
create policy tenant on sign_ins to crm_app
  using (company_id = current_company())
  with check (company_id = current_company());
create policy platform on sign_ins to crm_platform using (true) with check (true);
grant select (email, company_id, user_id, must_change_password), insert (email, company_id, user_id, password_hash,
  must_change_password, created_at) on sign_ins to crm_app;
grant select, update (password_hash, must_change_password) on sign_ins to crm_platform;

-- Sessions of signed-in people.
create table sessions (
  company_id uuid not null,
  id uuid not null,
  user_id uuid not null,
  created_at timestamptz(3) not null,
  expires_at timestamptz(3) not null,
  ended_at timestamptz(3),
  -- The origin of the sign-in, for the user's list of sessions. Null in older sessions.
  ip text,
  user_agent text,
  primary key (company_id, id),
  foreign key (company_id, user_id) references users (company_id, id) on delete cascade
);
-- The sweep removes expired rows.
create index sessions_age on sessions (expires_at);
create index sessions_of_user on sessions (company_id, user_id) where ended_at is null;
alter table sessions enable row level security, force row level security;
create policy tenant on sessions to crm_app
  using (company_id = current_company())
  with check (company_id = current_company());
create policy platform on sessions to crm_platform using (true) with check (true);
grant select, update (ended_at) on sessions to crm_app;
grant select, insert, update, delete on sessions to crm_platform;

-- Refresh tokens of sessions, each for one use.
create table refresh_tokens (
  token_hash bytea not null,
  company_id uuid not null,
  session_id uuid not null,
  issued_at timestamptz(3) not null,
  used_at timestamptz(3),
  primary key (company_id, token_hash),
  foreign key (company_id, session_id) references sessions (company_id, id) on delete cascade
);
create index refresh_tokens_of_session on refresh_tokens (company_id, session_id);
alter table refresh_tokens enable row level security, force row level security;
create policy tenant on refresh_tokens to crm_app
  using (company_id = current_company())
  with check (company_id = current_company());
create policy platform on refresh_tokens to crm_platform using (true) with check (true);
grant select, insert, update, delete on refresh_tokens to crm_platform;

-- Secrets that a console form shows once: the idempotency key of the form, and the result until it was seen.
create table shown_secrets (
  company_id uuid not null,
  -- The idempotency key of the form.
  id uuid not null,
  session_id uuid not null,
  created_at timestamptz(3) not null,
  expires_at timestamptz(3) not null,
  -- The key or webhook that the secret belongs to; null while it is being created.
  made_id uuid,
  -- Encrypted with SECRET_KEY; null after it was shown.
  sealed_secret text,
  primary key (company_id, id),
  foreign key (company_id, session_id) references sessions (company_id, id) on delete cascade
);
-- The sweep removes expired rows.
create index shown_secrets_age on shown_secrets (expires_at);
create index shown_secrets_of_session on shown_secrets (company_id, session_id);
alter table shown_secrets enable row level security, force row level security;
create policy tenant on shown_secrets to crm_app
  using (company_id = current_company())
  with check (company_id = current_company());
create policy platform on shown_secrets to crm_platform using (true);
grant select, insert, update (made_id, sealed_secret), delete on shown_secrets to crm_app;
grant select (company_id, id, expires_at), delete on shown_secrets to crm_platform;

-- Grants that people gave to apps.
create table oauth_grants (
  company_id uuid not null,
  id uuid not null,
  user_id uuid not null,
  client_id text not null,
  client_name text not null,
  groups text[] not null default '{}' check (groups <@ array['records', 'pipeline', 'automation', 'calendar', 'messaging',
    'billing', 'admin']),
  -- Scopes besides those of the groups.
  extra_scopes text[] not null default '{}',
  write_mode text not null default 'direct' check (write_mode in ('direct', 'propose')),
  created_at timestamptz(3) not null,
  revoked_at timestamptz(3),
  -- The API or assistants (MCP). null: both, for grants of another issuer.
  audience text check (audience in ('api', 'mcp')),
  -- Consents whose tokens were revoked, by id, with the time. An entry is kept for as long as an access token of it
  -- could still be valid.
  ended_families jsonb not null default '{}',
  primary key (company_id, id),
  foreign key (company_id, user_id) references users (company_id, id) on delete cascade
);
-- One active grant for each user, app and audience.
create unique index oauth_grants_active on oauth_grants (company_id, user_id, client_id, audience) nulls not distinct
  where revoked_at is null;
create index oauth_grants_of_client on oauth_grants (company_id, user_id, client_id, revoked_at desc);
alter table oauth_grants enable row level security, force row level security;
create policy tenant on oauth_grants to crm_app
  using (company_id = current_company())
  with check (company_id = current_company());
create policy platform on oauth_grants to crm_platform using (true) with check (true);
grant select, insert, update on oauth_grants to crm_app;
grant select on oauth_grants to crm_platform;

call open_to_purge();
