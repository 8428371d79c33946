// Lists that fields take their options from, and what of an item their schemas show.
import { builtinObjects, type Lookup } from '../objects/builtin.ts';

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
