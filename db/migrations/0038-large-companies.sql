-- A plan that is kept for all companies is made for one of average size, and most have few rows: the plan may then read all that a company
-- has, which in the largest are millions. So each counts as a hundredth of a table: what narrows a statement down is used, whoever asks.
do $$
declare name text;
begin
  foreach name in array array['leads', 'deals', 'customers', 'accounts', 'tasks', 'activities', 'custom_records', 'custom_value_hashes',
    'record_tags', 'notes', 'messages', 'attachments', 'received_reports', 'sla_clocks', 'webhook_deliveries', 'bookings', 'slot_reservations',
    'message_drafts', 'campaign_runs', 'workforce_runs', 'do_not_call', 'email_suppressions', 'feed_events', 'idempotency_records',
    'search_blocks', 'search_changes'] loop
    execute format('alter table %I alter column company_id set (n_distinct = 100)', name);
    execute format('analyze %I', name);
  end loop;
end $$;
