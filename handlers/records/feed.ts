// The change feed: pages of changes, and calls that wait for the next ones.
import { isCredentialValid } from '../../db/access/current-access.ts';
import { type FeedQuestion, type FeedStretch, type ReadEvent, readFeed } from '../../db/records/feed-reading.ts';
import { findShownTags } from '../../db/records/record-tags.ts';
import { findRecords } from '../../db/records/records.ts';
import { findEventDataScope } from '../../domain/automation/event-catalogue.ts';
import { readOrigin, toEventData, toFeedChanges } from '../../domain/automation/webhook-bodies.ts';
import { getModuleState } from '../../domain/billing/plans.ts';
import { getTagsField } from '../../domain/objects/queryable.ts';
import type { Workspace, WorkspaceObject } from '../../domain/objects/workspace.ts';
import type { StoredRecord } from '../../domain/records/draft.ts';
import { isVisible, type ShownTags, showTagged } from '../../domain/records/reading.ts';
import { showRecord } from '../../domain/records/view.ts';
import { feedLimits } from '../../domain/service/request-limits.ts';
import type { components } from '../../generated/api.ts';
import type { Caller } from '../../runtime/caller.ts';
import { conflict, orNotFound } from '../../runtime/errors.ts';
import type { Call, Handler } from '../../runtime/handler.ts';

/** Positions that one call scans for visible changes. */
const stretch = 5000;
const defaultChanges = 100;

type FeedCall = Call<'listChanges'>;
type FeedChange = components['schemas']['FeedChange'];

export const listChanges: Handler<'listChanges'> = async (call) => {
  const { caller } = call;
  const { query } = call.request;
  const { cursors } = call.services;
  const workspace = await call.services.loadWorkspace();
  const objects = askedObjects(query.objects, workspace).filter((object) => isVisible(object, workspace, caller));
  const limit = Math.min(feedLimits.changes, Math.max(1, query.limit ?? defaultChanges));
  const question = { objects, skipOwn: query.skip_own === true, withChanges: query.include === 'changes' };
  let page = await readPage(call, workspace, question, parseStart(call), limit);
  let left = (query.wait ?? 0) * 1000;
  while (page.changes.length === 0 && !page.hasMore && left > 0) {
    left = await call.services.waitForFeed(page.next, left);
    // A credential that was revoked meanwhile gets no more changes. Its next call is rejected.
    if (!(await isCredentialValid(call.db.sql, caller, caller.actor.id.replace(/^oauth_/, '')))) break;
    page = await readPage(call, workspace, question, page.next, limit);
  }
  const next = cursors.encode([page.next], buildFeedKey(call));
  return { status: 200, data: { changes: page.changes, next_cursor: next, has_more: page.hasMore } };
};

/**
 * Cursors are valid for every credential of the workspace and mode, so that a new key can continue
 * from an old one's cursor.
 */
function buildFeedKey({ caller: { companyId, testMode } }: FeedCall): string {
  return JSON.stringify([companyId, testMode, 'changes']);
}

/**
 * Returns the position after which to continue; undefined: from the oldest event; infinity: after
 * the newest.
 */
function parseStart(call: FeedCall): number | undefined {
  const { cursor } = call.request.query;
  if (cursor === undefined) return undefined;
  if (cursor === 'now') return Number.POSITIVE_INFINITY;
  return Number(call.services.cursors.decode(cursor, buildFeedKey(call))[0]);
}

/** @throws ApiError 404 if the workspace does not have an object of this name */
function askedObjects(names: string | undefined, workspace: Workspace): string[] {
  if (names === undefined) return [...workspace.objects.keys()];
  const asked = new Set(names.split(',').map((name) => name.trim()));
  return [...asked].map((name) => orNotFound(workspace.objects.get(name)).object);
}

interface FeedPage {
  changes: FeedChange[];
  /** The position after which to continue. */
  next: number;
  hasMore: boolean;
}

