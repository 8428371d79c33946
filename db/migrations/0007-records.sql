-- Tables for records of all objects, their events, custom records and tasks.
--
-- Indexes of tables of records:
-- - Lists are read backward from the newest row, so that rows, which arrive in the order of time, are appended to an
--   index and fill its pages.
-- - _assigned, _in_name_of and _of_key find the records that a caller with a limited visibility can see: by assignee,
--   or if no user is assigned, by their creator. _of_key is short instead of sorted, because keys create many
--   records and few keys have a limited visibility.
-- - _of_creator has the records of each creator in order. _of_updater is short, because a record changes its place in it
--   with each change, and few actors change many records: 8 bytes instead of 177 for each record.
-- - _by_<field> serves equality, ranges and sorting by that field. Text is sorted by its bytes. Records without the
--   value are not in the index.
-- - _same_<field>_hash serves duplicate checks.
--
-- Records have no foreign key to their company. PostgreSQL would lock the company's row for every record that is
-- added, and all writers of a tenant would meet there: that costs a tenth of their throughput. Row-level security
-- rejects a company that does not exist, and a sweep removes rows that were written while a company was being removed.

-- Where the hashes of a custom field begin: its values are next to each other in an index. `object` is the API's name.
create function custom_field_hash(object text, field text) returns bigint language sql immutable parallel safe
  return hashtextextended(object || '.' || field, 0) & -281474976710656;

-- The hash of a value of a custom field: 16 bits of the field, then 48 bits of both.
create function custom_value_hash(object text, field text, value text) returns bigint language sql immutable parallel safe
  return custom_field_hash(object, field) | (hashtextextended(object || '.' || field || '=' || value, 0) & 281474976710655);

-- The lock of an object's unique fields. Transactions that write custom values share it; a field
-- that becomes unique takes it alone, so that no value is written during its check.
create function unique_fields_lock(company_id uuid, object text) returns bigint language sql immutable parallel safe
  return hashtextextended('unique fields ' || company_id || ' ' || object, 0);

-- Values of custom fields, one row for each, because row-level security allows no index on a document to be used.
-- Field and value are one hash; a query compares the value too.
create table custom_value_hashes (
  company_id uuid not null,
  test_mode boolean not null,
  hash bigint not null,
  record_id uuid not null,
  primary key (company_id, test_mode, hash, record_id)
);
alter table custom_value_hashes alter column company_id set (n_distinct = 100);
alter table custom_value_hashes enable row level security, force row level security;
create policy tenant on custom_value_hashes to crm_app
  using (company_id = current_company() and test_mode = current_test_mode())
  with check (company_id = current_company() and test_mode = current_test_mode());
grant select, insert, delete on custom_value_hashes to crm_app;

-- Keeps custom_value_hashes equal to the column custom of a table of records, and rejects values of
-- unique fields that the transaction has not checked: it began before the field became unique, and
-- is retried. Its triggers call it only if there are custom values. The argument is the object.
create function keep_custom_value_hashes() returns trigger language plpgsql as $$
declare
  source text := tg_argv[0];
begin
  if tg_op <> 'INSERT' and old.custom <> '{}' then
    if tg_argv[0] = 'custom_records' then source := old.object; end if;
    delete from custom_value_hashes
    where company_id = old.company_id and test_mode = old.test_mode and record_id = old.id
      and hash in (select custom_value_hash(source, key, value) from jsonb_each_text(old.custom));
  end if;
  if tg_op <> 'DELETE' and new.custom <> '{}' then
    if tg_argv[0] = 'custom_records' then source := new.object; end if;
    perform pg_advisory_xact_lock_shared(unique_fields_lock(new.company_id, source));
    -- A separate statement: it must see what the lock's last holder committed.
    if exists (
      select from custom_fields f
      where f.company_id = new.company_id and f.object = source and f.is_unique
        and new.custom ? f.name and new.custom -> f.name is distinct from old.custom -> f.name
        and position(' ' || source || '.' || f.name || ' ' in coalesce(current_setting('app.checked_unique_fields', true), '')) = 0
    ) then
      raise exception 'a field of the record has become unique' using errcode = 'CK003';
    end if;
    insert into custom_value_hashes (company_id, test_mode, hash, record_id)
    select new.company_id, new.test_mode, custom_value_hash(source, key, value), new.id
    from jsonb_each_text(new.custom)
    where value is not null;
  end if;
  return null;
end $$;

-- The next three add to search_changes (0009-reports.sql) the records whose texts changed. The argument is the object.
-- Added rows are noted together, because they come by the hundred.
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

-- If the company itself is deleted, its blocks are too.
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

-- Records of custom objects.
create table custom_records (
  company_id uuid not null,
  test_mode boolean not null,
  object text not null,
  id uuid not null,
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
  primary key (company_id, test_mode, object, id)
);
alter table custom_records alter column company_id set (n_distinct = 100);
-- Lists.
create index custom_records_created on custom_records (company_id, test_mode, object, created_at, id);
create index custom_records_updated on custom_records (company_id, test_mode, object, updated_at, id);
-- Records that a caller with a limited visibility can see.
create index custom_records_in_name_of on custom_records (company_id, test_mode, object, created_by_user, created_at,
  id)
  where created_by_user is not null;
create index custom_records_of_creator
  on custom_records (company_id, test_mode, object, created_by_id collate "C", created_at, id);
create index custom_records_of_key on custom_records (company_id, test_mode, object, created_by_id)
  where created_by_kind = 'api_key' and created_by_user is null;
create index custom_records_of_updater on custom_records (company_id, test_mode, object, updated_by_id collate "C")
  where updated_by_id is not null;
alter table custom_records enable row level security, force row level security;
create policy tenant on custom_records to crm_app
  using (company_id = current_company() and test_mode = current_test_mode())
  with check (company_id = current_company() and test_mode = current_test_mode());
