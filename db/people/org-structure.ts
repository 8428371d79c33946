// The org structure: the company, its branches, their teams, and counts of visible users.
import type { Fragment } from 'postgres';
import type { Sql } from '../client/pool.ts';
import type { Reach } from '../client/visibility.ts';
import { isUserVisible, type UserScope } from '../client/visibility.ts';

export interface BranchRow {
  id: string;
  name: string;
  code: string | null;
  isDefault: boolean;
  isActive: boolean;
  city: string | null;
  country: string | null;
  timezone: string | null;
  managerUserId: string | null;
  userCount: number;
  createdAt: Date;
}

export interface TeamRow {
  id: string;
  name: string;
  branchId: string;
  managerUserId: string | null;
  memberCount: number;
  createdAt: Date;
}

/** Time and id of the last row of the previous page. */
type After = readonly [string, string] | undefined;

/** Returns a condition for visible branches: the caller's own, or that of the caller's team. */
function selectVisibleBranch(sql: Sql, companyId: string, reach: Reach): Fragment {
  switch (reach.kind) {
    case 'company':
      return sql`true`;
    case 'branch':
      return sql`b.id = ${reach.id}`;
    case 'team':
      return sql`b.id = (select branch_id from teams where company_id = ${companyId} and id = ${reach.id})`;
    case 'own':
      return sql`b.id = (select branch_id from users where company_id = ${companyId} and id = ${reach.id})`;
  }
}

/** Returns a condition for visible teams: those of the caller's branch, or the caller's own. */
function selectVisibleTeam(sql: Sql, companyId: string, reach: Reach): Fragment {
  switch (reach.kind) {
    case 'company':
      return sql`true`;
    case 'branch':
      return sql`t.branch_id = ${reach.id}`;
    case 'team':
      return sql`t.id = ${reach.id}`;
    case 'own':
      return sql`t.id = (select team_id from users where company_id = ${companyId} and id = ${reach.id})`;
  }
}

const selectBranches = (sql: Sql, reach: Reach) => sql`
  select b.id, b.name, b.code, b.is_default, b.is_active, b.city, b.country, b.timezone,
    b.manager_user_id, b.created_at,
    (select count(*)::int from users u
      where u.company_id = b.company_id and u.branch_id = b.id and u.status = 'active' and ${isUserVisible(sql, reach, 'u')}) as user_count
  from branches b`;

const selectTeams = (sql: Sql, reach: Reach) => sql`
  select t.id, t.name, t.branch_id, t.manager_user_id, t.created_at,
    (select count(*)::int from users u
      where u.company_id = t.company_id and u.team_id = t.id and u.status = 'active' and ${isUserVisible(sql, reach, 'u')}) as member_count
  from teams t`;

/** Returns a page of branches, newest first. */
export async function listBranches(
  sql: Sql,
  { companyId, reach }: UserScope,
  after: After,
  limit: number,
): Promise<BranchRow[]> {
  return sql<BranchRow[]>`
    ${selectBranches(sql, reach)}
    where b.company_id = ${companyId} and ${selectVisibleBranch(sql, companyId, reach)}
      ${after ? sql`and (b.created_at, b.id) < (${after[0]}::timestamptz, ${after[1]}::uuid)` : sql``}
    order by b.created_at desc, b.id desc
    limit ${limit}`;
}

export async function findBranch(
  sql: Sql,
  { companyId, reach }: UserScope,
  id: string,
): Promise<BranchRow | undefined> {
  const [branch] = await sql<BranchRow[]>`
    ${selectBranches(sql, reach)}
    where b.company_id = ${companyId} and b.id = ${id} and ${selectVisibleBranch(sql, companyId, reach)}`;
  return branch;
}

/** Returns a page of teams, newest first. */
export async function listTeams(
  sql: Sql,
  { companyId, reach }: UserScope,
  after: After,
  limit: number,
): Promise<TeamRow[]> {
  return sql<TeamRow[]>`
    ${selectTeams(sql, reach)}
    where t.company_id = ${companyId} and ${selectVisibleTeam(sql, companyId, reach)}
      ${after ? sql`and (t.created_at, t.id) < (${after[0]}::timestamptz, ${after[1]}::uuid)` : sql``}
    order by t.created_at desc, t.id desc
    limit ${limit}`;
}

