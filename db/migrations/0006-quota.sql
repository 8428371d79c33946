-- The monthly quota: what agreements say about it, and the calls that each company has made in its current month.

alter table subscriptions
  -- Where an agreement says something other than the package; without a package of the catalogue, null means unlimited.
  add column api_call_cap bigint check (api_call_cap > 0),
  add column api_daily_cap int check (api_daily_cap > 0);

-- Whole months from one time to another, in UTC; months of the quota start on the same day and hour as the subscription's period.
create function whole_months(since timestamptz, until timestamptz) returns int language sql stable parallel safe as $$
  select months - (since at time zone 'UTC' + make_interval(months => months) > until at time zone 'UTC')::int
  from (
    select (extract(year from until at time zone 'UTC') - extract(year from since at time zone 'UTC'))::int * 12
      + (extract(month from until at time zone 'UTC') - extract(month from since at time zone 'UTC'))::int as months
  ) as calendar
$$;

create function add_months(since timestamptz, months int) returns timestamptz language sql stable parallel safe
  return (since at time zone 'UTC' + make_interval(months => months)) at time zone 'UTC';

-- Apart from the subscription, so that its row is not rewritten by every call; made with it, so that the count needs no insert.
create table api_quota (
  company_id uuid primary key references companies (id) on delete cascade,
  month_start timestamptz(3) not null,
  calls bigint not null default 0
) with (fillfactor = 50);
insert into api_quota (company_id, month_start) select company_id, period_start from subscriptions;

alter table api_quota enable row level security;
alter table api_quota force row level security;
create policy tenant on api_quota to crm_app using (company_id = current_company()) with check (company_id = current_company());
create policy platform on api_quota to crm_platform using (true) with check (true);
grant select, insert on api_quota to crm_app;
grant select, insert, update on api_quota to crm_platform;
grant select (trial_ends_at, period_start, period_end, api_call_cap, api_daily_cap) on subscriptions to crm_platform;

create function open_quota() returns trigger language plpgsql as $$
begin
  insert into api_quota (company_id, month_start) values (new.company_id, new.period_start) on conflict do nothing;
  return null;
end $$;
create trigger open_quota after insert on subscriptions for each row execute function open_quota();

-- The operator's company is its own customer: unlimited, with a ceiling as high as the highest plan's.
insert into subscriptions (company_id, status, package_code, api_rate_limit_per_minute, period_start, period_end, created_at, updated_at)
select id, 'active', 'platform', 3000, created_at, created_at, now(), now() from companies where id = '00000000-0000-7000-8000-000000000000'
on conflict do nothing;
