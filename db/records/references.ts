// Looks up the targets of references, of any kind, in one statement.
import type { Fragment } from 'postgres';
import type { NeededReference } from '../../domain/records/draft.ts';
import type { Sql } from '../client/pool.ts';
import { isVisibleTo, type Scope } from '../client/visibility.ts';
import { getRecordTable } from './columns.ts';

/** Returns the id of a reference's target. */
export type Found = (reference: NeededReference) => string | undefined;

const objectOfKind: Readonly<Record<string, string>> = {
  lead: 'leads',
  deal: 'deals',
  customer: 'customers',
  account: 'accounts',
};

/**
 * Returns the group in which a reference is looked up: the users by id or by address, or an object.
 */
function toLookupGroup(reference: NeededReference): string {
  if (reference.kind === 'user' || reference.kind === 'user_email') return reference.kind;
  return objectOfKind[reference.kind] ?? reference.object ?? '';
}

/**
 * Finds the targets that exist and are visible; users must be active. Other transactions cannot
 * delete these records until this one ends.
 */
export async function findReferences(sql: Sql, scope: Scope, references: readonly NeededReference[]): Promise<Found> {
  const groups = new Map<string, Set<string>>();
  for (const reference of references) {
    const group = toLookupGroup(reference);
    groups.set(group, (groups.get(group) ?? new Set()).add(reference.value));
  }
  const parts = [...groups.keys()]
    .sort(compareLockOrder)
    .map((group) => lookUp(sql, scope, group, [...(groups.get(group) ?? [])]));
  const rows =
    parts.length === 0
      ? []
      : await sql<{ group: string; value: string; id: string }[]>`
          ${parts.map((part, index) => (index === 0 ? part : sql`union all ${part}`))}`;
  const found = new Map(rows.map((row) => [`${row.group} ${row.value}`, row.id]));
  return (reference) => found.get(`${toLookupGroup(reference)} ${reference.value}`);
}

/** The order in which all transactions lock: records before those that refer to them. */
const lockOrder = ['leads', 'accounts', 'customers', 'deals', 'activities'];

export function compareLockOrder(a: string, b: string): number {
  const place = (group: string): number => (lockOrder.includes(group) ? lockOrder.indexOf(group) : lockOrder.length);
  return place(a) - place(b) || (a < b ? -1 : 1);
}

function lookUp(sql: Sql, scope: Scope, group: string, values: string[]): Fragment {
  const { companyId, testMode } = scope;
  if (group === 'user' || group === 'user_email') {
    const [value, matches] =
      group === 'user'
        ? [sql`u.id::text`, sql`u.id = any(${values}::uuid[])`]
        : [sql`u.email`, sql`u.email = any(${values}::text[])`];
    return sql`
      select ${group}::text as "group", ${value} as value, u.id::text as id
      from users u
      where u.company_id = ${companyId} and u.status = 'active' and ${matches}`;
  }
  const table = getRecordTable(group);
  return sql`
    select ${group}::text as "group", locked.id::text as value, locked.id::text as id
    from (
      select r.id
      from ${sql(table.name)} r
      where r.company_id = ${companyId} and r.test_mode = ${testMode} ${table.object === undefined ? sql`` : sql`and r.object = ${table.object}`}
        and r.id = any(${values}::uuid[]) and ${isVisibleTo(sql, scope, table.assigned)}
      order by r.id
      for key share
    ) locked`;
}
