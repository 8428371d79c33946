// The org structure, read-only: the tree, branches, teams, and the users of each node.
import * as db from '../../db/people/org-structure.ts';
import { listUsers } from '../../db/people/users.ts';
import { toUserResponse } from '../../domain/people/user-view.ts';
import type { components } from '../../generated/api.ts';
import { orNotFound } from '../../runtime/errors.ts';
import type { Handler } from '../../runtime/handler.ts';
import { readPage } from '../../runtime/paging.ts';

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
