-- Accounts, leads, customers, deals and activities. 0007-records.sql explains their indexes.
--
-- References between these tables are no foreign keys. A record that thousands of others refer to
-- is deleted immediately, and a job clears the references in small transactions
-- (reference_clearings); until then they name a record that no longer exists, which a foreign key
-- would reject. Triggers reject what a foreign key would, with the same lock and the same error,
-- but only if a reference is written.

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

-- These clear the references to a deleted record if no job does. The record's row is locked while they run: a writer
-- that refers to it afterwards waits, and earlier references are visible. If the company itself is deleted, the rows
-- that refer to the record are too.
create function forget_account() returns trigger language plpgsql as $$
begin
  if not references_are_noted() and exists (select from companies where id = old.company_id) then
    update customers set account_id = null where company_id = old.company_id and test_mode = old.test_mode and account_id = old.id;
    update deals set account_id = null where company_id = old.company_id and test_mode = old.test_mode and account_id = old.id;
  end if;
  return old;
end $$;

create function forget_lead() returns trigger language plpgsql as $$
begin
  if not references_are_noted() and exists (select from companies where id = old.company_id) then
    update customers set lead_id = null where company_id = old.company_id and test_mode = old.test_mode and lead_id = old.id;
    update deals set lead_id = null where company_id = old.company_id and test_mode = old.test_mode and lead_id = old.id;
  end if;
  return old;
end $$;

create function forget_customer() returns trigger language plpgsql as $$
begin
  if not references_are_noted() and exists (select from companies where id = old.company_id) then
    update leads set converted_customer_id = null
    where company_id = old.company_id and test_mode = old.test_mode and converted_customer_id = old.id;
    update deals set customer_id = null where company_id = old.company_id and test_mode = old.test_mode and customer_id = old.id;
  end if;
  return old;
end $$;

-- Accounts: the companies that customers work for.
create table accounts (
  company_id uuid not null,
  test_mode boolean not null,
  id uuid not null,
  name text,
  email text,
  phone text,
  extension text,
  website text,
  industry text,
  employee_count bigint,
  annual_revenue_minor bigint,
  address text,
  city text,
  state text,
  country text,
  postal_code text,
  description text,
  assigned_to uuid,
  last_contacted_at timestamptz(3),
  custom jsonb not null default '{}',
  version int not null default 1,
  created_by_kind text not null,
  created_by_id text not null,
  created_by_name text,
  created_at timestamptz(3) not null,
  updated_at timestamptz(3) not null,
  -- The actor of the last change, or of the creation.
  updated_by_id text,
  created_by_user uuid,
  -- The form in which names are compared. A column, because row-level security lets an index serve only plain
  -- equality.
  name_key text generated always as (fold_name(btrim(name))) stored,
  primary key (company_id, test_mode, id),
  foreign key (company_id, assigned_to) references users (company_id, id)
);
alter table accounts alter column company_id set (n_distinct = 100);
-- Lists.
create index accounts_created on accounts (company_id, test_mode, created_at, id);
create index accounts_updated on accounts (company_id, test_mode, updated_at, id);
-- Records that a caller with a limited visibility can see.
create index accounts_assigned on accounts (company_id, test_mode, assigned_to, created_at, id)
  where assigned_to is not null;
create index accounts_in_name_of on accounts (company_id, test_mode, created_by_user, created_at, id)
  where assigned_to is null and created_by_user is not null;
create index accounts_of_creator on accounts (company_id, test_mode, created_by_id collate "C", created_at, id);
create index accounts_of_key on accounts (company_id, test_mode, created_by_id)
  where assigned_to is null and created_by_kind = 'api_key' and created_by_user is null;
create index accounts_of_updater on accounts (company_id, test_mode, updated_by_id collate "C")
  where updated_by_id is not null;
-- Records by what they refer to.
create index accounts_of_name on accounts (company_id, test_mode, name_key, updated_at, id) where name_key is not null;
-- Filters and sorting by a field.
create index accounts_by_last_contacted_at on accounts (company_id, test_mode, last_contacted_at, id)
  where last_contacted_at is not null;
create index accounts_by_annual_revenue_minor on accounts (company_id, test_mode, annual_revenue_minor, id)
  where annual_revenue_minor is not null;
