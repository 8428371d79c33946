// Sends approved drafts of all tenants in turn, and records the outcomes.
import { v7 as uuidv7 } from 'uuid';
import { type AuditRow, buildSystemAuditRow, type EventRow } from '../../db/client/change-log.ts';
import type { Sql } from '../../db/client/pool.ts';
import type { TenantScope } from '../../db/client/tenant.ts';
import { addDnc } from '../../db/messaging/do-not-call.ts';
import * as db from '../../db/messaging/draft-sending.ts';
import { addSuppressed } from '../../db/messaging/email-suppression.ts';
import { insertMessage } from '../../db/messaging/messages.ts';
import { findOptOuts } from '../../db/messaging/opt-outs.ts';
import { findActiveNumber, findDefaultNumber } from '../../db/messaging/phone-numbers.ts';
import { isActiveUser } from '../../db/people/users.ts';
import { computeModules, getModuleState, resolveAccess } from '../../domain/billing/plans.ts';
import { buildDraftEvent, type DraftChannel } from '../../domain/messaging/drafts.ts';
import {
  decideAfterFault,
  type EngagementUrls,
  findLostOutcome,
  findSendingObstacle,
  notSent,
  type OutgoingMessage,
  type Sender,
  type Senders,
  SendingFault,
  type SendingOutcome,
} from '../../domain/messaging/senders.ts';
import { getDueTime, type TenantJobContext } from '../runner.ts';

export interface MessageServices {
  senders: Senders;
  /** Returns the unsubscribe address for the recipient of a draft. */
  unsubscribeUrl: (scope: TenantScope, draftId: string) => string;
  /** Returns the tracking addresses of an email, if the workspace tracks opens and clicks. */
  engagementUrls: (companyId: string, draftId: string) => EngagementUrls;
  /** Called after each attempt. */
  onAttempt?: (channel: DraftChannel, outcome: 'sent' | 'failed' | 'postponed') => void;
}

type MessageContext = TenantJobContext & MessageServices;

/** Messages that one run sends concurrently. */
const sendsAtOnce = 8;
/**
 * Milliseconds, longer than an attempt lasts. After that, the server that leased a draft counts as
 * dead.
 */
const leaseMs = 10 * 60_000;
/**
 * Milliseconds after which the tenants are looked up again, because others may have messages by
 * then.
 */
const roundMs = 5000;

/** The actor in the audit log and in events. */
const self = 'messages';

/** Sends messages of some channels until none is due. */
export async function sendMessages(
  context: TenantJobContext,
  services: MessageServices,
  channels: readonly DraftChannel[],
): Promise<void> {
  while (!context.signal.aborted && (await sendDue(context, services, channels)) > 0);
}

/**
 * Sends due messages for a few seconds, one of each tenant in turn. Several servers may run it at
 * the same time.
 * @returns the number of drafts leased
 */
export async function sendDue(
  jobContext: TenantJobContext,
  services: MessageServices,
  channels: readonly DraftChannel[],
): Promise<number> {
  const context: MessageContext = { ...jobContext, ...services };
  const { platform, batchSize, log, signal } = context;
  const queues = await platform.use((sql) => db.findDueQueues(sql, channels, batchSize, getDueTime(context)));
  const began = performance.now();
  const isOver = (): boolean => signal.aborted || performance.now() - began > roundMs;
  const leave = (queue: db.Queue): void => {
    const at = queues.indexOf(queue);
    if (at >= 0) queues.splice(at, 1);
  };
  let taken = 0;
  const serve = async (): Promise<void> => {
    for (let queue = queues.shift(); queue && !isOver(); queue = queues.shift()) {
      // Queued behind all other tenants.
      queues.push(queue);
      try {
        if (await sendNext(context, queue)) taken += 1;
        else leave(queue);
      } catch (error) {
        // A tenant that fails does not delay others. A leased draft is due again when its lease
        // expires.
        leave(queue);
        const err = { message: (error as Error).message };
        log.warn({ company: queue.companyId, err }, 'failed to process a message; will retry');
      }
    }
  };
  await Promise.all(Array.from({ length: sendsAtOnce }, serve));
  return taken;
}

/** A draft that is sent now. */
interface Begun {
  draft: db.TakenDraft;
  sender: Sender;
  message: OutgoingMessage;
}

