-- Objects of a tenant: custom objects and fields, and changes to built-in fields.
--
-- The triggers *_version raise the version of the tenant's configuration.

-- Objects that a tenant defined.
create table custom_objects (
  company_id uuid not null references companies (id) on delete cascade,
  slug text not null,
  label text not null,
  plural text not null,
  enabled boolean not null default true,
  created_at timestamptz(3) not null,
  updated_at timestamptz(3) not null,
  primary key (company_id, slug)
);
alter table custom_objects enable row level security, force row level security;
create policy tenant on custom_objects to crm_app
  using (company_id = current_company())
  with check (company_id = current_company());
create policy platform on custom_objects for select to crm_platform using (true);
grant select, insert, update, delete on custom_objects to crm_app;
grant select (company_id, slug) on custom_objects to crm_platform;
create trigger custom_objects_version after insert or delete or update on custom_objects for each row
  execute function raise_config_version();

-- Fields that a tenant defined. `object` is the API's name: leads, or object:visits.
create table custom_fields (
  company_id uuid not null references companies (id) on delete cascade,
  object text not null,
  name text not null,
  label text not null,
  type text not null,
  required boolean not null default false,
  -- [{label, value, retired?}]. Retired options stay readable and are rejected on writes.
  options jsonb,
  enabled boolean not null default true,
  -- No two records of a mode have the same value; see keep_custom_value_hashes (0007-records.sql).
  is_unique boolean not null default false,
  -- The order of creation, in which fields are shown.
  seq bigint not null generated always as identity,
  created_at timestamptz(3) not null,
  updated_at timestamptz(3) not null,
  primary key (company_id, object, name)
);
-- Writes of custom values look here for unique fields; most objects have none.
create index custom_fields_unique on custom_fields (company_id, object, name) where is_unique;
alter table custom_fields enable row level security, force row level security;
create policy tenant on custom_fields to crm_app
  using (company_id = current_company())
  with check (company_id = current_company());
grant select, insert, update, delete on custom_fields to crm_app;
create trigger custom_fields_version after insert or delete or update on custom_fields for each row
  execute function raise_config_version();

-- Changes of a tenant to a built-in field.
create table field_overrides (
  company_id uuid not null references companies (id) on delete cascade,
  object text not null,
  name text not null,
  label text,
  required boolean,
  enabled boolean,
  updated_at timestamptz(3) not null,
  primary key (company_id, object, name)
);
alter table field_overrides enable row level security, force row level security;
create policy tenant on field_overrides to crm_app
  using (company_id = current_company())
  with check (company_id = current_company());
grant select, insert, update, delete on field_overrides to crm_app;
create trigger field_overrides_version after insert or delete or update on field_overrides for each row
  execute function raise_config_version();

call open_to_purge();
