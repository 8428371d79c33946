-- A calendar that was connected and not read yet says nothing of its owner's time: until then the owner is not free.

-- null: no look has gone well since it was connected.
alter table user_calendars alter looked_until drop not null;
-- The owner's update would otherwise see no row.
alter table user_calendars no force row level security;
update user_calendars set looked_until = null where looked_until <= updated_at;
alter table user_calendars force row level security;

-- First looks do not wait for the looks that come again and again.
create index user_calendars_unread on user_calendars (due_at) where looked_until is null;
grant select (looked_until) on user_calendars to crm_platform;

-- Any part of a number on the do-not-call list is searched in the index alone, the newest entries of the tenant first. Row-level security lets no
-- index decide about a part of a text, so the part is a filter on what the index holds.
create index do_not_call_searched on do_not_call (company_id, test_mode, created_at desc, id desc) include (phone_number);
drop index do_not_call_listed;
