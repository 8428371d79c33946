-- Cheaper writes of records: the search no longer keeps an index that each write pays for, and orders are kept the way in which rows come.

-- Search. Texts of records lie together in blocks, many to a row, which a job fills behind the writes; a search reads the blocks that can
-- have its part, and the records that wait to be put into one. All of it is read and written under the tenant's own role.

drop function find_records(uuid, boolean, text, text, text[], text[], int, uuid[], text);
do $$
declare source text;
begin
  foreach source in array array['leads', 'customers', 'accounts', 'deals', 'tasks', 'activities', 'custom_records'] loop
    execute format('drop index %I, %I', source || '_search', source || '_search_more');
    execute format('drop policy search on %I', source);
    execute format('revoke select on %I from crm_search', source);
    -- The first also takes what was granted column by column.
    execute format('revoke all (%s) on %I from crm_search',
      (select string_agg(quote_ident(attname), ', ') from pg_attribute where attrelid = source::regclass and attnum > 0 and not attisdropped), source);
  end loop;
end $$;
drop function search_text(text[], text[]);
drop function search_expression(text, boolean);
drop function search_grams_of(uuid, boolean, jsonb, text[]);
drop function search_grams(uuid, boolean, text[]);
drop function search_grams_in(text, text, text[], bigint);
drop function search_seed(uuid, boolean);

-- Records whose texts were added, changed or removed since they were put into a block. No key to the company: every write pays for it.
create table search_changes (
  company_id uuid not null,
  test_mode boolean not null,
  object text not null,
  id bigint not null generated always as identity,
  record_id uuid not null,
  -- Until when the text that a block has of it must have gone; null: none has any.
  due_at timestamptz(3),
  primary key (company_id, test_mode, object, id)
);

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

-- What 32 blocks can have, from block 32 * number on: a word of 32 bits for each place, a bit for each block (db/reports/signature.ts).
create table search_signatures (
  company_id uuid not null references companies (id) on delete cascade,
  test_mode boolean not null,
  object text not null,
  number int not null,
  words bytea not null,
  primary key (company_id, test_mode, object, number)
);
-- A search reads a few words of each.
alter table search_signatures alter column words set storage external;

create function own_texts(custom jsonb) returns text language sql immutable parallel safe
return (select string_agg(left(value #>> '{}', 1000), chr(31)) from jsonb_each(custom) where jsonb_typeof(value) = 'string');

-- All texts of a record that a search may look at, of each field the first 1,000 characters; one function for each table, made of its fields.
-- The triggers note what changes these texts. Added rows are noted together, since they come by the hundred.
create function note_added_texts() returns trigger language plpgsql as $$
begin
  if tg_argv[0] = 'custom_records' then
    insert into search_changes (company_id, test_mode, object, record_id) select company_id, test_mode, object, id from added;
  else
    insert into search_changes (company_id, test_mode, object, record_id) select company_id, test_mode, tg_argv[0], id from added;
  end if;
  return null;
end $$;

create function note_changed_text() returns trigger language plpgsql as $$
declare
  object text := tg_argv[0];
begin
  if object = 'custom_records' then object := new.object; end if;
  insert into search_changes (company_id, test_mode, object, record_id, due_at)
  values (new.company_id, new.test_mode, object, new.id, now() + interval '1 hour');
  return null;
end $$;

-- Where the company itself goes, its blocks go too.
create function note_removed_texts() returns trigger language plpgsql as $$
begin
  if tg_argv[0] = 'custom_records' then
    insert into search_changes (company_id, test_mode, object, record_id, due_at)
    select r.company_id, r.test_mode, r.object, r.id, now() from removed r join companies c on c.id = r.company_id;
  else
    insert into search_changes (company_id, test_mode, object, record_id, due_at)
    select r.company_id, r.test_mode, tg_argv[0], r.id, now() from removed r join companies c on c.id = r.company_id;
  end if;
  return null;
end $$;

do $$
declare
  source text;
  fields text[];
begin
  foreach source in array array['leads', 'customers', 'accounts', 'deals', 'tasks', 'activities', 'custom_records'] loop
    fields := search_fields(source) || search_more_fields(source);
    execute format('create function searched_text(r %I) returns text language sql stable parallel safe
      return chr(31) || lower(concat_ws(chr(31), %scase when r.custom <> ''{}'' then own_texts(r.custom) end)) || chr(31)',
      source, (select string_agg(format('left(r.%I, 1000), ', field), '') from unnest(fields) field));
    execute format('create trigger note_added_texts after insert on %I referencing new table as added
      for each statement execute function note_added_texts(%L)', source, source);
    execute format('create trigger note_changed_text after update on %I for each row when (%s) execute function note_changed_text(%L)', source,
      (select string_agg(format('old.%1$I is distinct from new.%1$I', field), ' or ') from unnest(fields || array['custom']) field), source);
    execute format('create trigger note_removed_texts after delete on %I referencing old table as removed
      for each statement execute function note_removed_texts(%L)', source, source);
    -- The job puts into blocks what there is. The owner of the tables need not be above row-level security.
    execute format('alter table %I no force row level security', source);
    execute format('insert into search_changes (company_id, test_mode, object, record_id) select company_id, test_mode, %s, id from %I order by created_at, id',
      case source when 'custom_records' then 'object' else quote_literal(source) end, source);
    execute format('alter table %I force row level security', source);
  end loop;
end $$;
drop function search_fields(text);
drop function search_more_fields(text);

do $$
declare name text;
begin
  foreach name in array array['search_changes', 'search_blocks', 'search_signatures'] loop
    execute format('alter table %I enable row level security', name);
    execute format('alter table %I force row level security', name);
    execute format('create policy tenant on %I to crm_app using (company_id = current_company() and test_mode = current_test_mode())
      with check (company_id = current_company() and test_mode = current_test_mode())', name);
  end loop;
end $$;
grant select, insert, delete on search_changes to crm_app;
grant select, insert, update on search_blocks to crm_app;
grant select, insert on search_signatures to crm_app;
-- The platform role finds where changes wait; which records they are of it does not see.
create policy platform on search_changes for select to crm_platform using (true);
grant select (company_id, test_mode, object, id, due_at) on search_changes to crm_platform;


-- Lists are read backwards from the newest, so that rows, which come in the order of time, are put at the end of an index and fill its pages.
-- Who has no record of an object assigned pays nothing for those who have.
do $$
declare listed record;
begin
  for listed in
    select indexname as name, indexdef as definition from pg_indexes
    where schemaname = 'public' and indexdef like '% DESC%'
      and tablename in ('leads', 'customers', 'accounts', 'deals', 'tasks', 'activities', 'custom_records')
  loop
    execute format('drop index %I', listed.name);
    execute replace(listed.definition, ' DESC', '') || case when listed.name like '%\_assigned' then ' where assigned_to is not null' else '' end;
  end loop;
end $$;

-- The function that keeps the hashes of the tenants' own fields is only called where there are any.
do $$
declare source text;
begin
  foreach source in array array['leads', 'customers', 'accounts', 'deals', 'tasks', 'activities', 'custom_records'] loop
    execute format('drop trigger %I on %I', source || '_custom_values', source);
    execute format('create trigger %I after insert on %I for each row when (new.custom <> ''{}'') execute function keep_custom_value_hashes()',
      source || '_custom_values', source);
    execute format('create trigger %I after delete on %I for each row when (old.custom <> ''{}'') execute function keep_custom_value_hashes()',
      source || '_removed_custom_values', source);
  end loop;
end $$;
