// Operations of change sets, as their trials and their application run them.
import { hashJson, type StoredOperation } from '../../db/records/change-sets.ts';
import { putIds, readRefs } from '../../domain/records/change-set-refs.ts';
import { ApiError } from '../../runtime/errors.ts';
import type { Call, NestedOperation, NestedOutcome } from '../../runtime/handler.ts';

export type Caller = Call['caller'];
export type Succeeded = Exclude<NestedOutcome, { error: ApiError }>;
/** The parts of a call that trials and applications use. */
export type Working = Pick<Call, 'caller' | 'db' | 'services' | 'now'>;

/** Returns true if an operation can change the configuration that later ones read. */
export const canChangeConfiguration = ({ template }: NestedOperation): boolean =>
  /^\/v1\/(settings|link-types|objects)/.test(template) && !template.includes('/records');

/** Puts the IDs of earlier operations in place of references. */
export function fillIn(
  { path, body }: { path: string; body?: StoredOperation['body'] | undefined },
  ids: ReadonlyMap<string, string>,
): { path: string; body: unknown } | { error: ApiError } {
  const missing = [...readRefs(path), ...readRefs(body)].find((name) => !ids.has(name));
  if (missing !== undefined)
    return {
      error: new ApiError(
        'VALIDATION_ERROR',
        `No earlier operation that succeeds has the ref ${missing}.`,
        { reason: 'unknown_ref' },
        { status: 422 },
      ),
    };
  return { path: putIds(path, ids) as string, body: putIds(body ?? undefined, ids) };
}

/** Returns the ID of what an operation created or changed. */
export function findId(outcome: Succeeded): string | undefined {
  const members = Object.values((outcome.data ?? {}) as Record<string, unknown>);
  const thing = members.find(
    (each): each is { id: string } => typeof (each as { id?: unknown } | null)?.id === 'string',
  );
  return thing?.id;
}

/**
 * Returns a digest of what an operation did to which of its items: the approver may be able to do
 * more than the proposer, and records that match an item may have been added.
 */
export function digestResult({ status, data }: Succeeded): string {
  const { created, deleted, ...items } = (data ?? {}) as Record<string, unknown>;
  return hashJson([status, ...[items, created, deleted].map(listItems)]);
}

/** Returns the items of a batch that succeeded and those that failed. */
function listItems(batch: unknown): unknown[] {
  const { succeeded, failed } = (batch ?? {}) as Record<string, unknown>;
  return [succeeded, failed].map((items) =>
    Array.isArray(items) ? items.map((item) => [item?.index, item?.created, item?.already_linked]) : null,
  );
}

export const noOperation = () => new ApiError('NOT_FOUND', 'There is no such operation.');
