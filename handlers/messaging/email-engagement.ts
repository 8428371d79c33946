// The setting that tracks opens and clicks of emails.
import { isEngagementNoted, lockEngagementNoted, setEngagementNoted } from '../../db/messaging/email-engagement.ts';
import { diffSettings } from '../../domain/settings/setting-changes.ts';
import type { Handler } from '../../runtime/handler.ts';

export const getEmailEngagement: Handler<'getEmailEngagement'> = async ({ caller, db: { sql } }) => ({
  status: 200,
  data: { email_engagement: { enabled: await isEngagementNoted(sql, caller.companyId) } },
});

export const updateEmailEngagement: Handler<'updateEmailEngagement'> = async (call) => {
  const { caller } = call;
  const { body } = call.request;
  const { sql } = call.db;
  const { enabled } = body;
  const before = await lockEngagementNoted(sql, caller.companyId);
  await setEngagementNoted(sql, caller.companyId, enabled);
  const changes = diffSettings({ enabled: before }, { enabled });
  call.db.record({ action: 'settings.email_engagement.update', object: 'email_engagement', changes });
  return { status: 200, data: { email_engagement: { enabled } } };
};
