-- Statements of lists and searches, written by list-statements.test.ts: parameters, then the text.

-- a common page
-- ["company",false]
select <record>, r."created_at", r."id"
from leads r
where r.company_id = $1
and r.test_mode = $2
order by r."created_at" desc, r."id" desc
limit 26;

-- the next common page of one status
-- ["company",false,"019a9f5e-0000-7000-8000-000000000004","2026-01-01T00:00:00.000Z","019a9f5e-0000-7000-8000-000000000003"]
select <record>, r."created_at", r."id"
from leads r
where r.company_id = $1
and r.test_mode = $2
and (r."lead_status_id", r."created_at", r."id") < ($3, $4, $5)
and r."lead_status_id" >= $3
order by r."lead_status_id" desc, r."created_at" desc, r."id" desc
limit 26;

-- a filter on a built-in and a custom field
-- ["budget",255,"company",false,"Berlin","leads","budget",["5000"],"budget",5000,"budget",255,26]
select <record>, left(r.custom ->> $1::text, $2::int) collate "C" as "key_0" , r."id" as "key_1"
from "leads" r
where r.company_id = $3
and r.test_mode = $4
and ( r."city" collate "C" = $5::text
  and exists ( select
    from custom_value_hashes h
    where h.company_id = r.company_id
    and h.test_mode = r.test_mode
    and h.record_id = r.id
    and h.hash in (select custom_value_hash($6::text, $7::text, value)
      from unnest($8::text[]) value) )
  and (r.custom ->> $9::text) = $10::text)
order by left(r.custom ->> $11::text, $12::int) collate "C" desc nulls last , r."id" desc
limit $13;

-- a filter through a reference to one record
-- ["company",false,"company",false,"Berlin",26]
select <record>, r."created_at" as "key_0" , r."id" as "key_1"
from "leads" r
where r.company_id = $1
and r.test_mode = $2
and exists (select
  from "customers" related
  where related.company_id = $3
  and related.test_mode = $4
  and related.id = r."converted_customer_id"
  and related."city" collate "C" = $5::text)
order by r."created_at" desc , r."id" desc
limit $6;

-- a filter on the records that refer to one
-- ["company",false,"company",false,1000,26]
select <record>, r."created_at" as "key_0" , r."id" as "key_1"
from "leads" r
where r.company_id = $1
and r.test_mode = $2
and not exists (select
  from "deals" related
  where related.company_id = $3
  and related.test_mode = $4
  and related."lead_id" = r.id
  and related."amount_minor" > $5::bigint)
order by r."created_at" desc , r."id" desc
limit $6;

-- a filter on linked records
-- ["company",false,"company",false,"019a9f5e-0000-7000-8000-000000000004","company",false,"Retail",26]
select <record>, r."created_at" as "key_0" , r."id" as "key_1"
from "leads" r
where r.company_id = $1
and r.test_mode = $2
and exists (select
  from links l join "accounts" related on related.id = l."from_id"
  where l.company_id = $3
  and l.test_mode = $4
  and l.link_type_id = $5
  and l."to_id" = r.id
  and related.company_id = $6
  and related.test_mode = $7
  and related."industry" collate "C" = $8::text)
order by r."created_at" desc , r."id" desc
limit $9;

-- a filter on records of an object that the caller cannot see
-- ["company",false,26]
select <record>, r."created_at" as "key_0" , r."id" as "key_1"
from "leads" r
where r.company_id = $1
and r.test_mode = $2
and false
order by r."created_at" desc , r."id" desc
limit $3;

