// Builds the body of a delivery: only fields of the catalog, at most 64 KB.
import { eventCatalogue } from './event-catalogue.ts';

/** A stored event. */
export interface HappenedEvent {
  id: string;
  event: string;
  /** In the feed. */
  position: number;
  occurredAt: Date;
  actor: { kind: string; id: string; name: string | null };
  requestId: string | null;
  data: Readonly<Record<string, unknown>>;
  /** The changed fields of an update, with old and new values. */
  changes: object | null;
}

/** Maximum bytes of a body. `changes` is omitted from a body that would be longer. */
export const maxBodyBytes = 65_536;

const fieldsOfEvent: ReadonlyMap<string, readonly string[]> = new Map(
  eventCatalogue.map(({ name, fields }) => [name, fields.map((field) => field.name)]),
);

/** Returns the public id of an event, the same in every delivery. */
export const toEventId = (id: string): string => `evt_${id}`;

/**
 * Returns the old and new values of changed fields, as the feed adds them to the data of an event.
 * @param isShown returns true for a field that is published
 */
export function toFeedChanges(
  changes: Readonly<Record<string, unknown>>,
  isShown: (field: string) => boolean,
): { changes: Record<string, unknown> } | { changes_truncated: true } {
  const shown = Object.fromEntries(Object.entries(changes).filter(([field]) => isShown(field)));
  const bytes = new TextEncoder().encode(JSON.stringify(shown)).length;
  return bytes <= maxBodyBytes ? { changes: shown } : { changes_truncated: true };
}

/** @param include `changes` adds the old and new values of changed fields */
export function composeBody(happened: HappenedEvent, testMode: boolean, include: readonly string[]): string {
  const data = toEventData(happened.event, happened.data);
  const { changes } = happened;
  if (!changes || !include.includes('changes')) return writeBody(happened, testMode, data);
  const whole = writeBody(happened, testMode, { ...data, changes });
  return new TextEncoder().encode(whole).length <= maxBodyBytes
    ? whole
    : writeBody(happened, testMode, { ...data, changes_truncated: true });
}

/** What caused the event of a record, if it was not a call. */
interface EventOrigin {
  kind: 'import' | 'revert';
  id: string;
}

/** Returns what caused an event, as the transaction noted it in the data. */
export function readOrigin({ origin = null }: { origin?: unknown }): EventOrigin | null {
  return origin as EventOrigin | null;
}

/** Returns the data of an event as callers see it: only fields of the catalog. */
export function toEventData(event: string, data: HappenedEvent['data']): Record<string, unknown> {
  const names = fieldsOfEvent.get(event) ?? [];
  return Object.fromEntries(names.filter((name) => Object.hasOwn(data, name)).map((name) => [name, data[name]]));
}

function writeBody(happened: HappenedEvent, testMode: boolean, data: Record<string, unknown>): string {
  const { id, event, occurredAt, actor, requestId } = happened;
  return JSON.stringify({
    id: toEventId(id),
    event,
    created_at: occurredAt.toISOString(),
    test_mode: testMode,
    actor,
    request_id: requestId,
    origin: readOrigin(happened.data),
    data,
  });
}

/** Builds the body of a test event: the example with the current time, marked as a test. */
export function composeTestBody(event: string, id: string, testMode: boolean, now: Date): string {
  const example = eventCatalogue.find(({ name }) => name === event)?.example ?? {};
  const at = now.toISOString();
  const data = { ...(example.data as object), occurred_at: at };
  return JSON.stringify({ ...example, id: toEventId(id), created_at: at, test_mode: testMode, test: true, data });
}
