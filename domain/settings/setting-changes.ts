// What a change of a setting did: for the audit log, and for the schemas that show its options.
import { builtinObjects, type Lookup } from '../objects/builtin.ts';

/** Each field that differs, by its name. */
export type SettingChanges = Record<string, { from: unknown; to: unknown }>;

/** The fields that differ between two states of a setting as it is shown; undefined where it is not there yet, or not any more. */
export function settingChanges(before: object | undefined, after: object | undefined): SettingChanges {
  const [from, to] = [entriesOf(before), entriesOf(after)];
  const names = new Set([...from.keys(), ...to.keys()]);
  return Object.fromEntries(
    [...names]
      .map((name) => [name, { from: from.get(name) ?? null, to: to.get(name) ?? null }] as const)
      .filter(([, change]) => JSON.stringify(change.from) !== JSON.stringify(change.to)),
  );
}

/** Without what the audit row says itself: which one it is, and when. */
function entriesOf(setting: object | undefined): Map<string, unknown> {
  const own = new Set(['id', 'object', 'created_at', 'updated_at']);
  return new Map(Object.entries(setting ?? {}).filter(([name]) => !own.has(name)));
}

/** An item of a configured list as it is shown; what other settings lack does not matter. */
export interface ListItem {
  name?: unknown;
  is_active?: unknown;
  is_enabled?: unknown;
  order_position?: unknown;
}

/** @param object of a list that each object has for itself */
function listOf(noun: string, object: string | undefined): Lookup | undefined {
  if (noun === 'source') return 'sources';
  if (noun === 'activity_type') return 'activity_types';
  if (noun === 'status') return object === 'leads' ? 'lead_statuses' : 'deal_stages';
  return undefined;
}

const isOption = (item: ListItem | undefined): boolean => item?.is_active === true || item?.is_enabled === true;

/**
 * The objects whose schema shows other options after a change of a setting.
 * @param noun what the setting is called in the audit log, e.g. `source`
 * @param object that the setting belongs to, where it belongs to one
 * @param before undefined where it is created
 * @param after undefined where it is deleted
 */
export function objectsWithOtherOptions(
  noun: string,
  object: string | undefined,
  before: ListItem | undefined,
  after: ListItem | undefined,
): string[] {
  const list = listOf(noun, object);
  const isSame =
    isOption(before) === isOption(after) &&
    (!isOption(after) || (before?.name === after?.name && before?.order_position === after?.order_position));
  if (!list || isSame) return [];
  return builtinObjects.filter(({ fields }) => fields.some(({ lookup }) => lookup === list)).map((each) => each.object);
}
