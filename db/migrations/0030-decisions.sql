-- Runs of campaigns that wait for a decision, as the console lists them.
create index campaign_runs_undecided on campaign_runs (company_id, test_mode, created_at desc, id desc)
  where status = 'completed' and decision is null and total > 0;
