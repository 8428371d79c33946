// The org structure: the tree, branches and teams, and the users of each node.
import { v7 as uuidv7 } from 'uuid';
import * as db from '../../db/people/org-structure.ts';
import { isActiveUser, listUsers, lockMembers } from '../../db/people/users.ts';
import { foldName } from '../../domain/objects/name-folding.ts';
import { toUserResponse } from '../../domain/people/user-view.ts';
import { configurationLimits } from '../../domain/service/request-limits.ts';
import { isTimezone } from '../../domain/service/zones-and-currencies.ts';
import { diffSettings } from '../../domain/settings/setting-changes.ts';
import type { components } from '../../generated/api.ts';
import {
  alreadyExists,
  buildProblem,
  conflict,
  type FieldProblem,
  orNotFound,
  validationFailed,
} from '../../runtime/errors.ts';
import type { Call, Handler } from '../../runtime/handler.ts';
import { readPage } from '../../runtime/paging.ts';
import { buildInactiveProblem } from '../../services/people/inactive-branches.ts';
import { refuseFull, refuseTwin } from '../../services/settings/setting-changes.ts';

type OrgTreeNode = components['schemas']['OrgTreeNode'];

export const getOrgStructure: Handler<'getOrgStructure'> = async ({ caller, db: { sql } }) => {
  const nodes = await db.listNodes(sql, caller);
  const shown = new Map<string, OrgTreeNode>();
  let tree: OrgTreeNode | undefined;
  for (const { id, kind, name, parentId, manager, userCount } of nodes) {
    const node: OrgTreeNode = {
      id,
      kind,
      name,
      manager: manager && { id: manager.id, full_name: manager.fullName },
      user_count: userCount,
      children: [],
    };
    shown.set(id, node);
    if (parentId === null) tree = node;
    else shown.get(parentId)?.children.push(node);
  }
  return { status: 200, data: { tree: orNotFound(tree) } };
};

export const listBranches: Handler<'listBranches'> = async (call) => {
  const { caller } = call;
  const { sql } = call.db;
  const { rows, ...rest } = await readPage(
    call,
    ['branches'],
    (after, limit) => db.listBranches(sql, caller, after, limit),
    toKeys,
  );
  return { status: 200, data: { branches: rows.map(toBranchResponse), ...rest } };
};

export const getBranch: Handler<'getBranch'> = async ({ caller, request: { path }, db: { sql } }) => {
  const branch = orNotFound(await db.findBranch(sql, caller, path.id));
  return { status: 200, data: { branch: toBranchResponse(branch) } };
};

export const createBranch: Handler<'createBranch'> = async (call) => {
  const { caller, now } = call;
  const { body } = call.request;
  const { sql } = call.db;
  const { companyId } = caller;
  await lockMembers(sql, companyId);
  const settings = mergeBranch(body, {
    name: '',
    code: null,
    isDefault: false,
    isActive: true,
    city: null,
    country: null,
    timezone: null,
    managerUserId: null,
  });
  await assertValid(call, settings);
  const branches = await db.listBranchNames(sql, companyId);
  refuseTwinBranch(settings, branches);
  refuseFull(branches.length, configurationLimits.branches, 'branch_limit', 'branches');
  assertDefaultStays(settings);
  const id = uuidv7();
  if (settings.isDefault) await replaceDefault(call, id);
  await db.insertBranch(sql, companyId, id, settings, now);
  const response = toBranchResponse({ id, ...settings, userCount: 0, createdAt: now });
  recordNode(call, 'branch', undefined, response);
  return { status: 201, data: { branch: response } };
};