grant select, insert, update, delete on custom_records to crm_app;
create trigger custom_records_changed_custom_values after update of custom on custom_records for each row
  when (old.custom is distinct from new.custom)
  execute function keep_custom_value_hashes('custom_records');
create trigger custom_records_custom_values after insert on custom_records for each row
  when (new.custom <> '{}')
  execute function keep_custom_value_hashes('custom_records');
create trigger custom_records_removed_custom_values after delete on custom_records for each row
  when (old.custom <> '{}')
  execute function keep_custom_value_hashes('custom_records');
create trigger note_added_texts after insert on custom_records referencing new table as added for each statement
  execute function note_added_texts('custom_records');
create trigger note_changed_text after update on custom_records for each row
  when (old.custom is distinct from new.custom)
  execute function note_changed_text('custom_records');
create trigger note_removed_texts after delete on custom_records referencing old table as removed for each statement
  execute function note_removed_texts('custom_records');

-- Tasks, on a record or on their own.
create table tasks (
  company_id uuid not null,
  test_mode boolean not null,
  id uuid not null,
  title text,
  description text,
  task_type_id uuid,
  status text not null default 'open',
  priority int,
  scheduled_at timestamptz(3),
  object text,
  record_id uuid,
  assigned_to uuid,
  completed_at timestamptz(3),
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
  foreign key (company_id, task_type_id) references task_types (company_id, id),
  foreign key (company_id, assigned_to) references users (company_id, id)
);
alter table tasks alter column company_id set (n_distinct = 100);
-- Lists.
create index tasks_created on tasks (company_id, test_mode, created_at, id);
create index tasks_updated on tasks (company_id, test_mode, updated_at, id);
-- Records that a caller with a limited visibility can see.
create index tasks_assigned on tasks (company_id, test_mode, assigned_to, created_at, id) where assigned_to is not null;
create index tasks_in_name_of on tasks (company_id, test_mode, created_by_user, created_at, id)
  where assigned_to is null and created_by_user is not null;
create index tasks_of_creator on tasks (company_id, test_mode, created_by_id collate "C", created_at, id);
create index tasks_of_key on tasks (company_id, test_mode, created_by_id)
  where assigned_to is null and created_by_kind = 'api_key' and created_by_user is null;
create index tasks_of_updater on tasks (company_id, test_mode, updated_by_id collate "C")
  where updated_by_id is not null;
-- Records by what they refer to.
create index tasks_of_record on tasks (company_id, test_mode, object, record_id, created_at, id);
-- Filters and sorting by a field.
create index tasks_by_completed_at on tasks (company_id, test_mode, completed_at, id) where completed_at is not null;
create index tasks_by_priority on tasks (company_id, test_mode, priority, id) where priority is not null;
create index tasks_by_record_id on tasks (company_id, test_mode, record_id, id) where record_id is not null;
create index tasks_by_scheduled_at on tasks (company_id, test_mode, scheduled_at, id) where scheduled_at is not null;
create index tasks_by_status on tasks (company_id, test_mode, status collate "C", id);
create index tasks_by_task_type_id on tasks (company_id, test_mode, task_type_id, id) where task_type_id is not null;
create index tasks_by_title on tasks (company_id, test_mode, title collate "C", id) where title is not null;
alter table tasks enable row level security, force row level security;
create policy tenant on tasks to crm_app
  using (company_id = current_company() and test_mode = current_test_mode())
  with check (company_id = current_company() and test_mode = current_test_mode());
grant select, insert, update, delete on tasks to crm_app;
create trigger note_added_texts after insert on tasks referencing new table as added for each statement
  execute function note_added_texts('tasks');
create trigger note_changed_text after update on tasks for each row
  when (old.title is distinct from new.title or old.description is distinct from new.description
    or old.object is distinct from new.object or old.custom is distinct from new.custom)
  execute function note_changed_text('tasks');
create trigger note_removed_texts after delete on tasks referencing old table as removed for each statement
  execute function note_removed_texts('tasks');
create trigger tasks_changed_custom_values after update of custom on tasks for each row
  when (old.custom is distinct from new.custom)
  execute function keep_custom_value_hashes('tasks');
create trigger tasks_custom_values after insert on tasks for each row
  when (new.custom <> '{}')
  execute function keep_custom_value_hashes('tasks');
create trigger tasks_removed_custom_values after delete on tasks for each row
  when (old.custom <> '{}')
  execute function keep_custom_value_hashes('tasks');

-- Tags of records.
create table record_tags (
  company_id uuid not null,
  test_mode boolean not null,
  object text not null,
  record_id uuid not null,
  tag_id uuid not null,
  -- False for tags that conditions applied.
  is_manual boolean not null,
  primary key (company_id, test_mode, object, record_id, tag_id),
  foreign key (company_id, tag_id) references tags (company_id, id) on delete cascade
);
-- Finds the records of a tag, for filters and when the tag is deleted.
create index record_tags_of_tag on record_tags (company_id, tag_id, test_mode, record_id);
alter table record_tags alter column company_id set (n_distinct = 100);
alter table record_tags enable row level security, force row level security;
create policy tenant on record_tags to crm_app
  using (company_id = current_company() and test_mode = current_test_mode())
  with check (company_id = current_company() and test_mode = current_test_mode());
grant select, insert, update, delete on record_tags to crm_app;

