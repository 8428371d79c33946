// The people of a workspace, with their roles and seats.
import type { Fragment } from 'postgres';
import { insertUserPlace } from '../access/places.ts';
import type { Sql } from '../client/pool.ts';
import { isUserVisible, type UserScope } from '../client/visibility.ts';

export interface UserRow {
  id: string;
  fullName: string;
  email: string;
  status: 'active' | 'inactive';
  /** Without hidden ones. */
  roles: { id: string; name: string }[];
  branch: { id: string; name: string } | null;
  team: { id: string; name: string; branchId: string } | null;
  lastSignInAt: Date | null;
  mustChangePassword: boolean;
  createdAt: Date;
}

const selectUsers = (sql: Sql) => sql`
  select u.id, u.full_name, u.email, u.status,
    coalesce((
      select json_agg(json_build_object('id', r.id, 'name', r.name) order by r.name)
      from user_roles ur join roles r on r.id = ur.role_id
      where ur.company_id = u.company_id and ur.user_id = u.id and not r.is_hidden), '[]') as roles,
    case when b.id is not null then json_build_object('id', b.id, 'name', b.name) end as branch,
    case when t.id is not null then json_build_object('id', t.id, 'name', t.name, 'branchId', t.branch_id) end as team,
    u.last_sign_in_at, coalesce(s.must_change_password, false) as must_change_password, u.created_at
  from users u
  left join branches b on b.company_id = u.company_id and b.id = u.branch_id
  left join teams t on t.company_id = u.company_id and t.id = u.team_id
  left join sign_ins s on s.company_id = u.company_id and s.user_id = u.id`;

export async function findUser(sql: Sql, { companyId, reach }: UserScope, id: string): Promise<UserRow | undefined> {
  const [user] = await sql<UserRow[]>`
    ${selectUsers(sql)}
    where u.company_id = ${companyId} and u.id = ${id} and ${isUserVisible(sql, reach, 'u')}`;
  return user;
}

/** A node of the org structure in which users are searched, with or without the nodes below it. */
interface OrgUnit {
  kind: 'company' | 'branch' | 'team';
  id: string;
  withDescendants: boolean;
}

export interface UserFilter {
  status: 'active' | 'inactive' | 'all';
  place?: OrgUnit;
  /** A part of the name or the address, in any case. */
  text?: string | undefined;
  /** The last row of the previous page. */
  after: readonly [string, string] | undefined;
}

/** Returns a page of users, newest first. */
export async function listUsers(sql: Sql, scope: UserScope, filter: UserFilter, limit: number): Promise<UserRow[]> {
  const { status, place, text, after } = filter;
  return sql<UserRow[]>`
    ${selectUsers(sql)}
    where u.company_id = ${scope.companyId} and ${isUserVisible(sql, scope.reach, 'u')}
      ${status === 'all' ? sql`` : sql`and u.status = ${status}`}
      ${place ? sql`and ${isIn(sql, place)}` : sql``}
      ${text === undefined ? sql`` : sql`and ${hasText(sql, text)}`}
      ${after ? sql`and (u.created_at, u.id) < (${after[0]}::timestamptz, ${after[1]}::uuid)` : sql``}
    order by u.created_at desc, u.id desc
    limit ${limit}`;
}

/** Plans limit the users of a company, so that no index is needed. */
function hasText(sql: Sql, text: string): Fragment {
  const pattern = `%${text.replace(/[\\%_]/g, '\\$&')}%`;
  return sql`(u.full_name ilike ${pattern} or u.email ilike ${pattern})`;
}

function isIn(sql: Sql, { kind, id, withDescendants }: OrgUnit): Fragment {
  if (kind === 'team') return sql`u.team_id = ${id}`;
  if (kind === 'branch') return sql`u.branch_id = ${id} ${withDescendants ? sql`` : sql`and u.team_id is null`}`;
  return withDescendants ? sql`true` : sql`u.branch_id is null and u.team_id is null`;
}

/**
 * Locks the members of a company: until the transaction ends, no other can change who is active or
 * has which role. Counts in later statements stay correct.
 */
export async function lockMembers(sql: Sql, companyId: string): Promise<void> {
  // Not "for update", which would also block all rows that refer to the company.
  await sql`select from companies where id = ${companyId} for no key update`;
}

/** Returns the id of the user with an address, and whether the caller can see that user. */
export async function findByEmail(
  sql: Sql,
  { companyId, reach }: UserScope,
  email: string,
): Promise<{ id: string; isInReach: boolean } | undefined> {
  const [user] = await sql<{ id: string; isInReach: boolean }[]>`
    select u.id, coalesce(${isUserVisible(sql, reach, 'u')}, false) as is_in_reach
    from users u
    where u.company_id = ${companyId} and u.email = ${email}`;
  return user;
}

