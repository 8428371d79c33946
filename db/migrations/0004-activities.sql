-- Activities: how long one took and how it ended, and an index for every order and filter that their list offers; contacts of customers.

alter table activities
  add column duration_seconds int check (duration_seconds between 0 and 86400),
  add column outcome text;

-- An entity's id alone names it, so its kind need not lead the index; both ways of asking use this one.
drop index activities_of_entity;
create index activities_of_entity on activities (company_id, test_mode, entity_id, performed_at desc, id desc);
create index activities_of_entity_type on activities (company_id, test_mode, entity_type, performed_at desc, id desc);
create index activities_of_type on activities (company_id, test_mode, activity_type_id, performed_at desc, id desc);
create index activities_of_creator on activities (company_id, test_mode, created_by_id, performed_at desc, id desc);

-- The people of an account, in the order that a profile shows them.
drop index customers_of_account;
create index customers_of_account on customers (company_id, test_mode, account_id, created_at, id) where account_id is not null;
