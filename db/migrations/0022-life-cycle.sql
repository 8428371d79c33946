-- The end of a company: everything of it is removed, and one row says that it was. And calls of keys by day.

-- Removes what is a company's, and sees nothing of any other.
do $$
begin
  if not exists (select from pg_roles where rolname = 'crm_purge') then create role crm_purge nologin; end if;
end $$;
grant crm_purge to current_user;

-- Calls by key and day: written with the count of each key, in its statement.
create table api_key_days (
  company_id uuid not null references companies (id) on delete cascade,
  day date not null,
  api_key_id uuid not null,
  calls bigint not null,
  primary key (company_id, day, api_key_id)
) with (fillfactor = 70);
create index api_key_days_age on api_key_days (day);
alter table api_key_days enable row level security;
alter table api_key_days force row level security;
create policy tenant on api_key_days to crm_app using (company_id = current_company()) with check (company_id = current_company());
create policy platform on api_key_days to crm_platform using (true) with check (true);
grant select on api_key_days to crm_app;
grant select, insert, update, delete on api_key_days to crm_platform;

-- What remains of a company that was removed.
create table purged_companies (
  company_id uuid primary key,
  ended_at timestamptz(3),
  -- null: it is under way.
  purged_at timestamptz(3),
  removed_rows bigint not null,
  removed_files bigint not null
);
alter table purged_companies enable row level security;
alter table purged_companies force row level security;
create policy purge on purged_companies to crm_purge using (company_id = current_company()) with check (company_id = current_company());
grant select, insert, update on purged_companies to crm_purge;

-- The tables with rows of a company, partitions left out.
create function tables_of_companies() returns setof text language sql stable as $$
  select c.relname::text
  from pg_class c
  join pg_attribute a on a.attrelid = c.oid and a.attname = 'company_id' and not a.attisdropped
  where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition and c.relname <> 'purged_companies'
  order by 1
$$;

-- Lets the purge have what it removes. Called again by whatever migration makes a table.
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
create policy purge on companies to crm_purge using (id = current_company()) with check (id = current_company());
grant select, update, delete on companies to crm_purge;
call open_to_purge();

-- Removes some rows of a company, of whatever table has any that nothing else refers to; the subscription and the files stay to the end.
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
