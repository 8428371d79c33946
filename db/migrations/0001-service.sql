-- What everything else needs: roles, tenant functions, companies, stored responses, the purge.
--
-- Rules of the schema:
-- - Every table of tenants has company_id first in its primary, unique and foreign keys, so that no row can refer
--   to another tenant's. Tables of data have test_mode second, so that live rows cannot refer to test rows.
-- - Row-level security is enabled and forced on all of them, and the roles of the server own nothing. The policy
--   tenant is for requests. The policy platform lets a job find the tenants that it has work for: its grants are
--   for the columns that say so, and never for what is in the rows.
-- - Each file refers only to tables of its own and of files before it.
-- - Rows of the largest tables are planned for as if a tenant had a hundredth of the table (n_distinct = 100). A
--   cached plan for the average tenant, which has few rows, would read everything that a large tenant has.

-- For the exclusion constraint of taken_times.
create extension if not exists btree_gist;

-- crm_app serves the requests of a tenant. crm_platform authenticates callers and finds work for jobs: the only one
-- that looks across tenants. crm_purge removes one tenant. crm_oauth runs the statements of the OAuth server.
do $$
declare
  name text;
begin
  foreach name in array array['crm_app', 'crm_platform', 'crm_purge', 'crm_oauth'] loop
    if not exists (select from pg_roles where rolname = name) then
      execute format('create role %I nologin', name);
    end if;
  end loop;
end $$;
grant crm_app, crm_platform, crm_purge, crm_oauth to current_user;

-- The tenant context of a transaction. Null without one, so that the policies show nothing.
create function current_company() returns uuid language sql stable parallel safe
  return nullif(current_setting('app.company_id', true), '')::uuid;
create function current_test_mode() returns boolean language sql stable parallel safe
  return nullif(current_setting('app.test_mode', true), '')::boolean;

-- Raises an error with a code, inside of a statement that otherwise returns rows. Calling a
-- function costs PostgreSQL a fifth of a separate statement, and every write needs the check.
create function refuse(reason text, code text) returns text language plpgsql as $$
begin
  raise exception using message = reason, errcode = code;
end $$;

-- Called before a commit: a database that hung may reach a commit after the caller has received a
-- 503. Only the clock that began the transaction counts. The deadline is also stored for
-- refuse_late_commit, which runs on the node that has the rows.
create procedure require_time_left(milliseconds int) language plpgsql as $$
declare
  deadline timestamptz := transaction_timestamp() + milliseconds * interval '1 ms';
begin
  if clock_timestamp() > deadline then
    raise exception 'the time of the transaction has run out' using errcode = 'query_canceled';
  end if;
  execute format('set local app.deadline = %L', deadline);
end $$;

-- The form in which names are compared, without case in every script. The same rule as foldName in
-- domain/objects/name-folding.ts: to upper case and back, with a dotted and a dotless i as one letter. lower()
-- alone depends on the locale of the database.
create function fold_name(name text) returns text language sql immutable parallel safe strict as $$
  select normalize(replace(lower(upper(normalize(name, NFC) collate "und-x-icu") collate "und-x-icu"), U&'i\0307', 'i'), NFC)
$$;

-- Keys of the server itself, encrypted with SECRET_KEY.
create table server_secrets (
  name text primary key,
  sealed text not null,
  created_at timestamptz(3) not null default now()
);

-- Raises the version of a tenant's configuration with every change of it.
create function raise_config_version() returns trigger language plpgsql as $$
begin
  update companies set config_version = config_version + 1
  where id = case tg_op when 'DELETE' then old.company_id else new.company_id end;
  return null;
end $$;

create function begin_credential_version() returns trigger language plpgsql as $$
begin
  insert into credential_versions (company_id) values (new.id);
  return null;
end $$;

-- The argument names the column with the company.
create function raise_credential_version() returns trigger language plpgsql as $$
declare
  changed jsonb := to_jsonb(case when tg_op = 'DELETE' then old else new end);
begin
  -- With a parameter, so that the statement names its company even if it runs alone at a commit.
  execute 'update credential_versions set version = version + 1 where company_id = $1' using (changed ->> tg_argv[0])::uuid;
  return null;
end $$;

