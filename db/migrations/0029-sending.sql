-- Sending of message drafts, and what people decide about all drafts of a run at once.

alter table message_drafts
  -- When it may have been sent for the first time, while nobody knows whether it was.
  add column attempted_at timestamptz(3);
drop index message_drafts_due;
-- Company by company, so that each has its turn.
create index message_drafts_due on message_drafts (company_id, test_mode, channel, due_at) where due_at is not null;
create index message_drafts_at_provider on message_drafts (company_id, test_mode, provider_ref) where provider_ref is not null;
grant select (channel) on message_drafts to crm_platform;

alter table campaign_runs
  add column decision text check (decision in ('approved', 'rejected')),
  add column decided_by uuid,
  add column decided_by_name text,
  add column decided_at timestamptz(3),
  add column rejection_reason text,
  -- When the job goes on with the drafts; null: it is done with them, or nothing was decided.
  add column decision_due_at timestamptz(3);
create index campaign_runs_decided on campaign_runs (decision_due_at) where decision_due_at is not null;
create policy platform on campaign_runs to crm_platform using (true);
grant select (company_id, test_mode, id, decision_due_at) on campaign_runs to crm_platform;
