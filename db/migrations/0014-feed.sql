-- The feed: what was told, in an order that every reader sees alike; and what reading the audit log and emptying test mode need.

-- A queue, which writes add to and the dispatcher empties. The number is drawn by the last statement of the writing transaction, after its
-- locks: whatever depends on another change has a higher one. The key is that of the order in which rows are taken, so that writes pay
-- for one index, as before.
alter table outbox_events
  add column seq bigint generated always as identity,
  -- Of updates: from what to what, for those who ask for it.
  add column changes jsonb,
  -- Whose the record was, where the event takes it from them: by these it is decided who may still hear of it.
  add column assigned_to uuid,
  add column created_by_kind text,
  add column created_by_id text,
  add column created_by_user uuid;
alter table outbox_events drop constraint outbox_events_pkey, add primary key (company_id, test_mode, seq);
-- Rows come and go: cleaned early, and without the lock on writers that giving back the end of the file would take.
alter table outbox_events set (
  autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_insert_threshold = -1,
  autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 100000, vacuum_truncate = false);

-- How far the feed of a company and mode goes; its row is the lock under which positions are given.
create table feeds (
  company_id uuid not null,
  test_mode boolean not null,
  last_position bigint not null default 0,
  primary key (company_id, test_mode)
);

-- What was told, in its position. Kept for 30 days.
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
  primary key (company_id, test_mode, position)
);

-- While a company's test data is being removed: until when the call that does so may be thought alive.
create table test_mode_resets (
  company_id uuid primary key,
  claimed_until timestamptz(3) not null
);

do $$
declare
  name text;
begin
  foreach name in array array['feeds', 'feed_events']
  loop
    execute format('alter table %I enable row level security', name);
    execute format('alter table %I force row level security', name);
    execute format('create policy tenant on %I to crm_app using (company_id = current_company() and test_mode = current_test_mode())
      with check (company_id = current_company() and test_mode = current_test_mode())', name);
    execute format('create policy platform on %I to crm_platform using (true) with check (true)', name);
  end loop;
end $$;
alter table test_mode_resets enable row level security;
alter table test_mode_resets force row level security;
create policy tenant on test_mode_resets to crm_app using (company_id = current_company()) with check (company_id = current_company());

grant select, insert, update on feeds to crm_app;
grant select, insert, delete on feed_events to crm_app;
grant delete on outbox_events, idempotency_records, sla_clocks to crm_app;
grant select, insert, update, delete on test_mode_resets to crm_app;
-- The platform role finds whose events wait, who is to be told of news, and what is past its time; what was told it does not see.
create policy platform on outbox_events for select to crm_platform using (true);
grant select (company_id, test_mode, occurred_at) on outbox_events to crm_platform;
grant select on feeds to crm_platform;
grant select (company_id, test_mode, position, occurred_at), delete on feed_events to crm_platform;

-- For when a key was last said to expire; said again where it is moved.
alter table api_keys add column expiry_told_for timestamptz(3);
create index api_keys_expiring on api_keys (expires_at)
  where expires_at is not null and revoked_at is null and expiry_told_for is distinct from expires_at;
grant select (expiry_told_for) on api_keys to crm_platform;

-- The audit log is read by mode, newest first: by its key; and for one record.
alter table audit_logs drop constraint audit_logs_pkey, add primary key (company_id, test_mode, occurred_at, id);
create index audit_logs_of_record on audit_logs (company_id, test_mode, record_id, occurred_at, id) where record_id is not null;

-- Drops the months that ended before a day. Waits for nobody, since whoever writes would wait behind it: a later call tries again.
create function drop_audit_partitions(before date) returns int language plpgsql security definer set search_path = public as $$
declare
  month text;
  dropped int := 0;
begin
  set local lock_timeout = '100ms';
  for month in
    select c.relname from pg_inherits i join pg_class c on c.oid = i.inhrelid
    where i.inhparent = 'audit_logs'::regclass and c.relname ~ '^audit_logs_\d{4}_\d{2}$'
      and to_date(substr(c.relname, 12), 'YYYY_MM') + interval '1 month' <= before
    order by 1
  loop
    execute format('drop table %I', month);
    dropped := dropped + 1;
  end loop;
  return dropped;
end $$;
revoke execute on function drop_audit_partitions(date) from public;
grant execute on function drop_audit_partitions(date) to crm_platform;
