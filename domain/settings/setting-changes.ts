// What a change of a setting did, for the audit log.

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