-- Notes on records.
create table notes (
  company_id uuid not null references companies (id) on delete cascade,
  test_mode boolean not null,
  id uuid not null,
  object text not null,
  record_id uuid not null,
  content text not null,
  created_by_kind text not null,
  created_by_id text not null,
  created_by_name text,
  created_by_user uuid,
  created_at timestamptz(3) not null,
  updated_at timestamptz(3) not null,
  primary key (company_id, test_mode, id)
);
alter table notes alter column company_id set (n_distinct = 100);
create index notes_of_creator on notes (company_id, test_mode, created_by_id, object, created_at desc, id desc);
create index notes_of_object on notes (company_id, test_mode, object, created_at desc, id desc);
create index notes_of_record on notes (company_id, test_mode, object, record_id, created_at desc, id desc);
alter table notes enable row level security, force row level security;
create policy tenant on notes to crm_app
  using (company_id = current_company() and test_mode = current_test_mode())
  with check (company_id = current_company() and test_mode = current_test_mode());
grant select, insert, update, delete on notes to crm_app;

-- Links between records, of the workspace's own link types.
create table links (
  company_id uuid not null references companies (id) on delete cascade,
  test_mode boolean not null,
  id uuid not null,
  link_type_id uuid not null,
  -- The objects and the cardinality are those of the type, which never change: for deletions by record, and for the indexes.
  from_object text not null,
  from_id uuid not null,
  to_object text not null,
  to_id uuid not null,
  cardinality text not null,
  created_by_kind text not null,
  created_by_id text not null,
  created_by_name text,
  created_by_user uuid,
  created_at timestamptz(3) not null,
  primary key (company_id, test_mode, id),
  foreign key (company_id, link_type_id) references link_types (company_id, id)
);
alter table links alter column company_id set (n_distinct = 100);
-- A pair of records is linked once by a type.
create unique index links_pair on links (company_id, test_mode, link_type_id, from_id, to_id);
-- The cardinality, which concurrent writers cannot exceed.
create unique index links_one_from on links (company_id, test_mode, link_type_id, to_id)
  where cardinality in ('one_to_one', 'one_to_many');
create unique index links_one_to on links (company_id, test_mode, link_type_id, from_id)
  where cardinality = 'one_to_one';
-- The links of a record, newest first.
create index links_of_from on links (company_id, test_mode, from_id, link_type_id, created_at desc, id desc);
create index links_of_to on links (company_id, test_mode, to_id, link_type_id, created_at desc, id desc);
alter table links enable row level security, force row level security;
create policy tenant on links to crm_app
  using (company_id = current_company() and test_mode = current_test_mode())
  with check (company_id = current_company() and test_mode = current_test_mode());
grant select, insert, update (from_id, to_id), delete on links to crm_app;

-- Files in the storage. A row is committed before its file is stored, so that every file has a row.
-- No key to the company: the list of files outlives a deleted tenant.
create table stored_files (
  company_id uuid not null,
  test_mode boolean not null,
  id uuid not null,
  -- When the sweep may remove the file; null while something refers to it.
  remove_after timestamptz(3),
  primary key (company_id, test_mode, id)
);
-- Files that the sweep may remove.
create index stored_files_to_remove on stored_files (remove_after) where remove_after is not null;
alter table stored_files enable row level security, force row level security;
create policy tenant on stored_files to crm_app
  using (company_id = current_company() and test_mode = current_test_mode())
  with check (company_id = current_company() and test_mode = current_test_mode());
create policy platform on stored_files to crm_platform using (true) with check (true);
grant select, insert, update on stored_files to crm_app;
grant select, update, delete on stored_files to crm_platform;

-- Deleted records, in the trash for 30 days. Nothing but the trash reads this table and deleted_items, so that no query
-- of living records knows of them.
create table deleted_records (
  company_id uuid not null,
  test_mode boolean not null,
  object text not null,
  id uuid not null,
  -- The row as it was, by the names of its columns. A migration that changes a table of records changes these too.
  document jsonb not null,
  -- How many items of each kind were deleted with it.
  children jsonb not null,
  deleted_at timestamptz(3) not null,
  deleted_by_kind text not null,
  deleted_by_id text not null,
  deleted_by_name text,
  -- When the job removes it for good.
  purge_at timestamptz(3) not null,
  merged_into uuid,
  -- Who could see the record: as in its own table.
  assigned_to uuid,
  created_by_kind text not null,
  created_by_id text not null,
  created_by_user uuid,
  -- Who restored the record: it is no longer in the trash, but a job still restores references to it.
  restored_by jsonb,
  is_restored boolean not null generated always as (restored_by is not null) stored,
  primary key (company_id, test_mode, id)
);
alter table deleted_records alter column company_id set (n_distinct = 100);
-- Lists, also of one actor and of the records that a caller with a limited visibility can see.
create index deleted_records_deleted on deleted_records (company_id, test_mode, object, deleted_at, id);
create index deleted_records_deleted_by on deleted_records (company_id, test_mode, object, deleted_by_id, deleted_at, id);
create index deleted_records_assigned on deleted_records (company_id, test_mode, object, assigned_to, deleted_at, id)
  where assigned_to is not null;
create index deleted_records_in_name_of on deleted_records (company_id, test_mode, object, created_by_user, deleted_at, id)
  where assigned_to is null and created_by_user is not null;
create index deleted_records_of_key on deleted_records (company_id, test_mode, object, created_by_id)
  where assigned_to is null and created_by_kind = 'api_key' and created_by_user is null;
-- Records that the jobs work on.
create index deleted_records_to_purge on deleted_records (purge_at);
-- The same of one test mode, whose clock may be ahead.
create index deleted_records_to_purge_in_test_mode on deleted_records (company_id, purge_at) where test_mode;
create index deleted_records_restored on deleted_records (company_id, test_mode) where is_restored;
alter table deleted_records enable row level security, force row level security;
create policy tenant on deleted_records to crm_app
  using (company_id = current_company() and test_mode = current_test_mode())
  with check (company_id = current_company() and test_mode = current_test_mode());