-- a filter on linked records that a branch sees
-- ["company","019a9f5e-0000-7000-8000-000000000001","company",false,5001,"company","019a9f5e-0000-7000-8000-000000000001","company",false,5001,"company",false,"019a9f5e-0000-7000-8000-000000000002",5001,5001,5001]
select count(*)::int as count
from (select
  from ( select r.*
    from ( select id
      from users
      where company_id = $1
      and "branch_id" = $2) member
    cross join lateral (select r.id
      from "leads" r
      where r.company_id = $3
      and r.test_mode = $4
      and r.assigned_to = member.id
      limit $5) r
    union all select r.*
    from ( select id
      from users
      where company_id = $6
      and "branch_id" = $7) member
    cross join lateral (select r.id
      from "leads" r
      where r.company_id = $8
      and r.test_mode = $9
      and r.assigned_to is null
      and r.created_by_user = member.id
      limit $10) r
    union all (select r.id
      from ( select r.*
        from "leads" r
        where r.company_id = $11
        and r.test_mode = $12
        and r.assigned_to is null
        and r.created_by_kind = 'api_key'
        and r.created_by_user is null
        and r.created_by_id = $13
        limit $14) r
      where true
      limit $15)) r
  limit $16) counted;
-- ["company","019a9f5e-0000-7000-8000-000000000001","company",false,"company","019a9f5e-0000-7000-8000-000000000001","company",false,"company",false,"019a9f5e-0000-7000-8000-000000000002",5001,"company",false,"019a9f5e-0000-7000-8000-000000000004","company",false,"company","019a9f5e-0000-7000-8000-000000000001","019a9f5e-0000-7000-8000-000000000002","company","019a9f5e-0000-7000-8000-000000000001","Retail",26]
select <record>, r."city" collate "C" as "key_0" , r."id" as "key_1"
from ( select r.*
  from ( select id
    from users
    where company_id = $1
    and "branch_id" = $2) member
  cross join lateral (select r.*
    from "leads" r
    where r.company_id = $3
    and r.test_mode = $4
    and r.assigned_to = member.id ) r
  union all select r.*
  from ( select id
    from users
    where company_id = $5
    and "branch_id" = $6) member
  cross join lateral (select r.*
    from "leads" r
    where r.company_id = $7
    and r.test_mode = $8
    and r.assigned_to is null
    and r.created_by_user = member.id ) r
  union all (select r.*
    from ( select r.*
      from "leads" r
      where r.company_id = $9
      and r.test_mode = $10
      and r.assigned_to is null
      and r.created_by_kind = 'api_key'
      and r.created_by_user is null
      and r.created_by_id = $11
      limit $12) r
    where true )) r
where true
and exists (select
  from links l join "accounts" related on related.id = l."from_id"
  where l.company_id = $13
  and l.test_mode = $14
  and l.link_type_id = $15
  and l."to_id" = r.id
  and related.company_id = $16
  and related.test_mode = $17
  and (related.assigned_to in ( select id
      from users
      where company_id = $18
      and "branch_id" = $19) or related.assigned_to is null
    and ( related.created_by_kind = 'api_key'
      and related.created_by_id = $20 or related.created_by_user in ( select id
        from users
        where company_id = $21
        and "branch_id" = $22) ))
  and related."industry" collate "C" = $23::text)
and r."city" is not null
order by r."city" collate "C" asc , r."id" asc
limit $24;
-- ["company","019a9f5e-0000-7000-8000-000000000001","company",false,"company","019a9f5e-0000-7000-8000-000000000001","company",false,"company",false,"019a9f5e-0000-7000-8000-000000000002",5001,"company",false,"019a9f5e-0000-7000-8000-000000000004","company",false,"company","019a9f5e-0000-7000-8000-000000000001","019a9f5e-0000-7000-8000-000000000002","company","019a9f5e-0000-7000-8000-000000000001","Retail",26]
select <record>, r."city" collate "C" as "key_0" , r."id" as "key_1"
from ( select r.*
  from ( select id
    from users
    where company_id = $1
    and "branch_id" = $2) member
  cross join lateral (select r.*
    from "leads" r
    where r.company_id = $3
    and r.test_mode = $4
    and r.assigned_to = member.id ) r
  union all select r.*
  from ( select id
    from users
    where company_id = $5
    and "branch_id" = $6) member
  cross join lateral (select r.*
    from "leads" r
    where r.company_id = $7
    and r.test_mode = $8
    and r.assigned_to is null
    and r.created_by_user = member.id ) r
  union all (select r.*
    from ( select r.*
      from "leads" r
      where r.company_id = $9
      and r.test_mode = $10
      and r.assigned_to is null
      and r.created_by_kind = 'api_key'
      and r.created_by_user is null
      and r.created_by_id = $11
      limit $12) r
    where true )) r
