-- Workforces: what is done for a record step by step, the records that are on their way, and what was done for each.

create table workforces (
  company_id uuid not null references companies (id) on delete cascade,
  id uuid not null,
  name text not null,
  description text,
  kind text not null check (kind in ('sequence', 'workflow', 'agent')),
  status text not null check (status in ('active', 'paused', 'draft')),
  subject_types text[] not null,
  steps jsonb not null,
  -- A condition of the filter grammar; null: none.
  stop_when jsonb,
  stop_when_replied boolean not null,
  created_at timestamptz(3) not null,
  updated_at timestamptz(3) not null,
  primary key (company_id, id)
);
create unique index workforces_name on workforces (company_id, lower(name));

create table workforce_runs (
  company_id uuid not null,
  test_mode boolean not null,
  id uuid not null,
  workforce_id uuid not null,
  status text not null check (status in ('queued', 'running', 'waiting', 'completed', 'stopped', 'failed', 'cancelled')),
  object text not null,
  record_id uuid not null,
  context jsonb not null,
  -- As they were when it began.
  steps jsonb not null,
  stop_when jsonb,
  stop_when_replied boolean not null,
  -- The step that is next, from 0.
  position int not null,
  -- When that is to be done; null: the run has ended.
  next_step_at timestamptz(3),
  -- When somebody is to look at it; null: never, since it has ended or its workforce is not active.
  due_at timestamptz(3),
  -- Says which try it is: whoever was too slow changes nothing any more.
  attempts int not null,
  -- Of the step that is next: since when it is tried, and the call that does it. Both null: it was not begun.
  tried_since timestamptz(3),
  call jsonb,
  error_code text,
  error_message text,
  created_by_kind text not null,
  created_by_id text not null,
  created_by_name text,
  created_by_user uuid,
  enrolled_at timestamptz(3) not null,
  ended_at timestamptz(3),
  primary key (company_id, test_mode, id),
  foreign key (company_id, workforce_id) references workforces (company_id, id)
);
-- A record is on its way in a workforce once.
create unique index workforce_runs_active on workforce_runs (company_id, test_mode, workforce_id, object, record_id) where ended_at is null;
create index workforce_runs_listed on workforce_runs (company_id, test_mode, workforce_id, enrolled_at desc, id desc);
create index workforce_runs_due on workforce_runs (due_at) where due_at is not null;
create index workforce_runs_age on workforce_runs (ended_at) where ended_at is not null;

create table workforce_run_steps (
  company_id uuid not null,
  test_mode boolean not null,
  run_id uuid not null,
  position int not null,
  status text not null check (status in ('done', 'skipped', 'failed')),
  -- What was made; null: nothing.
  made_object text,
  made_id uuid,
  -- Why it was skipped.
  reason text,
  error_code text,
  error_message text,
  at timestamptz(3) not null,
  primary key (company_id, test_mode, run_id, position),
  foreign key (company_id, test_mode, run_id) references workforce_runs (company_id, test_mode, id) on delete cascade
);

do $$
declare
  name text;
begin
  foreach name in array array['workforce_runs', 'workforce_run_steps']
  loop
    execute format('alter table %I enable row level security', name);
    execute format('alter table %I force row level security', name);
    execute format('create policy tenant on %I to crm_app using (company_id = current_company() and test_mode = current_test_mode())
      with check (company_id = current_company() and test_mode = current_test_mode())', name);
    execute format('grant select, insert, update, delete on %I to crm_app', name);
  end loop;
end $$;
alter table workforces enable row level security;
alter table workforces force row level security;
create policy tenant on workforces to crm_app using (company_id = current_company()) with check (company_id = current_company());
grant select, insert, update, delete on workforces to crm_app;

-- The platform role finds whose turn it is, and removes what is past its time; what is in the rows it does not see.
create policy platform on workforce_runs to crm_platform using (true);
grant select (company_id, test_mode, id, due_at, ended_at), delete on workforce_runs to crm_platform;

call open_to_purge();