create policy platform on deleted_records for select to crm_platform using (true);
grant select, insert, update, delete on deleted_records to crm_app;
grant select (company_id, test_mode, purge_at, is_restored) on deleted_records to crm_platform;

-- Rows that were deleted with records: those that belonged to them, and the references of other records to them.
create table deleted_items (
  company_id uuid not null,
  test_mode boolean not null,
  -- The record in deleted_records with which the item is restored or removed. Of a row that a job moved, the merge.
  record_id uuid not null,
  -- The table of the row; `references` for a reference that was cleared; `moved_` and the table for a row that a job moved
  -- to the target of a merge, where it still is.
  kind text not null,
  -- Of the row; of a reference, the record that had it; of a tag, the tag.
  id uuid not null,
  -- The row, as above. Of a reference {object, field}; of a moved one {field}; of another moved row {}.
  document jsonb not null,
  primary key (company_id, test_mode, record_id, kind, id)
);
alter table deleted_items alter column company_id set (n_distinct = 100);
-- Finds the trash that has the file of an attachment, or a task or activity at the other end of a link.
create index deleted_items_of_id on deleted_items (company_id, test_mode, kind, id)
  where kind in ('attachments', 'activities', 'tasks');
alter table deleted_items enable row level security, force row level security;
create policy tenant on deleted_items to crm_app
  using (company_id = current_company() and test_mode = current_test_mode())
  with check (company_id = current_company() and test_mode = current_test_mode());
grant select, insert, update, delete on deleted_items to crm_app;

-- Merges of records. The source of each is in the trash until the merge is undone or its time there is over.
create table merges (
  company_id uuid not null references companies (id) on delete cascade,
  test_mode boolean not null,
  id uuid not null,
  object text not null,
  source_id uuid not null,
  target_id uuid not null,
  -- How many items moved, by kind.
  moved jsonb not null,
  -- The fields in which the records differed; emptied with `undo`.
  fields jsonb not null,
  -- What the undo needs, apart from the rows of deleted_items; null once it was undone or can no longer be undone.
  undo jsonb,
  -- running: a job moves the rest to the target, or back to the source once `undone_at` is set.
  status text not null default 'completed' check (status in ('running', 'completed')),
  -- How many items are still to move, by kind; null if all have moved.
  remaining jsonb,
  -- The caller that merged or undid, whom the audit rows of the job name; the time of the next chunk; failures in a row.
  caused_by jsonb,
  due_at timestamptz(3),
  attempts integer not null default 0,
  undo_until timestamptz(3) not null,
  created_by_kind text not null,
  created_by_id text not null,
  created_by_name text,
  created_by_user uuid,
  created_at timestamptz(3) not null,
  undone_at timestamptz(3),
  primary key (company_id, test_mode, id)
);
alter table merges alter column company_id set (n_distinct = 100);
-- A record is merged once at a time. Also finds the record into which another one was merged.
create unique index merges_standing on merges (company_id, test_mode, source_id) where undone_at is null;
-- Lists, also of one record and of the merges that a caller with a limited visibility can see.
create index merges_created on merges (company_id, test_mode, object, created_at, id);
create index merges_of_source on merges (company_id, test_mode, source_id, created_at, id);
create index merges_of_target on merges (company_id, test_mode, target_id, created_at, id);
create index merges_in_name_of on merges (company_id, test_mode, object, created_by_user, created_at, id)
  where created_by_user is not null;
create index merges_of_key on merges (company_id, test_mode, object, created_by_id)
  where created_by_kind = 'api_key' and created_by_user is null;
-- Merges that are not finished: their records are neither deleted nor merged again.
create index merges_unfinished on merges (company_id, test_mode) where status = 'running';
create index merges_due on merges (due_at) where due_at is not null;
alter table merges enable row level security, force row level security;
create policy tenant on merges to crm_app
  using (company_id = current_company() and test_mode = current_test_mode())
  with check (company_id = current_company() and test_mode = current_test_mode());
create policy platform on merges for select to crm_platform using (true);
grant select, insert, update, delete on merges to crm_app;
grant select (company_id, test_mode, due_at) on merges to crm_platform;

-- However an attachment is deleted, its file is deleted after it, unless the attachment went to the trash.
create function release_stored_file() returns trigger language plpgsql as $$
begin
  update stored_files set remove_after = now()
  where company_id = old.company_id and test_mode = old.test_mode and id = old.file_id
    and not exists (
      select from deleted_items
      where company_id = old.company_id and test_mode = old.test_mode and kind = 'attachments' and id = old.id);
  return null;
end $$;

-- The same for an attachment that leaves the trash, unless it was restored.
create function release_trashed_file() returns trigger language plpgsql as $$
begin
  update stored_files set remove_after = now()
  where company_id = old.company_id and test_mode = old.test_mode and id = (old.document ->> 'file_id')::uuid
    and not exists (
      select from attachments
      where company_id = old.company_id and test_mode = old.test_mode and id = old.id);
  return null;
end $$;

create trigger release_trashed_file after delete on deleted_items for each row
  when (old.kind = 'attachments')
  execute function release_trashed_file();

-- Attachments of records; the file itself is in stored_files.
create table attachments (
  company_id uuid not null references companies (id) on delete cascade,
  test_mode boolean not null,
  id uuid not null,
  object text not null,
  record_id uuid not null,
  file_id uuid not null,
  file_name text not null,
  content_type text not null,
  size_bytes bigint not null,
  sha256 text not null,
  created_by_kind text not null,
  created_by_id text not null,
  created_by_name text,
  created_by_user uuid,
  created_at timestamptz(3) not null,
  primary key (company_id, test_mode, id),
  unique (company_id, test_mode, file_id),
  foreign key (company_id, test_mode, file_id) references stored_files (company_id, test_mode, id)
);
alter table attachments alter column company_id set (n_distinct = 100);
create index attachments_of_record on attachments (company_id, test_mode, object, record_id, created_at desc, id desc);
alter table attachments enable row level security, force row level security;
create policy tenant on attachments to crm_app
  using (company_id = current_company() and test_mode = current_test_mode())
  with check (company_id = current_company() and test_mode = current_test_mode());
