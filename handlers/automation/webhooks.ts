// Webhook subscriptions: create, read, change, delete, rotate secrets, and test.
import { v7 as uuidv7 } from 'uuid';
import { cancelDeliveries, insertDeliveries } from '../../db/automation/webhook-deliveries.ts';
import * as db from '../../db/automation/webhooks.ts';
import { toActor } from '../../db/client/created-by.ts';
import { computeSuccessRate } from '../../domain/automation/success-rates.ts';
import { composeTestBody, toEventId } from '../../domain/automation/webhook-bodies.ts';
import { findHeaderProblems, findSecretProblem } from '../../domain/automation/webhook-headers.ts';
import { findEventsNamed, findUnknownEvents, readEventFilter } from '../../domain/automation/webhook-matching.ts';
import { toDeliveryResponse } from '../../domain/automation/webhook-view.ts';
import type { FieldProblem } from '../../domain/objects/field-values.ts';
import { configurationLimits } from '../../domain/service/request-limits.ts';
import { diffSettings } from '../../domain/settings/setting-changes.ts';
import type { components } from '../../generated/api.ts';
import { buildProblem, conflict, isValidSoFar, orNotFound, validationFailed } from '../../runtime/errors.ts';
import type { Call, Handler } from '../../runtime/handler.ts';
import { newSigningKeyPair, newSigningSecret, postSigned } from '../../runtime/outbound/signed-posts.ts';
import { readPage } from '../../runtime/paging.ts';

type Webhook = components['schemas']['WebhookSubscription'];

const hourMilliseconds = 3_600_000;
/** Milliseconds for the receiver of a test, because the caller waits for it. */
const testTimeout = 10_000;
/** Deliveries that the call cancels with their subscription. The senders cancel the rest. */
const maxCancelled = 1000;

export const listWebhookSubscriptions: Handler<'listWebhookSubscriptions'> = async (call) => {
  const { rows, ...rest } = await readPage(
    call,
    ['webhooks'],
    (after, limit) => db.listWebhooks(call.db.sql, call.caller, after, limit),
    (last: db.WebhookRow) => [last.createdAt.toISOString(), last.id],
  );
  return { status: 200, data: { subscriptions: rows.map((row) => toWebhookResponse(row, call)), ...rest } };
};

export const getWebhookSubscription: Handler<'getWebhookSubscription'> = async (call) => {
  const row = orNotFound(await db.findWebhook(call.db.sql, call.caller, call.request.path.id));
  return { status: 200, data: { subscription: toWebhookResponse(row, call) } };
};

export const createWebhookSubscription: Handler<'createWebhookSubscription'> = async (call) => {
  const { caller, now } = call;
  const { body } = call.request;
  await validateSettings(call, { events: [], filter: null, url: body.url, headerNames: [] });
  const limit = configurationLimits.webhooks;
  if ((await db.lockWebhookCount(call.db.sql, caller)) >= limit)
    throw conflict('subscription_limit', `A workspace can have at most ${limit} webhook endpoints.`, { limit });
  const secret = body.secret ?? newSigningSecret();
  const id = uuidv7();
  const settings: db.WebhookSettings = {
    url: body.url,
    description: body.description ?? null,
    events: body.events,
    filter: body.filter ?? null,
    include: [...body.include],
    skipOwn: body.skip_own,
    ...sealHeaders(body.headers ?? {}, call),
    maxPerSecond: body.max_per_second,
    isOrdered: body.ordered,
    ...changeScheme(body.signature_scheme, noKeys, call),
    ...toState(body.is_active, now),
  };
  const sealed = { sealedSecret: call.services.secrets.encrypt(secret), secretLast4: secret.slice(-4) };
  await db.insertWebhook(call.db.sql, caller, { id, ...settings, ...sealed, createdBy: caller.actor }, now);
  const row = orNotFound(await db.findWebhook(call.db.sql, caller, id));
  recordChange(call, 'create', undefined, row);
  return { status: 201, data: { subscription: toWebhookResponse(row, call), secret } };
};