create index accounts_by_city on accounts (company_id, test_mode, city collate "C", id) where city is not null;
create index accounts_by_country on accounts (company_id, test_mode, country collate "C", id) where country is not null;
create index accounts_by_email on accounts (company_id, test_mode, email collate "C", id) where email is not null;
create index accounts_by_employee_count on accounts (company_id, test_mode, employee_count, id)
  where employee_count is not null;
create index accounts_by_extension on accounts (company_id, test_mode, extension collate "C", id)
  where extension is not null;
create index accounts_by_industry on accounts (company_id, test_mode, industry collate "C", id)
  where industry is not null;
create index accounts_by_name on accounts (company_id, test_mode, name collate "C", id) where name is not null;
create index accounts_by_phone on accounts (company_id, test_mode, phone collate "C", id) where phone is not null;
create index accounts_by_postal_code on accounts (company_id, test_mode, postal_code collate "C", id)
  where postal_code is not null;
create index accounts_by_state on accounts (company_id, test_mode, state collate "C", id) where state is not null;
alter table accounts enable row level security, force row level security;
create policy tenant on accounts to crm_app
  using (company_id = current_company() and test_mode = current_test_mode())
  with check (company_id = current_company() and test_mode = current_test_mode());
grant select, insert, update, delete on accounts to crm_app;
create trigger accounts_changed_custom_values after update of custom on accounts for each row
  when (old.custom is distinct from new.custom)
  execute function keep_custom_value_hashes('accounts');
create trigger accounts_custom_values after insert on accounts for each row
  when (new.custom <> '{}')
  execute function keep_custom_value_hashes('accounts');
create trigger accounts_removed_custom_values after delete on accounts for each row
  when (old.custom <> '{}')
  execute function keep_custom_value_hashes('accounts');
create trigger forget_account before delete on accounts for each row execute function forget_account();
create trigger note_added_texts after insert on accounts referencing new table as added for each statement
  execute function note_added_texts('accounts');
create trigger note_changed_text after update on accounts for each row
  when (old.name is distinct from new.name or old.email is distinct from new.email
    or old.phone is distinct from new.phone or old.website is distinct from new.website
    or old.industry is distinct from new.industry or old.city is distinct from new.city
    or old.state is distinct from new.state or old.country is distinct from new.country
    or old.postal_code is distinct from new.postal_code or old.custom is distinct from new.custom)
  execute function note_changed_text('accounts');
create trigger note_removed_texts after delete on accounts referencing old table as removed for each statement
  execute function note_removed_texts('accounts');

-- Leads.
create table leads (
  company_id uuid not null,
  test_mode boolean not null,
  id uuid not null,
  first_name text,
  last_name text,
  email text,
  mobile text,
  extension text,
  company_name text,
  job_title text,
  website text,
  city text,
  state text,
  country text,
  postal_code text,
  inquiry_details text,
  notes text,
  source_id uuid,
  priority int,
  origin text,
  lead_status_id uuid,
  assigned_to uuid,
  last_contacted_at timestamptz(3),
  next_followup_at timestamptz(3),
  -- The follow-up that applies without meetings.
  planned_followup_at timestamptz(3),
  converted_at timestamptz(3),
  converted_customer_id uuid,
  custom jsonb not null default '{}',
  version int not null default 1,
  created_by_kind text not null,
  created_by_id text not null,
  created_by_name text,
  created_at timestamptz(3) not null,
  updated_at timestamptz(3) not null,
  -- The actor of the last change, or of the creation.
  updated_by_id text,
  -- The user in whose name an app created the record. The app itself acts for many, who must not see each other's
  -- records because of it.
  created_by_user uuid,
  -- Texts that can be longer than an index allows are looked up by their hash; a query compares the text too.
  website_hash bigint generated always as (hashtextextended(website, 0)) stored,
  inquiry_details_hash bigint generated always as (hashtextextended(inquiry_details, 0)) stored,
  notes_hash bigint generated always as (hashtextextended(notes, 0)) stored,
  primary key (company_id, test_mode, id),
  foreign key (company_id, source_id) references sources (company_id, id),
  foreign key (company_id, lead_status_id) references statuses (company_id, id),
  foreign key (company_id, assigned_to) references users (company_id, id)
);
alter table leads alter column company_id set (n_distinct = 100);
-- Lists.
create index leads_created on leads (company_id, test_mode, created_at, id);
create index leads_updated on leads (company_id, test_mode, updated_at, id);
-- Records that a caller with a limited visibility can see.
create index leads_assigned on leads (company_id, test_mode, assigned_to, created_at, id) where assigned_to is not null;
create index leads_in_name_of on leads (company_id, test_mode, created_by_user, created_at, id)
  where assigned_to is null and created_by_user is not null;