create policy platform on attachments for select to crm_platform using (true);
grant select, insert, update, delete on attachments to crm_app;
grant select (company_id, test_mode, id, file_id, file_name, size_bytes) on attachments to crm_platform;
create trigger release_stored_file after delete on attachments for each row execute function release_stored_file();

-- Transactional outbox. Writes append events with their change; the dispatcher moves them to feed_events. Rows come
-- and go: vacuum early, and without the lock on writers that truncating the file would take.
create table outbox_events (
  company_id uuid not null,
  id uuid not null,
  test_mode boolean not null,
  event text not null,
  occurred_at timestamptz(3) not null,
  actor jsonb not null,
  request_id uuid,
  data jsonb not null,
  -- Drawn by the last statement of the writing transaction, after its locks: an event that depends on another change
  -- has a higher number.
  seq bigint not null generated always as identity,
  -- Of updates: the old and the new values.
  changes jsonb,
  -- The owner of the record before the event, if the event changed it. They decide who may still see the event.
  assigned_to uuid,
  created_by_kind text,
  created_by_id text,
  created_by_user uuid,
  primary key (company_id, test_mode, seq)
) with (
  autovacuum_vacuum_scale_factor = 0,
  autovacuum_vacuum_threshold = 2000,
  autovacuum_vacuum_insert_threshold = -1,
  autovacuum_analyze_scale_factor = 0,
  autovacuum_analyze_threshold = 100000,
  vacuum_truncate = false
);
alter table outbox_events enable row level security, force row level security;
create policy tenant on outbox_events to crm_app
  using (company_id = current_company() and test_mode = current_test_mode())
  with check (company_id = current_company() and test_mode = current_test_mode());
create policy platform on outbox_events for select to crm_platform using (true);
grant select, insert, delete on outbox_events to crm_app;
grant select (company_id, test_mode, occurred_at) on outbox_events to crm_platform;

-- The last position of a feed. The row is the lock under which positions are assigned.
create table feeds (
  company_id uuid not null,
  test_mode boolean not null,
  last_position bigint not null default 0,
  primary key (company_id, test_mode)
);
alter table feeds enable row level security, force row level security;
create policy tenant on feeds to crm_app
  using (company_id = current_company() and test_mode = current_test_mode())
  with check (company_id = current_company() and test_mode = current_test_mode());
create policy platform on feeds to crm_platform using (true) with check (true);
grant select, insert, update on feeds to crm_app;
grant select on feeds to crm_platform;

-- Dispatched events by position, kept for 30 days.
create table feed_events (
  company_id uuid not null,
  test_mode boolean not null,
  position bigint not null,
  id uuid not null,
  event text not null,
  object text,
  record_id uuid,
  occurred_at timestamptz(3) not null,
  actor jsonb not null,
  request_id uuid,
  data jsonb not null,
  changes jsonb,
  assigned_to uuid,
  created_by_kind text,
  created_by_id text,
  created_by_user uuid,
  primary key (company_id, test_mode, "position")
);
alter table feed_events alter column company_id set (n_distinct = 100);
-- Finds the events of a request. Changes of the server itself have no request.
create index feed_events_of_request on feed_events (company_id, test_mode, request_id) where request_id is not null;
alter table feed_events enable row level security, force row level security;
create policy tenant on feed_events to crm_app
  using (company_id = current_company() and test_mode = current_test_mode())
  with check (company_id = current_company() and test_mode = current_test_mode());
create policy platform on feed_events to crm_platform using (true) with check (true);
grant select, insert, delete on feed_events to crm_app;
grant select (company_id, test_mode, position, occurred_at), delete on feed_events to crm_platform;

-- Queue: deleted records that other records still refer to. A job clears these references in small transactions.
create table reference_clearings (
  company_id uuid not null references companies (id) on delete cascade,
  test_mode boolean not null,
  object text not null,
  record_id uuid not null,
  -- Who deleted the record, for the audit rows and events of the records that referred to it.
  caused_by jsonb not null,
  created_at timestamptz(3) not null,
  primary key (company_id, test_mode, object, record_id)
);
alter table reference_clearings enable row level security, force row level security;
create policy tenant on reference_clearings to crm_app
  using (company_id = current_company() and test_mode = current_test_mode())
  with check (company_id = current_company() and test_mode = current_test_mode());
create policy platform on reference_clearings for select to crm_platform using (true);
grant select, insert, update (created_at), delete on reference_clearings to crm_app;
grant select (company_id, test_mode) on reference_clearings to crm_platform;