export const updateWebhookSubscription: Handler<'updateWebhookSubscription'> = async (call) => {
  const { caller, now } = call;
  const { body, path } = call.request;
  await validateSettings(call, orNotFound(await db.findWebhook(call.db.sql, caller, path.id)));
  const before = orNotFound(await db.lockWebhook(call.db.sql, caller, path.id));
  // The URL or the headers may have changed before the lock.
  const unsent = findUnsentHeaders(body, before);
  if (unsent.length > 0) throw validationFailed(unsent, 400);
  const settings: db.WebhookSettings = {
    url: body.url ?? before.url,
    description: body.description === undefined ? before.description : body.description,
    events: body.events ?? before.events,
    filter: body.filter === undefined ? before.filter : body.filter,
    include: body.include ? [...body.include] : before.include,
    skipOwn: body.skip_own ?? before.skipOwn,
    ...changeHeaders(body.headers, before, call),
    maxPerSecond: body.max_per_second ?? before.maxPerSecond,
    isOrdered: body.ordered ?? before.isOrdered,
    ...changeScheme(body.signature_scheme, before, call),
    disabledReason: before.disabledReason,
    disabledAt: before.disabledAt,
  };
  if (body.is_active !== undefined && body.is_active !== (before.disabledAt === null))
    Object.assign(settings, toState(body.is_active, now));
  if (!recordChange(call, 'update', before, { ...before, ...settings }))
    return { status: 200, data: { subscription: toWebhookResponse(before, call) } };
  await db.updateWebhook(call.db.sql, caller, path.id, settings, now);
  if (before.disabledAt && !settings.disabledAt) await db.restartWebhook(call.db.sql, caller, path.id, now);
  const after = orNotFound(await db.findWebhook(call.db.sql, caller, path.id));
  return { status: 200, data: { subscription: toWebhookResponse(after, call) } };
};

export const deleteWebhookSubscription: Handler<'deleteWebhookSubscription'> = async (call) => {
  const { caller, now } = call;
  const { path } = call.request;
  const { sql } = call.db;
  const before = orNotFound(await db.lockWebhook(sql, caller, path.id));
  const cancelled = await cancelDeliveries(sql, caller, before.id, maxCancelled, now);
  if (cancelled < maxCancelled) await db.removeWebhook(sql, caller, before.id);
  else await db.hideWebhook(sql, caller, before.id, now);
  recordChange(call, 'delete', before, undefined);
  return { status: 200, data: { id: before.id, deleted: true } };
};

export const rotateWebhookSecret: Handler<'rotateWebhookSecret'> = async (call) => {
  const { caller, now } = call;
  const { body, path } = call.request;
  const { sql } = call.db;
  const problem = body?.secret === undefined ? undefined : findSecretProblem(body.secret);
  if (problem) throw validationFailed([problem], 400);
  const before = orNotFound(await db.lockWebhook(sql, caller, path.id));
  const secret = body?.secret ?? newSigningSecret();
  const overlap = (body?.overlap_hours ?? 24) * hourMilliseconds;
  const previousExpiresAt = overlap === 0 ? null : new Date(now.getTime() + overlap);
  const rotated: db.RotatedSecret = {
    sealedSecret: call.services.secrets.encrypt(secret),
    secretLast4: secret.slice(-4),
    sealedPrevious: previousExpiresAt && before.sealedSecret,
    previousExpiresAt,
    ...rotateKeys(before, previousExpiresAt !== null, call),
  };
  await db.rotateSecret(sql, caller, before.id, rotated, now);
  const after = orNotFound(await db.findWebhook(sql, caller, path.id));
  recordChange(call, 'rotate_secret', before, after);
  const expires = previousExpiresAt?.toISOString() ?? null;
  return {
    status: 200,
    data: { subscription: toWebhookResponse(after, call), secret, previous_secret_expires_at: expires },
  };
};

export const testWebhookSubscription: Handler<'testWebhookSubscription'> = async (call) => {
  const { caller, now, arrivedAt } = call;
  const { body, path } = call.request;
  const row = orNotFound(await db.findWebhook(call.db.sql, caller, path.id));
  const event = body?.event ?? row.events.flatMap(findEventsNamed)[0]?.name ?? '';
  if (findEventsNamed(event)[0]?.name !== event) {
    const [unknown] = findUnknownEvents([event]);
    const message = 'event must be the name of an event. GET /v1/webhook-events lists them.';
    throw validationFailed([buildProblem('event', 'INVALID_OPTION', message, unknown)], 422);
  }
  const [id, eventId] = [uuidv7(), uuidv7()];
  const sent = composeTestBody(event, eventId, caller.testMode, now);
  const outcome = await call.db.withoutConnection(
    postSigned(call.services.outbound, {
      url: row.url,
      secrets: listSecrets(row.sealedSecret, row.sealedPreviousSecret, row, call),
      signingKeys: listSecrets(row.sealedSigningKey, row.sealedPreviousSigningKey, row, call),
      ownHeaders: openHeaders(row, call),
      messageId: toEventId(eventId),
      headers: {
        'service-event': event,
        'service-event-id': toEventId(eventId),
        'service-delivery-id': id,
        'service-attempt': '1',
      },
      body: sent,
      testMode: caller.testMode,
      sentAt: arrivedAt,
      within: testTimeout,
    }),
  );
  const delivery = {
    id,
    subscriptionId: row.id,
    eventId,
    event,
    attempts: 1,
    maxAttempts: 1,
    nextAttemptAt: null,
    status: outcome.error === null ? ('succeeded' as const) : ('failed' as const),
    lastResponseCode: outcome.status,
    lastResponseSnippet: outcome.snippet,
    lastError: outcome.error,
    durationMs: outcome.durationMs,
    replayOf: null,
    isTest: true,
    recordId: null,
    position: 0,
    isOrdered: false,
    body: sent,
    createdAt: now,
    completedAt: new Date(now.getTime() + outcome.durationMs),
  };
  await insertDeliveries(call.db.sql, caller, [delivery]);
  call.db.record({
    action: 'webhook.test',
    object: 'webhooks',
    recordId: row.id,
    metadata: { event, status: delivery.status },
  });
  return { status: 200, data: { delivery: toDeliveryResponse({ ...delivery, leasedUntil: null }, now) } };
};

