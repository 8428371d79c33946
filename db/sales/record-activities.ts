// The activities of a record: its own; for a customer, also those of its leads and deals.
import type { StoredRecord } from '../../domain/records/draft.ts';
import type { Sql } from '../client/pool.ts';
import type { Scope } from '../client/visibility.ts';
import type { KeyValue } from '../records/pages.ts';
import { listRecords } from '../records/records.ts';
import { isOfCustomer } from './customers.ts';

/**
 * Returns visible activities, the latest first; none for objects on which activities cannot be
 * logged.
 */
export function listActivitiesAbout(
  sql: Sql,
  scope: Scope,
  record: { object: string; id: string },
  after: readonly KeyValue[] | undefined,
  limit: number,
): Promise<{ record: StoredRecord; keys: KeyValue[] }[]> {
  const sort = [{ field: 'performed_at', descending: true }];
  return listRecords(sql, scope, 'activities', {
    sort,
    filter: undefined,
    where: belongsToRecord(sql, scope, record),
    after,
    limit,
  });
}

function belongsToRecord(sql: Sql, scope: Scope, { object, id }: { object: string; id: string }) {
  switch (object) {
    case 'leads':
      return sql`r.entity_type = 'lead' and r.entity_id = ${id}`;
    case 'deals':
      return sql`r.entity_type = 'deal' and r.entity_id = ${id}`;
    case 'customers':
      return isOfCustomer(sql, scope, sql`${id}::uuid`);
    case 'accounts':
      return sql`r.entity_type = 'account' and r.entity_id = ${id}`;
    default:
      return sql`false`;
  }
}
