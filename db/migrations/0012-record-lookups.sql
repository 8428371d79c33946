-- Looking records up by the tenant's own fields: by hashes for the records of every object, as leads and deals have had them.

create or replace function keep_custom_value_hashes() returns trigger language plpgsql as $$
declare
  source text := tg_table_name;
begin
  if tg_op <> 'INSERT' and old.custom <> '{}' then
    if tg_table_name = 'custom_records' then source := old.object; end if;
    delete from custom_value_hashes
    where company_id = old.company_id and test_mode = old.test_mode and record_id = old.id
      and hash in (select custom_value_hash(source, key, value) from jsonb_each_text(old.custom));
  end if;
  if tg_op <> 'DELETE' and new.custom <> '{}' then
    if tg_table_name = 'custom_records' then source := new.object; end if;
    insert into custom_value_hashes (company_id, test_mode, hash, record_id)
    select new.company_id, new.test_mode, custom_value_hash(source, key, value), new.id
    from jsonb_each_text(new.custom)
    where value is not null;
  end if;
  return null;
end $$;

do $$
declare
  source text;
  object text;
begin
  foreach source in array array['customers', 'accounts', 'tasks', 'activities', 'custom_records'] loop
    object := case source when 'custom_records' then 'r.object' else quote_literal(source) end;
    execute format('create trigger %I after insert or delete on %I for each row execute function keep_custom_value_hashes()', source || '_custom_values', source);
    execute format('create trigger %I after update of custom on %I for each row when (old.custom is distinct from new.custom)
      execute function keep_custom_value_hashes()', source || '_changed_custom_values', source);
    execute format('insert into custom_value_hashes
      select r.company_id, r.test_mode, custom_value_hash(%s, value.key, value.value), r.id
      from %I r, jsonb_each_text(r.custom) value
      where value.value is not null', object, source);
  end loop;
end $$;

-- Lists in the order of any short field, from any place in them: indexes that have the values in the order of their bytes, and the ids
-- in the order of the values. They also serve equality and ranges, and take the place of those that served equality alone.
drop index leads_same_first_name, leads_same_last_name, leads_same_company_name, leads_same_job_title, leads_same_city, leads_same_state,
  leads_same_country, leads_same_postal_code, leads_same_priority, leads_same_origin, leads_email, leads_mobile,
  deals_same_name, deals_same_amount_minor, deals_same_currency_code, deals_same_probability, deals_same_expected_close_date, deals_same_priority,
  customers_email, customers_mobile, customers_phone, accounts_email;

do $$
declare
  field record;
begin
  for field in
    select source, unnest(texts) as name, ' collate "C"' as collation from (values
      ('leads', array['first_name', 'last_name', 'email', 'mobile', 'company_name', 'job_title', 'origin', 'city', 'state', 'country', 'postal_code']),
      ('deals', array['name', 'currency_code']),
      ('customers', array['first_name', 'last_name', 'email', 'mobile', 'phone', 'company_name', 'job_title', 'city', 'state', 'country', 'postal_code']),
      ('accounts', array['name', 'email', 'phone', 'industry', 'city', 'state', 'country', 'postal_code']),
      ('tasks', array['title']),
      ('activities', array['summary'])) given (source, texts)
    union all
    select source, unnest(others), '' from (values
      ('leads', array['priority', 'last_contacted_at', 'next_followup_at', 'converted_at']),
      ('deals', array['amount_minor', 'probability', 'priority', 'expected_close_date', 'stage_changed_at', 'won_at', 'lost_at', 'last_contacted_at', 'next_followup_at']),
      ('customers', array['last_contacted_at']),
      ('accounts', array['employee_count', 'annual_revenue_minor']),
      ('tasks', array['priority', 'scheduled_at', 'completed_at', 'task_type_id', 'record_id']),
      ('activities', array['followup_at'])) given (source, others)
  loop
    -- Records without the value cost nothing.
    execute format('create index %I on %I (company_id, test_mode, %I%s, id) where %I is not null',
      field.source || '_by_' || field.name, field.source, field.name, field.collation, field.name);
  end loop;
end $$;
create index tasks_by_status on tasks (company_id, test_mode, status collate "C", id);