export const updateBranch: Handler<'updateBranch'> = async (call) => {
  const { caller } = call;
  const { body, path } = call.request;
  const { sql } = call.db;
  const { companyId } = caller;
  await lockMembers(sql, companyId);
  const before = orNotFound(await db.findBranch(sql, caller, path.id));
  const settings = mergeBranch(body, pickBranchSettings(before));
  await assertValid(call, settings, before.managerUserId);
  refuseTwinBranch(settings, await db.listBranchNames(sql, companyId), before.id);
  assertDefaultStays(settings, before.isDefault);
  const was = toBranchResponse(before);
  const response = toBranchResponse({ ...before, ...settings });
  if (!recordNode(call, 'branch', was, response)) return { status: 200, data: { branch: was } };
  if (settings.isDefault) await replaceDefault(call, before.id);
  await db.updateBranch(sql, companyId, before.id, settings);
  return { status: 200, data: { branch: response } };
};

export const deleteBranch: Handler<'deleteBranch'> = async (call) => {
  const { caller } = call;
  const { sql } = call.db;
  await lockMembers(sql, caller.companyId);
  const branch = orNotFound(await db.findBranch(sql, caller, call.request.path.id));
  if (branch.isDefault) throw defaultBranchStays();
  const { users, teams, apiKeys } = await db.countMembers(sql, caller.companyId, 'branch', branch.id);
  if (users + teams + apiKeys > 0)
    throw conflict(
      'in_use',
      `The branch ${branch.name} has users, teams or API keys. Move or delete them, and revoke the keys first.`,
      { references: { users, teams, api_keys: apiKeys } },
    );
  await db.deleteBranch(sql, caller.companyId, branch.id);
  recordNode(call, 'branch', toBranchResponse(branch), undefined);
  return { status: 200, data: { id: branch.id, deleted: true } };
};

export const listTeams: Handler<'listTeams'> = async (call) => {
  const { caller } = call;
  const { sql } = call.db;
  const { rows, ...rest } = await readPage(
    call,
    ['teams'],
    (after, limit) => db.listTeams(sql, caller, after, limit),
    toKeys,
  );
  return { status: 200, data: { teams: rows.map(toTeamResponse), ...rest } };
};

export const getTeam: Handler<'getTeam'> = async ({ caller, request: { path }, db: { sql } }) => {
  const team = orNotFound(await db.findTeam(sql, caller, path.id));
  return { status: 200, data: { team: toTeamResponse(team) } };
};

export const createTeam: Handler<'createTeam'> = async (call) => {
  const { caller, now } = call;
  const { body } = call.request;
  const { sql } = call.db;
  const { companyId } = caller;
  await lockMembers(sql, companyId);
  const settings = {
    name: body.name.trim(),
    branchId: body.branch_id.toLowerCase(),
    managerUserId: body.manager_user_id?.toLowerCase() ?? null,
  };
  await assertValid(call, settings);
  const teams = await db.listTeamNames(sql, companyId);
  refuseTwinTeam(settings, teams);
  refuseFull(teams.length, configurationLimits.teams, 'team_limit', 'teams');
  const id = uuidv7();
  await db.insertTeam(sql, companyId, id, settings, now);
  const response = toTeamResponse({ id, ...settings, memberCount: 0, createdAt: now });
  recordNode(call, 'team', undefined, response);
  return { status: 201, data: { team: response } };
};

export const updateTeam: Handler<'updateTeam'> = async (call) => {
  const { caller, now } = call;
  const { body, path } = call.request;
  const { sql } = call.db;
  const { companyId } = caller;
  await lockMembers(sql, companyId);
  const before = orNotFound(await db.findTeam(sql, caller, path.id));
  const settings = {
    name: body.name?.trim() ?? before.name,
    branchId: body.branch_id?.toLowerCase() ?? before.branchId,
    managerUserId:
      body.manager_user_id === undefined ? before.managerUserId : (body.manager_user_id?.toLowerCase() ?? null),
  };
  await assertValid(call, settings, before.managerUserId, before.branchId);
  refuseTwinTeam(settings, await db.listTeamNames(sql, companyId), before.id);
  const was = toTeamResponse(before);
  const response = toTeamResponse({ ...before, ...settings });
  const isMoved = settings.branchId !== before.branchId;
  const moved = isMoved ? await db.moveMembers(sql, companyId, before.id, settings.branchId, now) : 0;
  if (!recordNode(call, 'team', was, response, isMoved ? { moved_users: moved } : undefined))
    return { status: 200, data: { team: was } };
  await db.updateTeam(sql, companyId, before.id, settings);
  return { status: 200, data: { team: response } };
};

