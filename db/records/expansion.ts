// Looks up what records refer to, for a whole page: users by id, and visible records.
import type { Expansion, Person, Wanted } from '../../domain/records/reading.ts';
import type { Sql } from '../client/pool.ts';
import type { Scope } from '../client/visibility.ts';
import { findShownTags } from './record-tags.ts';
import { findRecords } from './records.ts';

/**
 * Sends one statement for the users, one for the tags and one for each object; none if nothing is
 * needed.
 */
export async function findExpansion(sql: Sql, scope: Scope, wanted: Wanted): Promise<Expansion> {
  const { tagged } = wanted;
  const [users, tags, ...records] = await Promise.all([
    findUsers(sql, scope.companyId, wanted.users),
    tagged && tagged.ids.length > 0 ? findShownTags(sql, scope, tagged.object, tagged.ids) : new Map<string, never>(),
    ...[...wanted.records].map(async ([object, ids]) => {
      const found = await findRecords(sql, scope, object, ids);
      return [object, new Map(found.map((record) => [record.id, record]))] as const;
    }),
  ]);
  return { users: new Map(users.map((user) => [user.id, user])), records: new Map(records), tags };
}

async function findUsers(sql: Sql, companyId: string, ids: readonly string[]): Promise<Person[]> {
  if (ids.length === 0) return [];
  return sql<Person[]>`
    select id, full_name, email
    from users
    where company_id = ${companyId} and id = any(${ids as string[]}::uuid[])`;
}
