// Marks changes by the job that made them, by which their records can be found.
import type { WriteCall } from './record-target.ts';

type Change = Parameters<WriteCall['db']['record']>[0];

/** Returns a change whose audit row and events name the import or revert that made it. */
export function addOrigin(change: Change, kind: 'import' | 'revert', id: string): Change {
  const origin = { kind, id };
  const mark = <E extends { data: Record<string, unknown> }>(event: E): E => ({
    ...event,
    data: { ...event.data, origin },
  });
  return {
    ...change,
    metadata: { ...change.metadata, [`${kind}_id`]: id },
    ...(change.event ? { event: mark(change.event) } : {}),
    ...(change.furtherEvents ? { furtherEvents: change.furtherEvents.map(mark) } : {}),
  };
}