export const deleteTeam: Handler<'deleteTeam'> = async (call) => {
  const { caller } = call;
  const { sql } = call.db;
  await lockMembers(sql, caller.companyId);
  const team = orNotFound(await db.findTeam(sql, caller, call.request.path.id));
  const { users, apiKeys } = await db.countMembers(sql, caller.companyId, 'team', team.id);
  if (users + apiKeys > 0)
    throw conflict(
      'in_use',
      `The team ${team.name} has members or API keys. Move the members, and revoke the keys first.`,
      {
        references: { users, api_keys: apiKeys },
      },
    );
  await db.deleteTeam(sql, caller.companyId, team.id);
  recordNode(call, 'team', toTeamResponse(team), undefined);
  return { status: 200, data: { id: team.id, deleted: true } };
};

export const listOrgNodeUsers: Handler<'listOrgNodeUsers'> = async (call) => {
  const { caller } = call;
  const { path, query } = call.request;
  const { sql } = call.db;
  const node = orNotFound(await db.findNode(sql, caller, path.id));
  const { status = 'active', include_descendants: withDescendants = false } = query;
  const place = { kind: node.kind, id: node.id, withDescendants };
  const { rows, ...rest } = await readPage(
    call,
    ['users of a node', place, status],
    (after, limit) => listUsers(sql, caller, { status, place, after }, limit),
    toKeys,
  );
  return {
    status: 200,
    data: { node: { id: node.id, kind: node.kind, name: node.name }, users: rows.map(toUserResponse), ...rest },
  };
};

const toKeys = (row: { createdAt: Date; id: string }) => [row.createdAt.toISOString(), row.id] as const;

function toBranchResponse(branch: db.BranchRow): components['schemas']['Branch'] {
  return {
    id: branch.id,
    name: branch.name,
    code: branch.code,
    is_default: branch.isDefault,
    is_active: branch.isActive,
    city: branch.city,
    country: branch.country,
    timezone: branch.timezone,
    manager_user_id: branch.managerUserId,
    user_count: branch.userCount,
    created_at: branch.createdAt.toISOString(),
  };
}

function toTeamResponse(team: db.TeamRow): components['schemas']['Team'] {
  return {
    id: team.id,
    name: team.name,
    branch_id: team.branchId,
    manager_user_id: team.managerUserId,
    member_count: team.memberCount,
  };
}

/** Returns the settings of a branch with the fields of a body. */
function mergeBranch(body: components['schemas']['BranchPatch'], before: db.BranchSettings): db.BranchSettings {
  const mergeText = (sent: string | null | undefined, current: string | null): string | null =>
    sent === undefined ? current : (sent?.trim() ?? null);
  return {
    name: body.name?.trim() ?? before.name,
    code: mergeText(body.code, before.code),
    isDefault: body.is_default ?? before.isDefault,
    isActive: body.is_active ?? before.isActive,
    city: mergeText(body.city, before.city),
    country: mergeText(body.country, before.country),
    timezone: mergeText(body.timezone, before.timezone),
    managerUserId: mergeText(body.manager_user_id, before.managerUserId)?.toLowerCase() ?? null,
  };
}

function pickBranchSettings(branch: db.BranchRow): db.BranchSettings {
  const { name, code, isDefault, isActive, city, country, timezone, managerUserId } = branch;
  return { name, code, isDefault, isActive, city, country, timezone, managerUserId };
}

/**
 * @param manager the manager so far, who can stay even if inactive
 * @param currentBranchId the branch so far, which can stay even if inactive
 * @throws ApiError 400 or 422 with all problems of the settings
 */
