-- What hangs on records: notes, the timeline of messages, and attachments with the files behind them.

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
create index notes_of_record on notes (company_id, test_mode, object, record_id, created_at desc, id desc);

-- Filled by whatever sends and receives; read as the timeline of a record.
create table messages (
  company_id uuid not null references companies (id) on delete cascade,
  test_mode boolean not null,
  id uuid not null,
  object text not null,
  record_id uuid not null,
  channel text not null check (channel in ('sms', 'email', 'whatsapp')),
  direction text not null check (direction in ('inbound', 'outbound')),
  -- Only for support conversations.
  source text check (source in ('campaigns', 'drafts', 'inbox', 'support')),
  sender text,
  recipient text,
  subject text,
  body text not null,
  status text,
  campaign_id uuid,
  draft_id uuid,
  occurred_at timestamptz(3) not null,
  created_at timestamptz(3) not null default now(),
  primary key (company_id, test_mode, id)
);
create index messages_of_record on messages (company_id, test_mode, object, record_id, occurred_at desc, id desc);

-- The files in the storage, noted before they are put there: none can be left behind unseen. Not bound to companies, so that a
-- company that is deleted leaves the list of its files.
create table stored_files (
  company_id uuid not null,
  test_mode boolean not null,
  id uuid not null,
  -- When the sweep may remove the file; null while something refers to it.
  remove_after timestamptz(3),
  primary key (company_id, test_mode, id)
);
create index stored_files_to_remove on stored_files (remove_after) where remove_after is not null;

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
create index attachments_of_record on attachments (company_id, test_mode, object, record_id, created_at desc, id desc);
-- A download link names the attachment and no company.
create index attachments_by_id on attachments (id);

-- However an attachment goes, its file goes after it.
create function release_stored_file() returns trigger language plpgsql as $$
begin
  update stored_files set remove_after = now()
  where company_id = old.company_id and test_mode = old.test_mode and id = old.file_id;
  return null;
end $$;
create trigger release_stored_file after delete on attachments for each row execute function release_stored_file();

do $$
declare
  name text;
begin
  foreach name in array array['notes', 'messages', 'stored_files', 'attachments']
  loop
    execute format('alter table %I enable row level security', name);
    execute format('alter table %I force row level security', name);
    execute format('create policy tenant on %I to crm_app using (company_id = current_company() and test_mode = current_test_mode())
      with check (company_id = current_company() and test_mode = current_test_mode())', name);
  end loop;
end $$;
grant select, insert, update, delete on notes, messages, attachments to crm_app;
grant select, insert, update on stored_files to crm_app;

-- The sweep removes files of everybody, and whoever brings a signed link brings no credential.
create policy platform on stored_files to crm_platform using (true) with check (true);
grant select, update, delete on stored_files to crm_platform;
create policy platform on attachments for select to crm_platform using (true);
grant select (company_id, test_mode, id, file_id, file_name, size_bytes) on attachments to crm_platform;
