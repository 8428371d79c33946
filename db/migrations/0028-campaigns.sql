-- Campaigns: messages for many, prepared as drafts by runs.

create table campaigns (
  company_id uuid not null references companies (id) on delete cascade,
  test_mode boolean not null,
  id uuid not null,
  name text not null,
  description text,
  status text not null check (status in ('draft', 'scheduled', 'running', 'paused', 'completed', 'cancelled')),
  object text not null,
  -- As it was sent; null: everybody.
  filter jsonb,
  -- [{channel_type, enabled, phone_number_id, from, subject, body}]
  channels jsonb not null,
  audience_size int,
  scheduled_at timestamptz(3),
  started_at timestamptz(3),
  completed_at timestamptz(3),
  -- When the job has something to do with it: begin a run, go on with one, or withdraw what nobody decided about.
  due_at timestamptz(3),
  created_by_kind text not null,
  created_by_id text not null,
  created_by_name text,
  created_by_user uuid,
  created_at timestamptz(3) not null,
  updated_at timestamptz(3) not null,
  primary key (company_id, test_mode, id)
);
create index campaigns_listed on campaigns (company_id, test_mode, created_at desc, id desc);
create index campaigns_of_status on campaigns (company_id, test_mode, status, created_at desc, id desc);
create index campaigns_due on campaigns (due_at) where due_at is not null;

create table campaign_runs (
  company_id uuid not null,
  test_mode boolean not null,
  id uuid not null,
  campaign_id uuid not null,
  status text not null check (status in ('queued', 'running', 'completed', 'failed', 'cancelled')),
  -- What it prepares: {object, filter, channels}, as the campaign was when it began.
  content jsonb not null,
  -- Of the content and of how many drafts it came to: what a person approves; null until all are prepared.
  content_hash bytea,
  -- The record that it went over last.
  last_record uuid,
  audience int not null default 0,
  total int not null default 0,
  skipped int not null default 0,
  error_summary text,
  started_at timestamptz(3),
  finished_at timestamptz(3),
  created_by_kind text not null,
  created_by_id text not null,
  created_by_name text,
  created_by_user uuid,
  created_at timestamptz(3) not null,
  primary key (company_id, test_mode, id),
  foreign key (company_id, test_mode, campaign_id) references campaigns (company_id, test_mode, id) on delete cascade
);
create index campaign_runs_listed on campaign_runs (company_id, test_mode, campaign_id, created_at desc, id desc);
create unique index campaign_runs_active on campaign_runs (company_id, test_mode, campaign_id) where status in ('queued', 'running');

-- Nobody gets two drafts of a run.
create unique index message_drafts_of_run on message_drafts (company_id, test_mode, run_id, channel, recipient) where run_id is not null;

do $$
declare
  name text;
begin
  foreach name in array array['campaigns', 'campaign_runs']
  loop
    execute format('alter table %I enable row level security', name);
    execute format('alter table %I force row level security', name);
    execute format('create policy tenant on %I to crm_app using (company_id = current_company() and test_mode = current_test_mode())
      with check (company_id = current_company() and test_mode = current_test_mode())', name);
    execute format('grant select, insert, update, delete on %I to crm_app', name);
  end loop;
end $$;

create policy platform on campaigns to crm_platform using (true);
grant select (company_id, test_mode, id, due_at) on campaigns to crm_platform;

call open_to_purge();
