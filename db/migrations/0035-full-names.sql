-- People are found by their full names, which no field has as a whole.

do $$
declare
  source text;
  fields text[];
begin
  foreach source in array array['leads', 'customers'] loop
    fields := case source
      when 'leads' then array['first_name', 'last_name', 'company_name', 'email', 'mobile', 'job_title', 'website', 'city', 'state', 'country', 'postal_code', 'origin']
      else array['first_name', 'last_name', 'company_name', 'email', 'mobile', 'phone', 'job_title', 'website', 'city', 'state', 'country', 'postal_code']
    end;
    -- Both names stay texts of their own, so that each is found as a whole.
    execute format('create or replace function searched_text(r %I) returns text language sql stable parallel safe
      return chr(31) || lower(concat_ws(chr(31), %s, r.first_name || '' '' || r.last_name, case when r.custom <> ''{}'' then own_texts(r.custom) end)) || chr(31)',
      source, (select string_agg(format('left(r.%I, 1000)', field), ', ') from unnest(fields) field));
  end loop;
end $$;

-- The job makes the blocks anew, the oldest records first. Until it is through, searches miss older leads and customers, and say that not all were counted.
-- The owner of the tables need not be above row-level security.
do $$
declare name text;
begin
  foreach name in array array['leads', 'customers', 'search_blocks', 'search_signatures', 'search_changes'] loop
    execute format('alter table %I no force row level security', name);
  end loop;
  delete from search_changes where object in ('leads', 'customers');
  delete from search_blocks where object in ('leads', 'customers');
  delete from search_signatures where object in ('leads', 'customers');
  insert into search_changes (company_id, test_mode, object, record_id) select company_id, test_mode, 'leads', id from leads order by created_at, id;
  insert into search_changes (company_id, test_mode, object, record_id) select company_id, test_mode, 'customers', id from customers order by created_at, id;
  foreach name in array array['leads', 'customers', 'search_blocks', 'search_signatures', 'search_changes'] loop
    execute format('alter table %I force row level security', name);
  end loop;
end $$;