-- A company is one tenant. Its row also holds what the server has to know before a request is authorized.
create table companies (
  id uuid primary key,
  name text not null,
  email text not null,
  phone text,
  website text,
  address text,
  city text,
  state text,
  country text,
  postal_code text,
  region text not null,
  industry text not null,
  timezone text not null,
  currency text not null,
  status text not null default 'active',
  -- Raised by every change of configuration. Authentication reads it, so that no cached configuration is stale.
  config_version bigint not null default 1,
  disabled_modules text[] not null default '{}',
  created_at timestamptz(3) not null,
  updated_at timestamptz(3) not null,
  -- If true, links and images in emails use URLs that record opens and clicks.
  notes_email_engagement boolean not null default false
);
-- The company that the operator's own keys belong to.
insert into companies (id, name, email, region, industry, timezone, currency, created_at, updated_at)
values ('00000000-0000-7000-8000-000000000000', 'Platform', 'platform@localhost', 'europe', 'platform', 'UTC', 'EUR', now(), now());
alter table companies enable row level security, force row level security;
create policy tenant on companies to crm_app using (id = current_company()) with check (id = current_company());
create policy platform on companies to crm_platform using (true) with check (true);
create policy purge on companies to crm_purge using (id = current_company()) with check (id = current_company());
grant select, insert, update, delete on companies to crm_app;
grant select (id, name, status, timezone, config_version, disabled_modules) on companies to crm_platform;
grant select, update, delete on companies to crm_purge;
create trigger begin_credential_version after insert on companies for each row
  execute function begin_credential_version();
create constraint trigger raise_credential_version after update on companies deferrable initially deferred for each row
  execute function raise_credential_version('id');

-- The logo of a company, which is public. In the database, so that pages show it while the file storage is down.
create table company_logos (
  company_id uuid primary key references companies (id) on delete cascade,
  -- The beginning of the SHA-256 of the image, in its address.
  hash text not null,
  content_type text not null check (content_type in ('image/png', 'image/jpeg', 'image/gif', 'image/webp')),
  width integer not null,
  height integer not null,
  image bytea not null check (length(image) <= 262144)
);
alter table company_logos enable row level security, force row level security;
create policy tenant on company_logos to crm_app
  using (company_id = current_company())
  with check (company_id = current_company());
create policy platform on company_logos for select to crm_platform using (true);
grant select, insert, update, delete on company_logos to crm_app;
grant select (company_id, hash, width, height) on company_logos to crm_platform;

-- One number per tenant that rises with every change of what authentication reads. A request compares it in the
-- message that it sends anyway. It is raised at commit, so that a transaction that waits for this row holds no lock
-- that the owner of the row still needs.
create table credential_versions (
  company_id uuid primary key references companies (id) on delete cascade,
  version bigint not null default 1
) with (fillfactor = 50);
insert into credential_versions (company_id) select id from companies;
alter table credential_versions enable row level security, force row level security;
create policy tenant on credential_versions to crm_app
  using (company_id = current_company())
  with check (company_id = current_company());
create policy platform on credential_versions to crm_platform using (true) with check (true);
grant select, insert, update on credential_versions to crm_app;
grant select, insert, update on credential_versions to crm_platform;

-- The clocks of tenants' test mode that are ahead of the real time. Test mode without a row lives at the real time.
create table test_clocks (
  company_id uuid primary key references companies (id) on delete cascade,
  ahead_seconds integer not null check (ahead_seconds >= 0)
);
alter table test_clocks enable row level security, force row level security;
create policy tenant on test_clocks to crm_app
  using (company_id = current_company())
  with check (company_id = current_company());
create policy platform on test_clocks to crm_platform using (true) with check (true);
grant select, insert, update, delete on test_clocks to crm_app;
grant select on test_clocks to crm_platform;
-- Callers carry the clock of their test mode, so a cached one must not outlive a change of it.
create constraint trigger raise_credential_version after insert or delete or update
  on test_clocks deferrable initially deferred for each row
  execute function raise_credential_version('company_id');

-- Stored responses of writes with an Idempotency-Key. No key to the company: every write would pay for it.
create table idempotency_records (
  company_id uuid not null,
  test_mode boolean not null,
  endpoint text not null,
  key text not null,
  request_hash bytea not null,
  status int not null,
  body text not null,
  created_at timestamptz(3) not null,
  -- A call that leaves the database claims its key with a row of status 0, because it holds no connection meanwhile.
  -- The claim ends at this time.
  leased_until timestamptz(3),
  primary key (company_id, test_mode, endpoint, key)
);
alter table idempotency_records alter column company_id set (n_distinct = 100);
-- The sweep removes old rows.
create index idempotency_records_age on idempotency_records (created_at);
alter table idempotency_records enable row level security, force row level security;
create policy tenant on idempotency_records to crm_app
  using (company_id = current_company() and test_mode = current_test_mode())
  with check (company_id = current_company() and test_mode = current_test_mode());
create policy platform on idempotency_records to crm_platform using (true) with check (true);
grant select, insert, update, delete on idempotency_records to crm_app;
grant select, delete on idempotency_records to crm_platform;

