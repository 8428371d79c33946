-- What an app may do is allowed for the API or for assistants (MCP), each by a grant of its own; more groups; tokens that ended before their time.
alter table oauth_grants drop constraint oauth_grants_groups_check;
alter table oauth_grants add constraint oauth_grants_groups_check
  check (groups <@ array['records', 'pipeline', 'automation', 'calendar', 'messaging', 'billing', 'admin']);
alter table oauth_grants
  -- null: either of them. So are grants of the time before, and of another issuer.
  add column audience text check (audience in ('api', 'mcp')),
  -- What came of one consent, by its id, and when its tokens ended: for as long as an access token of it could still be good.
  add column ended_families jsonb not null default '{}';

drop index oauth_grants_active;
create unique index oauth_grants_active on oauth_grants (company_id, user_id, client_id, audience) nulls not distinct where revoked_at is null;

-- The group Pipeline is for every custom object: the look-up of a grant reads which there are.
create policy platform on custom_objects for select to crm_platform using (true);
grant select (company_id, slug) on custom_objects to crm_platform;
