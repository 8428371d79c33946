-- A record that thousands of others refer to is deleted at once, and a job clears their references in small transactions. Until it is done
-- they name a record that is gone, which a foreign key would refuse. Triggers take the place of these keys: they refuse what the keys refused,
-- with the same lock and the same error, but look only at references that are written.
alter table customers
  drop constraint customers_company_id_test_mode_account_id_fkey,
  drop constraint customers_company_id_test_mode_lead_id_fkey;
alter table deals
  drop constraint deals_company_id_test_mode_customer_id_fkey,
  drop constraint deals_company_id_test_mode_account_id_fkey,
  drop constraint deals_company_id_test_mode_lead_id_fkey;

create function require_account() returns trigger language plpgsql as $$
begin
  perform from accounts
  where company_id = new.company_id and test_mode = new.test_mode and id = new.account_id
  for key share;
  if not found then
    raise foreign_key_violation using message = 'the account that a record refers to is not there', table = tg_table_name, column = 'account_id';
  end if;
  return null;
end $$;

create function require_customer() returns trigger language plpgsql as $$
begin
  perform from customers
  where company_id = new.company_id and test_mode = new.test_mode and id = new.customer_id
  for key share;
  if not found then
    raise foreign_key_violation using message = 'the customer that a record refers to is not there', table = tg_table_name, column = 'customer_id';
  end if;
  return null;
end $$;

create function require_lead() returns trigger language plpgsql as $$
begin
  perform from leads
  where company_id = new.company_id and test_mode = new.test_mode and id = new.lead_id
  for key share;
  if not found then
    raise foreign_key_violation using message = 'the lead that a record refers to is not there', table = tg_table_name, column = 'lead_id';
  end if;
  return null;
end $$;

do $$
declare
  reference record;
begin
  for reference in
    select * from (values ('customers', 'account'), ('customers', 'lead'), ('deals', 'account'), ('deals', 'customer'), ('deals', 'lead')) given (source, target)
  loop
    execute format('create trigger %I after insert on %I
      for each row when (new.%I is not null) execute function %I()',
      'require_' || reference.target, reference.source, reference.target || '_id', 'require_' || reference.target);
    execute format('create trigger %I after update of %I on %I
      for each row when (new.%2$I is distinct from old.%2$I and new.%2$I is not null) execute function %4$I()',
      'require_changed_' || reference.target, reference.target || '_id', reference.source, 'require_' || reference.target);
  end loop;
end $$;

-- True in a transaction that has noted the records whose references a job clears.
create function references_are_noted() returns boolean language sql stable
  return coalesce(current_setting('app.references_are_noted', true), '') = 'on';

create or replace function forget_account() returns trigger language plpgsql as $$
begin
  if not references_are_noted() and exists (select from companies where id = old.company_id) then
    update customers set account_id = null where company_id = old.company_id and test_mode = old.test_mode and account_id = old.id;
    update deals set account_id = null where company_id = old.company_id and test_mode = old.test_mode and account_id = old.id;
  end if;
  return old;
end $$;

create or replace function forget_lead() returns trigger language plpgsql as $$
begin
  if not references_are_noted() and exists (select from companies where id = old.company_id) then
    update customers set lead_id = null where company_id = old.company_id and test_mode = old.test_mode and lead_id = old.id;
    update deals set lead_id = null where company_id = old.company_id and test_mode = old.test_mode and lead_id = old.id;
  end if;
  return old;
end $$;

create or replace function forget_customer() returns trigger language plpgsql as $$
begin
  if not references_are_noted() and exists (select from companies where id = old.company_id) then
    update leads set converted_customer_id = null
    where company_id = old.company_id and test_mode = old.test_mode and converted_customer_id = old.id;
    update deals set customer_id = null where company_id = old.company_id and test_mode = old.test_mode and customer_id = old.id;
  end if;
  return old;
end $$;

-- Records that are deleted, and that others still refer to: the queue of that job.
create table reference_clearings (
  company_id uuid not null references companies (id) on delete cascade,
  test_mode boolean not null,
  object text not null,
  record_id uuid not null,
  -- Who deleted it, for the audit rows and events of the records that referred to it.
  caused_by jsonb not null,
  created_at timestamptz(3) not null,
  primary key (company_id, test_mode, object, record_id)
);
alter table reference_clearings enable row level security;
alter table reference_clearings force row level security;
create policy tenant on reference_clearings to crm_app using (company_id = current_company() and test_mode = current_test_mode())
  with check (company_id = current_company() and test_mode = current_test_mode());
-- Update lets a server lock the row that it works on.
grant select, insert, delete, update (created_at) on reference_clearings to crm_app;
-- The platform role finds whose references are to be cleared.
create policy platform on reference_clearings for select to crm_platform using (true);
grant select (company_id, test_mode) on reference_clearings to crm_platform;
call open_to_purge();