function toState(isActive: boolean, now: Date): Pick<db.WebhookSettings, 'disabledReason' | 'disabledAt'> {
  return isActive ? { disabledReason: null, disabledAt: null } : { disabledReason: 'manual', disabledAt: now };
}

/** Returns the secrets, or private keys, that sign a request: during a rotation, both. */
function listSecrets(
  current: string | null,
  previous: string | null,
  row: db.WebhookRow,
  { now, services: { secrets } }: Pick<Call, 'services' | 'now'>,
): string[] {
  const valid = [current, isOverlap(row, now) ? previous : null];
  return valid.flatMap((sealed) => (sealed === null ? [] : [secrets.decrypt(sealed)]));
}

/** Returns true while the previous secret and the previous key also sign. */
const isOverlap = ({ previousSecretExpiresAt: until }: db.WebhookRow, now: Date): boolean =>
  until !== null && until > now;

const noKeys: db.SigningKeys = {
  publicKey: null,
  sealedSigningKey: null,
  previousPublicKey: null,
  sealedPreviousSigningKey: null,
};

function createKeys({ services: { secrets } }: Pick<Call, 'services'>): db.SigningKeys {
  const { signingKey, publicKey } = newSigningKeyPair();
  return { ...noKeys, publicKey, sealedSigningKey: secrets.encrypt(signingKey) };
}

/** Returns the keys after a change of the scheme: those of before, new ones, or none. */
function changeScheme(
  scheme: Webhook['signature_scheme'] | undefined,
  before: db.SigningKeys,
  call: Pick<Call, 'services'>,
): db.SigningKeys {
  const { publicKey, sealedSigningKey, previousPublicKey, sealedPreviousSigningKey } = before;
  const isAsymmetric = publicKey !== null;
  if (scheme === undefined || (scheme === 'asymmetric') === isAsymmetric)
    return { publicKey, sealedSigningKey, previousPublicKey, sealedPreviousSigningKey };
  return scheme === 'asymmetric' ? createKeys(call) : noKeys;
}

/** @param hasOverlap true if the keys of before sign for some time */
function rotateKeys(before: db.SigningKeys, hasOverlap: boolean, call: Pick<Call, 'services'>): db.SigningKeys {
  if (before.publicKey === null) return noKeys;
  const keys = createKeys(call);
  if (!hasOverlap) return keys;
  return { ...keys, previousPublicKey: before.publicKey, sealedPreviousSigningKey: before.sealedSigningKey };
}

type HeaderSettings = Pick<db.WebhookSettings, 'headerNames' | 'sealedHeaders'>;

function sealHeaders(
  headers: Readonly<Record<string, string>>,
  { services: { secrets } }: Pick<Call, 'services'>,
): HeaderSettings {
  const headerNames = Object.keys(headers);
  return { headerNames, sealedHeaders: headerNames.length === 0 ? null : secrets.encrypt(JSON.stringify(headers)) };
}

function openHeaders(
  { sealedHeaders }: Pick<db.WebhookRow, 'sealedHeaders'>,
  { services: { secrets } }: Pick<Call, 'services'>,
): Record<string, string> {
  return sealedHeaders === null ? {} : JSON.parse(secrets.decrypt(sealedHeaders));
}

/** Returns the stored headers if the new ones are equal, since each sealing differs. */
function changeHeaders(
  headers: Readonly<Record<string, string>> | undefined,
  before: db.WebhookRow,
  call: Pick<Call, 'services'>,
): HeaderSettings {
  const isSame = headers === undefined || JSON.stringify(headers) === JSON.stringify(openHeaders(before, call));
  if (!isSame) return sealHeaders(headers, call);
  return { headerNames: before.headerNames, sealedHeaders: before.sealedHeaders };
}

/**
 * Returns a problem if stored values of headers would go to another origin than the one that they
 * were entered for, where the caller could read them.
 */
