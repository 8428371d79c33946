// Steps of every settings change: lock, check names and limits, audit.
import { lockWorkspaceRows } from '../../db/objects/workspace.ts';
import { buildWorkspace, findByName, type Workspace } from '../../domain/objects/workspace.ts';
import { configurationLimits } from '../../domain/service/request-limits.ts';
import {
  diffSettings,
  findObjectsWithOtherOptions,
  type ListItem,
  type SettingChanges,
} from '../../domain/settings/setting-changes.ts';
import { alreadyExists, conflict } from '../../runtime/errors.ts';
import type { Call } from '../../runtime/handler.ts';

/** Returns the current configuration, locked against concurrent changes. */
export async function lockSettings({ caller, db: { sql } }: Pick<Call, 'db' | 'caller'>): Promise<Workspace> {
  return buildWorkspace(await lockWorkspaceRows(sql, caller.companyId));
}

/**
 * @param what the kind of item with its article, e.g. `a source`
 * @param own the id of the item itself if it exists
 * @throws ApiError 409 that names the item with the same name, ignoring case
 */
export function refuseTwin(
  what: string,
  name: string,
  items: readonly { id: string; name: string }[],
  own?: string,
): void {
  const twin = findByName(
    items.filter(({ id }) => id !== own),
    name,
  );
  if (twin) throw alreadyExists(`${what} named ${twin.name} already exists.`, ['name'], twin.id);
}

/**
 * @param count the current number of items
 * @param items their kind, in the plural
 * @param owner the owner of the list
 * @throws ApiError 409 if the list is full
 */
export function refuseFull(count: number, limit: number, reason: string, items: string, owner = 'A workspace'): void {
  if (count >= limit) throw conflict(reason, `${owner} can have at most ${limit} ${items}.`, { limit });
}

/**
 * @param fields all fields that an object is to have
 * @throws ApiError 409 if too many of them are unique
 */
export function refuseUniqueFields(fields: readonly { unique?: boolean }[]): void {
  const limit = configurationLimits.uniqueFieldsOfObject;
  const unique = fields.filter((field) => field.unique);
  if (unique.length > limit)
    refuseFull(limit, limit, 'field_limit', 'unique fields, including retired ones', 'An object');
}

/** A setting as the API returns it. */
interface Setting extends ListItem {
  id?: string;
  /** The object that it belongs to, if any. */
  object?: string;
}

/**
 * Records a settings change in the audit log, with events for the objects whose options change.
 * Does nothing if nothing changes.
 * @param noun the setting in the name of the action, e.g. `source`
 * @param before undefined if it is created
 * @param after undefined if it is deleted
 * @returns the changed fields; undefined if there are none
 */
export function recordChange(
  call: Pick<Call, 'db' | 'now'>,
  noun: string,
  before: Setting | undefined,
  after: Setting | undefined,
): SettingChanges | undefined {
  const changes = diffSettings(before, after);
  if (before && after && Object.keys(changes).length === 0) return undefined;
  const verb = before ? (after ? 'update' : 'delete') : 'create';
  const { id: recordId, object } = { ...before, ...after };
  const [event, ...furtherEvents] = findObjectsWithOtherOptions(noun, object, before, after).map((changed) => ({
    name: 'schema.changed',
    data: { object: changed, occurred_at: call.now.toISOString() },
  }));
  call.db.record({
    action: `settings.${noun}.${verb}`,
    ...(object === undefined ? {} : { object }),
    ...(recordId === undefined ? {} : { recordId }),
    changes,
    ...(event ? { event, furtherEvents } : {}),
  });
  return changes;
}
