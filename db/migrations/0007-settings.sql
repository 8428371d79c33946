-- Settings: indexes, so that counting who uses an item of a list, and looking for duplicates by any field, never reads a whole tenant.

create index customers_of_source on customers (company_id, source_id) where source_id is not null;

-- Texts that may be longer than an index takes are looked up by their hash; whoever asks compares the text too.
alter table leads
  add column website_hash bigint generated always as (hashtextextended(website, 0)) stored,
  add column inquiry_details_hash bigint generated always as (hashtextextended(inquiry_details, 0)) stored,
  add column notes_hash bigint generated always as (hashtextextended(notes, 0)) stored;
alter table deals
  add column lost_reason_hash bigint generated always as (hashtextextended(lost_reason, 0)) stored,
  add column description_hash bigint generated always as (hashtextextended(description, 0)) stored;

-- One index for each field that new records may be compared by and that has none yet. Row-level security lets only comparisons that
-- leak nothing use an index; plain equality of these types is one. Records without the value cost nothing.
do $$
declare
  field text[];
begin
  foreach field slice 1 in array array[
    ['leads', 'first_name'], ['leads', 'last_name'], ['leads', 'company_name'], ['leads', 'job_title'], ['leads', 'website_hash'],
    ['leads', 'city'], ['leads', 'state'], ['leads', 'country'], ['leads', 'postal_code'], ['leads', 'inquiry_details_hash'],
    ['leads', 'notes_hash'], ['leads', 'priority'], ['leads', 'origin'],
    ['deals', 'name'], ['deals', 'amount_minor'], ['deals', 'currency_code'], ['deals', 'probability'], ['deals', 'expected_close_date'],
    ['deals', 'priority'], ['deals', 'lost_reason_hash'], ['deals', 'description_hash']]
  loop
    execute format('create index %I on %I (company_id, test_mode, %I) where %I is not null', field[1] || '_same_' || field[2], field[1], field[2], field[2]);
  end loop;
end $$;

-- What leads and deals have in the tenant's own fields, one row for each value, since no index that row-level security lets be used
-- looks into a document. Field and value are one hash;
-- whoever asks compares the value too.
create table custom_value_hashes (
  company_id uuid not null,
  test_mode boolean not null,
  hash bigint not null,
  record_id uuid not null,
  primary key (company_id, test_mode, hash, record_id)
);
alter table custom_value_hashes enable row level security;
alter table custom_value_hashes force row level security;
create policy tenant on custom_value_hashes to crm_app using (company_id = current_company() and test_mode = current_test_mode())
  with check (company_id = current_company() and test_mode = current_test_mode());
grant select, insert, delete on custom_value_hashes to crm_app;

create function custom_value_hash(object text, field text, value text) returns bigint language sql immutable parallel safe
  return hashtextextended(object || '.' || field || '=' || value, 0);

create function keep_custom_value_hashes() returns trigger language plpgsql as $$
begin
  if tg_op <> 'INSERT' and old.custom <> '{}' then
    delete from custom_value_hashes
    where company_id = old.company_id and test_mode = old.test_mode and record_id = old.id
      and hash in (select custom_value_hash(tg_table_name, key, value) from jsonb_each_text(old.custom));
  end if;
  if tg_op <> 'DELETE' and new.custom <> '{}' then
    insert into custom_value_hashes (company_id, test_mode, hash, record_id)
    select new.company_id, new.test_mode, custom_value_hash(tg_table_name, key, value), new.id
    from jsonb_each_text(new.custom)
    where value is not null;
  end if;
  return null;
end $$;

do $$
declare
  object text;
begin
  foreach object in array array['leads', 'deals'] loop
    execute format('create trigger %I after insert or delete on %I for each row execute function keep_custom_value_hashes()', object || '_custom_values', object);
    execute format('create trigger %I after update of custom on %I for each row when (old.custom is distinct from new.custom)
      execute function keep_custom_value_hashes()', object || '_changed_custom_values', object);
    execute format('insert into custom_value_hashes
      select r.company_id, r.test_mode, custom_value_hash(%L, value.key, value.value), r.id
      from %I r, jsonb_each_text(r.custom) value
      where value.value is not null', object, object);
  end loop;
end $$;