create index leads_of_creator on leads (company_id, test_mode, created_by_id collate "C", created_at, id);
create index leads_of_key on leads (company_id, test_mode, created_by_id)
  where assigned_to is null and created_by_kind = 'api_key' and created_by_user is null;
create index leads_of_updater on leads (company_id, test_mode, updated_by_id collate "C")
  where updated_by_id is not null;
-- Records by what they refer to.
create index leads_of_customer on leads (company_id, test_mode, converted_customer_id)
  where converted_customer_id is not null;
create index leads_of_source on leads (company_id, source_id) where source_id is not null;
create index leads_of_status on leads (company_id, test_mode, lead_status_id, created_at, id);
-- Filters and sorting by a field.
create index leads_by_city on leads (company_id, test_mode, city collate "C", id) where city is not null;
create index leads_by_company_name on leads (company_id, test_mode, company_name collate "C", id)
  where company_name is not null;
create index leads_by_converted_at on leads (company_id, test_mode, converted_at, id) where converted_at is not null;
create index leads_by_country on leads (company_id, test_mode, country collate "C", id) where country is not null;
create index leads_by_email on leads (company_id, test_mode, email collate "C", id) where email is not null;
create index leads_by_extension on leads (company_id, test_mode, extension collate "C", id)
  where extension is not null;
create index leads_by_first_name on leads (company_id, test_mode, first_name collate "C", id)
  where first_name is not null;
create index leads_by_job_title on leads (company_id, test_mode, job_title collate "C", id) where job_title is not null;
create index leads_by_last_contacted_at on leads (company_id, test_mode, last_contacted_at, id)
  where last_contacted_at is not null;
create index leads_by_last_name on leads (company_id, test_mode, last_name collate "C", id) where last_name is not null;
create index leads_by_mobile on leads (company_id, test_mode, mobile collate "C", id) where mobile is not null;
create index leads_by_next_followup_at on leads (company_id, test_mode, next_followup_at, id)
  where next_followup_at is not null;
create index leads_by_origin on leads (company_id, test_mode, origin collate "C", id) where origin is not null;
create index leads_by_postal_code on leads (company_id, test_mode, postal_code collate "C", id)
  where postal_code is not null;
create index leads_by_priority on leads (company_id, test_mode, priority, id) where priority is not null;
create index leads_by_state on leads (company_id, test_mode, state collate "C", id) where state is not null;
-- Duplicate checks.
create index leads_same_inquiry_details_hash on leads (company_id, test_mode, inquiry_details_hash)
  where inquiry_details_hash is not null;
create index leads_same_notes_hash on leads (company_id, test_mode, notes_hash) where notes_hash is not null;
create index leads_same_website_hash on leads (company_id, test_mode, website_hash) where website_hash is not null;
alter table leads enable row level security, force row level security;
create policy tenant on leads to crm_app
  using (company_id = current_company() and test_mode = current_test_mode())
  with check (company_id = current_company() and test_mode = current_test_mode());
grant select, insert, update, delete on leads to crm_app;
create trigger forget_lead before delete on leads for each row execute function forget_lead();
create trigger leads_changed_custom_values after update of custom on leads for each row
  when (old.custom is distinct from new.custom)
  execute function keep_custom_value_hashes('leads');
create trigger leads_custom_values after insert on leads for each row
  when (new.custom <> '{}')
  execute function keep_custom_value_hashes('leads');
create trigger leads_removed_custom_values after delete on leads for each row
  when (old.custom <> '{}')
  execute function keep_custom_value_hashes('leads');
create trigger note_added_texts after insert on leads referencing new table as added for each statement
  execute function note_added_texts('leads');
