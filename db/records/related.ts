// The records that a record is related to, by a reference or by links, as rows of a statement.
import type { Fragment } from 'postgres';
import type { RelationPath } from '../../domain/objects/relations.ts';
import type { Sql } from '../client/pool.ts';
import { isVisibleTo, type Scope } from '../client/visibility.ts';
import type { RecordTable } from './columns.ts';

/** The rows that a statement follows a relation from. */
interface Origin {
  table: RecordTable;
  /** Their alias in the statement. */
  row: Fragment;
}

/**
 * Returns the related records within reach, as rows `related`. Both sides of every join name the
 * company and the mode, so that the rows of a company can be on a machine of their own.
 */
export function selectRelatedRows(
  sql: Sql,
  scope: Scope,
  origin: Origin,
  table: RecordTable,
  path: RelationPath,
): { from: Fragment; where: Fragment } {
  const own = sql`
    related.company_id = ${scope.companyId} and related.test_mode = ${scope.testMode}
    ${table.object === undefined ? sql`` : sql`and related.object = ${table.object}`}
    ${scope.reach.kind === 'company' ? sql`` : sql`and ${isVisibleTo(sql, scope, table.assigned, sql`related.`)}`}`;
  const from = sql`${sql(table.name)} related`;
  if (path.kind === 'reference') return { from, where: sql`${own} and ${isReferred(sql, origin, table, path)}` };
  const [here, there] = path.side === 'from' ? ['from_id', 'to_id'] : ['to_id', 'from_id'];
  return {
    from: sql`links l join ${from} on related.id = l.${sql(there as string)}`,
    where: sql`
      l.company_id = ${scope.companyId} and l.test_mode = ${scope.testMode} and l.link_type_id = ${path.typeId}
      and l.${sql(here as string)} = ${origin.row}.id and ${own}`,
  };
}

/** Returns the condition that a row and the related one are the two sides of a reference. */
function isReferred(
  sql: Sql,
  { table, row }: Origin,
  related: RecordTable,
  { side, field, isToAny }: Extract<RelationPath, { kind: 'reference' }>,
): Fragment {
  const getObjectName = ({ object, name }: RecordTable): string => object ?? name;
  if (side === 'from')
    return sql`related.${sql(field)} = ${row}.id ${isToAny ? sql`and related.object = ${getObjectName(table)}` : sql``}`;
  return sql`related.id = ${row}.${sql(field)} ${isToAny ? sql`and ${row}.object = ${getObjectName(related)}` : sql``}`;
}
