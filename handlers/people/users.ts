// The people of a workspace: create, read, list, change and deactivate.

import { v7 as uuidv7 } from 'uuid';
import { endUserSessions } from '../../db/access/sessions.ts';
import { insertMail } from '../../db/messaging/mails.ts';
import { findNode, findPlace, findTeam } from '../../db/people/org-structure.ts';
import * as db from '../../db/people/users.ts';
import { findRoleReach, isAtLeastAsWide } from '../../domain/access/role-permissions.ts';
import { computeSeatAllowance } from '../../domain/billing/plans.ts';
import { foldName } from '../../domain/objects/name-folding.ts';
import { toUserResponse } from '../../domain/people/user-view.ts';
import { sendOnlyOneOf } from '../../domain/service/messages.ts';
import { generatePassword, hashPassword } from '../../runtime/credentials/passwords.ts';
import {
  ApiError,
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

type Role = { id: string; name: string };

/** The role that at least one active user must have. */
const adminRole = 'Company_Admin';

export const listUsers: Handler<'listUsers'> = async (call) => {
  const { caller } = call;
  const { query } = call.request;
  const { sql } = call.db;
  const { status = 'active', q: text } = query;
  const { rows, ...rest } = await readPage(
    call,
    ['users', status, text ?? null],
    (after, limit) => db.listUsers(sql, caller, { status, text, after }, limit),
    (last: db.UserRow) => [last.createdAt.toISOString(), last.id],
  );
  return { status: 200, data: { users: rows.map(toUserResponse), ...rest } };
};

export const getUser: Handler<'getUser'> = async ({ caller, request: { path }, db: { sql } }) => {
  const user = orNotFound(await db.findUser(sql, caller, path.id));
  return { status: 200, data: { user: toUserResponse(user) } };
};

export const createUser: Handler<'createUser'> = async (call) => {
  const { caller, now } = call;
  const { body } = call.request;
  const { companyId } = caller;
  const role = await findRequestedRole(call, []);
  if (!role) throw new Error('the document asks for a role');
  assertCanGrant(call, role);
  const email = body.email.toLowerCase();
  const place = await findPlace(call.db.sql, caller);
  // Checks this before hashing, so that a rejection does not cost a hash.
  await assertCanAdd(call, email);
  const password = body.password ?? generatePassword();
  const passwordHash = await call.db.withoutConnection(hashPassword(password));
  const { sql } = call.db;
  const user = {
    id: uuidv7(),
    email,
    fullName: body.full_name.trim(),
    passwordHash,
    mustChangePassword: body.password === undefined,
    roleId: role.id,
    branchId: place?.branchId ?? null,
    teamId: place?.teamId ?? null,
  };
  await db.lockMembers(sql, companyId);
  await assertCanAdd(call, email);
  await assertBranchOpen(call, place?.branchId);
  if (!(await db.insertUser(sql, companyId, user, now))) throw taken(null);
  if (body.send_welcome) {
    const data = { full_name: user.fullName, company_name: caller.companyName };
    await insertMail(sql, { companyId, recipient: user.email, template: 'welcome', data }, now);
  }
  call.db.record({
    action: 'user.create',
    object: 'users',
    recordId: user.id,
    metadata: { email: user.email, role: role.name, send_welcome: body.send_welcome },
  });
  const created = await db.findUser(sql, caller, user.id);
  if (!created) throw new Error('a new user is visible to its creator');
  return {
    status: 201,
    data: {
      user: toUserResponse(created),
      ...(body.password === undefined ? { temp_password: password } : {}),
      welcome_email_sent: body.send_welcome && call.services.sendsMail,
    },
  };
};

export const updateUser: Handler<'updateUser'> = async (call) => {
  const { caller, now } = call;
  const { body, path } = call.request;
  const { sql } = call.db;
  const { companyId } = caller;
  await db.lockMembers(sql, companyId);
  const user = orNotFound(await db.findUser(sql, caller, path.id));
  const place = await findRequestedPlace(call, user);
  const role = await findRequestedRole(call, place.problems);
  if (role) assertCanGrant(call, role);
  const isNewRole = role !== undefined && !(user.roles.length === 1 && user.roles[0]?.id === role.id);
  const status = body.status ?? user.status;
  const { branchId, teamId } = place;

  const losesAdmin = status === 'inactive' || (isNewRole && role.name !== adminRole);
  if (user.status === 'active' && losesAdmin && isAdmin(user)) await assertOtherAdmin(call, user.id);
  const isActivated = user.status === 'inactive' && status === 'active';
  if (isActivated) assertFreeSeat(await db.findSeats(sql, companyId));

  const settings = { fullName: body.full_name?.trim() ?? user.fullName, status, branchId, teamId };
  if (isNewRole) await db.replaceRoles(sql, companyId, user.id, role.id);
  await db.updateUser(sql, companyId, user.id, settings, now);
  // An activated user must sign in again, even if a sign-in overlapped with the deactivation.
  if (status !== user.status) await endUserSessions(sql, companyId, user.id, now);
  // For the whole company, because this change may take the user out of the caller's visibility.
  const changed = (await db.findUser(sql, { companyId, reach: { kind: 'company' } }, user.id)) ?? user;
  const changes = findChanges(user, changed);
  if (Object.keys(changes).length > 0)
    call.db.record({ action: 'user.update', object: 'users', recordId: user.id, changes });
  return { status: 200, data: { user: toUserResponse(changed) } };
};

const taken = (existingId: string | null) =>
  alreadyExists('A user with this email address already exists.', ['email'], existingId);

const isAdmin = (user: db.UserRow): boolean => user.roles.some((role) => role.name === adminRole);

/**
 * Returns the role that the body names, by name or by id.
 * @param others other problems of the body
 * @throws ApiError with all problems
 */
async function findRequestedRole(
  { request: { body }, db: { sql } }: Call<'createUser'> | Call<'updateUser'>,
  others: readonly FieldProblem[],
): Promise<Role | undefined> {
  const { role: name, role_id: id } = body as { role?: string; role_id?: string };
  const problems = [...others];
  let role: Role | undefined;
  if (name !== undefined && id !== undefined)
    problems.push(buildProblem('role', 'CONFLICTING_FIELDS', sendOnlyOneOf(['role', 'role_id'])));
  else if (name !== undefined || id !== undefined) {
    const roles = await db.listGrantableRoles(sql);
    role = roles.find(
      (each) => each.id === id?.toLowerCase() || (name !== undefined && foldName(each.name) === foldName(name.trim())),
    );
    if (!role) {
      const [field, key] = id === undefined ? (['role', 'name'] as const) : (['role_id', 'id'] as const);
      const allowed = roles.map((each) => each[key]);
      problems.push(buildProblem(field, 'INVALID_OPTION', `${field} must be a role that can be granted`, { allowed }));
    }
  }
  // A reference that does not exist is a 422, as everywhere.
  if (problems.length > 0)
    throw validationFailed(problems, problems.some((each) => each.code === 'NOT_FOUND') ? 422 : 400);
  return role;
}

/** @throws ApiError 409 if the branch of the caller is inactive. The default branch is always active. */
async function assertBranchOpen({ caller, db: { sql } }: Call, branchId: string | undefined): Promise<void> {
  if (caller.reach.kind === 'company' || branchId === undefined) return;
  const branch = await findNode(sql, caller, branchId);
  if (branch?.isActive === false)
    throw conflict('branch_inactive', `The branch ${branch.name} is inactive, so new users cannot join it.`);
}

/** Returns the branch and team of the user after the change, and the problems of the ids. */
async function findRequestedPlace(
  { caller, request: { body }, db: { sql } }: Call<'updateUser'>,
  user: db.UserRow,
): Promise<{ branchId: string | null; teamId: string | null; problems: FieldProblem[] }> {
  const problems: FieldProblem[] = [];
  const { reach } = caller;
  let branchId = user.branch?.id ?? null;
  let teamId = user.team?.id ?? null;
  if (body.branch_id !== undefined) {
    const node = body.branch_id === null ? undefined : await findNode(sql, caller, body.branch_id);
    // A caller who sees only a part of the company cannot move users out of it.
    const isThere = body.branch_id === null ? reach.kind === 'company' : node?.kind === 'branch';
    if (!isThere) problems.push(buildProblem('branch_id', 'NOT_FOUND', 'branch_id must be the id of a branch'));
    else if (node && !node.isActive && node.id !== user.branch?.id) problems.push(buildInactiveProblem('branch_id'));
    branchId = node?.id ?? null;
    // A team belongs to its branch.
    if (user.team?.branchId !== branchId) teamId = null;
  }
  if (body.team_id === null) {
    if (reach.kind === 'company' || reach.kind === 'branch') teamId = null;
    else problems.push(buildProblem('team_id', 'NOT_FOUND', 'team_id must be the id of a team'));
  } else if (body.team_id !== undefined) {
    const team = await findTeam(sql, caller, body.team_id);
    if (!team) problems.push(buildProblem('team_id', 'NOT_FOUND', 'team_id must be the id of a team'));
    else if (body.branch_id !== undefined && team.branchId !== branchId)
      problems.push(buildProblem('team_id', 'CONFLICTING_FIELDS', 'team_id must be a team of branch_id'));
    else {
      const isNew = team.branchId !== user.branch?.id && body.branch_id === undefined;
      if (isNew && (await findNode(sql, caller, team.branchId))?.isActive === false)
        problems.push(buildInactiveProblem('team_id'));
      [branchId, teamId] = [team.branchId, team.id];
    }
  }
  return { branchId, teamId, problems };
}

/** @throws ApiError 403 if the role has wider visibility than the caller */
function assertCanGrant({ caller }: Call, role: Role): void {
  const scope = findRoleReach(role.name) ?? 'company';
  if (caller.reach.kind !== 'own' && isAtLeastAsWide(caller.reach.kind, scope)) return;
  throw new ApiError(
    'FORBIDDEN_SCOPE',
    `Granting the role ${role.name} requires a credential with the reach ${scope}.`,
    { required_scopes: [], reason: 'reach_too_narrow' },
  );
}

/** @throws ApiError 409 if the company has a user with this address, or if all seats are in use */
async function assertCanAdd({ caller, db: { sql } }: Call, email: string): Promise<void> {
  const known = await db.findByEmail(sql, caller, email);
  if (known) throw taken(known.isInReach ? known.id : null);
  assertFreeSeat(await db.findSeats(sql, caller.companyId));
}

/** @throws ApiError 409 if all seats are in use */
function assertFreeSeat({ used, packageCode, purchased }: db.Seats): void {
  const allowed = computeSeatAllowance(packageCode, purchased);
  if (used < allowed) return;
  throw new ApiError('SEAT_LIMIT_REACHED', `All ${allowed} seats are in use. Buy seats or deactivate a user.`, {
    seats_used: used,
    seats_allowed: allowed,
    hint: `To buy a seat, call POST /v1/subscription/seats with {"seats": ${used + 1}}.`,
    set_seats: used + 1,
  });
}

async function assertOtherAdmin({ caller, db: { sql } }: Call, userId: string): Promise<void> {
  if (await db.hasOtherActive(sql, caller.companyId, userId, adminRole)) return;
  const message = `This user is the last active ${adminRole}. Grant the role to another user first.`;
  throw conflict('last_admin', message);
}

function findChanges(before: db.UserRow, after: db.UserRow): Record<string, { from: unknown; to: unknown }> {
  const fields = (user: db.UserRow) => ({
    full_name: user.fullName,
    status: user.status,
    roles: user.roles.map((role) => role.name),
    branch_id: user.branch?.id ?? null,
    team_id: user.team?.id ?? null,
  });
  const from = fields(before);
  const to = fields(after);
  return Object.fromEntries(
    (Object.keys(from) as (keyof typeof from)[])
      .filter((name) => JSON.stringify(from[name]) !== JSON.stringify(to[name]))
      .map((name) => [name, { from: from[name], to: to[name] }]),
  );
}