create trigger note_changed_text after update on leads for each row
  when (old.first_name is distinct from new.first_name or old.last_name is distinct from new.last_name
    or old.company_name is distinct from new.company_name or old.email is distinct from new.email
    or old.mobile is distinct from new.mobile or old.job_title is distinct from new.job_title
    or old.website is distinct from new.website or old.city is distinct from new.city
    or old.state is distinct from new.state or old.country is distinct from new.country
    or old.postal_code is distinct from new.postal_code or old.origin is distinct from new.origin
    or old.custom is distinct from new.custom)
  execute function note_changed_text('leads');
create trigger note_removed_texts after delete on leads referencing old table as removed for each statement
  execute function note_removed_texts('leads');
create trigger require_changed_converted_customer after update of converted_customer_id on leads for each row
  when (new.converted_customer_id is distinct from old.converted_customer_id and new.converted_customer_id is not null)
  execute function require_converted_customer();
create trigger require_converted_customer after insert on leads for each row
  when (new.converted_customer_id is not null)
  execute function require_converted_customer();

-- Customers: people.
create table customers (
  company_id uuid not null,
  test_mode boolean not null,
  id uuid not null,
  first_name text,
  last_name text,
  email text,
  mobile text,
  phone text,
  extension text,
  company_name text,
  account_id uuid,
  job_title text,
  website text,
  address text,
  city text,
  state text,
  country text,
  postal_code text,
  source_id uuid,
  notes text,
  assigned_to uuid,
  lead_id uuid,
  last_contacted_at timestamptz(3),
  custom jsonb not null default '{}',
  version int not null default 1,
  created_by_kind text not null,
  created_by_id text not null,
  created_by_name text,
  created_at timestamptz(3) not null,
  updated_at timestamptz(3) not null,
  -- The actor of the last change, or of the creation.
  updated_by_id text,
  created_by_user uuid,
  primary key (company_id, test_mode, id),
  foreign key (company_id, source_id) references sources (company_id, id),
  foreign key (company_id, assigned_to) references users (company_id, id)
);
alter table customers alter column company_id set (n_distinct = 100);
-- Lists.
create index customers_created on customers (company_id, test_mode, created_at, id);
create index customers_updated on customers (company_id, test_mode, updated_at, id);
-- Records that a caller with a limited visibility can see.
create index customers_assigned on customers (company_id, test_mode, assigned_to, created_at, id)
  where assigned_to is not null;
create index customers_in_name_of on customers (company_id, test_mode, created_by_user, created_at, id)
  where assigned_to is null and created_by_user is not null;
create index customers_of_creator on customers (company_id, test_mode, created_by_id collate "C", created_at, id);
create index customers_of_key on customers (company_id, test_mode, created_by_id)
  where assigned_to is null and created_by_kind = 'api_key' and created_by_user is null;
create index customers_of_updater on customers (company_id, test_mode, updated_by_id collate "C")
  where updated_by_id is not null;
-- Records by what they refer to.
create index customers_of_account on customers (company_id, test_mode, account_id, created_at, id)
  where account_id is not null;
create index customers_of_lead on customers (company_id, test_mode, lead_id) where lead_id is not null;
create index customers_of_source on customers (company_id, source_id) where source_id is not null;
-- Filters and sorting by a field.
create index customers_by_city on customers (company_id, test_mode, city collate "C", id) where city is not null;
create index customers_by_company_name on customers (company_id, test_mode, company_name collate "C", id)
  where company_name is not null;
create index customers_by_country on customers (company_id, test_mode, country collate "C", id)
  where country is not null;
create index customers_by_email on customers (company_id, test_mode, email collate "C", id) where email is not null;
create index customers_by_extension on customers (company_id, test_mode, extension collate "C", id)
  where extension is not null;
create index customers_by_first_name on customers (company_id, test_mode, first_name collate "C", id)
  where first_name is not null;
create index customers_by_job_title on customers (company_id, test_mode, job_title collate "C", id)
  where job_title is not null;
create index customers_by_last_contacted_at on customers (company_id, test_mode, last_contacted_at, id)
  where last_contacted_at is not null;
create index customers_by_last_name on customers (company_id, test_mode, last_name collate "C", id)
  where last_name is not null;
