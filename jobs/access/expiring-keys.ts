// Announces API keys that expire soon, once per key and expiry time: an event and notifications.
import { type ExpiringKey, findExpiringKeys, recordExpiryNotice } from '../../db/access/expiring-keys.ts';
import { findAdmins } from '../../db/people/users.ts';
import { insertNotifications } from '../../db/records/notifications.ts';
import { getDueTime, type TenantJobContext } from '../runner.ts';

/** Milliseconds before expiry at which the event is emitted. */
const noticeMs = 7 * 86_400_000;

/**
 * Emits all due events. Several servers may run it at the same time.
 * @returns the number of events
 */
export async function announceExpiringKeys(context: TenantJobContext): Promise<number> {
  const announced = await announceAll(context);
  if (announced > 0) context.log.info({ keys: announced }, 'announced API keys that expire soon');
  return announced;
}

async function announceAll(context: TenantJobContext): Promise<number> {
  const { platform, batchSize, log, signal } = context;
  const due = getDueTime(context);
  const { now } = due;
  const until = new Date(now.getTime() + noticeMs);
  const failed = new Set<string>();
  let announced = 0;
  for (;;) {
    const keys = await platform.use((sql) => findExpiringKeys(sql, due, until, [...failed], batchSize));
    for (const key of keys) {
      if (signal.aborted) return announced;
      try {
        if (await announce(context, key, now)) announced += 1;
      } catch (error) {
        // A tenant that fails does not delay the keys of others.
        failed.add(key.companyId);
        log.warn(
          { company: key.companyId, err: { message: (error as Error).message } },
          'failed to announce an expiring API key',
        );
      }
    }
    if (keys.length < batchSize) return announced;
  }
}

function announce({ transaction }: TenantJobContext, key: ExpiringKey, now: Date): Promise<boolean> {
  const { companyId, testMode, id, name, expiresAt } = key;
  return transaction({ companyId, testMode }, async (sql, emit) => {
    if (!(await recordExpiryNotice(sql, key))) return false;
    emit({
      companyId,
      testMode,
      event: 'api_key.expiring',
      occurredAt: now,
      actor: { kind: 'system', id: 'api_key', name: null },
      requestId: null,
      data: { api_key_id: id, name, expires_at: expiresAt.toISOString(), occurred_at: now.toISOString() },
    });
    // Nothing in test mode notifies people.
    if (!testMode) {
      const title = `The API key ${name} expires on ${expiresAt.toISOString().slice(0, 10)}.`;
      const admins = await findAdmins(sql, companyId);
      const notifications = admins.map((admin) => ({
        userId: admin.id,
        kind: 'key_expiring' as const,
        title,
        subjectId: id,
      }));
      await insertNotifications(sql, companyId, notifications, now);
    }
    return true;
  });
}
