-- One number for each company, which rises with every change of what the look-up of a credential reads: a request asks for it in the message
-- that it sends anyway. Raised at the commit, so that whoever waits for the row holds no lock that its holder still needs.
-- The function key_stamp stays for servers of the release before.
create table credential_versions (
  company_id uuid primary key references companies (id) on delete cascade,
  version bigint not null default 1
) with (fillfactor = 50);
insert into credential_versions (company_id) select id from companies;

alter table credential_versions enable row level security;
alter table credential_versions force row level security;
create policy tenant on credential_versions to crm_app using (company_id = current_company()) with check (company_id = current_company());
create policy platform on credential_versions to crm_platform using (true) with check (true);
grant select, insert, update on credential_versions to crm_app, crm_platform;
call open_to_purge();

create function begin_credential_version() returns trigger language plpgsql as $$
begin
  insert into credential_versions (company_id) values (new.id);
  return null;
end $$;
create trigger begin_credential_version after insert on companies for each row execute function begin_credential_version();

-- The argument names the column with the company.
create function raise_credential_version() returns trigger language plpgsql as $$
declare
  changed jsonb := to_jsonb(case when tg_op = 'DELETE' then old else new end);
begin
  -- With a parameter, as any statement names its company: at a commit it stands for itself.
  execute 'update credential_versions set version = version + 1 where company_id = $1' using (changed ->> tg_argv[0])::uuid;
  return null;
end $$;
create constraint trigger raise_credential_version after update on companies deferrable initially deferred
  for each row execute function raise_credential_version('id');
create constraint trigger raise_credential_version after insert or update or delete on subscriptions deferrable initially deferred
  for each row execute function raise_credential_version('company_id');
create constraint trigger raise_credential_version after insert or update or delete on api_keys deferrable initially deferred
  for each row execute function raise_credential_version('company_id');