create index customers_by_mobile on customers (company_id, test_mode, mobile collate "C", id) where mobile is not null;
create index customers_by_phone on customers (company_id, test_mode, phone collate "C", id) where phone is not null;
create index customers_by_postal_code on customers (company_id, test_mode, postal_code collate "C", id)
  where postal_code is not null;
create index customers_by_state on customers (company_id, test_mode, state collate "C", id) where state is not null;
alter table customers enable row level security, force row level security;
create policy tenant on customers to crm_app
  using (company_id = current_company() and test_mode = current_test_mode())
  with check (company_id = current_company() and test_mode = current_test_mode());
grant select, insert, update, delete on customers to crm_app;
create trigger customers_changed_custom_values after update of custom on customers for each row
  when (old.custom is distinct from new.custom)
  execute function keep_custom_value_hashes('customers');
create trigger customers_custom_values after insert on customers for each row
  when (new.custom <> '{}')
  execute function keep_custom_value_hashes('customers');
create trigger customers_removed_custom_values after delete on customers for each row
  when (old.custom <> '{}')
  execute function keep_custom_value_hashes('customers');
create trigger forget_customer before delete on customers for each row execute function forget_customer();
create trigger note_added_texts after insert on customers referencing new table as added for each statement
  execute function note_added_texts('customers');
create trigger note_changed_text after update on customers for each row
  when (old.first_name is distinct from new.first_name or old.last_name is distinct from new.last_name
    or old.company_name is distinct from new.company_name or old.email is distinct from new.email
    or old.mobile is distinct from new.mobile or old.phone is distinct from new.phone
    or old.job_title is distinct from new.job_title or old.website is distinct from new.website
    or old.city is distinct from new.city or old.state is distinct from new.state
    or old.country is distinct from new.country or old.postal_code is distinct from new.postal_code
    or old.custom is distinct from new.custom)
  execute function note_changed_text('customers');
create trigger note_removed_texts after delete on customers referencing old table as removed for each statement
  execute function note_removed_texts('customers');
create trigger require_account after insert on customers for each row
  when (new.account_id is not null)
  execute function require_account();
create trigger require_changed_account after update of account_id on customers for each row
  when (new.account_id is distinct from old.account_id and new.account_id is not null)
  execute function require_account();
create trigger require_changed_lead after update of lead_id on customers for each row
  when (new.lead_id is distinct from old.lead_id and new.lead_id is not null)
  execute function require_lead();
create trigger require_lead after insert on customers for each row
  when (new.lead_id is not null)
  execute function require_lead();

-- Deals.
create table deals (
  company_id uuid not null,
  test_mode boolean not null,
  id uuid not null,
  name text,
  amount_minor bigint,
  currency_code text,
  pipeline_id uuid,
  stage_id uuid,
  probability int,
  expected_close_date date,
  priority int,
  source_id uuid,
  lost_reason text,
  description text,
  customer_id uuid,
  account_id uuid,
  lead_id uuid,
  assigned_to uuid,
  stage_changed_at timestamptz(3),
  won_at timestamptz(3),
  lost_at timestamptz(3),
  last_contacted_at timestamptz(3),
  next_followup_at timestamptz(3),
  -- The follow-up that applies without meetings.
  planned_followup_at timestamptz(3),
  custom jsonb not null default '{}',
  version int not null default 1,
  created_by_kind text not null,
  created_by_id text not null,
  created_by_name text,
  created_at timestamptz(3) not null,
  updated_at timestamptz(3) not null,
  -- The actor of the last change, or of the creation.
  updated_by_id text,
  created_by_user uuid,
  -- Texts that can be longer than an index allows are looked up by their hash; a query compares the text too.
  lost_reason_hash bigint generated always as (hashtextextended(lost_reason, 0)) stored,
  description_hash bigint generated always as (hashtextextended(description, 0)) stored,
  primary key (company_id, test_mode, id),
  foreign key (company_id, pipeline_id, stage_id) references statuses (company_id, pipeline_id, id),
  foreign key (company_id, source_id) references sources (company_id, id),
  foreign key (company_id, assigned_to) references users (company_id, id),
  check (stage_id is null or pipeline_id is not null)
);
alter table deals alter column company_id set (n_distinct = 100);
-- Lists.
create index deals_created on deals (company_id, test_mode, created_at, id);
create index deals_updated on deals (company_id, test_mode, updated_at, id);
-- Records that a caller with a limited visibility can see.
create index deals_assigned on deals (company_id, test_mode, assigned_to, created_at, id) where assigned_to is not null;
create index deals_in_name_of on deals (company_id, test_mode, created_by_user, created_at, id)
  where assigned_to is null and created_by_user is not null;