async function assertValid(
  { caller, db: { sql } }: Pick<Call, 'caller' | 'db'>,
  settings: { managerUserId: string | null; timezone?: string | null; branchId?: string },
  manager: string | null = null,
  currentBranchId?: string,
): Promise<void> {
  const { companyId } = caller;
  const { managerUserId, timezone = null, branchId } = settings;
  const problems: FieldProblem[] = [];
  if (timezone !== null && !isTimezone(timezone))
    problems.push(buildProblem('timezone', 'INVALID_FORMAT', 'timezone must be an IANA time zone, e.g. Europe/Berlin'));
  if (
    managerUserId !== null &&
    managerUserId !== manager &&
    !(await isActiveUser(sql, companyId, { id: managerUserId }))
  )
    problems.push(buildProblem('manager_user_id', 'NOT_FOUND', 'manager_user_id must be the id of an active user'));
  const branch = branchId === undefined ? undefined : await db.findNode(sql, caller, branchId);
  if (branchId !== undefined && branch?.kind !== 'branch')
    problems.push(buildProblem('branch_id', 'NOT_FOUND', 'branch_id must be the id of a branch'));
  else if (branch && !branch.isActive && branchId !== currentBranchId) problems.push(buildInactiveProblem('branch_id'));
  // A reference that does not exist is a 422, as everywhere.
  if (problems.length > 0)
    throw validationFailed(problems, problems.some((each) => each.code === 'NOT_FOUND') ? 422 : 400);
}

/** @throws ApiError 409 if another branch has the name or the code */
function refuseTwinBranch({ name, code }: db.BranchSettings, branches: readonly db.BranchName[], own?: string): void {
  refuseTwin('A branch', name, branches, own);
  const twin =
    code !== null &&
    branches.find((each) => each.id !== own && each.code !== null && foldName(each.code) === foldName(code));
  if (twin) throw alreadyExists(`A branch with the code ${twin.code} already exists.`, ['code'], twin.id);
}

/** @throws ApiError 409 if the branch has another team with this name */
function refuseTwinTeam({ name, branchId }: db.TeamSettings, teams: readonly db.TeamName[], own?: string): void {
  refuseTwin(
    'A team',
    name,
    teams.filter((each) => each.branchId === branchId),
    own,
  );
}

const defaultBranchStays = () =>
  conflict(
    'default_branch',
    'The default branch, which new users join, cannot be deleted, closed, or made an ordinary branch. Make another branch the default first.',
  );

/** @throws ApiError 409 if the company would have no default branch, or an inactive one */
function assertDefaultStays({ isDefault, isActive }: db.BranchSettings, wasDefault = false): void {
  if ((wasDefault && !isDefault) || (isDefault && !isActive)) throw defaultBranchStays();
}

/** Makes the former default branch an ordinary one, with an audit row of its own. */
async function replaceDefault(call: Pick<Call, 'caller' | 'db'>, next: string): Promise<void> {
  for (const id of await db.clearDefaultBranch(call.db.sql, call.caller.companyId, next))
    recordNode(call, 'branch', { id, is_default: true }, { id, is_default: false });
}

/**
 * Records a change of a branch or team in the audit log.
 * @returns false if nothing changes
 */
function recordNode(
  call: Pick<Call, 'db'>,
  kind: 'branch' | 'team',
  before: { id: string; is_default?: boolean } | undefined,
  after: { id: string; is_default?: boolean } | undefined,
  metadata?: Record<string, unknown>,
): boolean {
  const changes = diffSettings(before, after);
  if (before && after && Object.keys(changes).length === 0) return false;
  const { user_count: _users, member_count: _members, ...changed } = changes;
  call.db.record({
    action: `${kind}.${before ? (after ? 'update' : 'delete') : 'create'}`,
    object: kind === 'branch' ? 'branches' : 'teams',
    recordId: (after ?? before)?.id ?? '',
    changes: changed,
    ...(metadata ? { metadata } : {}),
  });
  return true;
}
