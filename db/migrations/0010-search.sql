-- Search across objects, and the reports that people saved.
--
-- A part of a text is found by its pieces of two and three characters ("grams"), in any script: pg_trgm knows no letters beyond ASCII in a
-- database with the locale C. A gram is indexed as a hash that the tenant and the mode go into, so that every list of the index is one tenant's.
--
-- Row-level security lets an index serve only conditions that cannot leak what they are asked about, and finding pieces of text is none of
-- these. So a role of its own finds the ids, in one function that insists on the tenant of the transaction; the rows are then read under crm_app as ever.

do $$
begin
  if not exists (select from pg_roles where rolname = 'crm_search') then create role crm_search nologin; end if;
end $$;
grant crm_search to current_user;

create function search_seed(company uuid, mode boolean) returns bigint language sql immutable parallel safe
return hashtextextended(company::text, mode::int);

-- The pieces of two and three characters of each text, in lower case. Of long texts the first 1,000 characters count, here and in find_records().
-- After chr(2): how a text begins; after chr(3): a whole text of up to 100 characters. The names are complete: indexes are built without a search path.
create function search_grams(company uuid, mode boolean, variadic texts text[]) returns bigint[] language plpgsql immutable parallel safe cost 100000 as $$
declare
  seed bigint := public.search_seed(company, mode);
  grams bigint[] := '{}';
  given text;
  before text;
  previous text;
  following text;
begin
  foreach given in array texts loop
    continue when coalesce(given, '') = '';
    given := lower(left(given, 1000));
    grams := grams || array[hashtextextended(chr(2) || left(given, 2), seed), hashtextextended(chr(2) || left(given, 3), seed),
      hashtextextended(chr(3) || left(given, 100), seed)];
    before := '';
    previous := '';
    foreach following in array string_to_array(given, null) loop
      if previous <> '' then
        grams := grams || hashtextextended(previous || following, seed);
        if before <> '' then
          grams := grams || hashtextextended(before || previous || following, seed);
        end if;
      end if;
      before := previous;
      previous := following;
    end loop;
  end loop;
  return grams;
end $$;

-- The same for the texts among a tenant's own fields, and further ones.
create function search_grams_of(company uuid, mode boolean, custom jsonb, texts text[]) returns bigint[] language plpgsql immutable parallel safe cost 100000 as $$
begin
  return public.search_grams(company, mode, variadic texts || array(
    select value #>> '{}' from jsonb_each(custom) where jsonb_typeof(value) = 'string'
  ));
end $$;

-- What to ask the index for: of the grams that every text with this part has, the three that the fewest of the sample have, since each
-- further one costs a walk through its list; and what says where in the text the part stands.
create function search_grams_in(part text, place text, sample text[], seed bigint) returns bigint[] language sql immutable parallel safe as $$
  select array_agg(hashtextextended(gram, seed))
  from (
    (
      select gram
      from (
        select part where char_length(part) = 2
        union select substr(part, start, 3) from generate_series(1, char_length(part) - 2) start
      ) own(gram)
      order by (select count(*) from unnest(sample) text where strpos(text, gram) > 0), gram
      limit 3
    )
    union all select chr(3) || left(part, 100) where place = 'whole'
    union all select chr(2) || left(part, 3) where place = 'begin'
  ) asked(gram)
$$;

-- The fields that are searched unless a tenant switched some of them off: the index <table>_search holds them.
create function search_fields(source text) returns text[] language sql immutable parallel safe
return case source
  when 'leads' then array['first_name', 'last_name', 'company_name', 'email', 'mobile', 'job_title']
  when 'customers' then array['first_name', 'last_name', 'company_name', 'email', 'mobile', 'phone']
  when 'accounts' then array['name', 'email', 'phone', 'website', 'industry', 'city']
  when 'deals' then array['name', 'currency_code', 'lost_reason', 'description']
  when 'tasks' then array['title', 'description', 'object']
  when 'activities' then array['summary', 'details']
  when 'custom_records' then '{}'::text[]
end;

-- Built-in fields that can take their place; the index <table>_search_more holds them and the texts among the tenant's own fields.
create function search_more_fields(source text) returns text[] language sql immutable parallel safe
return case source
  when 'leads' then array['website', 'city', 'state', 'country', 'postal_code', 'origin']
  when 'customers' then array['job_title', 'website', 'city', 'state', 'country', 'postal_code']
  when 'accounts' then array['state', 'country', 'postal_code']
  else '{}'::text[]
