-- Weekdays of working hours count from Sunday, like the business days of SLA policies: 0 is Sunday and
-- 6 is Saturday. Until now 0 was Monday here.
create function pg_temp.from_sunday(hours jsonb) returns jsonb language sql as $$
  select coalesce(jsonb_agg(hour || jsonb_build_object('weekday', ((hour ->> 'weekday')::int + 1) % 7) order by place), '[]')
  from jsonb_array_elements(hours) with ordinality as each (hour, place)
$$;

-- The owner's updates would otherwise see no row.
alter table scheduling_policies no force row level security;
alter table user_working_hours no force row level security;
update scheduling_policies set working_hours = pg_temp.from_sunday(working_hours) where jsonb_typeof(working_hours) = 'array';
update user_working_hours set weekly = pg_temp.from_sunday(weekly);
alter table scheduling_policies force row level security;
alter table user_working_hours force row level security;

-- A user may have days off without hours of their own.
alter table user_working_hours alter column timezone drop not null, alter column weekly drop not null;
alter table user_working_hours add constraint user_working_hours_whole check ((timezone is null) = (weekly is null));