async function readPage(
  call: FeedCall,
  workspace: Workspace,
  question: FeedQuestion,
  start: number | undefined,
  limit: number,
): Promise<FeedPage> {
  const { caller } = call;
  const { sql } = call.db;
  const fromNow = start === Number.POSITIVE_INFINITY;
  const feed = await readFeed(sql, caller, question, fromNow ? Number.MAX_SAFE_INTEGER : start, stretch, limit);
  if (fromNow) return { changes: [], next: feed.last, hasMore: false };
  const after = start ?? feed.start;
  refuseExpired(feed, after);
  const last = feed.events.length === limit ? feed.events.at(-1) : undefined;
  const next = last?.position ?? Math.min(feed.last, after + stretch);
  const records = await readRecords(call, feed.events);
  const tags = call.request.query.expand === 'tags' ? await readTags(call, workspace, records) : undefined;
  const changes = feed.events.flatMap((event) => {
    const record = event.recordId === null ? undefined : records.get(`${event.object} ${event.recordId}`);
    const isNamed = record !== undefined || event.recordId === null || event.wasInReach;
    return isNamed || caller.reach.kind === 'company' ? [toFeedChange(event, record, workspace, caller, tags)] : [];
  });
  return { changes, next, hasMore: next < feed.last };
}

/**
 * @throws ApiError 409 if events after the cursor are gone, or never existed because an older
 * database was restored
 */
function refuseExpired({ start, last }: FeedStretch, after: number): void {
  if (after >= start && after <= last) return;
  throw conflict('cursor_expired', 'The changes after this cursor are no longer available. Copy all records again.', {
    export: '/v1/exports',
  });
}

/** Returns the current visible records of events, by object and id. */
async function readRecords(
  { caller, db: { sql } }: FeedCall,
  events: readonly ReadEvent[],
): Promise<Map<string, StoredRecord>> {
  const byObject = Map.groupBy(
    events.filter((event) => event.recordId !== null),
    (event) => event.object ?? '',
  );
  const lists = await Promise.all(
    [...byObject].map(async ([object, own]) => {
      const ids = [...new Set(own.map((event) => event.recordId as string))];
      const records = await findRecords(sql, caller, object, ids);
      return records.map((record) => [`${object} ${record.id}`, record] as const);
    }),
  );
  return new Map(lists.flat());
}

/**
 * Returns the tags of records: one statement for each object that has tags.
 * @param records as `readRecords` returns them
 */
async function readTags(
  { caller, db: { sql } }: FeedCall,
  { objects }: Workspace,
  records: ReadonlyMap<string, StoredRecord>,
): Promise<ShownTags> {
  const byObject = Map.groupBy([...records.keys()], (key) => key.split(' ')[0] ?? '');
  const lists = await Promise.all(
    [...byObject]
      .filter(([object]) => objects.get(object)?.tags)
      .map(([object, keys]) =>
        findShownTags(
          sql,
          caller,
          object,
          keys.flatMap((key) => key.split(' ')[1] ?? []),
        ),
      ),
  );
  return new Map(lists.flatMap((list) => [...list]));
}

/** @param tags undefined if they were not requested */
function toFeedChange(
  event: ReadEvent,
  record: StoredRecord | undefined,
  { objects }: Workspace,
  caller: Caller,
  tags: ShownTags | undefined,
): FeedChange {
  const object = objects.get(event.object ?? '');
  return {
    id: `evt_${event.id}`,
    event: event.event,
    object: event.object ?? '',
    record_id: event.recordId,
    occurred_at: event.occurredAt.toISOString(),
    actor: event.actor,
    origin: readOrigin(event.data),
    ...(Array.isArray(event.data.changed_fields) ? { changed_fields: event.data.changed_fields as string[] } : {}),
    data: { ...dataFor(event, caller), ...buildFieldChanges(event, record, object, caller) },
    record: object && record ? (tags ? showTagged(object, record, tags) : showRecord(object, record)) : null,
    version: object && record ? record.version : null,
  };
}

/**
 * Returns the old and new values of fields, if they were requested and the caller can still see the
 * record.
 */
function buildFieldChanges(
  { changes }: ReadEvent,
  record: StoredRecord | undefined,
  object: WorkspaceObject | undefined,
  { reach }: Caller,
): Record<string, unknown> {
  if (!changes || !object || !(record || reach.kind === 'company')) return {};
  return toFeedChanges(changes, (name) => object.fields.has(name) || name === getTagsField(object)?.name);
}

/** The data of every event about a record. */
const commonData = ['object', 'record_id', 'occurred_at'];

/**
 * Returns the data of an event as in webhooks. Without the scope of the event, only the common
 * data.
 */
function dataFor({ event, data }: ReadEvent, caller: Caller): Record<string, unknown> {
  const carried = toEventData(event, data);
  const scope = findEventDataScope(event);
  const [module = ''] = scope?.split(':') ?? [];
  const isOpen =
    scope === undefined || (caller.grants.allows(scope) && getModuleState(module, caller.modules) === 'on');
  return isOpen ? carried : Object.fromEntries(Object.entries(carried).filter(([name]) => commonData.includes(name)));
}