/** @returns false if nothing is due */
async function sendNext(context: MessageContext, queue: db.Queue): Promise<boolean> {
  const begun = await context.transaction(queue, (...to) => begin(context, queue, ...to));
  if (begun === undefined) return false;
  if (begun === 'ended') return true;
  const { draft } = begun;
  const log = context.log.child({ company: queue.companyId, draft: draft.id, channel: draft.channel });
  const result = await attempt(context, queue, begun);
  const outcome = result instanceof SendingFault ? decideAfterFault(result, draft.attempts) : result;
  await context.transaction(queue, async (sql, emit, audit) => {
    if (typeof outcome !== 'number') {
      await end(context, queue, draft, begun.message.sender, outcome, sql, emit, audit);
      if (result instanceof SendingFault) await heed(result, queue, draft, sql, audit, context.now());
      return;
    }
    const mayBeSent = result instanceof SendingFault && result.kind === 'unknown';
    await db.postponeDraft(sql, queue, draft, mayBeSent, new Date(context.now().getTime() + outcome));
  });
  const attempts = draft.attempts;
  if (typeof outcome === 'number') {
    context.onAttempt?.(draft.channel, 'postponed');
    const why = result instanceof SendingFault ? result.message : '';
    log.warn({ attempts, why, next_in_minutes: outcome / 60_000 }, 'failed to send a message; will retry');
  } else if (outcome.status === 'sent') log.info({ attempts }, 'sent a message');
  else log.warn({ attempts, code: outcome.code, why: outcome.message }, 'gave up on a message');
  return true;
}

/**
 * Leases the next draft and checks again whether it may be sent.
 * @returns undefined if nothing is due, and `ended` if the draft is not to be sent
 */
async function begin(
  context: MessageContext,
  queue: db.Queue,
  sql: Sql,
  emit: (event: EventRow) => void,
  audit: (row: AuditRow) => void,
): Promise<Begun | 'ended' | undefined> {
  const now = context.now();
  const draft = await db.takeDraft(sql, queue, leaseMs, now);
  if (!draft) return undefined;
  const [company, isOptedOut, from] = await Promise.all([
    db.findSendingCompany(sql, queue.companyId),
    findOptOuts(sql, queue, [draft]),
    findSender(sql, queue, draft),
  ]);
  const isInboxOn = company !== undefined && hasInbox(company, now);
  const objection = findSendingObstacle(draft, {
    isInboxOn,
    isOptedOut: isOptedOut(draft),
    hasSender: from !== undefined,
  });
  const sender = context.senders[draft.channel];
  const ref = queue.testMode ? notSent.test : sender ? undefined : notSent.kept;
  const lost = ref === undefined ? findLostOutcome(draft.attempts) : undefined;
  const outcome: SendingOutcome | undefined = objection ?? lost ?? (ref && { status: 'sent', providerRef: ref });
  if (outcome || !sender || from === undefined) {
    if (outcome) await end(context, queue, draft, from ?? draft.sender, outcome, sql, emit, audit);
    if (ref === notSent.kept && !objection)
      context.log.info(
        { company: queue.companyId, draft: draft.id, channel: draft.channel },
        'kept a message: no provider is configured',
      );
    return 'ended';
  }
  const { id, channel, recipient, subject, body } = draft;
  const message = {
    id,
    channel,
    recipient,
    sender: from,
    subject,
    body,
    companyName: company?.name ?? '',
    unsubscribeUrl: context.unsubscribeUrl(queue, id),
    isOfCampaign: draft.campaignId !== null,
    engagement: company?.notesEngagement && channel === 'email' ? context.engagementUrls(queue.companyId, id) : null,
  };
  return { draft, sender, message };
}

function hasInbox(company: db.SendingCompany, now: Date): boolean {
  const { packageCode, addOns, disabledModules, subscriptionStatus, trialEndsAt } = company;
  const modules = computeModules(packageCode, addOns, disabledModules);
  return resolveAccess(subscriptionStatus, trialEndsAt, now) === 'open' && getModuleState('inbox', modules) === 'on';
}

/**
 * Returns the sender number of a text, or the reply-to address of an email. null: the service's own
 * address. undefined: the sender is no longer active.
 */
async function findSender(
  sql: Sql,
  scope: db.Queue,
  { channel, sender }: db.TakenDraft,
): Promise<string | null | undefined> {
  if (channel !== 'email') {
    const number = sender === null ? findDefaultNumber(sql, scope) : findActiveNumber(sql, scope, sender);
    const active = await number;
    return active?.canSms ? active.phoneNumber : undefined;
  }
  if (sender === null) return null;
  return (await isActiveUser(sql, scope.companyId, { email: sender })) ? sender : undefined;
}

