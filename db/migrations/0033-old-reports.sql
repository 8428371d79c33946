-- Reports of providers go when they are past their time; what they told of stays in messages and audit rows.
create index received_reports_age on received_reports (received_at);
create policy platform on received_reports to crm_platform using (true);
grant select (company_id, test_mode, id, received_at), delete on received_reports to crm_platform;
