-- Messages that people let go: drafts, whom nobody writes to, and the numbers of the workspace.

create table message_drafts (
  company_id uuid not null references companies (id) on delete cascade,
  test_mode boolean not null,
  id uuid not null,
  channel text not null check (channel in ('sms', 'email', 'whatsapp')),
  status text not null check (status in ('draft', 'approved', 'sent', 'failed', 'rejected', 'withdrawn')),
  recipient text not null,
  -- null: the default number, or the service's own address.
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
  -- Of the sending: when it is due; null: it is not. Whoever took it up is at it until then.
  due_at timestamptz(3),
  leased_until timestamptz(3),
  attempts int not null default 0,
  created_by_kind text not null,
  created_by_id text not null,
  created_by_name text,
  created_by_user uuid,
  created_at timestamptz(3) not null,
  updated_at timestamptz(3) not null,
  primary key (company_id, test_mode, id)
);
create index message_drafts_listed on message_drafts (company_id, test_mode, created_at desc, id desc);
create index message_drafts_of_status on message_drafts (company_id, test_mode, status, created_at desc, id desc);
create index message_drafts_of_channel on message_drafts (company_id, test_mode, channel, created_at desc, id desc);
create index message_drafts_of_object on message_drafts (company_id, test_mode, object, created_at desc, id desc) where record_id is not null;
create index message_drafts_of_record on message_drafts (company_id, test_mode, record_id, created_at desc, id desc) where record_id is not null;
create index message_drafts_of_campaign on message_drafts (company_id, test_mode, campaign_id, run_id, channel, status) where campaign_id is not null;
create index message_drafts_due on message_drafts (due_at) where due_at is not null;

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
create unique index do_not_call_number on do_not_call (company_id, test_mode, phone_number text_pattern_ops);
create index do_not_call_listed on do_not_call (company_id, test_mode, created_at desc, id desc);

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
create unique index email_suppressions_address on email_suppressions (company_id, test_mode, email);
create index email_suppressions_listed on email_suppressions (company_id, test_mode, created_at desc, id desc);
create index email_suppressions_of_reason on email_suppressions (company_id, test_mode, reason, created_at desc, id desc);

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
create unique index phone_numbers_number on phone_numbers (company_id, test_mode, phone_number) where status <> 'released';
create unique index phone_numbers_default on phone_numbers (company_id, test_mode) where is_default;
create unique index phone_numbers_default_fax on phone_numbers (company_id, test_mode) where is_default_fax;

do $$
declare
  name text;
begin
  foreach name in array array['message_drafts', 'do_not_call', 'email_suppressions', 'phone_numbers']
  loop
    execute format('alter table %I enable row level security', name);
    execute format('alter table %I force row level security', name);
    execute format('create policy tenant on %I to crm_app using (company_id = current_company() and test_mode = current_test_mode())
      with check (company_id = current_company() and test_mode = current_test_mode())', name);
    execute format('grant select, insert, update, delete on %I to crm_app', name);
  end loop;
end $$;

-- The platform role finds what is due; what is in the rows it does not see.
create policy platform on message_drafts to crm_platform using (true);
grant select (company_id, test_mode, id, due_at) on message_drafts to crm_platform;

call open_to_purge();