-- Exports. The file itself is in stored_files.
create table exports (
  company_id uuid not null references companies (id) on delete cascade,
  test_mode boolean not null,
  id uuid not null,
  -- The API name of an object, or * for everything.
  object text not null,
  format text not null,
  filter jsonb,
  fields text[],
  spreadsheet_safe boolean not null,
  -- The modules that the caller must be able to view.
  modules text[] not null,
  -- What the caller sees of each object: [{object, reach}].
  sources jsonb not null,
  status text not null default 'queued',
  -- Counts the times it was started. Only the last one may write.
  attempt int not null default 0,
  -- The server that runs it has it until then; afterwards it is due again.
  claimed_until timestamptz(3) not null,
  rows bigint,
  feed_position bigint,
  file_id uuid,
  bytes bigint,
  sha256 text,
  error text,
  created_by_kind text not null,
  created_by_id text not null,
  created_by_name text,
  created_by_user uuid,
  created_at timestamptz(3) not null,
  started_at timestamptz(3),
  completed_at timestamptz(3),
  expires_at timestamptz(3),
  primary key (company_id, test_mode, id),
  unique (company_id, test_mode, file_id),
  foreign key (company_id, test_mode, file_id) references stored_files (company_id, test_mode, id)
);
alter table exports alter column company_id set (n_distinct = 100);
create index exports_created on exports (company_id, test_mode, created_at desc, id desc);
-- One runs at a time.
create unique index exports_running on exports (company_id, test_mode) where status = 'running';
create index exports_unfinished on exports (claimed_until) where status in ('queued', 'running');
create index exports_to_expire on exports (expires_at) where status = 'completed';
create index exports_to_delete on exports (created_at);
alter table exports enable row level security, force row level security;
create policy tenant on exports to crm_app
  using (company_id = current_company() and test_mode = current_test_mode())
  with check (company_id = current_company() and test_mode = current_test_mode());
create policy platform on exports to crm_platform using (true) with check (true);
grant select, insert, update, delete on exports to crm_app;
grant select (company_id, test_mode, id, object, format, status, file_id, bytes, claimed_until, created_at, expires_at),
  update (status, file_id), delete on exports to crm_platform;

-- Marks the file of a deleted row for removal. For exports and parts of imports, which do not go to the trash.
create function release_owned_file() returns trigger language plpgsql as $$
begin
  update stored_files set remove_after = now()
  where company_id = old.company_id and test_mode = old.test_mode and id = old.file_id;
  return null;
end $$;
create trigger release_deleted after delete on exports
  for each row when (old.file_id is not null) execute function release_owned_file();
create trigger release_expired after update of file_id on exports
  for each row when (old.file_id is not null and new.file_id is null) execute function release_owned_file();

-- Imports of records from files. The job that runs an import moves its position and counts in the transaction that
-- writes the rows, so that an interrupted import resumes at its position.
create table imports (
  company_id uuid not null references companies (id) on delete cascade,
  test_mode boolean not null,
  id uuid not null,
  object text not null,
  options jsonb not null,
  dry_run boolean not null,
  status text not null,
  file_name text,
  -- How the file is read and its columns are mapped; null before the start.
  layout jsonb,
  -- Where the next row begins, in bytes of the file as UTF-8, and its number and line.
  next_byte bigint not null default 0,
  next_row int not null default 1,
  next_line int not null default 1,
  file_rows int,
  created int not null default 0,
  updated int not null default 0,
  unchanged int not null default 0,
  failed int not null default 0,
  -- Rows that were charged to the quota.
  charged_rows int not null default 0,
  -- Consecutive failures of a chunk.
  attempts int not null default 0,
  error jsonb,
  -- The file of failed rows; null before the end, or if no row failed.
  errors_file_id uuid,
  errors_bytes bigint,
  reach_kind text not null,
  reach_id uuid,
  created_by_kind text not null,
  created_by_id text not null,
  created_by_name text,
  created_by_user uuid,
  -- The status that it had before its undo began.
  status_before_undo text,
  -- When the job may take it. While it runs, its lease; null if there is nothing to do.
  due_at timestamptz(3),
  -- When the files may be removed, after the end or if it was never started.
  expires_at timestamptz(3),
  started_at timestamptz(3),
  completed_at timestamptz(3),
  created_at timestamptz(3) not null,
  primary key (company_id, test_mode, id),
  foreign key (company_id, test_mode, errors_file_id) references stored_files (company_id, test_mode, id)
);
create index imports_newest on imports (company_id, test_mode, created_at desc, id desc);
create index imports_of_creator on imports (company_id, test_mode, created_by_id, created_at desc, id desc);
create index imports_with_status on imports (company_id, test_mode, status, created_at desc, id desc);
create index imports_due on imports (due_at) where due_at is not null;
create index imports_expired on imports (expires_at) where expires_at is not null;
alter table imports enable row level security, force row level security;
create policy tenant on imports to crm_app
  using (company_id = current_company() and test_mode = current_test_mode())
  with check (company_id = current_company() and test_mode = current_test_mode());
create policy platform on imports to crm_platform using (true) with check (true);
grant select, insert, update, delete on imports to crm_app;
grant select (company_id, test_mode, id, status, charged_rows, errors_file_id, due_at, expires_at), delete on imports to crm_platform;
grant update (charged_rows, expires_at, errors_file_id, errors_bytes) on imports to crm_platform;

-- However an import is deleted, its file of failed rows is deleted after it.
create function release_errors_file() returns trigger language plpgsql as $$
begin
  update stored_files set remove_after = now()
  where company_id = old.company_id and test_mode = old.test_mode and id = old.errors_file_id;
  return null;
end $$;
create trigger release_errors_file after delete on imports for each row execute function release_errors_file();

-- The parts of the file of an import.
create table import_parts (
  company_id uuid not null,
  test_mode boolean not null,
  import_id uuid not null,
  number int not null,
  file_id uuid not null,
  bytes bigint not null,
  sha256 text not null,
  primary key (company_id, test_mode, import_id, number),
  foreign key (company_id, test_mode, import_id) references imports (company_id, test_mode, id) on delete cascade,
  foreign key (company_id, test_mode, file_id) references stored_files (company_id, test_mode, id)
);
alter table import_parts enable row level security, force row level security;
create policy tenant on import_parts to crm_app
  using (company_id = current_company() and test_mode = current_test_mode())
  with check (company_id = current_company() and test_mode = current_test_mode());
create policy platform on import_parts to crm_platform using (true);
grant select, insert, update, delete on import_parts to crm_app;
grant select, delete on import_parts to crm_platform;
create trigger release_owned_file after delete on import_parts for each row execute function release_owned_file();

