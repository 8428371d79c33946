// Sends webhook deliveries. An attempt is committed first, then made outside of transactions.
import { cancelDeliveries } from '../../db/automation/webhook-deliveries.ts';
import { activateNext } from '../../db/automation/webhook-order.ts';
import * as db from '../../db/automation/webhook-sending.ts';
import { removeWebhook } from '../../db/automation/webhooks.ts';
import { type AuditRow, buildSystemAuditRow, type EventRow } from '../../db/client/change-log.ts';
import type { Sql } from '../../db/client/pool.ts';
import { holdClock } from '../../db/client/test-clocks.ts';
import { insertMail } from '../../db/messaging/mails.ts';
import { findAdmins } from '../../db/people/users.ts';
import { insertNotifications } from '../../db/records/notifications.ts';
import { countAttempts } from '../../domain/automation/success-rates.ts';
import {
  addAttempts,
  applyFailure,
  type Consequence,
  computeAllowance,
  computeNextAttempt,
  computeRetriesAfterLoss,
  decideNextAttempt,
  type Health,
  healthy,
  isGone,
  selectRate,
} from '../../domain/automation/webhook-attempts.ts';
import { toEventId } from '../../domain/automation/webhook-bodies.ts';
import type { OutgoingClient } from '../../runtime/outbound/client.ts';
import { type PostOutcome, postSigned } from '../../runtime/outbound/signed-posts.ts';
import type { LoadShedder } from '../load-shedder.ts';
import { getDueTime, getRealContext, type TenantJobContext } from '../runner.ts';

export interface WebhookSenderServices {
  client: OutgoingClient;
  /** Backs off under foreground load. */
  loadShedder: LoadShedder;
  /** Decrypts a stored secret. */
  decrypt: (sealed: string) => string;
  /** Called after each attempt. */
  onAttempt?: (outcome: 'succeeded' | 'failed' | 'blocked') => void;
  /** A random number from 0 to 1, for the jitter. */
  chance?: () => number;
}

/** Subscriptions of a run that are processed at the same time. */
const looksAtOnce = 4;
/** Milliseconds, longer than an attempt can last. After that, the attempt's process has ended. */
const leaseMs = 30_000;
/** Concurrent attempts of this process. */
const attemptsAtOnce = 600;
/** Attempts per batch under foreground load. */
const smallBatch = 10;
/** A receiver that responds within these milliseconds is prompt. */
const promptMs = 1000;
/** Deliveries that are cancelled in one statement. */
const cancelledAtOnce = 1000;

/** An attempt that has ended. */
interface EndedAttempt {
  delivery: db.TakenDelivery;
  outcome: PostOutcome & { startedAt: Date };
}

/** Attempts of a subscription that one transaction records. */
interface Group {
  ended: EndedAttempt[];
  noted: Promise<void>;
}

/** Sends due deliveries. Attempts outlast the run that starts them. */
export class WebhookSender {
  readonly #services: WebhookSenderServices;
  readonly #underway = new Set<Promise<void>>();
  /** The number of attempts under way, by subscription. */
  readonly #ofSubscription = new Map<string, number>();
  /** Subscriptions whose receiver responded promptly the last time. */
  readonly #prompt = new Set<string>();
  /**
   * By subscription: the group that waits for the previous transaction, and the newest transaction
   * that is running or waiting.
   */
  readonly #waiting = new Map<string, Group>();
  readonly #noting = new Map<string, Promise<void>>();

  constructor(services: WebhookSenderServices) {
    this.#services = services;
  }

