-- Opens and clicks of emails that are sent from here.

-- Whether emails lead through addresses that note them.
alter table companies add column notes_email_engagement boolean not null default false;
-- Beside what providers report: what is noted here.
alter table received_reports
  drop constraint received_reports_provider_check,
  add constraint received_reports_provider_check check (provider in ('generic', 'twilio', 'own'));
-- How many messages of a campaign were opened and clicked is counted in it.
create index messages_of_campaign on messages (company_id, test_mode, campaign_id, status) where campaign_id is not null;
