-- Rows of the audit log whose month had no partition are past their time one by one: found by their age, and removed by the sweep.
create index audit_logs_other_age on audit_logs_other (occurred_at);
create policy swept on audit_logs_other for select to crm_platform using (true);
create policy removed on audit_logs_other for delete to crm_platform using (true);
-- What happened in them it does not see.
grant select (company_id, id, occurred_at), delete on audit_logs_other to crm_platform;