create index deals_of_creator on deals (company_id, test_mode, created_by_id collate "C", created_at, id);
create index deals_of_key on deals (company_id, test_mode, created_by_id)
  where assigned_to is null and created_by_kind = 'api_key' and created_by_user is null;
create index deals_of_updater on deals (company_id, test_mode, updated_by_id collate "C")
  where updated_by_id is not null;
-- Records by what they refer to.
create index deals_of_account on deals (company_id, test_mode, account_id, created_at, id) where account_id is not null;
create index deals_of_customer on deals (company_id, test_mode, customer_id, created_at, id) where customer_id is not null;
create index deals_of_lead on deals (company_id, test_mode, lead_id, created_at, id) where lead_id is not null;
create index deals_of_pipeline on deals (company_id, test_mode, pipeline_id, created_at, id);
create index deals_of_source on deals (company_id, source_id) where source_id is not null;
create index deals_of_stage on deals (company_id, test_mode, stage_id, created_at, id);
-- Filters and sorting by a field.
create index deals_by_amount_minor on deals (company_id, test_mode, amount_minor, id) where amount_minor is not null;
create index deals_by_currency_code on deals (company_id, test_mode, currency_code collate "C", id)
  where currency_code is not null;
create index deals_by_expected_close_date on deals (company_id, test_mode, expected_close_date, id)
  where expected_close_date is not null;
create index deals_by_last_contacted_at on deals (company_id, test_mode, last_contacted_at, id)
  where last_contacted_at is not null;
create index deals_by_lost_at on deals (company_id, test_mode, lost_at, id) where lost_at is not null;
create index deals_by_name on deals (company_id, test_mode, name collate "C", id) where name is not null;
create index deals_by_next_followup_at on deals (company_id, test_mode, next_followup_at, id)
  where next_followup_at is not null;
create index deals_by_priority on deals (company_id, test_mode, priority, id) where priority is not null;
create index deals_by_probability on deals (company_id, test_mode, probability, id) where probability is not null;
create index deals_by_stage_changed_at on deals (company_id, test_mode, stage_changed_at, id)
  where stage_changed_at is not null;
create index deals_by_won_at on deals (company_id, test_mode, won_at, id) where won_at is not null;
-- Duplicate checks.
create index deals_same_description_hash on deals (company_id, test_mode, description_hash)
  where description_hash is not null;
create index deals_same_lost_reason_hash on deals (company_id, test_mode, lost_reason_hash)
  where lost_reason_hash is not null;
alter table deals enable row level security, force row level security;
create policy tenant on deals to crm_app
  using (company_id = current_company() and test_mode = current_test_mode())
  with check (company_id = current_company() and test_mode = current_test_mode());
grant select, insert, update, delete on deals to crm_app;
create trigger deals_changed_custom_values after update of custom on deals for each row
  when (old.custom is distinct from new.custom)
  execute function keep_custom_value_hashes('deals');
create trigger deals_custom_values after insert on deals for each row
  when (new.custom <> '{}')
  execute function keep_custom_value_hashes('deals');
create trigger deals_removed_custom_values after delete on deals for each row
  when (old.custom <> '{}')
  execute function keep_custom_value_hashes('deals');
create trigger note_added_texts after insert on deals referencing new table as added for each statement
  execute function note_added_texts('deals');
create trigger note_changed_text after update on deals for each row
  when (old.name is distinct from new.name or old.currency_code is distinct from new.currency_code
    or old.lost_reason is distinct from new.lost_reason or old.description is distinct from new.description
    or old.custom is distinct from new.custom)
  execute function note_changed_text('deals');
create trigger note_removed_texts after delete on deals referencing old table as removed for each statement
  execute function note_removed_texts('deals');
create trigger require_account after insert on deals for each row
  when (new.account_id is not null)
  execute function require_account();
create trigger require_changed_account after update of account_id on deals for each row
  when (new.account_id is distinct from old.account_id and new.account_id is not null)
  execute function require_account();
