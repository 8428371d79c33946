-- Ready for a database whose rows are spread over machines by company: every key, every look-up and every lock knows its company.

-- Where a credential belongs, for the look-ups that name no company yet; all that follows names it. Small, without a key to any other
-- table, and a row never changes: it can be copied to every machine. Whoever removes a user or a company for good removes its places.
create table api_key_places (
  key_hash bytea primary key,
  company_id uuid not null
);
create table user_places (
  user_id uuid primary key,
  company_id uuid not null,
  -- Of those who can sign in: no two people in any company have the same.
  email text unique
);

-- What there is gets its place; the owner of the tables need not be above row-level security.
alter table api_keys no force row level security;
alter table users no force row level security;
alter table sign_ins no force row level security;
insert into api_key_places (key_hash, company_id) select key_hash, company_id from api_keys;
insert into user_places (user_id, company_id, email)
select u.id, u.company_id, s.email from users u left join sign_ins s on s.company_id = u.company_id and s.user_id = u.id;
alter table api_keys force row level security;
alter table users force row level security;
alter table sign_ins force row level security;

do $$
declare
  name text;
begin
  foreach name in array array['api_key_places', 'user_places']
  loop
    execute format('alter table %I enable row level security', name);
    execute format('alter table %I force row level security', name);
    execute format('create policy tenant on %I to crm_app using (company_id = current_company()) with check (company_id = current_company())', name);
    execute format('create policy platform on %I for select to crm_platform using (true)', name);
    execute format('grant insert on %I to crm_app', name);
    execute format('grant select on %I to crm_platform', name);
  end loop;
end $$;

-- Unique within the company; that nobody else has the same is what the places say.
alter table api_keys drop constraint api_keys_key_hash_key, add unique (company_id, key_hash);
alter table sign_ins drop constraint sign_ins_pkey, drop constraint sign_ins_company_id_user_id_key,
  add primary key (company_id, user_id), add unique (company_id, email);
alter table refresh_tokens drop constraint refresh_tokens_pkey, add primary key (company_id, token_hash);

-- Nothing is looked for by its id alone any more.
drop index users_by_id, sessions_by_id, attachments_by_id;

-- Keys that empty a reference cannot be spread, nor can tables that refer to each other in a circle. A reference to what is deleted is
-- emptied by the table that loses the row; keys that would close a circle are looked after by triggers on both sides.
alter table customers
  drop constraint customers_company_id_test_mode_account_id_fkey,
  drop constraint customers_company_id_test_mode_lead_id_fkey,
  add foreign key (company_id, test_mode, account_id) references accounts (company_id, test_mode, id),
  add foreign key (company_id, test_mode, lead_id) references leads (company_id, test_mode, id);
alter table deals
  drop constraint deals_company_id_test_mode_customer_id_fkey,
  drop constraint deals_company_id_test_mode_account_id_fkey,
  drop constraint deals_company_id_test_mode_lead_id_fkey,
  add foreign key (company_id, test_mode, customer_id) references customers (company_id, test_mode, id),
  add foreign key (company_id, test_mode, account_id) references accounts (company_id, test_mode, id),
  add foreign key (company_id, test_mode, lead_id) references leads (company_id, test_mode, id);
alter table leads drop constraint leads_company_id_test_mode_converted_customer_id_fkey;
alter table branches drop constraint branches_company_id_manager_user_id_fkey;
alter table teams drop constraint teams_company_id_manager_user_id_fkey;

-- The row is locked when these run: whoever refers to it from now on waits, and those who did before are seen. Where the company itself
-- goes, all that refers to the row goes too.
create function forget_account() returns trigger language plpgsql as $$
begin
  if exists (select from companies where id = old.company_id) then
    update customers set account_id = null where company_id = old.company_id and test_mode = old.test_mode and account_id = old.id;
    update deals set account_id = null where company_id = old.company_id and test_mode = old.test_mode and account_id = old.id;
  end if;
  return old;
