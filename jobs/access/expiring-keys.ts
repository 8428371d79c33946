// Emits an event for each API key that is about to expire, once for each key and time.
import { type ExpiringKey, findExpiringKeys, noteExpiryTold } from '../../db/access/expiring-keys.ts';
import type { TenantJobContext } from '../runner.ts';

/** Milliseconds before it expires that the event of a key is emitted. */
const noticeMs = 7 * 86_400_000;

/** Emits all events that are due. Servers may do so at the same time. @returns how many */
export async function announceExpiringKeys(context: TenantJobContext): Promise<number> {
  const announced = await announceAll(context);
  if (announced > 0) context.log.info({ keys: announced }, 'announced API keys that expire soon');
  return announced;
}

async function announceAll(context: TenantJobContext): Promise<number> {
  const { platform, batchSize, log, signal } = context;
  const now = context.now();
  const until = new Date(now.getTime() + noticeMs);
  const failed = new Set<string>();
  let announced = 0;
  for (;;) {
    const keys = await platform.use((sql) => findExpiringKeys(sql, now, until, [...failed], batchSize));
    for (const key of keys) {
      if (signal.aborted) return announced;
      try {
        if (await announce(context, key, now)) announced += 1;
      } catch (error) {
        // The keys of other tenants do not wait for those of one that fails.
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
    if (!(await noteExpiryTold(sql, key))) return false;
    emit({
      companyId,
      testMode,
      event: 'api_key.expiring',
      occurredAt: now,
      actor: { kind: 'system', id: 'api_key', name: null },
      requestId: null,
      data: { api_key_id: id, name, expires_at: expiresAt.toISOString(), occurred_at: now.toISOString() },
    });
    return true;
  });
}