function findUnsentHeaders(
  { url, headers }: { url?: unknown; headers?: unknown },
  before: Pick<db.WebhookRow, 'url' | 'headerNames'>,
): FieldProblem[] {
  if (typeof url !== 'string' || headers !== undefined || before.headerNames.length === 0) return [];
  const origin = URL.parse(url)?.origin;
  if (origin === undefined || origin === new URL(before.url).origin) return [];
  const names = before.headerNames.join(', ');
  const message =
    `headers must be sent with a url of another origin, because stored values (${names}) are only for ` +
    `${new URL(before.url).origin}. Send them again, or {} to remove them.`;
  return [buildProblem('headers', 'REQUIRED', message)];
}

type StoredSettings = Pick<db.WebhookRow, 'events' | 'filter' | 'url' | 'headerNames'>;
type WritingCall = Call<'createWebhookSubscription'> | Call<'updateWebhookSubscription'>;

/**
 * Checks the body against the event catalog and the network. The errors include those that the
 * OpenAPI document finds.
 * @throws ApiError 400 or 422 with every problem
 */
async function validateSettings(call: WritingCall, before: StoredSettings): Promise<void> {
  const { body } = call.request;
  const isUnreadable = (field: string): boolean => !isValidSoFar(call.request.problems, field);
  const events = body.events ?? before.events;
  const filter = body.filter === undefined ? before.filter : body.filter;
  const problems = [];
  if (!isUnreadable('events')) {
    if (body.events) problems.push(...findUnknownEvents(body.events));
    // A filter cannot be checked for unknown events. One problem is enough then.
    const isToRead =
      filter !== null && problems.length === 0 && !isUnreadable('filter') && (body.events || body.filter);
    if (isToRead) problems.push(...readEventFilter(filter, events).problems);
  }
  if (body.headers && !isUnreadable('headers')) problems.push(...findHeaderProblems(body.headers));
  problems.push(...findUnsentHeaders(body, before));
  const problem = 'secret' in body && body.secret && !isUnreadable('secret') && findSecretProblem(body.secret);
  if (problem) problems.push(problem);
  if (typeof body.url === 'string' && !isUnreadable('url')) {
    const refusal = await call.db.withoutConnection(
      call.services.outbound.findUrlRejection(body.url, call.caller.testMode),
    );
    if (refusal) problems.push(buildProblem('url', 'INVALID_FORMAT', `url ${refusal}`));
  }
  if (problems.length + call.request.problems.length > 0) throw call.request.rejection(problems);
}

/** @returns false if nothing changes */
function recordChange(
  call: Pick<Call, 'db' | 'caller' | 'now'>,
  verb: 'create' | 'update' | 'delete' | 'rotate_secret',
  before: db.WebhookRow | undefined,
  after: db.WebhookRow | undefined,
): boolean {
  const changes = diffSettings(before && toWebhookResponse(before, call), after && toWebhookResponse(after, call));
  // The names are shown even if only values change.
  if (before && after && before.sealedHeaders !== after.sealedHeaders)
    changes.header_names = { from: before.headerNames, to: after.headerNames };
  if (before && after && Object.keys(changes).length === 0) return false;
  // The path often contains a secret of the receiver.
  if (changes.url) changes.url = { from: parseHost(changes.url.from), to: parseHost(changes.url.to) };
  call.db.record({
    action: `webhook.${verb}`,
    object: 'webhooks',
    recordId: (after ?? before)?.id ?? '',
    changes,
  });
  return true;
}

const parseHost = (url: unknown): string | null => (typeof url === 'string' ? `${new URL(url).origin}/…` : null);

function toWebhookResponse(row: db.WebhookRow, { caller, now }: Pick<Call, 'caller' | 'now'>): Webhook {
  const { previousSecretExpiresAt: until } = row;
  return {
    id: row.id,
    url: row.url,
    description: row.description,
    events: row.events,
    filter: row.filter as Webhook['filter'],
    include: row.include,
    skip_own: row.skipOwn,
    header_names: row.headerNames,
    max_per_second: row.maxPerSecond,
    ordered: row.isOrdered,
    signature_scheme: row.publicKey === null ? 'symmetric' : 'asymmetric',
    public_key: row.publicKey,
    previous_public_key: isOverlap(row, now) ? row.previousPublicKey : null,
    status: row.disabledAt ? 'disabled' : 'active',
    disabled_reason: row.disabledReason,
    disabled_at: row.disabledAt?.toISOString() ?? null,
    consecutive_failures: row.consecutiveFailures,
    success_rate_24h: computeSuccessRate(row.attemptCounts, now),
    last_delivery_at: row.lastDeliveryAt?.toISOString() ?? null,
    last_success_at: row.lastSuccessAt?.toISOString() ?? null,
    secret_last4: row.secretLast4,
    secret_rotated_at: row.secretRotatedAt?.toISOString() ?? null,
    previous_secret_expires_at: until && until > now ? until.toISOString() : null,
    test_mode: caller.testMode,
    created_by: toActor(row),
    created_at: row.createdAt.toISOString(),
    updated_at: row.updatedAt.toISOString(),
  };
}