create trigger require_changed_customer after update of customer_id on deals for each row
  when (new.customer_id is distinct from old.customer_id and new.customer_id is not null)
  execute function require_customer();
create trigger require_changed_lead after update of lead_id on deals for each row
  when (new.lead_id is distinct from old.lead_id and new.lead_id is not null)
  execute function require_lead();
create trigger require_customer after insert on deals for each row
  when (new.customer_id is not null)
  execute function require_customer();
create trigger require_lead after insert on deals for each row
  when (new.lead_id is not null)
  execute function require_lead();

-- Activities: what people did with a lead or a deal.
create table activities (
  company_id uuid not null,
  test_mode boolean not null,
  id uuid not null,
  activity_type_id uuid not null,
  entity_type text not null check (entity_type in ('lead', 'deal', 'customer', 'account')),
  entity_id uuid not null,
  summary text,
  details text,
  performed_at timestamptz(3) not null,
  followup_at timestamptz(3),
  custom jsonb not null default '{}',
  version int not null default 1,
  created_by_kind text not null,
  created_by_id text not null,
  created_by_name text,
  created_at timestamptz(3) not null,
  updated_at timestamptz(3) not null,
  -- The actor of the last change, or of the creation.
  updated_by_id text,
  created_by_user uuid,
  duration_seconds int check (duration_seconds >= 0 and duration_seconds <= 86400),
  outcome text,
  primary key (company_id, test_mode, id),
  foreign key (company_id, activity_type_id) references activity_types (company_id, id)
);
alter table activities alter column company_id set (n_distinct = 100);
-- Lists.
create index activities_created on activities (company_id, test_mode, created_at, id);
create index activities_updated on activities (company_id, test_mode, updated_at, id);
create index activities_performed on activities (company_id, test_mode, performed_at, id);
-- Records that a caller with a limited visibility can see.
create index activities_in_name_of on activities (company_id, test_mode, created_by_user, performed_at, id)
  where created_by_user is not null;
create index activities_of_key on activities (company_id, test_mode, created_by_id)
  where created_by_kind = 'api_key' and created_by_user is null;
-- Records by what they refer to.
create index activities_of_creator on activities (company_id, test_mode, created_by_id collate "C", performed_at, id);
create index activities_of_updater on activities (company_id, test_mode, updated_by_id collate "C")
  where updated_by_id is not null;
create index activities_of_entity on activities (company_id, test_mode, entity_id, performed_at, id);
create index activities_of_entity_type on activities (company_id, test_mode, entity_type, performed_at, id);
create index activities_of_type on activities (company_id, test_mode, activity_type_id, performed_at, id);
-- Filters and sorting by a field.
create index activities_by_followup_at on activities (company_id, test_mode, followup_at, id)
  where followup_at is not null;
create index activities_by_summary on activities (company_id, test_mode, summary collate "C", id)
  where summary is not null;
alter table activities enable row level security, force row level security;
create policy tenant on activities to crm_app
  using (company_id = current_company() and test_mode = current_test_mode())
  with check (company_id = current_company() and test_mode = current_test_mode());
grant select, insert, update, delete on activities to crm_app;
create trigger activities_changed_custom_values after update of custom on activities for each row
  when (old.custom is distinct from new.custom)
  execute function keep_custom_value_hashes('activities');
create trigger activities_custom_values after insert on activities for each row
  when (new.custom <> '{}')
  execute function keep_custom_value_hashes('activities');
create trigger activities_removed_custom_values after delete on activities for each row
  when (old.custom <> '{}')
  execute function keep_custom_value_hashes('activities');
create trigger note_added_texts after insert on activities referencing new table as added for each statement
  execute function note_added_texts('activities');
create trigger note_changed_text after update on activities for each row
  when (old.summary is distinct from new.summary or old.details is distinct from new.details
    or old.custom is distinct from new.custom)
  execute function note_changed_text('activities');
create trigger note_removed_texts after delete on activities referencing old table as removed for each statement
  execute function note_removed_texts('activities');

call open_to_purge();

-- So that the planner takes these tables for empty, and not for ten pages, until they are analyzed with rows.
analyze accounts, leads, customers, deals, activities;
