-- Mails of the service, messages, drafts, opt-outs, phone numbers, reports, and campaigns.

-- Outgoing mails of the service itself. Committed with the change that they report, delivered afterwards. Never holds
-- a password or a secret link.
create table mails (
  company_id uuid not null references companies (id) on delete cascade,
  id uuid not null,
  recipient text not null,
  template text not null,
  data jsonb not null,
  -- kept: there is no mail server. failed: rejected for good, or tried too often.
  status text not null default 'queued' check (status in ('queued', 'sent', 'kept', 'failed')),
  attempts int not null default 0,
  -- Of a queued mail. During delivery: when the delivery is considered abandoned.
  next_attempt_at timestamptz(3) not null,
  created_at timestamptz(3) not null,
  primary key (company_id, id)
);
-- The sweep removes old rows.
create index mails_age on mails (created_at);
-- Mails that are to be delivered.
create index mails_due on mails (next_attempt_at) where status = 'queued';
alter table mails enable row level security, force row level security;
create policy tenant on mails to crm_app
  using (company_id = current_company())
  with check (company_id = current_company());
create policy platform on mails to crm_platform using (true) with check (true);
grant insert on mails to crm_app;
grant select, update (status, attempts, next_attempt_at), delete on mails to crm_platform;

-- Sent and received messages: the timeline of a record.
create table messages (
  company_id uuid not null references companies (id) on delete cascade,
  test_mode boolean not null,
  id uuid not null,
  -- The record that the message belongs to; null: the sender is unknown.
  object text,
  record_id uuid,
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
  primary key (company_id, test_mode, id),
  check ((object is null) = (record_id is null))
);
alter table messages alter column company_id set (n_distinct = 100);
-- Counts opened and clicked messages of a campaign from the index alone.
create index messages_of_campaign on messages (company_id, test_mode, campaign_id, status) where campaign_id is not null;
create index messages_of_record on messages (company_id, test_mode, object, record_id, occurred_at desc, id desc);
alter table messages enable row level security, force row level security;
create policy tenant on messages to crm_app
  using (company_id = current_company() and test_mode = current_test_mode())
  with check (company_id = current_company() and test_mode = current_test_mode());
grant select, insert, update, delete on messages to crm_app;

-- Messages that wait for approval, and their outcome.
create table message_drafts (
  company_id uuid not null references companies (id) on delete cascade,
  test_mode boolean not null,
  id uuid not null,
  channel text not null check (channel in ('sms', 'email', 'whatsapp')),
  status text not null check (status in ('draft', 'approved', 'sent', 'failed', 'rejected', 'withdrawn')),
  recipient text not null,
  -- null: the default number, or the address of the service.
  sender text,
  subject text,
  body text not null,
  object text,
  record_id uuid,
  note text,
  campaign_id uuid,
  run_id uuid,
  approved_by uuid,
  approved_by_name text,
  approved_at timestamptz(3),
  rejected_by uuid,
  rejected_by_name text,
  rejected_at timestamptz(3),
  rejection_reason text,
  withdrawal_reason text,
  sent_at timestamptz(3),
  provider_ref text,
  error_code text,
  error_message text,
  -- When to send it; null: it is not due.
  due_at timestamptz(3),
  -- Until when one sender has it.
  leased_until timestamptz(3),
  attempts int not null default 0,
  created_by_kind text not null,
  created_by_id text not null,
  created_by_name text,
  created_by_user uuid,
  created_at timestamptz(3) not null,
  updated_at timestamptz(3) not null,
  -- When it may have been sent for the first time, while the outcome is unknown.
  attempted_at timestamptz(3),
  primary key (company_id, test_mode, id)
);
alter table message_drafts alter column company_id set (n_distinct = 100);
-- The draft that a report of the provider is about.
create index message_drafts_at_provider on message_drafts (company_id, test_mode, provider_ref)
  where provider_ref is not null;
-- By tenant, so that each has its turn.
create index message_drafts_due on message_drafts (company_id, test_mode, channel, due_at) where due_at is not null;
create index message_drafts_in_name_of on message_drafts (company_id, test_mode, created_by_user, created_at, id)
  where created_by_user is not null;