/** Returns true if an active user of the company has this id or address. */
export async function isActiveUser(
  sql: Sql,
  companyId: string,
  by: { id: string } | { email: string },
): Promise<boolean> {
  const which = 'id' in by ? sql`id = ${by.id}` : sql`email = ${by.email}`;
  const rows = await sql`select from users where company_id = ${companyId} and ${which} and status = 'active'`;
  return rows.length > 0;
}

export interface NewUser {
  id: string;
  email: string;
  fullName: string;
  passwordHash: string;
  mustChangePassword: boolean;
  roleId: string;
  branchId: string | null;
  teamId: string | null;
}

/**
 * Creates a user who can sign in.
 * @returns false if a user of any company already signs in with this address
 */
export async function insertUser(sql: Sql, companyId: string, user: NewUser, now: Date): Promise<boolean> {
  const [isFree] = await Promise.all([
    insertUserPlace(sql, companyId, user.id, user.email),
    sql`
      insert into users (company_id, id, email, full_name, branch_id, team_id, created_at, updated_at)
      values (${companyId}, ${user.id}, ${user.email}, ${user.fullName}, ${user.branchId}, ${user.teamId}, ${now}, ${now})`.execute(),
    sql`insert into user_roles (company_id, user_id, role_id) values (${companyId}, ${user.id}, ${user.roleId})`.execute(),
    sql`
      insert into sign_ins (email, company_id, user_id, password_hash, must_change_password, created_at)
      values (${user.email}, ${companyId}, ${user.id}, ${user.passwordHash}, ${user.mustChangePassword}, ${now})`.execute(),
  ]);
  return isFree;
}

export interface UserSettings {
  fullName: string;
  status: 'active' | 'inactive';
  branchId: string | null;
  teamId: string | null;
}

export async function updateUser(
  sql: Sql,
  companyId: string,
  id: string,
  settings: UserSettings,
  now: Date,
): Promise<void> {
  await sql`
    update users
    set full_name = ${settings.fullName}, status = ${settings.status}, branch_id = ${settings.branchId}, team_id = ${settings.teamId},
      updated_at = ${now}
    where company_id = ${companyId} and id = ${id}`;
}

/** Replaces all roles of a user that are not hidden by one role. */
export async function replaceRoles(sql: Sql, companyId: string, userId: string, roleId: string): Promise<void> {
  await Promise.all([
    sql`
      delete from user_roles
      where company_id = ${companyId} and user_id = ${userId} and role_id in (select id from roles where not is_hidden)`.execute(),
    sql`insert into user_roles (company_id, user_id, role_id) values (${companyId}, ${userId}, ${roleId})`.execute(),
  ]);
}

/** Returns true if another active user has this role. */
export async function hasOtherActive(sql: Sql, companyId: string, userId: string, roleName: string): Promise<boolean> {
  const [other] = await sql`
    select
    from user_roles ur
    join roles r on r.id = ur.role_id and r.name = ${roleName}
    join users u on u.company_id = ur.company_id and u.id = ur.user_id and u.status = 'active'
    where ur.company_id = ${companyId} and ur.user_id <> ${userId}
    limit 1`;
  return other !== undefined;
}

export interface Seats {
  /** Active users; each holds one seat. */
  used: number;
  packageCode: string | null;
  purchased: number | null;
}

export async function findSeats(sql: Sql, companyId: string): Promise<Seats> {
  const [seats] = await sql<[Seats]>`
    select (select count(*)::int from users where company_id = ${companyId} and status = 'active') as used,
      s.package_code, s.seats as purchased
    from (values (1)) one (row)
    left join subscriptions s on s.company_id = ${companyId}`;
  return seats;
}

/**
 * Returns the roles that can be granted: those with a profile, so neither hidden nor legacy ones.
 */
export async function listGrantableRoles(sql: Sql): Promise<{ id: string; name: string }[]> {
  return sql<{ id: string; name: string }[]>`
    select id, name from roles where not is_hidden and profile_id is not null order by id`;
}

/** Returns the active administrators, who receive notifications about the whole company. */
export async function findAdmins(
  sql: Sql,
  companyId: string,
): Promise<{ id: string; email: string; fullName: string; companyName: string }[]> {
  return await sql<{ id: string; email: string; fullName: string; companyName: string }[]>`
    select u.id, u.email, u.full_name, c.name as company_name
    from users u
    join companies c on c.id = ${companyId}
    join user_roles ur on ur.company_id = ${companyId} and ur.user_id = u.id
    join roles r on r.id = ur.role_id and r.name = 'Company_Admin'
    where u.company_id = ${companyId} and u.status = 'active'
    order by u.id`;
}
