// Pools and the turns of their members. A caller must lock scheduling before it changes a pool.
import type { AssignmentStrategy } from '../../domain/scheduling/assignment.ts';
import type { Sql } from '../client/pool.ts';
import type { TenantScope } from '../client/tenant.ts';
import { isUserVisible, type Reach } from '../client/visibility.ts';

export interface PoolMember {
  user_id: string;
  full_name: string;
  weight: number;
  is_active: boolean;
}

export interface PoolRow {
  id: string;
  name: string;
  description: string | null;
  policyId: string | null;
  assignmentStrategy: AssignmentStrategy | null;
  rotation: number;
  /** In order. */
  members: PoolMember[];
  createdAt: Date;
  updatedAt: Date;
}

interface PoolScope {
  companyId: string;
  reach: Reach;
}

const columns = (sql: Sql, companyId: string) => sql`
  p.id, p.name, p.description, p.policy_id, p.assignment_strategy, p.rotation, p.created_at, p.updated_at, coalesce((
    select json_agg(json_build_object('user_id', u.id, 'full_name', u.full_name, 'weight', m.weight, 'is_active', u.status = 'active')
      order by m.position)
    from scheduling_pool_members m
    join users u on u.company_id = ${companyId} and u.id = m.user_id
    where m.company_id = ${companyId} and m.pool_id = p.id
  ), '[]') as members`;

/**
 * Returns a condition for visible pools: those with a visible member, and all if the whole company
 * is visible.
 */
function isPoolVisible(sql: Sql, { companyId, reach }: PoolScope) {
  if (reach.kind === 'company') return sql`true`;
  return sql`exists (
    select from scheduling_pool_members m
    join users u on u.company_id = ${companyId} and u.id = m.user_id
    where m.company_id = ${companyId} and m.pool_id = p.id and ${isUserVisible(sql, reach, 'u')}
  )`;
}

/** Returns all visible pools by name. */
export async function listPools(sql: Sql, scope: PoolScope): Promise<PoolRow[]> {
  const { companyId } = scope;
  return await sql<PoolRow[]>`
    select ${columns(sql, companyId)} from scheduling_pools p
    where p.company_id = ${companyId} and ${isPoolVisible(sql, scope)}
    order by lower(p.name), p.id`;
}

export async function findPool(sql: Sql, scope: PoolScope, id: string): Promise<PoolRow | undefined> {
  const { companyId } = scope;
  const [row] = await sql<PoolRow[]>`
    select ${columns(sql, companyId)} from scheduling_pools p
    where p.company_id = ${companyId} and p.id = ${id} and ${isPoolVisible(sql, scope)}`;
  return row;
}

/**
 * Locks the turns of a pool until the transaction ends.
 * @returns the current rotation; undefined if the pool no longer exists
 */
export async function lockTurns(sql: Sql, companyId: string, poolId: string): Promise<number | undefined> {
  const [row] = await sql<{ rotation: number }[]>`
    select rotation from scheduling_pools where company_id = ${companyId} and id = ${poolId} for no key update`;
  return row?.rotation;
}

/** The writable columns of a pool. */
export interface PoolSettings {
  id: string;
  name: string;
  description: string | null;
  policyId: string | null;
  assignmentStrategy: AssignmentStrategy | null;
  rotation: number;
  createdAt: Date;
  updatedAt: Date;
}

export async function insertPool(sql: Sql, companyId: string, pool: PoolSettings): Promise<void> {
  await sql`insert into scheduling_pools ${sql({ companyId, ...pool })}`;
}

export async function updatePool(sql: Sql, companyId: string, { id, ...pool }: PoolSettings): Promise<void> {
  await sql`update scheduling_pools set ${sql(pool)} where company_id = ${companyId} and id = ${id}`;
}

/** @param members in order */
export async function replaceMembers(
  sql: Sql,
  companyId: string,
  poolId: string,
  members: readonly { user_id: string; weight: number }[],
): Promise<void> {
  await sql`delete from scheduling_pool_members where company_id = ${companyId} and pool_id = ${poolId}`;
  if (members.length === 0) return;
  const rows = members.map(({ user_id, weight }, position) => ({
    companyId,
    poolId,
    userId: user_id,
    position,
    weight,
  }));
  await sql`insert into scheduling_pool_members ${sql(rows)}`;
}

export async function deletePool(sql: Sql, companyId: string, id: string): Promise<void> {
  await sql`delete from scheduling_pools where company_id = ${companyId} and id = ${id}`;
}

/** Returns those of the users who are active and visible. */
export async function findActiveUsers(
  sql: Sql,
  { companyId, reach }: PoolScope,
  ids: readonly string[],
): Promise<{ id: string; fullName: string }[]> {
  return await sql<{ id: string; fullName: string }[]>`
    select u.id, u.full_name from users u
    where u.company_id = ${companyId} and u.id = any(${[...ids]}::uuid[]) and u.status = 'active' and ${isUserVisible(sql, reach, 'u')}`;
}

/** Returns how many turns each user has had in a rotation. */
export async function findTurns(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  { id, rotation }: Pick<PoolRow, 'id' | 'rotation'>,
): Promise<Map<string, number>> {
  const rows = await sql<{ userId: string; assigned: number }[]>`
    select user_id, assigned from scheduling_turns
    where company_id = ${companyId} and test_mode = ${testMode} and pool_id = ${id} and rotation = ${rotation}`;
  return new Map(rows.map(({ userId, assigned }) => [userId, assigned]));
}

/** Counts a turn. The caller has locked the turns of the pool. */
export async function countTurn(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  { id, rotation }: Pick<PoolRow, 'id' | 'rotation'>,
  userId: string,
): Promise<void> {
  await sql`
    insert into scheduling_turns (company_id, test_mode, pool_id, user_id, rotation, assigned)
    values (${companyId}, ${testMode}, ${id}, ${userId}, ${rotation}, 1)
    on conflict (company_id, test_mode, pool_id, user_id) do update
    set rotation = excluded.rotation,
      assigned = case when scheduling_turns.rotation = excluded.rotation then scheduling_turns.assigned + 1 else 1 end`;
}

export interface NewAssignment {
  id: string;
  poolId: string;
  policyId: string;
  userId: string;
  strategy: AssignmentStrategy;
  rotationIndex: number;
  object: string | null;
  recordId: string | null;
}

export async function insertAssignment(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  assignment: NewAssignment,
  now: Date,
): Promise<void> {
  await sql`
    insert into scheduling_assignments (company_id, test_mode, id, pool_id, policy_id, user_id, strategy, rotation_index, object, record_id, assigned_at)
    values (${companyId}, ${testMode}, ${assignment.id}, ${assignment.poolId}, ${assignment.policyId}, ${assignment.userId}, ${assignment.strategy},
      ${assignment.rotationIndex}, ${assignment.object}, ${assignment.recordId}, ${now})`;
}