end;

-- The indexed expressions as text: the indexes are made of it and the search asks with it, so that the two are the same.
create function search_expression(source text, more boolean) returns text language sql immutable parallel safe
return case
  when more then format('search_grams_of(company_id, test_mode, custom, array[%s]::text[])', array_to_string(public.search_more_fields(source), ', '))
  when source = 'custom_records' then 'search_grams(company_id, test_mode, custom ->> ''name'')'
  else format('search_grams(company_id, test_mode, %s)', array_to_string(public.search_fields(source), ', '))
end;

-- What is waiting to be put into such an index is read by every search: little may wait.
do $$
declare
  source text;
  object text;
begin
  foreach source in array array['leads', 'customers', 'accounts', 'deals', 'tasks', 'activities', 'custom_records'] loop
    object := case source when 'custom_records' then ', object' else '' end;
    execute format('create index %I on %I using gin ((%s)) with (gin_pending_list_limit = 256)',
      source || '_search', source, search_expression(source, false));
    execute format('create index %I on %I using gin ((%s)) with (gin_pending_list_limit = 256)',
      source || '_search_more', source, search_expression(source, true));
    execute format('create policy search on %I for select to crm_search using (true)', source);
    execute format('grant select (company_id, test_mode%s%s, id, created_at, created_by_kind, created_by_id, created_by_user, custom%s) on %I to crm_search',
      object, case when source in ('activities', 'custom_records') then '' else ', assigned_to' end,
      (select string_agg(', ' || quote_ident(name), '') from unnest(search_fields(source) || search_more_fields(source)) name), source);
  end loop;
end $$;