create index message_drafts_listed on message_drafts (company_id, test_mode, created_at desc, id desc);
create index message_drafts_of_campaign on message_drafts (company_id, test_mode, campaign_id, run_id, channel, status)
  where campaign_id is not null;
create index message_drafts_of_channel on message_drafts (company_id, test_mode, channel, created_at desc, id desc);
create index message_drafts_of_key on message_drafts (company_id, test_mode, created_by_id)
  where created_by_kind = 'api_key' and created_by_user is null;
create index message_drafts_of_object on message_drafts (company_id, test_mode, object, created_at desc, id desc)
  where record_id is not null;
create index message_drafts_of_record on message_drafts (company_id, test_mode, record_id, created_at desc, id desc)
  where record_id is not null;
-- A recipient gets at most one draft of a run.
create unique index message_drafts_of_run on message_drafts (company_id, test_mode, run_id, channel, recipient)
  where run_id is not null;
create index message_drafts_of_status on message_drafts (company_id, test_mode, status, created_at desc, id desc);
alter table message_drafts enable row level security, force row level security;
create policy tenant on message_drafts to crm_app
  using (company_id = current_company() and test_mode = current_test_mode())
  with check (company_id = current_company() and test_mode = current_test_mode());
create policy platform on message_drafts to crm_platform using (true);
grant select, insert, update, delete on message_drafts to crm_app;
grant select (company_id, test_mode, id, channel, due_at) on message_drafts to crm_platform;

-- Phone numbers that must not be contacted.
create table do_not_call (
  company_id uuid not null references companies (id) on delete cascade,
  test_mode boolean not null,
  id uuid not null,
  -- E.164.
  phone_number text not null,
  reason text,
  notes text,
  source text not null check (source in ('api', 'app', 'import', 'opt_out')),
  created_by_kind text not null,
  created_by_id text not null,
  created_by_name text,
  created_at timestamptz(3) not null,
  primary key (company_id, test_mode, id)
);
alter table do_not_call alter column company_id set (n_distinct = 100);
create unique index do_not_call_number on do_not_call (company_id, test_mode, phone_number text_pattern_ops);
-- Searches any part of a number in the index alone, newest entries first. Row-level security lets no index serve a
-- condition on a part of a text, so that condition filters what the index holds.
create index do_not_call_searched on do_not_call (company_id, test_mode, created_at desc,
  id desc) include (phone_number);
alter table do_not_call enable row level security, force row level security;
create policy tenant on do_not_call to crm_app
  using (company_id = current_company() and test_mode = current_test_mode())
  with check (company_id = current_company() and test_mode = current_test_mode());
grant select, insert, update, delete on do_not_call to crm_app;

-- Email addresses that must not be contacted.
create table email_suppressions (
  company_id uuid not null references companies (id) on delete cascade,
  test_mode boolean not null,
  id uuid not null,
  -- In lower case.
  email text not null,
  reason text not null check (reason in ('unsubscribed', 'bounced', 'complained', 'manual')),
  source text not null check (source in ('api', 'app', 'import', 'opt_out', 'provider')),
  campaign_id uuid,
  created_at timestamptz(3) not null,
  primary key (company_id, test_mode, id)
);
alter table email_suppressions alter column company_id set (n_distinct = 100);
create unique index email_suppressions_address on email_suppressions (company_id, test_mode, email);
create index email_suppressions_listed on email_suppressions (company_id, test_mode, created_at desc, id desc);
create index email_suppressions_of_reason on email_suppressions (company_id, test_mode, reason, created_at desc,
  id desc);
alter table email_suppressions enable row level security, force row level security;
create policy tenant on email_suppressions to crm_app
  using (company_id = current_company() and test_mode = current_test_mode())
  with check (company_id = current_company() and test_mode = current_test_mode());
grant select, insert, update, delete on email_suppressions to crm_app;