where true
and exists (select
  from links l join "accounts" related on related.id = l."from_id"
  where l.company_id = $13
  and l.test_mode = $14
  and l.link_type_id = $15
  and l."to_id" = r.id
  and related.company_id = $16
  and related.test_mode = $17
  and (related.assigned_to in ( select id
      from users
      where company_id = $18
      and "branch_id" = $19) or related.assigned_to is null
    and ( related.created_by_kind = 'api_key'
      and related.created_by_id = $20 or related.created_by_user in ( select id
        from users
        where company_id = $21
        and "branch_id" = $22) ))
  and related."industry" collate "C" = $23::text)
and r."city" is null
order by r."id" asc
limit $24;

-- an order by an indexed field, after a row
-- ["company",false,"Berlin","019a9f5e-0000-7000-8000-000000000003",26]
select <record>, r."city" collate "C" as "key_0" , r."id" as "key_1"
from "leads" r
where r.company_id = $1
and r.test_mode = $2
and r."city" is not null
and ( r."city" collate "C" , r."id") > ( $3::text , $4::uuid)
order by r."city" collate "C" asc , r."id" asc
limit $5;
-- ["company",false,26]
select <record>, r."city" collate "C" as "key_0" , r."id" as "key_1"
from "leads" r
where r.company_id = $1
and r.test_mode = $2
and r."city" is null
order by r."id" asc
limit $3;

-- the same, after a row without a value
-- ["company",false,"019a9f5e-0000-7000-8000-000000000003",26]
select <record>, r."city" collate "C" as "key_0" , r."id" as "key_1"
from "leads" r
where r.company_id = $1
and r.test_mode = $2
and r."city" is null
and ( r."id") > ( $3::uuid)
order by r."id" asc
limit $4;

-- an order by a custom field, after a row
-- ["budget",255,"company",false,"budget",255,"5000","budget",255,"budget",255,"5000","019a9f5e-0000-7000-8000-000000000003","019a9f5e-0000-7000-8000-000000000003","budget",255,26]
select <record>, left(r.custom ->> $1::text, $2::int) collate "C" as "key_0" , r."id" as "key_1"
from "leads" r
where r.company_id = $3
and r.test_mode = $4
and (left(r.custom ->> $5::text, $6::int) collate "C" < $7::text or left(r.custom ->> $8::text, $9::int) collate "C" is null or left(r.custom ->> $10::text, $11::int) collate "C" = $12::text
  and (r."id" < $13::uuid or r."id" = $14::uuid
    and false))
order by left(r.custom ->> $15::text, $16::int) collate "C" desc nulls last , r."id" desc
limit $17;

-- an order by a list
-- ["company",false,26]
select <record>, "list_0".name collate "C" as "key_0" , r."id" as "key_1"
from "leads" r
left join "sources" "list_0" on "list_0".company_id = r.company_id
and "list_0".id = r."source_id"
where r.company_id = $1
and r.test_mode = $2
order by "list_0".name collate "C" asc nulls last , r."id" asc
limit $3;

-- records of a custom object
-- ["company",false,"object:boats","name","%50\\%%",27]
select <record>, r."created_at" as "key_0" , r."id" as "key_1"
from "custom_records" r
where r.company_id = $1
and r.test_mode = $2
and r.object = $3
and (r.custom ->> $4::text) ilike $5::text
order by r."created_at" desc , r."id" desc
limit $6;

-- what a branch sees, by age
-- ["company",false,"019a9f5e-0000-7000-8000-000000000002",5001,5001]
select count(*)::int as count
from (select
  from ( select r.id
    from "leads" r
    where r.company_id = $1
    and r.test_mode = $2
    and r.assigned_to is null
    and r.created_by_kind = 'api_key'
    and r.created_by_user is null
    and r.created_by_id = $3
    limit $4) r
  limit $5) counted;