-- Claims an Idempotency-Key until the transaction ends. Fails if it is taken, so that the
-- statements pipelined behind it do nothing. The lookup of a stored response is a separate
-- statement, because it must see what the previous holder of the lock committed. Each connection
-- caches the plan of its first uses; enable_seqscan = off prevents a plan from the time when the
-- table was empty.
create function claim_key(of_company uuid, in_test_mode boolean, at_endpoint text, of_key text, key_lock bigint, body_lock bigint)
returns void language plpgsql set enable_seqscan = off as $$
declare
  locked boolean;
begin
  select pg_try_advisory_xact_lock(key_lock) into locked
  from (select pg_advisory_xact_lock_shared(body_lock) from companies where id = of_company offset 0) as shared;
  if locked is null then
    raise exception 'an Idempotency-Key is claimed in a company that is not there';
  end if;
  if not locked or exists (
    select from idempotency_records
    where company_id = of_company and test_mode = in_test_mode and endpoint = at_endpoint and key = of_key
      and created_at > now() - interval '24 hours' and (leased_until is null or leased_until > now())
  ) then
    raise exception 'the key is taken' using errcode = 'CK001';
  end if;
end $$;

-- Returns true if the holder of a key runs the same body; null if the key is not held. A function,
-- so that it runs on the node that has the locks.
create function holder_has_body(key_lock bigint, body_lock bigint) returns boolean language sql volatile as $$
  select exists (
    select from pg_locks other
    where other.pid = held.pid and other.locktype = 'advisory' and other.granted
      and other.classid = ((body_lock >> 32) & 4294967295)::oid and other.objid = (body_lock & 4294967295)::oid
  )
  from pg_locks held
  where held.locktype = 'advisory' and held.granted and held.mode = 'ExclusiveLock'
    and held.classid = ((key_lock >> 32) & 4294967295)::oid and held.objid = (key_lock & 4294967295)::oid
  limit 1
$$;

-- The removal of a tenant.

-- The tables that have rows of tenants, without partitions.
create function tables_of_companies() returns setof text language sql stable as $$
  select c.relname::text
  from pg_class c
  join pg_attribute a on a.attrelid = c.oid and a.attname = 'company_id' and not a.attisdropped
  where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition and c.relname <> 'purged_companies'
  order by 1
$$;

-- Gives crm_purge access to all of them. A migration that creates a table calls it at its end.
create procedure open_to_purge() language plpgsql as $$
declare
  name text;
begin
  for name in select tables_of_companies() loop
    if not exists (select from pg_policies where schemaname = 'public' and tablename = name and policyname = 'purge') then
      execute format('create policy purge on %I to crm_purge using (company_id = current_company()) with check (company_id = current_company())', name);
    end if;
    execute format('grant select, insert, update, delete on %I to crm_purge', name);
  end loop;
end $$;

-- The record of a tenant that was removed.
create table purged_companies (
  company_id uuid primary key,
  ended_at timestamptz(3),
  -- null: the removal is in progress.
  purged_at timestamptz(3),
  removed_rows bigint not null,
  removed_files bigint not null,
  -- When rows that were still being written during the removal were removed too.
  swept_at timestamptz(3)
);
-- Removals whose late rows are not removed yet.
create index purged_companies_to_sweep on purged_companies (purged_at) where swept_at is null;
alter table purged_companies enable row level security, force row level security;
create policy platform on purged_companies for select to crm_platform using (swept_at is null);
create policy purge on purged_companies to crm_purge
  using (company_id = current_company())
  with check (company_id = current_company());
grant select (company_id, purged_at, swept_at) on purged_companies to crm_platform;
grant select, insert, update on purged_companies to crm_purge;

-- Removes some rows of a company from the first table that has any to which nothing else refers. The subscription
-- and the files stay to the end. Returns the number of removed rows.
create function purge_some(of_company uuid, most int) returns int language plpgsql as $$
declare
  name text;
  keys text;
  removed int;
  blocked boolean := false;
begin
  for name in select t from tables_of_companies() t where t not in ('subscriptions', 'stored_files', 'api_quota') loop
    select string_agg(quote_ident(a.attname), ', ' order by a.attnum) into keys
    from pg_index i join pg_attribute a on a.attrelid = i.indrelid and a.attnum = any(i.indkey)
    where i.indrelid = name::regclass and i.indisprimary;
    begin
      execute format('delete from %1$I where company_id = $1 and (%2$s) in (select %2$s from %1$I where company_id = $1 limit $2)', name, keys)
      using of_company, most;
      get diagnostics removed = row_count;
      if removed > 0 then return removed; end if;
    exception when foreign_key_violation then
      blocked := true;
    end;
  end loop;
  if blocked then
    raise exception 'what is left of a company refers to itself';
  end if;
  return 0;
end $$;

call open_to_purge();

-- So that the planner takes these tables for empty, and not for ten pages, until they are analyzed with rows.
analyze idempotency_records;