-- Phone numbers of the tenant.
create table phone_numbers (
  company_id uuid not null references companies (id) on delete cascade,
  test_mode boolean not null,
  id uuid not null,
  -- E.164.
  phone_number text not null,
  friendly_name text,
  country text,
  number_type text not null check (number_type in ('local', 'mobile', 'toll_free')),
  can_sms boolean not null,
  can_voice boolean not null,
  can_fax boolean not null,
  status text not null check (status in ('active', 'pending', 'suspended', 'released')),
  monthly_cost_minor int not null,
  currency text not null,
  is_default boolean not null,
  is_default_fax boolean not null,
  assigned_user_id uuid,
  created_at timestamptz(3) not null,
  updated_at timestamptz(3) not null,
  primary key (company_id, test_mode, id)
);
create unique index phone_numbers_default on phone_numbers (company_id, test_mode) where is_default;
create unique index phone_numbers_default_fax on phone_numbers (company_id, test_mode) where is_default_fax;
create unique index phone_numbers_number on phone_numbers (company_id, test_mode, phone_number)
  where status <> 'released';
alter table phone_numbers enable row level security, force row level security;
create policy tenant on phone_numbers to crm_app
  using (company_id = current_company() and test_mode = current_test_mode())
  with check (company_id = current_company() and test_mode = current_test_mode());
grant select, insert, update, delete on phone_numbers to crm_app;

-- The secrets that inbound webhooks are signed with, one for each mode. Stored encrypted and not hashed, because
-- verifying a signature needs the secret.
create table inbound_secrets (
  company_id uuid not null references companies (id) on delete cascade,
  environment text not null check (environment in ('live', 'test')),
  sealed_secret text not null,
  secret_last4 text not null,
  -- Still accepted while gateways switch to the new one.
  sealed_previous_secret text,
  previous_secret_expires_at timestamptz(3),
  created_at timestamptz(3) not null,
  primary key (company_id, environment),
  check ((sealed_previous_secret is null) = (previous_secret_expires_at is null))
);
alter table inbound_secrets enable row level security, force row level security;
create policy tenant on inbound_secrets to crm_app
  using (company_id = current_company())
  with check (company_id = current_company());
create policy platform on inbound_secrets for select to crm_platform using (true);
grant select, insert, update on inbound_secrets to crm_app;
grant select on inbound_secrets to crm_platform;

-- Reports of providers, each once by the provider's own id. Texts and emails themselves are in messages, under the
-- same id.
create table received_reports (
  company_id uuid not null references companies (id) on delete cascade,
  test_mode boolean not null,
  id uuid not null,
  provider text not null check (provider in ('generic', 'twilio', 'own')),
  external_id text not null,
  kind text not null check (kind in ('sms', 'whatsapp', 'email', 'email_engagement', 'fax', 'call', 'form')),
  -- The record that it came from; null: unknown.
  object text,
  record_id uuid,
  details jsonb not null,
  occurred_at timestamptz(3) not null,
  received_at timestamptz(3) not null,
  primary key (company_id, test_mode, id),
  unique (company_id, test_mode, provider, external_id),
  check ((object is null) = (record_id is null))
);
alter table received_reports alter column company_id set (n_distinct = 100);
-- The sweep removes old rows. Their results stay in messages and audit rows.
create index received_reports_age on received_reports (received_at);
create index received_reports_of_record on received_reports (company_id, test_mode, object, record_id)
  where record_id is not null;
alter table received_reports enable row level security, force row level security;
create policy tenant on received_reports to crm_app
  using (company_id = current_company() and test_mode = current_test_mode())
  with check (company_id = current_company() and test_mode = current_test_mode());
create policy platform on received_reports to crm_platform using (true);
grant select, insert, update (record_id), delete on received_reports to crm_app;
grant select (company_id, test_mode, id, received_at), delete on received_reports to crm_platform;