end $$;
create trigger forget_account before delete on accounts for each row execute function forget_account();

create function forget_lead() returns trigger language plpgsql as $$
begin
  if exists (select from companies where id = old.company_id) then
    update customers set lead_id = null where company_id = old.company_id and test_mode = old.test_mode and lead_id = old.id;
    update deals set lead_id = null where company_id = old.company_id and test_mode = old.test_mode and lead_id = old.id;
  end if;
  return old;
end $$;
create trigger forget_lead before delete on leads for each row execute function forget_lead();

create function forget_customer() returns trigger language plpgsql as $$
begin
  if exists (select from companies where id = old.company_id) then
    update leads set converted_customer_id = null
    where company_id = old.company_id and test_mode = old.test_mode and converted_customer_id = old.id;
    update deals set customer_id = null where company_id = old.company_id and test_mode = old.test_mode and customer_id = old.id;
  end if;
  return old;
end $$;
create trigger forget_customer before delete on customers for each row execute function forget_customer();

create function forget_user() returns trigger language plpgsql as $$
begin
  if exists (select from companies where id = old.company_id) then
    update branches set manager_user_id = null where company_id = old.company_id and manager_user_id = old.id;
    update teams set manager_user_id = null where company_id = old.company_id and manager_user_id = old.id;
  end if;
  return old;
end $$;
create trigger forget_user before delete on users for each row execute function forget_user();

-- In place of the keys that would close a circle, with their lock and their error.
create function require_converted_customer() returns trigger language plpgsql as $$
begin
  perform from customers
  where company_id = new.company_id and test_mode = new.test_mode and id = new.converted_customer_id
  for key share;
  if not found then
    raise foreign_key_violation using message = 'the customer of a converted lead is not there', table = 'leads', column = 'converted_customer_id';
  end if;
  return null;
end $$;
create trigger require_converted_customer after insert on leads
  for each row when (new.converted_customer_id is not null) execute function require_converted_customer();
create trigger require_changed_converted_customer after update of converted_customer_id on leads
  for each row when (new.converted_customer_id is distinct from old.converted_customer_id and new.converted_customer_id is not null)
  execute function require_converted_customer();

create function require_manager() returns trigger language plpgsql as $$
begin
  perform from users where company_id = new.company_id and id = new.manager_user_id for key share;
  if not found then
    raise foreign_key_violation using message = 'the manager of a branch or team is not there', column = 'manager_user_id';
  end if;
  return null;
end $$;
do $$
declare
  place text;
begin
  foreach place in array array['branches', 'teams']
  loop
    execute format('create trigger require_manager after insert on %I
      for each row when (new.manager_user_id is not null) execute function require_manager()', place);
    execute format('create trigger require_changed_manager after update of manager_user_id on %I
      for each row when (new.manager_user_id is distinct from old.manager_user_id and new.manager_user_id is not null)
      execute function require_manager()', place);
  end loop;
end $$;

-- Whether whoever holds a key runs the same body; null: nobody holds it. A function, so that it is asked where the locks are.
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

-- As before, on the machine that was asked; and the transaction keeps its deadline, for the machine where the rows are.
create or replace procedure require_time_left(milliseconds int) language plpgsql as $$
declare
  deadline timestamptz := transaction_timestamp() + milliseconds * interval '1 ms';
begin
  if clock_timestamp() > deadline then
    raise exception 'the time of the transaction has run out' using errcode = 'query_canceled';
  end if;
  execute format('set local app.deadline = %L', deadline);
end $$;

-- Every change has an audit row, so that none is committed late where it is written.
create function refuse_late_commit() returns trigger language plpgsql as $$
begin
  if clock_timestamp() > nullif(current_setting('app.deadline', true), '')::timestamptz then
    raise exception 'the time of the transaction has run out' using errcode = 'query_canceled';
  end if;
  return null;
end $$;
create constraint trigger refuse_late_commit after insert on audit_logs deferrable initially deferred
  for each row execute function refuse_late_commit();
