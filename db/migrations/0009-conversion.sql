-- Conversion of leads: indexes for finding the customer and the account that a lead stands for.

-- Row-level security lets only plain equality use an index, so the form that names are compared in is a column.
alter table accounts add column name_key text generated always as (lower(btrim(name))) stored;
create index accounts_of_name on accounts (company_id, test_mode, name_key, updated_at desc, id desc) where name_key is not null;

create index customers_mobile on customers (company_id, test_mode, mobile) where mobile is not null;
create index customers_phone on customers (company_id, test_mode, phone) where phone is not null;