-- ["company","019a9f5e-0000-7000-8000-000000000001","company",false,26,"company","019a9f5e-0000-7000-8000-000000000001","company",false,26,"company",false,"019a9f5e-0000-7000-8000-000000000002",5001,26,26]
select <record>, r."created_at" as "key_0" , r."id" as "key_1"
from ( select r.*
  from ( select id
    from users
    where company_id = $1
    and "branch_id" = $2) member
  cross join lateral (select r.*
    from "leads" r
    where r.company_id = $3
    and r.test_mode = $4
    and r.assigned_to = member.id
    order by r."created_at" desc , r."id" desc
    limit $5) r
  union all select r.*
  from ( select id
    from users
    where company_id = $6
    and "branch_id" = $7) member
  cross join lateral (select r.*
    from "leads" r
    where r.company_id = $8
    and r.test_mode = $9
    and r.assigned_to is null
    and r.created_by_user = member.id
    order by r."created_at" desc , r."id" desc
    limit $10) r
  union all (select r.*
    from ( select r.*
      from "leads" r
      where r.company_id = $11
      and r.test_mode = $12
      and r.assigned_to is null
      and r.created_by_kind = 'api_key'
      and r.created_by_user is null
      and r.created_by_id = $13
      limit $14) r
    where true
    order by r."created_at" desc , r."id" desc
    limit $15)) r
where true
order by r."created_at" desc , r."id" desc
limit $16;

-- what a branch sees, in another order
-- ["company","019a9f5e-0000-7000-8000-000000000001","company",false,5001,"company","019a9f5e-0000-7000-8000-000000000001","company",false,5001,"company",false,"019a9f5e-0000-7000-8000-000000000002",5001,5001,5001]
select count(*)::int as count
from (select
  from ( select r.*
    from ( select id
      from users
      where company_id = $1
      and "branch_id" = $2) member
    cross join lateral (select r.id
      from "leads" r
      where r.company_id = $3
      and r.test_mode = $4
      and r.assigned_to = member.id
      limit $5) r
    union all select r.*
    from ( select id
      from users
      where company_id = $6
      and "branch_id" = $7) member
    cross join lateral (select r.id
      from "leads" r
      where r.company_id = $8
      and r.test_mode = $9
      and r.assigned_to is null
      and r.created_by_user = member.id
      limit $10) r
    union all (select r.id
      from ( select r.*
        from "leads" r
        where r.company_id = $11
        and r.test_mode = $12
        and r.assigned_to is null
        and r.created_by_kind = 'api_key'
        and r.created_by_user is null
        and r.created_by_id = $13
        limit $14) r
      where true
      limit $15)) r
  limit $16) counted;
-- ["company","019a9f5e-0000-7000-8000-000000000001","company",false,"company","019a9f5e-0000-7000-8000-000000000001","company",false,"company",false,"019a9f5e-0000-7000-8000-000000000002",5001,26]
select <record>, r."city" collate "C" as "key_0" , r."id" as "key_1"
from ( select r.*
  from ( select id
    from users
    where company_id = $1
    and "branch_id" = $2) member
  cross join lateral (select r.*
    from "leads" r
    where r.company_id = $3
    and r.test_mode = $4
    and r.assigned_to = member.id ) r
  union all select r.*
  from ( select id
    from users
    where company_id = $5
    and "branch_id" = $6) member
  cross join lateral (select r.*
    from "leads" r
    where r.company_id = $7
    and r.test_mode = $8
    and r.assigned_to is null
    and r.created_by_user = member.id ) r
  union all (select r.*
    from ( select r.*
      from "leads" r
      where r.company_id = $9
      and r.test_mode = $10
      and r.assigned_to is null
      and r.created_by_kind = 'api_key'
      and r.created_by_user is null
      and r.created_by_id = $11
      limit $12) r
    where true )) r
