// The changes of a setting, for the audit log, and the objects whose schema they affect.
import { builtinObjects, type Lookup } from '../objects/builtin.ts';

/** Each changed field, by its name. */
export type SettingChanges = Record<string, { from: unknown; to: unknown }>;

/**
 * Returns the fields that differ between two states of a setting in the API's format; undefined if
 * it does not exist before or after.
 */
export function diffSettings(before: object | undefined, after: object | undefined): SettingChanges {
  const [from, to] = [listEntries(before), listEntries(after)];
  const names = new Set([...from.keys(), ...to.keys()]);
  return Object.fromEntries(
    [...names]
      .map((name) => [name, { from: from.get(name) ?? null, to: to.get(name) ?? null }] as const)
      .filter(([, change]) => JSON.stringify(change.from) !== JSON.stringify(change.to)),
  );
}

/** Without fields that the audit row has itself: the id and the times. */
function listEntries(setting: object | undefined): Map<string, unknown> {
  const own = new Set(['id', 'object', 'created_at', 'updated_at']);
  return new Map(Object.entries(setting ?? {}).filter(([name]) => !own.has(name)));
}

/** An item of a configured list in the API's format. Other settings do not have all fields. */
export interface ListItem {
  name?: unknown;
  is_active?: unknown;
  is_enabled?: unknown;
  order_position?: unknown;
}

/** @param object the object of the list, if each object has its own */
function findLookup(noun: string, object: string | undefined): Lookup | undefined {
  if (noun === 'source') return 'sources';
  if (noun === 'activity_type') return 'activity_types';
  if (noun === 'pipeline') return 'deal_pipelines';
  if (noun === 'status') return object === 'leads' ? 'lead_statuses' : 'deal_stages';
  return undefined;
}

/** Pipelines cannot be inactive. */
const isOption = (item: ListItem | undefined): boolean =>
  item !== undefined && item.is_active !== false && item.is_enabled !== false;

/**
 * Returns the objects whose schema has other options after a change of a setting.
 * @param noun the name of the setting in the audit log, e.g. `source`
 * @param object the object of the setting, if it has one
 * @param before undefined if it is created
 * @param after undefined if it is deleted
 */
export function findObjectsWithOtherOptions(
  noun: string,
  object: string | undefined,
  before: ListItem | undefined,
  after: ListItem | undefined,
): string[] {
  const list = findLookup(noun, object);
  const isSame =
    isOption(before) === isOption(after) &&
    (!isOption(after) || (before?.name === after?.name && before?.order_position === after?.order_position));
  if (!list || isSame) return [];
  return builtinObjects.filter(({ fields }) => fields.some(({ lookup }) => lookup === list)).map((each) => each.object);
}
