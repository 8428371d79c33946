-- Records have no key to their company any more. PostgreSQL looked the company up for each record that was added, and locked its row, so that
-- all who add records for one company met on it: a tenth of what they can add at once. A company that is not there is kept away by row-level
-- security, as from the audit log, the events and the kept answers, which never had such a key; and what was still being written when a company
-- was removed is removed a while later.
do $$
declare
  name text;
begin
  foreach name in array array['leads', 'deals', 'customers', 'accounts', 'tasks', 'activities', 'custom_records'] loop
    execute format('alter table %I drop constraint %I', name, name || '_company_id_fkey');
  end loop;
end $$;

alter table purged_companies add column swept_at timestamptz(3);
create index purged_companies_to_sweep on purged_companies (purged_at) where swept_at is null;
create policy platform on purged_companies for select to crm_platform using (swept_at is null);
grant select (company_id, purged_at, swept_at) on purged_companies to crm_platform;