where true
and r."city" is not null
order by r."city" collate "C" asc , r."id" asc
limit $13;
-- ["company","019a9f5e-0000-7000-8000-000000000001","company",false,"company","019a9f5e-0000-7000-8000-000000000001","company",false,"company",false,"019a9f5e-0000-7000-8000-000000000002",5001,26]
select <record>, r."city" collate "C" as "key_0" , r."id" as "key_1"
from ( select r.*
  from ( select id
    from users
    where company_id = $1
    and "branch_id" = $2) member
  cross join lateral (select r.*
    from "leads" r
    where r.company_id = $3
    and r.test_mode = $4
    and r.assigned_to = member.id ) r
  union all select r.*
  from ( select id
    from users
    where company_id = $5
    and "branch_id" = $6) member
  cross join lateral (select r.*
    from "leads" r
    where r.company_id = $7
    and r.test_mode = $8
    and r.assigned_to is null
    and r.created_by_user = member.id ) r
  union all (select r.*
    from ( select r.*
      from "leads" r
      where r.company_id = $9
      and r.test_mode = $10
      and r.assigned_to is null
      and r.created_by_kind = 'api_key'
      and r.created_by_user is null
      and r.created_by_id = $11
      limit $12) r
    where true )) r
where true
and r."city" is null
order by r."id" asc
limit $13;

-- a search of a company
-- ["ber","company",false,600,"company",false,"leads","company",false,"leads",4,"company",false,"leads","shirt_size","company",false,3,1,3,2,1,"shirt_size",1,132673,261013,"company",false,"leads","company",false]
with asked as materialized ( select lower($1::text) as part ), newest as materialized ( select r.id
  from "leads" r
  where r.company_id = $2
  and r.test_mode = $3
  order by r."created_at" desc, r.id desc
  limit $4 ), without as ( select record_id
  from ( select unnest(record_ids) as record_id, unnest(texts) as text
    from search_blocks
    where company_id = $5
    and test_mode = $6
    and object = $7
    and block > (select max(block)
      from search_blocks
      where company_id = $8
      and test_mode = $9
      and object = $10) - $11::int ) lines
  where strpos(text, (select part
      from asked)) = 0
  and record_id not in (select record_id
    from search_changes
    where company_id = $12
    and test_mode = $13
    and object = $14) ), looked as materialized ( select r.id, r.created_at, case when true then case when strpos(given.texts, asked.part) = 0 then null when strpos(given.texts, chr(31) || asked.part) = 0 then 2 when strpos(given.texts, chr(31) || asked.part || chr(31)) = 0 then 1 else 0 end end as rank
  from asked, "leads" r, lateral (select chr(31) || lower(concat_ws(chr(31), left(r."first_name", 1000), left(r.custom ->> $15::text, 1000))) || chr(31) as texts offset 0) given
  where r.company_id = $16
  and r.test_mode = $17
  and r.id = any(array(select id
      from newest
      where id not in (select record_id
        from without))) ), best as ( select id, created_at, rank
  from looked
  where rank < $18
  order by rank, created_at desc, id desc
  limit $19 ), counted as ( select (select count(*)::int
    from newest) as looked, (count(*) filter (where rank < $20))::int as total, (count(*) filter (where rank < $21))::int as begun, (count(*) filter (where rank < $22))::int as whole
  from looked ) select <record>, best.rank, ( select place - 1
  from unnest(array[left(r."first_name", 1000), left(r.custom ->> $23::text, 1000)]) with ordinality given (text, place)
  where case when strpos(chr(31) || lower(concat_ws(chr(31), given.text)) || chr(31), asked.part) = 0 then null when strpos(chr(31) || lower(concat_ws(chr(31), given.text)) || chr(31), chr(31) || asked.part) = 0 then 2 when strpos(chr(31) || lower(concat_ws(chr(31), given.text)) || chr(31), chr(31) || asked.part || chr(31)) = 0 then 1 else 0 end = best.rank
  order by place
  limit 1 )::int, counted.looked, counted.total, counted.begun, counted.whole, asked.part, case when counted.total < $24 then (select string_agg(int4send(number) || substr(words, $25::int, 4) || substr(words, $26::int, 4), ''
    order by number desc)
  from search_signatures
  where company_id = $27
  and test_mode = $28
  and object = $29) end
