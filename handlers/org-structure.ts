// The org structure, to be read: the tree, branches, teams, and the users of each node.
import * as db from '../db/org-structure.ts';
import { listUsers } from '../db/users.ts';
import { shownUser } from '../domain/user-view.ts';
import type { components } from '../generated/api.ts';
import { notFound } from '../runtime/errors.ts';
import type { Call, Handler } from '../runtime/handler.ts';
import { page, pageLimit } from '../runtime/paging.ts';

type OrgTreeNode = components['schemas']['OrgTreeNode'];

export const getOrgStructure: Handler<'getOrgStructure'> = async ({ sql, caller }) => {
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
  if (!tree) throw notFound();
  return { status: 200, data: { tree } };
};

export const listBranches: Handler<'listBranches'> = async (call) => {
  const { sql, caller } = call;
  const { rows, ...rest } = await pageOf(call, 'branches', (after, limit) =>
    db.listBranches(sql, caller, after, limit),
  );
  return { status: 200, data: { branches: rows.map(shownBranch), ...rest } };
};

export const getBranch: Handler<'getBranch'> = async ({ sql, caller, path }) => {
  const branch = await db.findBranch(sql, caller, path.id);
  if (!branch) throw notFound();
  return { status: 200, data: { branch: shownBranch(branch) } };
};

export const listTeams: Handler<'listTeams'> = async (call) => {
  const { sql, caller } = call;
  const { rows, ...rest } = await pageOf(call, 'teams', (after, limit) => db.listTeams(sql, caller, after, limit));
  return { status: 200, data: { teams: rows.map(shownTeam), ...rest } };
};

export const listOrgNodeUsers: Handler<'listOrgNodeUsers'> = async (call) => {
  const { sql, caller, path, query } = call;
  const node = await db.findNode(sql, caller, path.id);
  if (!node) throw notFound();
  const { status = 'active', include_descendants: withDescendants = false } = query;
  const place = { kind: node.kind, id: node.id, withDescendants };
  const { rows, ...rest } = await pageOf(call, ['users of a node', place, status], (after, limit) =>
    listUsers(sql, caller, { status, place, after }, limit),
  );
  return {
    status: 200,
    data: { node: { id: node.id, kind: node.kind, name: node.name }, users: rows.map(shownUser), ...rest },
  };
};

/** @param what everything that the page depends on beside the caller */
async function pageOf<Row extends { id: string; createdAt: Date }>(
  { caller, cursors, query }: Call<'listBranches'> | Call<'listTeams'> | Call<'listOrgNodeUsers'>,
  what: unknown,
  list: (after: db.After, limit: number) => Promise<Row[]>,
): Promise<{ rows: Row[]; next_cursor: string | null; has_more: boolean }> {
  const limit = pageLimit(query.limit);
  const asked = JSON.stringify([what, caller.companyId, caller.reach]);
  const [createdAt, id] = query.cursor === undefined ? [] : cursors.decode(query.cursor, asked, 2);
  const after = createdAt === undefined ? undefined : { createdAt: String(createdAt), id: String(id) };
  return page(await list(after, limit + 1), limit, (last) =>
    cursors.encode([last.createdAt.toISOString(), last.id], asked),
  );
}

function shownBranch(branch: db.BranchRow): components['schemas']['Branch'] {
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

function shownTeam(team: db.TeamRow): components['schemas']['Team'] {
  return {
    id: team.id,
    name: team.name,
    branch_id: team.branchId,
    manager_user_id: team.managerUserId,
    member_count: team.memberCount,
  };
}
