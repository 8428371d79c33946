-- Names are compared without case in every script, by the same rule as foldName in domain/objects/name-folding.ts: by way of
-- upper case and back, with a dotted and a dotless i as one letter. lower() alone depends on the locale of the database.
create function fold_name(name text) returns text language sql immutable parallel safe strict as $$
  select normalize(replace(lower(upper(normalize(name, NFC) collate "und-x-icu") collate "und-x-icu"), U&'i\0307', 'i'), NFC)
$$;

do $$
declare
  list record;
begin
  for list in
    select * from (values
      ('statuses', 'company_id, object'), ('sources', 'company_id'), ('tags', 'company_id, object'),
      ('activity_types', 'company_id'), ('task_types', 'company_id'), ('scheduling_policies', 'company_id'),
      ('scheduling_pools', 'company_id'), ('sla_policies', 'company_id'), ('workforces', 'company_id'), ('profiles', 'company_id')
    ) as each (name, scope)
  loop
    execute format('drop index %I', list.name || '_name');
    execute format('create unique index %I on %I (%s, fold_name(name))', list.name || '_name', list.name, list.scope);
  end loop;
end $$;