-- The rows of imports that failed.
create table import_errors (
  company_id uuid not null,
  test_mode boolean not null,
  import_id uuid not null,
  row int not null,
  line int not null,
  code text not null,
  message text not null,
  fields jsonb not null,
  -- The cells of a CSV row as an array, the object of an NDJSON line, or the text of a line that cannot be read.
  content jsonb not null,
  primary key (company_id, test_mode, import_id, row),
  foreign key (company_id, test_mode, import_id) references imports (company_id, test_mode, id) on delete cascade
);
alter table import_errors enable row level security, force row level security;
create policy tenant on import_errors to crm_app
  using (company_id = current_company() and test_mode = current_test_mode())
  with check (company_id = current_company() and test_mode = current_test_mode());
create policy platform on import_errors to crm_platform using (true);
grant select, insert, delete on import_errors to crm_app;
grant select (company_id, test_mode, import_id, row), delete on import_errors to crm_platform;

-- Reverts of operations: first planned, then applied. A job moves the position in the transaction that reverts the
-- records, so that an interrupted revert resumes at its position.
create table reverts (
  company_id uuid not null references companies (id) on delete cascade,
  test_mode boolean not null,
  id uuid not null,
  status text not null,
  -- The operations: of a request, an import or a revert, or of an actor in a time.
  source jsonb not null,
  objects text[],
  phase text not null default 'read',
  -- The last audit row that was read.
  read_at timestamptz(3),
  read_id uuid,
  -- The last item that was checked and, once the revert is applied, reverted.
  next_step smallint not null default 0,
  next_object text not null default '',
  next_record uuid,
  records int not null default 0,
  operations int not null default 0,
  pending int not null default 0,
  done int not null default 0,
  reverted int not null default 0,
  skipped int not null default 0,
  conflict_count int not null default 0,
  -- The first conflicts.
  conflicts jsonb not null default '[]',
  -- The scopes that applying it takes.
  scopes text[] not null default '{}',
  digest text not null,
  on_conflict text,
  -- The module whose scope allows it: that of reverts, or that of imports for the undo of one.
  module text not null,
  applied_by jsonb,
  error jsonb,
  -- Consecutive failures of a chunk.
  attempts int not null default 0,
  reach_kind text not null,
  reach_id uuid,
  created_by_kind text not null,
  created_by_id text not null,
  created_by_name text,
  created_by_user uuid,
  expires_at timestamptz(3),
  -- When the items may be removed, after the end or the expiration.
  items_until timestamptz(3),
  -- When the job may take it. While it runs, its lease; null if there is nothing to do.
  due_at timestamptz(3),
  started_at timestamptz(3),
  completed_at timestamptz(3),
  created_at timestamptz(3) not null,
  primary key (company_id, test_mode, id)
);
alter table reverts alter column company_id set (n_distinct = 100);
create index reverts_newest on reverts (company_id, test_mode, created_at desc, id desc);
create index reverts_active on reverts (company_id, test_mode) where due_at is not null;
create index reverts_due on reverts (due_at) where due_at is not null;
create index reverts_ended on reverts (items_until) where items_until is not null;
alter table reverts enable row level security, force row level security;
create policy tenant on reverts to crm_app
  using (company_id = current_company() and test_mode = current_test_mode())
  with check (company_id = current_company() and test_mode = current_test_mode());
create policy platform on reverts to crm_platform using (true) with check (true);
grant select, insert, update, delete on reverts to crm_app;
grant select (company_id, test_mode, id, status, due_at, items_until), update (status, items_until), delete on reverts to crm_platform;

-- What the operations of a revert did to each record, all together.
create table revert_items (
  company_id uuid not null,
  test_mode boolean not null,
  revert_id uuid not null,
  object text not null,
  record_id uuid not null,
  operations int not null,
  -- Null if the operations neither created nor deleted the record.
  existed_before boolean,
  exists_after boolean,
  first_at timestamptz(3) not null,
  last_at timestamptz(3) not null,
  -- By field: the value before, and the one that the operations left.
  fields jsonb not null,
  -- When it is reverted, among the others; null if the plan leaves the record as it is.
  step smallint,
  conflicts jsonb not null default '[]',
  primary key (company_id, test_mode, revert_id, object, record_id),
  foreign key (company_id, test_mode, revert_id) references reverts (company_id, test_mode, id) on delete cascade
);
create index revert_items_in_order on revert_items (company_id, test_mode, revert_id, step, object, record_id)
  where step is not null;
alter table revert_items enable row level security, force row level security;
create policy tenant on revert_items to crm_app
  using (company_id = current_company() and test_mode = current_test_mode())
  with check (company_id = current_company() and test_mode = current_test_mode());
create policy platform on revert_items to crm_platform using (true);
grant select, insert, update, delete on revert_items to crm_app;
grant select (company_id, test_mode, revert_id, object, record_id), delete on revert_items to crm_platform;

-- Writes that were tried out, and wait until a person decides about them.
create table change_sets (
  company_id uuid not null references companies (id) on delete cascade,
  test_mode boolean not null,
  id uuid not null,
  status text not null,
  title text not null,
  reason text,
  atomic boolean not null,
  -- Each with what the trial found: the data before and after, and the version of its target.
  operations jsonb not null,
  operation_count int not null,
  -- Modules that the operations need.
  modules text[] not null,
  digest text not null,
  -- The same for the same proposal of a credential; null for sets that were put together on purpose.
  proposal_digest text,
  created_by_kind text not null,
  created_by_id text not null,
  created_by_name text,
  created_by_user uuid,
  decided_by_id text,
  decided_by_name text,
  decided_at timestamptz(3),
  rejection_reason text,
  -- The call that applied the operations.
  request_id uuid,
  error jsonb,
  expires_at timestamptz(3) not null,
  created_at timestamptz(3) not null,
  primary key (company_id, test_mode, id)
);
alter table change_sets alter column company_id set (n_distinct = 100);
create index change_sets_newest on change_sets (company_id, test_mode, created_at desc, id desc);
create index change_sets_by_status on change_sets (company_id, test_mode, status, created_at desc, id desc);
create index change_sets_due on change_sets (expires_at) where status = 'pending';
-- One pending set for the same proposal of a credential, and the pending sets of each.
create unique index change_sets_same on change_sets (company_id, test_mode, created_by_id, created_by_user, proposal_digest)
  nulls not distinct where status = 'pending' and proposal_digest is not null;