  /**
   * Starts the due attempts that are allowed, without waiting for their end. Each sender takes only
   * what no other has leased.
   */
  async run(context: TenantJobContext): Promise<void> {
    const { platform, batchSize, signal } = context;
    for (;;) {
      if (signal.aborted || this.#underway.size >= attemptsAtOnce) return;
      const full = this.#full();
      const due = await platform.use((sql) => db.findDueWebhooks(sql, full, batchSize, getDueTime(context)));
      // The remaining deliveries are leased by others, or may not be sent yet.
      if (!(await this.#lookAtAll(context, due))) return;
    }
  }

  /**
   * Returns subscriptions that have reached their share. They stay due, ahead of those that have
   * waited less.
   */
  #full(): string[] {
    return [...this.#ofSubscription].filter(([id, count]) => count >= this.#computeShare(id)).map(([id]) => id);
  }

  /**
   * Returns the maximum concurrent attempts of a subscription. It falls as the total rises, so that
   * slow receivers leave room for others.
   */
  #computeShare(id: string): number {
    const all = this.#underway.size;
    if (all >= (attemptsAtOnce * 3) / 4) return 1;
    return all < attemptsAtOnce / 2 || this.#prompt.has(id) ? Number.POSITIVE_INFINITY : 2;
  }

  /**
   * Processes a few subscriptions at a time, so that each one sees how many attempts the previous
   * ones started.
   */
  async #lookAtAll(context: TenantJobContext, due: readonly db.DueWebhook[]): Promise<boolean> {
    const rest = due.values();
    let isProgress = false;
    const lookAtRest = async (): Promise<void> => {
      for (const webhook of rest) isProgress = (await this.#look(context, webhook)) || isProgress;
    };
    await Promise.all(Array.from({ length: looksAtOnce }, lookAtRest));
    return isProgress;
  }

  /** Resolves when all started attempts are recorded. */
  async settled(): Promise<void> {
    while (this.#underway.size > 0) await Promise.all(this.#underway);
  }

  /** @returns true if something was done, so that another pass may find more */
  async #look(context: TenantJobContext, webhook: db.DueWebhook): Promise<boolean> {
    const { transaction, now, signal } = context;
    if (signal.aborted) return false;
    try {
      const own = this.#ofSubscription.get(webhook.id) ?? 0;
      const share = this.#computeShare(webhook.id);
      // It stays due, and is processed again when an attempt has ended.
      if (own >= share) return false;
      const isUnderLoad = await this.#services.loadShedder.waitForTurn(signal);
      const most = isUnderLoad ? Math.min(share - own, smallBatch) : share - own;
      if (signal.aborted) return false;
      const realNow = getRealContext(context).now;
      const taken = await transaction(webhook, (sql) => this.#take(sql, webhook, most, now(), realNow()));
      for (const delivery of taken.deliveries) this.#begin(context, webhook, taken.subscription, delivery);
      return taken.deliveries.length > 0 || taken.isProgress;
    } catch (error) {
      report(context, webhook, error, 'failed to lease webhook deliveries');
      return false;
    }
  }

  /** @param realNow the real time, which leases are on */
  async #take(sql: Sql, webhook: db.DueWebhook, most: number, now: Date, realNow: Date) {
    const subscription = await db.lockDueWebhook(sql, webhook, now, realNow);
    if (!subscription) return { deliveries: [], subscription, isProgress: false };
    if (subscription.isDeleted) {
      this.#prompt.delete(webhook.id);
      const count = await cancelDeliveries(sql, webhook, webhook.id, cancelledAtOnce, now);
      if (count < cancelledAtOnce) await removeWebhook(sql, webhook, webhook.id);
      return { deliveries: [], subscription, isProgress: true };
    }
    if (subscription.isDisabled) {
      await db.pauseDeliveries(sql, webhook);
      return { deliveries: [], subscription, isProgress: false };
    }
    const { recentAttempts, inFlight, firstLeaseEnds, consecutiveFailures, maxPerSecond } = subscription;
    const limit = selectRate(consecutiveFailures, maxPerSecond);
    const { free, until } = computeAllowance(limit, recentAttempts, inFlight, now);
    const count = Math.max(Math.min(free, most), 0);
    const leasedUntil = new Date(realNow.getTime() + leaseMs);
    const claim = { leasedUntil, retryAt: computeRetriesAfterLoss(webhook.testMode, now) };
    const deliveries = count > 0 ? await db.takeDeliveries(sql, webhook, count, claim, now, realNow) : [];
    const attempts = addAttempts(recentAttempts, deliveries.length, now);
    const after = computeAllowance(limit, attempts, inFlight + deliveries.length, now);
    const isFull = after.free === 0;
    // If the subscription is at its limit, the next ended attempt triggers another pass. Otherwise
    // the first lease to expire does.
    const leaseLeft = (firstLeaseEnds ?? leasedUntil).getTime() - realNow.getTime();
    const notBefore = after.until ?? until ?? (isFull ? new Date(now.getTime() + leaseLeft) : null);
    await db.noteLook(sql, webhook, { recentAttempts: attempts, notBefore }, now);
    return { deliveries, subscription, isProgress: false };
  }

  #begin(
    context: TenantJobContext,
    webhook: db.DueWebhook,
    subscription: db.SendingWebhook | undefined,
    delivery: db.TakenDelivery,
  ): void {
    if (!subscription) return;
    const { id } = webhook;
    this.#ofSubscription.set(id, (this.#ofSubscription.get(id) ?? 0) + 1);
    const attempt = this.#attempt(context, webhook, subscription, delivery)
      .catch((error) =>
        report(context, webhook, error, 'failed to record the outcome of a webhook attempt; it is repeated'),
      )
      .finally(() => {
        this.#underway.delete(attempt);
        const left = (this.#ofSubscription.get(id) ?? 1) - 1;
        if (left > 0) this.#ofSubscription.set(id, left);
        else this.#ofSubscription.delete(id);
      });
    this.#underway.add(attempt);
  }

  async #attempt(
    context: TenantJobContext,
    webhook: db.DueWebhook,
    subscription: db.SendingWebhook,
    delivery: db.TakenDelivery,
  ): Promise<void> {
    const { client, decrypt, onAttempt } = this.#services;
    const startedAt = context.now();
    const { sealedSecret, sealedPreviousSecret, previousSecretExpiresAt: until, sealedHeaders } = subscription;
    const { sealedSigningKey, sealedPreviousSigningKey } = subscription;
    const isOverlap = until !== null && until > startedAt;
    const open = (current: string | null, previous: string | null): string[] =>
      [current, isOverlap ? previous : null].flatMap((sealed) => (sealed === null ? [] : [decrypt(sealed)]));
    const outcome = await postSigned(client, {
      url: subscription.url,
      secrets: open(sealedSecret, sealedPreviousSecret),
      signingKeys: open(sealedSigningKey, sealedPreviousSigningKey),
      ownHeaders: sealedHeaders === null ? {} : JSON.parse(decrypt(sealedHeaders)),
      messageId: toEventId(delivery.eventId),
      headers: {
        'service-event': delivery.event,
        'service-event-id': toEventId(delivery.eventId),
        'service-delivery-id': delivery.id,
        'service-attempt': String(delivery.attempts),
      },
      body: delivery.body,
      testMode: webhook.testMode,
      // Receivers compare it with their own clock.
      sentAt: new Date(),
    });
    if (outcome.durationMs < promptMs) this.#prompt.add(webhook.id);
    else this.#prompt.delete(webhook.id);
    // The clock of test mode may have been advanced or removed during the attempt.
    await this.#noteTogether(getRealContext(context), webhook, { delivery, outcome: { ...outcome, startedAt } });
    const kind = outcome.error === 'blocked_address' ? 'blocked' : 'failed';
    onAttempt?.(outcome.error === null ? 'succeeded' : kind);
  }

  /**
   * Records the attempt together with others of its subscription that end before its turn. Each
   * transaction updates the subscription's row, so they run one by one.
   */
  #noteTogether(context: TenantJobContext, webhook: db.DueWebhook, attempt: EndedAttempt): Promise<void> {
    const { id } = webhook;
    const waiting = this.#waiting.get(id);
    if (waiting) {
      waiting.ended.push(attempt);
      return waiting.noted;
    }
    const ended = [attempt];
    const turn = this.#noting.get(id) ?? Promise.resolve();
    const noted = turn.then(() => {
      this.#waiting.delete(id);
      return context.transaction(webhook, (sql, emit, audit) =>
        this.#note(context, sql, webhook, ended, { emit, audit }),
      );
    });
    this.#waiting.set(id, { ended, noted });
    const over = noted
      .catch(() => undefined)
      .then(() => {
        if (this.#noting.get(id) === over) this.#noting.delete(id);
      });
    this.#noting.set(id, over);
    return noted;
  }

  async #note(
    context: TenantJobContext,
    sql: Sql,
    webhook: db.DueWebhook,
    ended: readonly EndedAttempt[],
    changeLog: ChangeLog,
  ): Promise<void> {
    const ahead = await holdClock(sql, webhook);
    const now = new Date(context.now().getTime() + ahead * 1000);
    const results = ended.map((attempt) => this.#toOutcome(attempt, webhook.testMode, now));
    // The subscription is locked first, in the same order as everywhere, to avoid deadlocks.
    const before = await db.lockHealth(sql, webhook);
    const noted = db.noteOutcomes(sql, webhook, results, now);
    if (!before) return noted;
    const { health, decisive } = judgeAll(before, ended, results, now);
    const disabledReason = decisive?.disabledReason ?? null;
    const over = ended.flatMap(({ delivery }, index) =>
      results[index]?.nextAttemptAt ? [] : (delivery.queuedFor ?? []),
    );
    const tried = results.flatMap(({ nextAttemptAt: at }) => (at ? [at.getTime()] : []));
    if (over.length > 0) {
      await noted;
      if ((await activateNext(sql, webhook, webhook.id, over, now)) > 0) tried.push(now.getTime());
    }
    const succeeded = results.filter(({ status }) => status === 'succeeded').length;
    const trace = {
      health,
      disabledReason,
      succeeded: succeeded > 0,
      attemptCounts: countAttempts(before.attemptCounts, { attempts: results.length, succeeded }, now),
      nextAttemptAt: tried.length > 0 ? new Date(Math.min(...tried)) : null,
    };
    await Promise.all([noted, db.noteAttempt(sql, webhook, trace, now)]);
    if (disabledReason) recordDisabling(webhook, disabledReason, changeLog, now);
    // Test data notifies no people.
    if (decisive && !webhook.testMode)
      await notifyAdmins(sql, webhook, { ...decisive, url: before.url, reason: disabledReason ?? '' }, now);
    if (disabledReason)
      context.log.info({ webhook: webhook.id, reason: disabledReason }, 'disabled a webhook endpoint');
  }

  #toOutcome({ delivery, outcome }: EndedAttempt, testMode: boolean, now: Date): db.NewOutcome {
    const { attempts, maxAttempts } = delivery;
    const verdict = decideNextAttempt(outcome, attempts, maxAttempts);
    const chance = (this.#services.chance ?? Math.random)();
    return {
      deliveryId: delivery.id,
      attempts,
      status: verdict === 'retry' ? 'retrying' : verdict,
      nextAttemptAt: verdict === 'retry' ? computeNextAttempt(attempts, testMode, outcome, now, chance) : null,
      responseCode: outcome.status,
      snippet: outcome.snippet,
      error: outcome.error,
      durationMs: outcome.durationMs,
    };
  }
}

function report({ log }: TenantJobContext, { companyId, id }: db.DueWebhook, error: unknown, message: string): void {
  log.warn({ company: companyId, webhook: id, err: { message: (error as Error).message } }, message);
}

/** The attempt that disabled the subscription. If none did, the attempt that caused a warning. */
interface Decisive {
  attempt: EndedAttempt;
  template: 'webhook_disabled' | 'webhook_failing';
  disabledReason: 'failures' | 'gone' | null;
}

/** Evaluates the attempts in order to determine the receiver's health. */
function judgeAll(
  before: Health & { isDisabled: boolean },
  ended: readonly EndedAttempt[],
  results: readonly db.NewOutcome[],
  now: Date,
): { health: Health; decisive: Decisive | undefined } {
  let health: Health = before;
  let decisive: Decisive | undefined;
  for (const [index, attempt] of ended.entries()) {
    const judged = judge(health, results[index]?.status, attempt.outcome, now);
    health = judged.health;
    const reason = isGone(attempt.outcome) ? 'gone' : judged.consequence === 'disable' ? 'failures' : null;
    if (reason && !before.isDisabled && !decisive?.disabledReason)
      decisive = { attempt, template: 'webhook_disabled', disabledReason: reason };
    else if (judged.consequence === 'warn') decisive ??= { attempt, template: 'webhook_failing', disabledReason: null };
  }
  return { health, decisive };
}

function judge(
  before: Health,
  status: db.NewOutcome['status'] | undefined,
  { startedAt }: { startedAt: Date },
  now: Date,
): { health: Health; consequence: Consequence } {
  // A receiver that responds is reachable, even if it rejects this delivery.
  if (status === 'succeeded' || status === 'cancelled') return { health: healthy, consequence: 'none' };
  // The start of the attempt is in the future if the clock of test mode was removed meanwhile.
  const begin = startedAt < now ? startedAt : now;
  return applyFailure(before, { startedAt: begin, isExhausted: status === 'failed' }, now);
}

interface ChangeLog {
  emit: (event: EventRow) => void;
  audit: (row: AuditRow) => void;
}

const system = { kind: 'system', id: 'webhook', name: null };

function recordDisabling(
  webhook: db.DueWebhook,
  reason: 'failures' | 'gone',
  { emit, audit }: ChangeLog,
  now: Date,
): void {
  const { companyId, testMode, id } = webhook;
  emit({
    companyId,
    testMode,
    event: 'webhook.disabled',
    occurredAt: now,
    actor: system,
    requestId: null,
    data: { webhook_id: id, reason, occurred_at: now.toISOString() },
  });
  const changes = { status: { from: 'active', to: 'disabled' }, disabled_reason: { from: null, to: reason } };
  audit(buildSystemAuditRow(webhook, system.id, 'webhook.disable', { object: 'webhooks', recordId: id, changes }, now));
}

/** Notifies the administrators by mail and in the app. */
async function notifyAdmins(
  sql: Sql,
  { companyId, id }: db.DueWebhook,
  { attempt, template, url, reason }: Decisive & { url: string; reason: string },
  now: Date,
): Promise<void> {
  const { status, error } = attempt.outcome;
  const { event } = attempt.delivery;
  const answer = status === null ? `none, ${error}` : String(status);
  const host = new URL(url).hostname;
  const admins = await findAdmins(sql, companyId);
  const title = `The webhook endpoint at ${host} ${template === 'webhook_disabled' ? 'was disabled' : 'keeps failing'}.`;
  const notifications = admins.map((admin) => ({
    userId: admin.id,
    kind: 'webhook_failing' as const,
    title,
    subjectId: id,
  }));
  await insertNotifications(sql, companyId, notifications, now);
  for (const { email, fullName, companyName } of admins) {
    const data = { full_name: fullName, company_name: companyName, host, webhook_id: id, event, answer, reason };
    await insertMail(sql, { companyId, recipient: email, template, data }, now);
  }
}
