// Link types of a workspace. Callers that change them have locked the configuration.
import type { LinkType } from '../../domain/objects/configuration.ts';
import type { Sql } from '../client/pool.ts';
import { enterTenant } from '../client/tenant.ts';
import type { Scope } from '../client/visibility.ts';

export interface LinkTypeRow extends LinkType {
  label: string;
  inverseLabel: string;
  createdAt: Date;
  updatedAt: Date;
}

const columns = [
  'id',
  'name',
  'inverse_name',
  'label',
  'inverse_label',
  'from_object',
  'to_object',
  'cardinality',
  'is_enabled',
  'created_at',
  'updated_at',
] as const;

/** Returns all link types of the workspace, oldest first. */
export async function listLinkTypes(sql: Sql, companyId: string): Promise<LinkTypeRow[]> {
  return await sql<LinkTypeRow[]>`
    select ${sql(columns)} from link_types where company_id = ${companyId} order by created_at, id`;
}

export async function findLinkType(sql: Sql, companyId: string, id: string): Promise<LinkTypeRow | undefined> {
  const [row] = await sql<LinkTypeRow[]>`
    select ${sql(columns)} from link_types where company_id = ${companyId} and id = ${id}`;
  return row;
}

export async function insertLinkType(sql: Sql, companyId: string, linkType: LinkTypeRow): Promise<void> {
  await sql`insert into link_types ${sql({ companyId, ...linkType })}`;
}

export async function updateLinkType(
  sql: Sql,
  companyId: string,
  { id, label, inverseLabel, isEnabled, updatedAt }: LinkTypeRow,
): Promise<void> {
  await sql`
    update link_types set ${sql({ label, inverseLabel, isEnabled, updatedAt })}
    where company_id = ${companyId} and id = ${id}`;
}

export async function deleteLinkType(sql: Sql, companyId: string, id: string): Promise<void> {
  await sql`delete from link_types where company_id = ${companyId} and id = ${id}`;
}

/** Counting the links of a type stops here. */
const countLimit = 10_000;

/** Counts the links of a type in both modes, and blocks new ones until the transaction ends. */
export async function countLinksOfType(
  sql: Sql,
  { companyId, testMode }: Scope,
  id: string,
): Promise<{ count: number; isCapped: boolean }> {
  // New links lock their type "for key share".
  const locked = sql`select from link_types where company_id = ${companyId} and id = ${id} for update`.execute();
  const counts: number[] = [];
  const counting = [testMode, !testMode].flatMap((mode) => [
    // Row-level security shows the links of one mode at a time.
    enterTenant(sql, { companyId, testMode: mode }),
    (async () => {
      const [row] = await sql<{ count: number }[]>`
        select count(*) as count from (
          select from links
          where company_id = ${companyId} and test_mode = ${mode} and link_type_id = ${id}
          limit ${countLimit + 1}
        ) linked`.execute();
      counts.push(row?.count ?? 0);
    })(),
  ]);
  const back = enterTenant(sql, { companyId, testMode });
  await Promise.all([locked, ...counting, back]);
  const count = counts.reduce((sum, each) => sum + each, 0);
  return { count: Math.min(count, countLimit), isCapped: count > countLimit };
}