/** Sends a message, unless an earlier attempt with unknown outcome turns out to have sent it. */
async function attempt(
  context: MessageContext,
  scope: TenantScope,
  { draft, sender, message }: Begun,
): Promise<SendingOutcome | SendingFault> {
  try {
    const earlier = await sentEarlier(context, scope, { draft, sender, message });
    return { status: 'sent', providerRef: earlier ?? (await sender.send(message)) };
  } catch (error) {
    if (error instanceof SendingFault) return error;
    throw error;
  }
}

async function sentEarlier(
  context: MessageContext,
  scope: TenantScope,
  { draft, sender, message }: Begun,
): Promise<string | undefined> {
  if (!draft.attemptedAt || !sender.findSent) return undefined;
  const references = await sender.findSent(message, draft.attemptedAt);
  if (references.length === 0) return undefined;
  const known = await context.transaction(scope, (sql) => db.findKnownReferences(sql, scope, references));
  return references.find((reference) => !known.has(reference));
}

/** Records the outcome of a draft, unless another attempt has started meanwhile. */
async function end(
  context: MessageContext,
  scope: TenantScope,
  draft: db.TakenDraft,
  from: string | null,
  outcome: SendingOutcome,
  sql: Sql,
  emit: (event: EventRow) => void,
  audit: (row: AuditRow) => void,
): Promise<void> {
  const now = context.now();
  if (!(await db.endDraft(sql, scope, draft, outcome, now))) return;
  const { companyId, testMode } = scope;
  const { name, data } = buildDraftEvent(draft, 'approved', outcome.status, now);
  const actor = { kind: 'system', id: self, name: null };
  emit({ companyId, testMode, event: name, data, occurredAt: now, actor, requestId: null });
  const changes = { status: { from: 'approved', to: outcome.status } };
  const metadata =
    outcome.status === 'sent'
      ? { channel: draft.channel, provider_ref: outcome.providerRef }
      : { channel: draft.channel, error_code: outcome.code };
  const action = outcome.status === 'sent' ? 'message_draft.send' : 'message_draft.fail';
  audit(
    buildSystemAuditRow(scope, self, action, { object: 'message_drafts', recordId: draft.id, changes, metadata }, now),
  );
  context.onAttempt?.(draft.channel, outcome.status);
  if (outcome.status !== 'sent') return;
  const { id, object, recordId, channel, recipient, subject, body, campaignId } = draft;
  // The message has the id of the draft, which is also in the Message-ID, so that reports can refer
  // to it.
  await insertMessage(sql, scope, {
    id,
    object,
    recordId,
    channel,
    direction: 'outbound',
    source: null,
    sender: from,
    recipient,
    subject,
    body,
    status: 'sent',
    campaignId,
    draftId: id,
    occurredAt: now,
  });
}

/**
 * Records what the provider said about the recipient, so that no further messages are sent there.
 */
async function heed(
  { kind }: SendingFault,
  scope: TenantScope,
  { id: draftId, recipient, campaignId }: db.TakenDraft,
  sql: Sql,
  audit: (row: AuditRow) => void,
  now: Date,
): Promise<void> {
  const traced = (action: string, object: string, recordId: string, source: string): void =>
    audit(buildSystemAuditRow(scope, self, action, { object, recordId, metadata: { source, draft_id: draftId } }, now));
  if (kind === 'said_stop') {
    const details = { reason: 'Opted out with the provider.', notes: null, source: 'opt_out' as const, createdAt: now };
    const by = { kind: 'system' as const, id: self, name: null };
    const { entry, isNew } = await addDnc(sql, scope, { id: uuidv7(), phoneNumber: recipient, ...details }, by);
    if (isNew) traced('dnc_entry.create', 'dnc_entries', entry.id, entry.source);
  }
  if (kind === 'unknown_recipient') {
    const details = { reason: 'bounced' as const, source: 'provider' as const, campaignId, createdAt: now };
    const { entry, isNew } = await addSuppressed(sql, scope, { id: uuidv7(), email: recipient, ...details });
    if (isNew) traced('email_suppression.create', 'email_suppressions', entry.id, entry.source);
  }
}
