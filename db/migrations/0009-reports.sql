-- Saved reports, and the search.
--
-- A search reads the texts in search_blocks, and among the records that wait in search_changes the newest. Triggers on
-- the tables of records fill search_changes, a job moves the texts to the blocks, and signatures say which blocks a
-- search can skip. All of it is read and written with the tenant's own role.

-- The mean of numbers whose sum is exact, to two decimals; a half is rounded to the even neighbor.
create function half_even_mean(total numeric, numbers bigint) returns numeric language sql immutable parallel safe
return case
  when numbers = 0 or total is null then null
  when 2 * abs(mod(total * 100, numbers)) < numbers or 2 * abs(mod(total * 100, numbers)) = numbers and mod(div(total * 100, numbers), 2) = 0
    then div(total * 100, numbers) / 100
  else (div(total * 100, numbers) + sign(total)) / 100
end;

-- Definitions of reports, of live and test mode alike.
create table saved_reports (
  company_id uuid not null references companies (id) on delete cascade,
  id uuid not null,
  name text not null,
  -- leads, or object:visits.
  object text not null,
  -- Part of the body of POST /v1/reports/query, and the kind of the chart.
  config jsonb not null default '{}',
  is_shared boolean not null default false,
  created_by_kind text not null,
  created_by_id text not null,
  created_by_name text,
  created_by_user uuid,
  created_at timestamptz(3) not null,
  updated_at timestamptz(3) not null,
  primary key (company_id, id)
);
create index saved_reports_listed on saved_reports (company_id, created_at desc, id desc);
-- The owner is the user for whom it was made, or the key.
create unique index saved_reports_name
  on saved_reports (company_id, object, coalesce(created_by_user::text, created_by_id), fold_name(name));
alter table saved_reports enable row level security, force row level security;
create policy tenant on saved_reports to crm_app
  using (company_id = current_company())
  with check (company_id = current_company());
grant select, insert, update, delete on saved_reports to crm_app;

-- Queue: records whose texts were added, changed or removed since they were last copied to a block. No key to the
-- company: every write would pay for it.
create table search_changes (
  company_id uuid not null,
  test_mode boolean not null,
  object text not null,
  id bigint not null generated always as identity,
  record_id uuid not null,
  -- When the text that a block has of the record must be gone; null: no block has any.
  due_at timestamptz(3),
  primary key (company_id, test_mode, object, id)
);
alter table search_changes alter column company_id set (n_distinct = 100);
alter table search_changes enable row level security, force row level security;
create policy tenant on search_changes to crm_app
  using (company_id = current_company() and test_mode = current_test_mode())
  with check (company_id = current_company() and test_mode = current_test_mode());
create policy platform on search_changes for select to crm_platform using (true);
grant select, insert, delete on search_changes to crm_app;
grant select (company_id, test_mode, object, id, due_at) on search_changes to crm_platform;

-- Texts of records, many to a row, filled by a job.
create table search_blocks (
  company_id uuid not null references companies (id) on delete cascade,
  test_mode boolean not null,
  object text not null,
  -- From 0, without gaps; only the last one grows.
  block int not null,
  record_ids uuid[] not null,
  -- In lower case, each field between two of chr(31).
  texts text[] not null,
  primary key (company_id, test_mode, object, block)
);
alter table search_blocks alter column company_id set (n_distinct = 100);
alter table search_blocks enable row level security, force row level security;
create policy tenant on search_blocks to crm_app
  using (company_id = current_company() and test_mode = current_test_mode())
  with check (company_id = current_company() and test_mode = current_test_mode());
grant select, insert, update on search_blocks to crm_app;

-- Which texts 32 blocks can contain, from block 32 * number on: a word of 32 bits for each position, one bit for each
-- block (db/reports/signature.ts).
create table search_signatures (
  company_id uuid not null references companies (id) on delete cascade,
  test_mode boolean not null,
  object text not null,
  number int not null,
  words bytea not null,
  primary key (company_id, test_mode, object, number)
);
alter table search_signatures alter column words set storage external;
alter table search_signatures enable row level security, force row level security;
create policy tenant on search_signatures to crm_app
  using (company_id = current_company() and test_mode = current_test_mode())
  with check (company_id = current_company() and test_mode = current_test_mode());
grant select, insert on search_signatures to crm_app;

-- The texts among the values of custom fields.
create function own_texts(custom jsonb) returns text language sql immutable parallel safe
return (select string_agg(left(value #>> '{}', 1000), chr(31)) from jsonb_each(custom) where jsonb_typeof(value) = 'string');

-- All texts of a record that a search can look at, of each field the first 1,000 characters. The triggers
-- note_changed_text name the same fields. People are also found by their full names, which no field has.
create function searched_text(r custom_records) returns text language sql stable parallel safe
  return chr(31) || lower(concat_ws(chr(31),
    case when r.custom <> '{}' then own_texts(r.custom) end)) || chr(31);

create function searched_text(r tasks) returns text language sql stable parallel safe
  return chr(31) || lower(concat_ws(chr(31),
    left(r.title, 1000), left(r.description, 1000), left(r.object, 1000),
    case when r.custom <> '{}' then own_texts(r.custom) end)) || chr(31);

create function searched_text(r accounts) returns text language sql stable parallel safe
  return chr(31) || lower(concat_ws(chr(31),
    left(r.name, 1000), left(r.email, 1000), left(r.phone, 1000), left(r.website, 1000),
    left(r.industry, 1000), left(r.city, 1000), left(r.state, 1000), left(r.country, 1000),
    left(r.postal_code, 1000), case when r.custom <> '{}' then own_texts(r.custom) end)) || chr(31);

create function searched_text(r leads) returns text language sql stable parallel safe
  return chr(31) || lower(concat_ws(chr(31),
    left(r.first_name, 1000), left(r.last_name, 1000), left(r.company_name, 1000), left(r.email, 1000),
    left(r.mobile, 1000), left(r.job_title, 1000), left(r.website, 1000), left(r.city, 1000),
    left(r.state, 1000), left(r.country, 1000), left(r.postal_code, 1000), left(r.origin, 1000),
    r.first_name || ' ' || r.last_name, case when r.custom <> '{}' then own_texts(r.custom) end)) || chr(31);

create function searched_text(r customers) returns text language sql stable parallel safe
  return chr(31) || lower(concat_ws(chr(31),
    left(r.first_name, 1000), left(r.last_name, 1000), left(r.company_name, 1000), left(r.email, 1000),
    left(r.mobile, 1000), left(r.phone, 1000), left(r.job_title, 1000), left(r.website, 1000),
    left(r.city, 1000), left(r.state, 1000), left(r.country, 1000), left(r.postal_code, 1000),
    r.first_name || ' ' || r.last_name, case when r.custom <> '{}' then own_texts(r.custom) end)) || chr(31);

create function searched_text(r deals) returns text language sql stable parallel safe
  return chr(31) || lower(concat_ws(chr(31),
    left(r.name, 1000), left(r.currency_code, 1000), left(r.lost_reason, 1000), left(r.description, 1000),
    case when r.custom <> '{}' then own_texts(r.custom) end)) || chr(31);

create function searched_text(r activities) returns text language sql stable parallel safe
  return chr(31) || lower(concat_ws(chr(31),
    left(r.summary, 1000), left(r.details, 1000), case when r.custom <> '{}' then own_texts(r.custom) end)) || chr(31);

call open_to_purge();

-- So that the planner takes these tables for empty, and not for ten pages, until they are analyzed with rows.
analyze search_changes, search_blocks;