export interface OrgNode {
  id: string;
  kind: 'company' | 'branch' | 'team';
  name: string;
}

/** Returns the company itself, or a visible branch or team. Only branches can be inactive. */
export async function findNode(
  sql: Sql,
  { companyId, reach }: UserScope,
  id: string,
): Promise<(OrgNode & { isActive: boolean }) | undefined> {
  const [node] = await sql<(OrgNode & { isActive: boolean })[]>`
    select id, 'company' as kind, name, true as is_active from companies where id = ${companyId} and id = ${id}
    union all
    select b.id, 'branch', b.name, b.is_active from branches b
    where b.company_id = ${companyId} and b.id = ${id} and ${selectVisibleBranch(sql, companyId, reach)}
    union all
    select t.id, 'team', t.name, true from teams t
    where t.company_id = ${companyId} and t.id = ${id} and ${selectVisibleTeam(sql, companyId, reach)}`;
  return node;
}

export interface TreeNode extends OrgNode {
  parentId: string | null;
  manager: { id: string; fullName: string } | null;
  userCount: number;
}

/** Returns all visible nodes, parents first, each kind by name. */
export async function listNodes(sql: Sql, { companyId, reach }: UserScope): Promise<TreeNode[]> {
  const manager = sql`case when m.id is not null then json_build_object('id', m.id, 'fullName', m.full_name) end as manager`;
  const active = sql`
    select count(*)::int from users u
    where u.company_id = ${companyId} and u.status = 'active' and ${isUserVisible(sql, reach, 'u')}`;
  return sql<TreeNode[]>`
    select id, kind, name, parent_id, manager, user_count
    from (
      select 1 as level, c.id, 'company' as kind, c.name, null::uuid as parent_id, null::json as manager, (${active}) as user_count
      from companies c
      where c.id = ${companyId}
      union all
      select 2, b.id, 'branch', b.name, b.company_id, ${manager}, (${active} and u.branch_id = b.id)
      from branches b
      left join users m on m.company_id = b.company_id and m.id = b.manager_user_id
      where b.company_id = ${companyId} and ${selectVisibleBranch(sql, companyId, reach)}
      union all
      select 3, t.id, 'team', t.name, t.branch_id, ${manager}, (${active} and u.team_id = t.id)
      from teams t
      left join users m on m.company_id = t.company_id and m.id = t.manager_user_id
      where t.company_id = ${companyId} and ${selectVisibleTeam(sql, companyId, reach)}
    ) node
    order by level, name, id`;
}

/**
 * Returns where a user that the caller creates belongs: the branch and team of the caller's
 * visibility, or the company's default branch.
 */
export async function findPlace(
  sql: Sql,
  { companyId, reach }: UserScope,
): Promise<{ branchId: string; teamId: string | null } | undefined> {
  const [place] =
    reach.kind === 'team'
      ? await sql<{ branchId: string; teamId: string | null }[]>`
          select branch_id, id as team_id from teams where company_id = ${companyId} and id = ${reach.id}`
      : await sql<{ branchId: string; teamId: string | null }[]>`
          select id as branch_id, null as team_id from branches
          where company_id = ${companyId} and ${reach.kind === 'branch' ? sql`id = ${reach.id}` : sql`is_default`}
          order by created_at, id
          limit 1`;
  return place;
}

export async function findTeam(sql: Sql, { companyId, reach }: UserScope, id: string): Promise<TeamRow | undefined> {
  const [team] = await sql<TeamRow[]>`
    ${selectTeams(sql, reach)}
    where t.company_id = ${companyId} and t.id = ${id} and ${selectVisibleTeam(sql, companyId, reach)}`;
  return team;
}

// The following statements belong to transactions that hold lockMembers(), so that names stay
// unique and no user moves into what is being deleted.

export interface BranchName {
  id: string;
  name: string;
  code: string | null;
  isDefault: boolean;
}

/** Returns all branches by name only, for checks of a change. */
export async function listBranchNames(sql: Sql, companyId: string): Promise<BranchName[]> {
  return sql<BranchName[]>`
    select id, name, code, is_default from branches where company_id = ${companyId} order by created_at, id`;
}

