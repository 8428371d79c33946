// What every change of settings does: waits its turn, refuses twins and full lists, leaves a trace.
import { lockWorkspaceRows } from '../../db/objects/workspace.ts';
import { buildWorkspace, findByName, type Workspace } from '../../domain/objects/workspace.ts';
import {
  type ListItem,
  objectsWithOtherOptions,
  type SettingChanges,
  settingChanges,
} from '../../domain/settings/setting-changes.ts';
import { alreadyExists, conflict } from '../../runtime/errors.ts';
import type { Call } from '../../runtime/handler.ts';

/** The configuration as it is now, kept from changing under this call. */
export async function lockSettings({ caller, db: { sql } }: Pick<Call, 'db' | 'caller'>): Promise<Workspace> {
  return buildWorkspace(await lockWorkspaceRows(sql, caller.companyId));
}

/**
 * @param what the kind of item with its article, e.g. `a source`
 * @param own the id of the item that is to have the name, where it is there already
 * @throws ApiError 409 naming the item of the list that has this name already, in whatever case
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
 * @param count how many items the list has
 * @param items what they are, in the plural
 * @param owner what has at most so many of them
 * @throws ApiError 409 when there is no room for another
 */
export function refuseFull(count: number, limit: number, reason: string, items: string, owner = 'A workspace'): void {
  if (count >= limit) throw conflict(reason, `${owner} can have at most ${limit} ${items}.`, { limit });
}

/** A setting as it is shown. */
interface Setting extends ListItem {
  id?: string;
  /** The object that it belongs to, where it belongs to one. */
  object?: string;
}

/**
 * Notes in the audit log what becomes of a setting, and tells of the objects whose options it changes; nothing where nothing changes.
 * @param noun what the setting is called in the name of the action, e.g. `source`
 * @param before undefined where it is created
 * @param after undefined where it is deleted
 * @returns the fields that change, undefined where none does
 */
export function recordChange(
  call: Pick<Call, 'db' | 'now'>,
  noun: string,
  before: Setting | undefined,
  after: Setting | undefined,
): SettingChanges | undefined {
  const changes = settingChanges(before, after);
  if (before && after && Object.keys(changes).length === 0) return undefined;
  const verb = before ? (after ? 'update' : 'delete') : 'create';
  const { id: recordId, object } = { ...before, ...after };
  const [event, ...furtherEvents] = objectsWithOtherOptions(noun, object, before, after).map((changed) => ({
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
