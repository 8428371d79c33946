// Search across objects: the ids come from find_records(), which alone may use the indexes of texts; the rows are read under the tenant's role.
import type { Sql } from './connect.ts';
import { inReach, members, type Scope } from './reach.ts';
import { recordTable } from './record-columns.ts';
import { fromRow, restOfRow, type StoredRecord, selection } from './record-rows.ts';

export interface FoundRecords {
  hits: { record: StoredRecord; matchedField: string }[];
  /** Records that were seen to match. */
  total: number;
  /** True when there may be more than that. */
  isCapped: boolean;
}

/** The fields in the order in which they are tried; `custom` says where a value is kept. */
export type SearchedFields = readonly { name: string; custom: boolean }[];

/** The best matches of an object within reach: whole fields first, then beginnings, then parts, each newest first. Sent at once. */
export function searchRecords(
  sql: Sql,
  scope: Scope,
  object: string,
  part: string,
  fields: SearchedFields,
  limit: number,
): Promise<FoundRecords> {
  const table = recordTable(object);
  const { companyId, testMode, reach, actor } = scope;
  const names = fields.map(({ name }) => name);
  const own = names.filter((name, index) => fields[index]?.custom || !table.columns.has(name));
  const within = reach.kind === 'company' ? sql`null::uuid[]` : sql`array(${members(sql, scope.companyId, reach)})`;
  const key = actor.kind === 'api_key' ? actor.id : null;
  return sql`
    select ${selection(sql, table)}, hit.score, found.total, found.capped
    from find_records(${companyId}, ${testMode}, ${object}, ${part}, ${names}::text[], ${own}::text[], ${limit}, ${within}, ${key}) found,
      unnest(found.ids, found.scores) with ordinality hit (hit_id, score, place)
      join ${sql(table.name)} r on r.id = hit.hit_id
    where r.company_id = ${companyId} and r.test_mode = ${testMode}
      ${table.object === undefined ? sql`` : sql`and r.object = ${table.object}`} and ${inReach(sql, scope, table.assigned)}
    order by hit.place`
    .values()
    .execute()
    .then((rows) => {
      const hits = rows.map((row) => {
        const [score] = restOfRow(table, row) as [number];
        return { record: fromRow(table, row), matchedField: names[score % 100] as string };
      });
      const [, total = 0, isCapped = false] = rows[0] ? (restOfRow(table, rows[0]) as [number, number, boolean]) : [];
      return { hits, total, isCapped };
    });
}