export interface TeamName {
  id: string;
  name: string;
  branchId: string;
}

/** Returns all teams by name only, for checks of a change. */
export async function listTeamNames(sql: Sql, companyId: string): Promise<TeamName[]> {
  return sql<TeamName[]>`
    select id, name, branch_id from teams where company_id = ${companyId} order by created_at, id`;
}

export type BranchSettings = Omit<BranchRow, 'id' | 'userCount' | 'createdAt'>;
export type TeamSettings = Omit<TeamRow, 'id' | 'memberCount' | 'createdAt'>;

export async function insertBranch(
  sql: Sql,
  companyId: string,
  id: string,
  settings: BranchSettings,
  now: Date,
): Promise<void> {
  await sql`insert into branches ${sql({ companyId, id, ...settings, createdAt: now })}`;
}

export async function updateBranch(sql: Sql, companyId: string, id: string, settings: BranchSettings): Promise<void> {
  await sql`update branches set ${sql({ ...settings })} where company_id = ${companyId} and id = ${id}`;
}

/**
 * Makes the default branch an ordinary one, unless it is the given branch.
 * @returns the ids of the branches that were the default, at most one
 */
export async function clearDefaultBranch(sql: Sql, companyId: string, besides: string): Promise<string[]> {
  const cleared = await sql<{ id: string }[]>`
    update branches set is_default = false where company_id = ${companyId} and is_default and id <> ${besides}
    returning id`;
  return cleared.map(({ id }) => id);
}

export async function insertTeam(
  sql: Sql,
  companyId: string,
  id: string,
  settings: TeamSettings,
  now: Date,
): Promise<void> {
  await sql`insert into teams ${sql({ companyId, id, ...settings, createdAt: now })}`;
}

export async function updateTeam(sql: Sql, companyId: string, id: string, settings: TeamSettings): Promise<void> {
  await sql`update teams set ${sql({ ...settings })} where company_id = ${companyId} and id = ${id}`;
}

/**
 * Moves all members of a team to a branch.
 * @returns their number
 */
export async function moveMembers(
  sql: Sql,
  companyId: string,
  teamId: string,
  branchId: string,
  now: Date,
): Promise<number> {
  const moved = await sql`
    update users set branch_id = ${branchId}, updated_at = ${now} where company_id = ${companyId} and team_id = ${teamId}`;
  return moved.count;
}

/**
 * Counts what belongs to a branch or team, and blocks new API keys that see only it until the
 * transaction ends. Inactive users count, revoked keys do not.
 */
export async function countMembers(
  sql: Sql,
  companyId: string,
  kind: 'branch' | 'team',
  id: string,
): Promise<{ users: number; teams: number; apiKeys: number }> {
  // New keys lock their branch or team "for key share".
  const locked =
    kind === 'branch'
      ? sql`select from branches where company_id = ${companyId} and id = ${id} for update`
      : sql`select from teams where company_id = ${companyId} and id = ${id} for update`;
  const users = kind === 'branch' ? sql`branch_id = ${id}` : sql`team_id = ${id}`;
  const teams =
    kind === 'branch'
      ? sql`(select count(*)::int from teams where company_id = ${companyId} and branch_id = ${id})`
      : sql`0`;
  // A separate statement: it must see what the holders of the lock committed.
  const counted = sql<{ users: number; teams: number; apiKeys: number }[]>`
    select (select count(*)::int from users where company_id = ${companyId} and ${users}) as users, ${teams} as teams,
      (select count(*)::int from api_keys
        where company_id = ${companyId} and reach_kind = ${kind} and reach_id = ${id} and revoked_at is null) as api_keys`;
  const [, [row]] = await Promise.all([locked.execute(), counted.execute()]);
  return row ?? { users: 0, teams: 0, apiKeys: 0 };
}

export async function deleteBranch(sql: Sql, companyId: string, id: string): Promise<void> {
  await sql`delete from branches where company_id = ${companyId} and id = ${id}`;
}

export async function deleteTeam(sql: Sql, companyId: string, id: string): Promise<void> {
  await sql`delete from teams where company_id = ${companyId} and id = ${id}`;
}