-- Campaigns: one message to many records.
create table campaigns (
  company_id uuid not null references companies (id) on delete cascade,
  test_mode boolean not null,
  id uuid not null,
  name text not null,
  description text,
  status text not null check (status in ('draft', 'scheduled', 'running', 'paused', 'completed', 'cancelled')),
  object text not null,
  -- As the client sent it; null: all records.
  filter jsonb,
  -- [{channel_type, enabled, phone_number_id, from, subject, body}]
  channels jsonb not null,
  audience_size int,
  scheduled_at timestamptz(3),
  started_at timestamptz(3),
  completed_at timestamptz(3),
  -- When the job has to start a run, continue one, or withdraw undecided drafts.
  due_at timestamptz(3),
  created_by_kind text not null,
  created_by_id text not null,
  created_by_name text,
  created_by_user uuid,
  created_at timestamptz(3) not null,
  updated_at timestamptz(3) not null,
  primary key (company_id, test_mode, id)
);
-- Campaigns that the job has to work on.
create index campaigns_due on campaigns (due_at) where due_at is not null;
-- The same of one test mode, whose clock may be ahead.
create index campaigns_due_in_test_mode on campaigns (company_id, due_at) where test_mode and due_at is not null;
create index campaigns_listed on campaigns (company_id, test_mode, created_at desc, id desc);
create index campaigns_of_status on campaigns (company_id, test_mode, status, created_at desc, id desc);
alter table campaigns enable row level security, force row level security;
create policy tenant on campaigns to crm_app
  using (company_id = current_company() and test_mode = current_test_mode())
  with check (company_id = current_company() and test_mode = current_test_mode());
create policy platform on campaigns to crm_platform using (true);
grant select, insert, update, delete on campaigns to crm_app;
grant select (company_id, test_mode, id, due_at) on campaigns to crm_platform;

-- Runs of campaigns. A run prepares drafts, which people approve or reject together.
create table campaign_runs (
  company_id uuid not null,
  test_mode boolean not null,
  id uuid not null,
  campaign_id uuid not null,
  status text not null check (status in ('queued', 'running', 'completed', 'failed', 'cancelled')),
  -- What it prepares: {object, filter, channels}, as the campaign was when the run began.
  content jsonb not null,
  -- Of the content and the number of drafts: what a person approves. null until all drafts are prepared.
  content_hash bytea,
  -- The record that was processed last.
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
  decision text check (decision in ('approved', 'rejected')),
  decided_by uuid,
  decided_by_name text,
  decided_at timestamptz(3),
  rejection_reason text,
  -- When the job continues with the drafts; null: it is done with them, or nothing was decided.
  decision_due_at timestamptz(3),
  primary key (company_id, test_mode, id),
  foreign key (company_id, test_mode, campaign_id) references campaigns (company_id, test_mode, id) on delete cascade
);
alter table campaign_runs alter column company_id set (n_distinct = 100);
-- A campaign has one run at a time.
create unique index campaign_runs_active on campaign_runs (company_id, test_mode, campaign_id)
  where status in ('queued', 'running');
-- Runs whose drafts the job has to approve or reject.
create index campaign_runs_decided on campaign_runs (decision_due_at) where decision_due_at is not null;
-- The same of one test mode, whose clock may be ahead.
create index campaign_runs_decided_in_test_mode on campaign_runs (company_id, decision_due_at)
  where test_mode and decision_due_at is not null;
create index campaign_runs_listed on campaign_runs (company_id, test_mode, campaign_id, created_at desc, id desc);
-- Runs that wait for a decision, as the console lists them.
create index campaign_runs_undecided on campaign_runs (company_id, test_mode, created_at desc, id desc)
  where status = 'completed' and decision is null and total > 0;
alter table campaign_runs enable row level security, force row level security;
create policy tenant on campaign_runs to crm_app
  using (company_id = current_company() and test_mode = current_test_mode())
  with check (company_id = current_company() and test_mode = current_test_mode());
create policy platform on campaign_runs to crm_platform using (true);
grant select, insert, update, delete on campaign_runs to crm_app;
grant select (company_id, test_mode, id, decision_due_at) on campaign_runs to crm_platform;

call open_to_purge();

-- So that the planner takes these tables for empty, and not for ten pages, until they are analyzed with rows.
analyze messages, message_drafts, do_not_call, email_suppressions, received_reports, campaign_runs;
