-- Stretches of feeds whose deliveries are still to be made: a queue, which the dispatcher adds to and the matcher empties.
-- What writes a feed forward writes rows of its own here, so that neither ever waits for the other.
create table webhook_backlog (
  company_id uuid not null references companies (id) on delete cascade,
  test_mode boolean not null,
  first_position bigint not null,
  last_position bigint not null,
  noted_at timestamptz(3) not null default now(),
  primary key (company_id, test_mode, first_position),
  check (first_position <= last_position)
);
-- Rows come and go, as those of the outbox.
alter table webhook_backlog set (
  autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_insert_threshold = -1,
  autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 100000, vacuum_truncate = false);

alter table webhook_backlog enable row level security;
alter table webhook_backlog force row level security;
create policy tenant on webhook_backlog to crm_app using (company_id = current_company() and test_mode = current_test_mode())
  with check (company_id = current_company() and test_mode = current_test_mode());
grant select, insert, update (first_position), delete on webhook_backlog to crm_app;
-- The platform role finds whose deliveries are to be made.
create policy platform on webhook_backlog for select to crm_platform using (true);
grant select (company_id, test_mode, noted_at) on webhook_backlog to crm_platform;
call open_to_purge();
