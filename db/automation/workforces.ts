// The configuration of workforces. Callers that change one have locked them.
import type { GivenStep, KeptCondition, SubjectType, WorkforceStatus } from '../../domain/automation/workforces.ts';
import { toListLiteral } from '../client/list-literal.ts';
import type { Sql } from '../client/pool.ts';

export interface WorkforceRow {
  id: string;
  name: string;
  description: string | null;
  kind: 'sequence' | 'workflow' | 'agent';
  status: WorkforceStatus;
  subjectTypes: readonly SubjectType[];
  steps: readonly GivenStep[];
  stopWhen: KeptCondition | null;
  stopWhenReplied: boolean;
  createdAt: Date;
  updatedAt: Date;
}

const columns = [
  'id',
  'name',
  'description',
  'kind',
  'status',
  'subject_types',
  'steps',
  'stop_when',
  'stop_when_replied',
  'created_at',
  'updated_at',
] as const;

/** Locks workforces until the transaction ends: no other call creates or changes one. */
export async function lockWorkforces(sql: Sql, companyId: string): Promise<void> {
  await sql`select from companies where id = ${companyId} for no key update`.execute();
}

/** Returns the names that are in use. */
export async function listWorkforceNames(sql: Sql, companyId: string): Promise<{ id: string; name: string }[]> {
  return sql<{ id: string; name: string }[]>`select id, name from workforces where company_id = ${companyId}`;
}

/**
 * Returns workforces, the newest first.
 * @param after time and id of the last workforce of the previous page
 */
export async function listWorkforces(
  sql: Sql,
  companyId: string,
  status: WorkforceStatus | undefined,
  after: readonly [string, string] | undefined,
  limit: number,
): Promise<WorkforceRow[]> {
  return sql<WorkforceRow[]>`
    select ${sql(columns)} from workforces
    where company_id = ${companyId}
      ${status ? sql`and status = ${status}` : sql``}
      ${after ? sql`and (created_at, id) < (${after[0]}::timestamptz, ${after[1]}::uuid)` : sql``}
    order by created_at desc, id desc
    limit ${limit}`;
}

export async function findWorkforce(sql: Sql, companyId: string, id: string): Promise<WorkforceRow | undefined> {
  const [row] = await sql<WorkforceRow[]>`
    select ${sql(columns)} from workforces where company_id = ${companyId} and id = ${id}`;
  return row;
}

/** Does the same, with a shared lock until the transaction ends. */
export async function holdWorkforce(sql: Sql, companyId: string, id: string): Promise<WorkforceRow | undefined> {
  const [row] = await sql<WorkforceRow[]>`
    select ${sql(columns)} from workforces where company_id = ${companyId} and id = ${id}
    for share`;
  return row;
}

export async function insertWorkforce(sql: Sql, companyId: string, workforce: WorkforceRow): Promise<void> {
  await sql`insert into workforces ${sql({ companyId, ...toRow(sql, workforce) } as never)}`;
}

export async function updateWorkforce(sql: Sql, companyId: string, { id, ...workforce }: WorkforceRow): Promise<void> {
  await sql`update workforces set ${sql(toRow(sql, workforce) as never)} where company_id = ${companyId} and id = ${id}`;
}

/**
 * Marks the columns that are stored as JSON. The connection that creates the demo does not know
 * array types, so lists are passed as literals.
 */
function toRow(sql: Sql, row: Omit<WorkforceRow, 'id'>) {
  const { subjectTypes: types, steps, stopWhen: condition } = row;
  const json = { steps: sql.json(steps as never), stopWhen: condition && sql.json(condition as never) };
  return { ...row, ...json, subjectTypes: toListLiteral(types) };
}