from asked, counted
left join best on true
left join "leads" r on r.company_id = $30
and r.test_mode = $31
and r.id = best.id;
-- ["ber","company",false,"leads",5000,"company",false,"leads",0,[],"ber",1250,"shirt_size","company",false,[],3,1,3,2,1,"shirt_size",5000,1250,"company",false]
with asked as materialized ( select lower($1::text) as part ), waiting as ( select record_id
  from search_changes
  where company_id = $2
  and test_mode = $3
  and object = $4
  order by id desc
  limit $5 ), stored as ( select record_id
  from ( select unnest(record_ids) as record_id, unnest(texts) as text
    from search_blocks
    where company_id = $6
    and test_mode = $7
    and object = $8
    and (block >= $9 or block = any($10::int[])) ) lines
  where strpos(text, $11) > 0
  limit $12 ), looked as materialized ( select r.id, r.created_at, case when true then case when strpos(given.texts, asked.part) = 0 then null when strpos(given.texts, chr(31) || asked.part) = 0 then 2 when strpos(given.texts, chr(31) || asked.part || chr(31)) = 0 then 1 else 0 end end as rank
  from asked, "leads" r, lateral (select chr(31) || lower(concat_ws(chr(31), left(r."first_name", 1000), left(r.custom ->> $13::text, 1000))) || chr(31) as texts offset 0) given
  where r.company_id = $14
  and r.test_mode = $15
  and r.id = any(array( select record_id
      from (select record_id
        from waiting union select record_id
        from stored) known
      where record_id <> all($16::uuid[]))) ), best as ( select id, created_at, rank
  from looked
  where rank < $17
  order by rank, created_at desc, id desc
  limit $18 ), counted as ( select (select count(*)::int
    from looked) as looked, (count(*) filter (where rank < $19))::int as total, (count(*) filter (where rank < $20))::int as begun, (count(*) filter (where rank < $21))::int as whole
  from looked ) select <record>, best.rank, ( select place - 1
  from unnest(array[left(r."first_name", 1000), left(r.custom ->> $22::text, 1000)]) with ordinality given (text, place)
  where case when strpos(chr(31) || lower(concat_ws(chr(31), given.text)) || chr(31), asked.part) = 0 then null when strpos(chr(31) || lower(concat_ws(chr(31), given.text)) || chr(31), chr(31) || asked.part) = 0 then 2 when strpos(chr(31) || lower(concat_ws(chr(31), given.text)) || chr(31), chr(31) || asked.part || chr(31)) = 0 then 1 else 0 end = best.rank
  order by place
  limit 1 )::int, counted.looked, counted.total, counted.begun, counted.whole, asked.part, (select count(*)
  from waiting) = $23 or (select count(*)
  from stored) = $24
from asked, counted
left join best on true
left join "leads" r on r.company_id = $25
and r.test_mode = $26
and r.id = best.id;

-- a search of what a branch sees
-- ["company",false,"019a9f5e-0000-7000-8000-000000000002",5001,5001]
select count(*)::int as count
from (select
  from ( select r.id
    from "leads" r
    where r.company_id = $1
    and r.test_mode = $2
    and r.assigned_to is null
    and r.created_by_kind = 'api_key'
    and r.created_by_user is null
    and r.created_by_id = $3
    limit $4) r
  limit $5) counted;
