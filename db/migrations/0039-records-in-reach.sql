-- Records in reach are found by whose they are: by whom they are assigned to, or, where that is nobody, by who made them.

-- A user's own records were made in the user's name; those that are older did not say so.
do $$
declare
  name text;
  unassigned text;
  shared text;
begin
  foreach name in array array['leads', 'deals', 'customers', 'accounts', 'tasks', 'activities', 'custom_records'] loop
    execute format('alter table %I no force row level security', name);
    execute format('update %I set created_by_user = created_by_id::uuid where created_by_kind = ''user'' and created_by_user is null', name);
    execute format('alter table %I force row level security', name);
  end loop;

  foreach name in array array['leads', 'deals', 'customers', 'accounts', 'tasks', 'activities', 'custom_records', 'message_drafts'] loop
    unassigned := case when name in ('leads', 'deals', 'customers', 'accounts', 'tasks') then 'assigned_to is null and ' else '' end;
    shared := case name when 'custom_records' then 'object, ' else '' end;
    execute format('create index %I on %I (company_id, test_mode, %screated_by_user, %s, id) where %screated_by_user is not null',
      name || '_in_name_of', name, shared, case name when 'activities' then 'performed_at' else 'created_at' end, unassigned);
    -- What keys make is much, and only those that see part of a company ask for their own: kept short rather than in order.
    execute format('create index %I on %I (company_id, test_mode, %screated_by_id) where %screated_by_kind = ''api_key'' and created_by_user is null',
      name || '_of_key', name, shared, unassigned);
  end loop;
end $$;
