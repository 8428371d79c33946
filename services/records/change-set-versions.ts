// The records that a change set is about, and their versions at its trial.
import { hashJson, type Pin, type StoredOperation } from '../../db/records/change-sets.ts';
import { findRecordsBeyondReach } from '../../db/records/records.ts';
import { type ApiError, conflict } from '../../runtime/errors.ts';
import type { Caller, Working } from './change-set-operations.ts';

export interface Target {
  path: string;
  data: Record<string, unknown>;
  version: string;
}

/** Returns the path that reads what an operation changes; undefined if there is none. */
export function findTargetPath(
  { services: { nested } }: Working,
  { method, path, body }: { method: string; path: string; body?: unknown },
): string | undefined {
  const operation = nested.find(method, path);
  if (!operation?.isWrite) return undefined;
  const segments = path.split('/');
  // The other record of a merge stays, and is the one that its If-Match is about.
  const { into_id: intoId } = (body ?? {}) as { into_id?: unknown };
  if (operation.operationId === 'mergeRecord' && typeof intoId === 'string')
    segments.splice(-2, 1, encodeURIComponent(intoId));
  // An action of a resource, such as /v1/leads/{id}/status, changes the resource.
  const candidate = (method === 'POST' ? segments.slice(0, -1) : segments)
    .join('/')
    .replace(/^\/v1\/(leads|deals|customers)\/([^/]+)$/, '/v1/objects/$1/records/$2');
  const reader = nested.find('GET', candidate);
  return reader?.isRead && reader.template.endsWith('}') ? candidate : undefined;
}

/** Members of settings and users that change without an edit. */
const unversioned = ['last_sign_in_at'];

/** Reads a target as a caller; undefined if it is not there for them. */
export async function readTarget(
  { services: { nested } }: Working,
  caller: Caller,
  path: string,
  query = '',
): Promise<Target | undefined> {
  const outcome = await nested.run({ method: 'GET', path, query, caller });
  if ('error' in outcome) return undefined;
  const data = outcome.data as Record<string, unknown>;
  return { path, data, version: outcome.etag ?? hashJson(data, unversioned) };
}

export type Touched = Pick<Pin, 'object' | 'id'>;

export const buildPinKey = ({ object, id }: Touched): string => `${object}/${id}`;

/** Returns the versions of the records that exist, also of those that the caller cannot see. */
export async function readVersions(call: Working, touched: readonly Touched[]): Promise<Map<string, number>> {
  const { objects } = await call.services.loadWorkspace();
  const versions = new Map<string, number>();
  for (const [object, ids] of groupByObject(touched)) {
    // Users, settings and other things are no records.
    if (!objects.has(object)) continue;
    for (const { id, version } of await findRecordsBeyondReach(call.db.sql, call.caller, object, ids))
      versions.set(buildPinKey({ object, id }), version);
  }
  return versions;
}

/** Returns the IDs by object. The objects are in order, so that locks are taken in one order. */
export function groupByObject(touched: readonly Touched[]): [string, string[]][] {
  const idsByObject = new Map<string, Set<string>>();
  for (const { object, id } of touched) idsByObject.set(object, (idsByObject.get(object) ?? new Set()).add(id));
  return [...idsByObject].sort(([one], [other]) => (one < other ? -1 : 1)).map(([object, ids]) => [object, [...ids]]);
}

export const stale = (operations: readonly number[]): ApiError =>
  conflict('stale', 'Records have changed since. Read them again, and propose the changes again.', { operations });

/** Returns the indexes of operations whose records have changed since the trial. */
export async function findStale(
  call: Working,
  caller: Caller,
  operations: readonly StoredOperation[],
): Promise<number[]> {
  const current = new Map<string, string | undefined>();
  const pinned = await readVersions(
    call,
    operations.flatMap(({ pins }) => pins),
  );
  const passed: number[] = [];
  for (const [index, { target, version, pins }] of operations.entries()) {
    if (target !== null && !current.has(target)) current.set(target, (await readTarget(call, caller, target))?.version);
    const isTargetStale = target !== null && current.get(target) !== version;
    if (isTargetStale || pins.some((each) => pinned.get(buildPinKey(each)) !== each.version)) passed.push(index);
  }
  return passed;
}
