-- The reset of a tenant's test mode.

-- The tenants whose test data is being deleted.
create table test_mode_resets (
  company_id uuid primary key,
  -- After this time the call that deletes is considered dead.
  claimed_until timestamptz(3) not null
);
alter table test_mode_resets enable row level security, force row level security;
create policy tenant on test_mode_resets to crm_app
  using (company_id = current_company())
  with check (company_id = current_company());
grant select, insert, update, delete on test_mode_resets to crm_app;

call open_to_purge();
