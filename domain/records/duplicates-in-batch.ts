// Items of one batch that repeat each other on the tenant's duplicate fields.
// What is stored already is not looked at.
import type { Workspace, WorkspaceObject } from '../objects/workspace.ts';
import type { CheckedRecord } from './draft.ts';
import { duplicateSets } from './duplicates.ts';

/**
 * Finds the items that have the same values as an earlier one in every selected field that they have a value in.
 * @returns the earlier item's index by the later one's; items with problems neither repeat nor are repeated, since they are not stored
 */
export function repeatsOf(
  object: WorkspaceObject,
  workspace: Workspace,
  items: readonly CheckedRecord[],
): ReadonlyMap<number, number> {
  const repeats = new Map<number, number>();
  const kept: number[] = [];
  for (const [index, item] of items.entries()) {
    if (item.problems.length > 0) continue;
    const [selected] = duplicateSets(object, workspace, item.values, item.custom);
    const earlier =
      selected &&
      kept.find((other) => {
        const { values = {}, custom = {} } = items[other] ?? {};
        return selected.every(({ field, custom: isCustom, value }) => (isCustom ? custom : values)[field] === value);
      });
    if (earlier === undefined) kept.push(index);
    else repeats.set(index, earlier);
  }
  return repeats;
}