-- ["ber","company","019a9f5e-0000-7000-8000-000000000001","company",false,600,"company","019a9f5e-0000-7000-8000-000000000001","company",false,600,"company",false,"019a9f5e-0000-7000-8000-000000000002",5001,600,600,"company",false,"leads","company",false,"leads",4,"company",false,"leads","company","019a9f5e-0000-7000-8000-000000000001","019a9f5e-0000-7000-8000-000000000002","company","019a9f5e-0000-7000-8000-000000000001","shirt_size","company",false,3,1,3,2,1,"shirt_size",1,132673,261013,"company",false,"leads","company",false]
with asked as materialized ( select lower($1::text) as part ), newest as materialized ( select r.id
  from ( select r.*
    from ( select id
      from users
      where company_id = $2
      and "branch_id" = $3) member
    cross join lateral (select r.*
      from "leads" r
      where r.company_id = $4
      and r.test_mode = $5
      and r.assigned_to = member.id
      order by r."created_at" desc, r.id desc
      limit $6) r
    union all select r.*
    from ( select id
      from users
      where company_id = $7
      and "branch_id" = $8) member
    cross join lateral (select r.*
      from "leads" r
      where r.company_id = $9
      and r.test_mode = $10
      and r.assigned_to is null
      and r.created_by_user = member.id
      order by r."created_at" desc, r.id desc
      limit $11) r
    union all (select r.*
      from ( select r.*
        from "leads" r
        where r.company_id = $12
        and r.test_mode = $13
        and r.assigned_to is null
        and r.created_by_kind = 'api_key'
        and r.created_by_user is null
        and r.created_by_id = $14
        limit $15) r
      where true
      order by r."created_at" desc, r.id desc
      limit $16)) r
  where true
  order by r."created_at" desc, r.id desc
  limit $17 ), without as ( select record_id
  from ( select unnest(record_ids) as record_id, unnest(texts) as text
    from search_blocks
    where company_id = $18
    and test_mode = $19
    and object = $20
    and block > (select max(block)
      from search_blocks
      where company_id = $21
      and test_mode = $22
      and object = $23) - $24::int ) lines
  where strpos(text, (select part
      from asked)) = 0
  and record_id not in (select record_id
    from search_changes
    where company_id = $25
    and test_mode = $26
    and object = $27) ), looked as materialized ( select r.id, r.created_at, case when (assigned_to in ( select id
      from users
      where company_id = $28
      and "branch_id" = $29) or assigned_to is null
    and ( created_by_kind = 'api_key'
      and created_by_id = $30 or created_by_user in ( select id
        from users
        where company_id = $31
        and "branch_id" = $32) )) then case when strpos(given.texts, asked.part) = 0 then null when strpos(given.texts, chr(31) || asked.part) = 0 then 2 when strpos(given.texts, chr(31) || asked.part || chr(31)) = 0 then 1 else 0 end end as rank
  from asked, "leads" r, lateral (select chr(31) || lower(concat_ws(chr(31), left(r."first_name", 1000), left(r.custom ->> $33::text, 1000))) || chr(31) as texts offset 0) given
  where r.company_id = $34
  and r.test_mode = $35
  and r.id = any(array(select id
      from newest
      where id not in (select record_id
        from without))) ), best as ( select id, created_at, rank
  from looked
  where rank < $36
  order by rank, created_at desc, id desc
  limit $37 ), counted as ( select (select count(*)::int
    from newest) as looked, (count(*) filter (where rank < $38))::int as total, (count(*) filter (where rank < $39))::int as begun, (count(*) filter (where rank < $40))::int as whole
  from looked ) select <record>, best.rank, ( select place - 1
  from unnest(array[left(r."first_name", 1000), left(r.custom ->> $41::text, 1000)]) with ordinality given (text, place)
  where case when strpos(chr(31) || lower(concat_ws(chr(31), given.text)) || chr(31), asked.part) = 0 then null when strpos(chr(31) || lower(concat_ws(chr(31), given.text)) || chr(31), chr(31) || asked.part) = 0 then 2 when strpos(chr(31) || lower(concat_ws(chr(31), given.text)) || chr(31), chr(31) || asked.part || chr(31)) = 0 then 1 else 0 end = best.rank
  order by place
  limit 1 )::int, counted.looked, counted.total, counted.begun, counted.whole, asked.part, case when counted.total < $42 then (select string_agg(int4send(number) || substr(words, $43::int, 4) || substr(words, $44::int, 4), ''
    order by number desc)
  from search_signatures
  where company_id = $45
  and test_mode = $46
  and object = $47) end
from asked, counted
left join best on true
left join "leads" r on r.company_id = $48
and r.test_mode = $49
and r.id = best.id;