create index change_sets_pending on change_sets (company_id, test_mode, created_by_id, created_by_user) where status = 'pending';
create index change_sets_old on change_sets (expires_at) where status <> 'pending';
alter table change_sets enable row level security, force row level security;
create policy tenant on change_sets to crm_app
  using (company_id = current_company() and test_mode = current_test_mode())
  with check (company_id = current_company() and test_mode = current_test_mode());
create policy platform on change_sets to crm_platform using (true);
grant select, insert, update, delete on change_sets to crm_app;
grant select (company_id, test_mode, id, status, created_by_id, created_by_user, expires_at), delete on change_sets to crm_platform;

-- The lookup of a key reads whether a change set of it waits. Raises the version of the credentials if the first set of a
-- key starts to wait, or the last one no longer does. The lock, at commit, lets concurrent transactions see each other's sets.
create function raise_version_of_proposer() returns trigger language plpgsql as $$
declare
  others_wait boolean;
begin
  execute 'select from credential_versions where company_id = $1 for update' using new.company_id;
  execute 'select exists (
      select from change_sets
      where company_id = $1 and test_mode = $2 and status = ''pending'' and created_by_id = $3 and id <> $4
    )'
    into others_wait using new.company_id, new.test_mode, new.created_by_id, new.id;
  if not others_wait then
    execute 'update credential_versions set version = version + 1 where company_id = $1' using new.company_id;
  end if;
  return null;
end $$;
create constraint trigger raise_version_of_proposer after insert on change_sets deferrable initially deferred for each row
  when (new.created_by_kind = 'api_key') execute function raise_version_of_proposer();
create constraint trigger raise_version_of_decided_proposer after update on change_sets deferrable initially deferred for each row
  when (new.created_by_kind = 'api_key' and old.status <> new.status) execute function raise_version_of_proposer();
-- A reset of test mode deletes sets that wait.
create constraint trigger raise_version_of_reset_proposer after delete on change_sets deferrable initially deferred for each row
  when (old.created_by_kind = 'api_key' and old.status = 'pending') execute function raise_credential_version('company_id');

-- Views of lists of records, in live and test mode alike.
create table saved_views (
  company_id uuid not null references companies (id) on delete cascade,
  id uuid not null,
  object text not null,
  name text not null,
  -- As in lists of records. Null: all records, the default order, all fields.
  filter jsonb,
  sort text,
  fields text[],
  is_shared boolean not null,
  created_by_kind text not null,
  created_by_id text not null,
  created_by_name text,
  created_by_user uuid,
  created_at timestamptz(3) not null,
  updated_at timestamptz(3) not null,
  primary key (company_id, id)
);
create index saved_views_listed on saved_views (company_id, created_at desc, id desc);
-- The owner is the user for whom it was made, or the key.
create unique index saved_views_name
  on saved_views (company_id, object, coalesce(created_by_user::text, created_by_id), fold_name(name));
alter table saved_views enable row level security, force row level security;
create policy tenant on saved_views to crm_app
  using (company_id = current_company())
  with check (company_id = current_company());
grant select, insert, update, delete on saved_views to crm_app;

-- True in a transaction that has noted the records whose references a job clears.
create function references_are_noted() returns boolean language sql stable
  return coalesce(current_setting('app.references_are_noted', true), '') = 'on';

call open_to_purge();

-- Refreshes the statistics of a table of records and of their tags and custom values, for which ANALYZE needs their owner.
-- It reads a sample, so the cost does not depend on the size. It leaves out a table that another process analyzes, vacuums or locks, and one of
-- whose rows less than a tenth changed (or less than all, if it was analyzed in the last minute), so that no tenant can
-- have the tables of all analyzed all the time.
-- `written` counts changes that may not be in the table's own number of changes, which is published up to ten seconds later.
create function analyze_records(records text, written int) returns void language plpgsql security definer
  set search_path = public set lock_timeout = '200ms' as $$
declare
  stale text;
begin
  if records not in ('leads', 'accounts', 'customers', 'deals', 'activities', 'tasks', 'custom_records') then
    raise exception '% is not a table of records', records;
  end if;
  for stale in
    select c.relname from pg_class c
    where c.oid in (records::regclass, 'record_tags'::regclass, 'custom_value_hashes'::regclass)
      and greatest(written, pg_stat_get_mod_since_analyze(c.oid)) > greatest(c.reltuples, 0) * case
        when greatest(pg_stat_get_last_analyze_time(c.oid), pg_stat_get_last_autoanalyze_time(c.oid)) > now() - interval '1 minute'
        then 1 else 0.1 end
  loop
    execute format('analyze (skip_locked) %I', stale);
  end loop;
end $$;
revoke execute on function analyze_records(text, int) from public;
grant execute on function analyze_records(text, int) to crm_app;

-- So that the planner takes these tables for empty, and not for ten pages, until they are analyzed with rows.
analyze custom_value_hashes, custom_records, tasks, record_tags, notes, attachments, feed_events, deleted_records, deleted_items,
  exports, imports, import_parts, import_errors, reverts, revert_items;