-- The searched texts of a row `r` in one, and its score: in hundreds 0 where a field is the part, 1 where one begins with it, 2 where one has it;
-- then the place of the first such field.
create function search_text(fields text[], customs text[], out all_texts text, out score text) language sql stable as $$
  select format('lower(concat_ws(chr(31), %s))', string_agg(value, ', ')),
    format('case when strpos(lower(concat_ws(chr(31), %s)), $3) > 0 then least(%s) end', string_agg(value, ', '),
      string_agg(format('case when strpos(lower(%1$s), $3) = 1 then case when char_length(lower(%1$s)) = char_length($3) then %2$s else 100 + %2$s end
        when strpos(lower(%1$s), $3) > 1 then 200 + %2$s end', value, place - 1), ', '))
  from unnest(fields) with ordinality named(field, place),
    lateral (select format('left(%s, 1000)', case when field = any(customs) then format('r.custom ->> %L', field) else format('r.%I', field) end) as value) expression
$$;

/*
 Finds the ids of the best `take` records of an object that have a part in one of the fields, best first, with their scores.

 The newest 1,000 records and 100 more for each asked for are looked at one by one. Where they hold enough, the rest is only asked for
 what ranks higher, by the index, and what is asked for is rare: a part that many records have is found without reading them all.
 The index gives at most 2,000 rows, and 400 more for each asked for. Where either bound cut something off, `capped` is true and `total` is how many were seen.

 Those of the fields that are in `customs` are kept in the column custom. Only what a user of `members` or the key `actor` may see is found; null: everything of the company.
*/
create function find_records(company uuid, mode boolean, object text, part text, fields text[], customs text[], take int, members uuid[], actor text)
returns table (ids uuid[], scores int[], total int, capped boolean)
language plpgsql stable rows 1 security definer set search_path = pg_catalog, public, pg_temp set work_mem = '32MB' set jit = off
  set max_parallel_workers_per_gather = 0 as $$
declare
  source text := case when object like 'object:%' then 'custom_records' else object end;
  wanted text := lower(part);
  newest int := 1000 + 100 * take;
  most int := 2000 + 400 * take;
  belongs text := 'r.company_id = $1 and r.test_mode = $2' || case source when 'custom_records' then ' and r.object = $4' else '' end;
  created text := '(r.created_by_kind = ''api_key'' and r.created_by_id = $6 or r.created_by_user = any($5)
    or r.created_by_kind = ''user'' and r.created_by_id = any($5::text[]))';
  reach text := case
    when members is null then 'true'
    when source in ('activities', 'custom_records') then created
    else format('(r.assigned_to = any($5) or r.assigned_to is null and %s)', created) end;
  all_texts text;
  score text;
  best text := 'array_agg(id order by score / 100, created_at desc, id desc) filter (where score < $7),
    array_agg(score order by score / 100, created_at desc, id desc) filter (where score < $7),
    array_agg(created_at order by score / 100, created_at desc, id desc) filter (where score < $7)';
  indexed text := search_expression(source, false) || ' @> $8';
  bound int := 300;
  place text := 'anywhere';
  looked int;
  begun int;
  whole int;
  further_looked int;
  further int;
  times timestamptz[];
  further_ids uuid[];
  further_scores int[];
  further_times timestamptz[];
  sample text[];
begin
  if company is distinct from current_company() or mode is distinct from current_test_mode() or search_fields(source) is null then
    raise insufficient_privilege using message = 'a search is for the tenant of the transaction';
  end if;
  select text.all_texts, text.score into all_texts, score from search_text(fields, customs) text;
  execute format('select count(*), count(score), count(*) filter (where score < 200), count(*) filter (where score < 100), %s
    from (select r.id, r.created_at, case when %s then %s end as score from %I r where %s order by r.created_at desc, r.id desc limit $9) candidate',
    best, reach, score, source, belongs)
    into looked, total, begun, whole, ids, scores, times
    using company, mode, wanted, object, members, actor, bound, null::text[], newest;
  capped := looked = newest;
  if capped and whole < take then
    if begun >= take then
      bound := 100;
      place := 'whole';
    elsif total >= take then
      bound := 200;
      place := 'begin';
    end if;
    if exists (select from unnest(fields) field where field <> all(search_fields(source)) and (source, field) <> ('custom_records', 'name')) then
      indexed := format('(%s or %s @> $8)', indexed, search_expression(source, true));
    end if;
    execute format('select array(select %s from %I r where %s order by r.created_at desc, r.id desc limit 100)', all_texts, source, belongs)
      into sample using company, mode, wanted, object;
    execute format('select count(*), count(score) filter (where score < $7), %s
      from (select r.id, r.created_at, %s as score from %I r where %s and %s and %s limit $9) candidate', best, score, source, belongs, indexed, reach)
      into further_looked, further, further_ids, further_scores, further_times
      using company, mode, wanted, object, members, actor, bound, search_grams_in(wanted, place, sample, search_seed(company, mode)), most;
    total := case place when 'whole' then total - whole + further when 'begin' then total - begun + further else greatest(total, further) end;
    capped := place <> 'anywhere' or further_looked = most;
  end if;
  select array_agg(hit.id order by hit.rank), array_agg(hit.score order by hit.rank) into ids, scores
  from (
    select found.id, found.score, row_number() over (order by found.score / 100, found.time desc, found.id desc) as rank
    from (
      select * from unnest(ids, scores, times)
      union select * from unnest(further_ids, further_scores, further_times)
    ) found(id, score, time)
    order by rank
    limit take
  ) hit;
  return next;
end $$;

-- A new owner of a function must be able to create one.
grant create on schema public to crm_search;
alter function find_records(uuid, boolean, text, text, text[], text[], int, uuid[], text) owner to crm_search;
revoke create on schema public from crm_search;
revoke execute on function find_records(uuid, boolean, text, text, text[], text[], int, uuid[], text) from public;
grant execute on function find_records(uuid, boolean, text, text, text[], text[], int, uuid[], text) to crm_app;

-- The mean of numbers whose sum is exact, to two decimals; a half goes to the even neighbour.
create function half_even_mean(total numeric, numbers bigint) returns numeric language sql immutable parallel safe
return case
  when numbers = 0 or total is null then null
  when 2 * abs(mod(total * 100, numbers)) < numbers or 2 * abs(mod(total * 100, numbers)) = numbers and mod(div(total * 100, numbers), 2) = 0
    then div(total * 100, numbers) / 100
  else (div(total * 100, numbers) + sign(total)) / 100
end;

create table saved_reports (
  company_id uuid not null references companies (id) on delete cascade,
  id uuid not null,
  name text not null,
  -- leads, or object:visits
  object text not null,
  config jsonb not null default '{}',
  is_shared boolean not null default false,
  created_by_kind text not null,
  created_by_id text not null,
  created_by_name text,
  created_by_user uuid,
  created_at timestamptz(3) not null,
  updated_at timestamptz(3) not null,
  primary key (company_id, id)
);
create index saved_reports_listed on saved_reports (company_id, created_at desc, id desc);
alter table saved_reports enable row level security;
alter table saved_reports force row level security;
create policy tenant on saved_reports to crm_app using (company_id = current_company()) with check (company_id = current_company());
grant select on saved_reports to crm_app;
