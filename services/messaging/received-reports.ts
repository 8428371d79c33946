// Processes a provider's report: stores it once, links it, emits events and applies opt-outs.
import { v7 as uuidv7 } from 'uuid';
import { type AuditRow, buildSystemAuditRow, type EventRow } from '../../db/client/change-log.ts';
import type { Sql } from '../../db/client/pool.ts';
import type { TenantScope } from '../../db/client/tenant.ts';
import { addDnc } from '../../db/messaging/do-not-call.ts';
import { addSuppressed } from '../../db/messaging/email-suppression.ts';
import { type EngagedStatus, findMessage, insertMessage, markEngaged } from '../../db/messaging/messages.ts';
import { addReport, findContact, type ReportRow } from '../../db/messaging/received-reports.ts';
import { findSurvivor } from '../../db/records/merges.ts';
import { holdRecord } from '../../db/records/records.ts';
import {
  buildReportEvent,
  findChannel,
  findStopReason,
  type Link,
  type Report,
} from '../../domain/messaging/reports.ts';
import type { Change } from '../../runtime/handler.ts';

/** The actor, who is not a user of the workspace. */
const inboundActor = { kind: 'system', id: 'inbound', name: null } as const;

/** Sees every record of the workspace. */
const everywhere = { actor: inboundActor, reach: { kind: 'company' }, userId: null } as const;

/** The new status of a sent email after an engagement. */
const engagedStatus: Readonly<Partial<Record<NonNullable<Report['engagement']>, EngagedStatus>>> = {
  open: 'opened',
  click: 'clicked',
};

/** The response to the provider. It is the same for repeated reports. */
export type Received = Pick<ReportRow, 'id' | 'object' | 'recordId'>;

/** @returns the stored report, and the changes to record; a repeated report has none */
export async function receiveReport(
  sql: Sql,
  scope: TenantScope,
  provider: ReportRow['provider'],
  report: Report,
  now: Date,
): Promise<{ received: Received; changes: Change[] }> {
  const link = await findReportLink(sql, scope, report);
  const { object, record_id } = link;
  const { type, external_id, occurredAt, contacts, ...details } = report;
  const channel = findChannel(type);
  const id = uuidv7();
  const before = await addReport(sql, scope, {
    id,
    provider,
    externalId: external_id,
    kind: type,
    object,
    recordId: record_id,
    // The details of a message are stored in the message.
    details: channel ? {} : details,
    occurredAt,
    receivedAt: now,
  });
  if (before) return { received: before, changes: [] };
  if (channel)
    await insertMessage(sql, scope, {
      id,
      object,
      recordId: record_id,
      channel,
      direction: 'inbound',
      status: 'received',
      source: null,
      sender: report.from ?? null,
      recipient: report.to ?? null,
      subject: report.subject ?? null,
      body: report.body ?? '',
      campaignId: null,
      draftId: null,
      occurredAt,
    });
  const status = report.engagement && engagedStatus[report.engagement];
  if (status && link.message_id !== null) await markEngaged(sql, scope, link.message_id, status);
  const event = buildReportEvent(id, report, link, now);
  const received: Change = {
    action: 'report.receive',
    object: 'received_reports',
    recordId: id,
    metadata: { type, provider },
    ...(event ? { event } : {}),
  };
  return {
    received: { id, object, recordId: record_id },
    changes: [received, ...(await obeyStop(sql, scope, report, link, now))],
  };
}

/**
 * Records the changes of a report in the audit log and the outbox, for reports outside of API
 * operations.
 */
export function noteReport(
  scope: TenantScope,
  changes: readonly Change[],
  now: Date,
  emit: (event: EventRow) => void,
  note: (audit: AuditRow) => void,
): void {
  for (const { action, object = null, recordId = null, metadata = null, event } of changes) {
    note(buildSystemAuditRow(scope, inboundActor.id, action, { object, recordId, metadata }, now));
    if (event)
      emit({
        ...scope,
        event: event.name,
        occurredAt: now,
        actor: inboundActor,
        requestId: null,
        data: event.data,
      });
  }
}

/**
 * Links a report by its message, or else by number or address. A message that a merge has not moved
 * yet belongs to the record into which its own was merged.
 */
async function findReportLink(sql: Sql, scope: TenantScope, { message_id, contacts }: Report): Promise<Link> {
  const message = message_id === undefined ? undefined : await findMessage(sql, scope, message_id);
  const opened = { message_id: message?.id ?? null, campaign_id: message?.campaignId ?? null };
  const { object, recordId } = message ?? {};
  if (object && recordId) {
    const hold = (id: string): Promise<boolean> => holdRecord(sql, { ...scope, ...everywhere }, object, id);
    if (await hold(recordId)) return { object, record_id: recordId, ...opened };
    const survivor = await findSurvivor(sql, scope, object, recordId);
    if (survivor !== undefined && (await hold(survivor))) return { object, record_id: survivor, ...opened };
  }
  for (const { kind, value } of contacts) {
    const contact = await findContact(sql, scope, kind, value);
    if (contact) return { object: contact.object, record_id: contact.id, ...opened };
  }
  return { object: null, record_id: null, ...opened };
}

/**
 * Adds a recipient who opted out to the opt-out list, which is checked before each message is sent.
 */
async function obeyStop(
  sql: Sql,
  scope: TenantScope,
  report: Report,
  { campaign_id }: Link,
  now: Date,
): Promise<Change[]> {
  const reason = findStopReason(report);
  const [contact] = report.contacts;
  if (!reason || !contact) return [];
  const id = uuidv7();
  if (contact.kind === 'phone') {
    const said = { reason: report.body?.trim().toUpperCase() ?? null, notes: null, source: 'opt_out' } as const;
    const entry = { id, phoneNumber: contact.value, ...said, createdAt: now };
    const { isNew } = await addDnc(sql, scope, entry, inboundActor);
    return isNew ? [listed('dnc_entry', 'dnc_entries', id, { source: 'opt_out' })] : [];
  }
  const source = reason === 'unsubscribed' ? 'opt_out' : 'provider';
  const entry = { id, email: contact.value, reason, source, campaignId: campaign_id, createdAt: now } as const;
  const { isNew } = await addSuppressed(sql, scope, entry);
  return isNew ? [listed('email_suppression', 'email_suppressions', id, { reason, source })] : [];
}

const listed = (noun: string, object: string, recordId: string, metadata: Record<string, unknown>): Change => ({
  action: `${noun}.create`,
  object,
  recordId,
  metadata,
});
