-- What lets a request go to the database in one message: a claim that fails by itself, versions of credentials, calls in blocks.

-- A call that goes out holds its Idempotency-Key by a row with the status 0, since it holds no connection meanwhile; until when it may be
-- thought alive.
alter table idempotency_records add column leased_until timestamptz(3);

-- Claims an Idempotency-Key until the transaction ends, and fails where it is taken, so that what is sent behind it does nothing. The look
-- for an answer is a statement of its own: it must see what the lock's last holder committed.
create function claim_key(of_company uuid, in_test_mode boolean, at_endpoint text, of_key text, key_lock bigint, body_lock bigint)
returns void language plpgsql as $$
declare
  locked boolean;
begin
  select pg_try_advisory_xact_lock(key_lock) into locked
  from (select pg_advisory_xact_lock_shared(body_lock) from companies where id = of_company offset 0) as shared;
  if locked is null then
    raise exception 'an Idempotency-Key is claimed in a company that is not there';
  end if;
  if not locked or exists (
    select from idempotency_records
    where company_id = of_company and test_mode = in_test_mode and endpoint = at_endpoint and key = of_key
      and created_at > now() - interval '24 hours' and (leased_until is null or leased_until > now())
  ) then
    raise exception 'the key is taken' using errcode = 'CK001';
  end if;
end $$;

-- The versions of the rows that a credential's look-up reads.
grant select (xmin) on api_keys, companies, subscriptions to crm_platform;

-- The same as one text, for a request that asks whether its key is still what it was: the statement is planned once, and then named by its
-- ids alone, so that it can stand in the message that begins a transaction. null: there is no such key.
create function key_stamp(of_company uuid, of_key uuid) returns text stable language plpgsql as $$
begin
  return (
    select concat_ws(' ', k.xmin, c.xmin, s.xmin)
    from api_keys k
    join companies c on c.id = of_company
    left join subscriptions s on s.company_id = of_company
    where k.company_id = of_company and k.id = of_key
  );
end $$;

-- Calls of a month that a process has charged ahead and not used yet, so that not every call is a write. What a process that died had
-- left goes back to the month.
create table api_quota_blocks (
  company_id uuid not null references companies (id) on delete cascade,
  holder uuid not null,
  month_start timestamptz(3) not null,
  calls bigint not null check (calls >= 0),
  renewed_at timestamptz(3) not null,
  primary key (company_id, holder)
) with (fillfactor = 50);
create index api_quota_blocks_by_age on api_quota_blocks (renewed_at);
alter table api_quota_blocks enable row level security;
alter table api_quota_blocks force row level security;
create policy tenant on api_quota_blocks to crm_app using (company_id = current_company()) with check (company_id = current_company());
create policy platform on api_quota_blocks to crm_platform using (true) with check (true);
grant select on api_quota_blocks to crm_app;
grant select, insert, update, delete on api_quota_blocks to crm_platform;
