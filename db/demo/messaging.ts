// Messages of the demo workspace: sent, received and prepared, in test mode.
import type { DemoMessaging } from '../../domain/demo/messaging.ts';
import type { Sql } from '../client/pool.ts';
import { hashOfRun, insertRun } from '../messaging/campaign-runs.ts';
import { insertCampaign } from '../messaging/campaigns.ts';
import { addDnc } from '../messaging/do-not-call.ts';
import { insertDraft } from '../messaging/drafts.ts';
import { addSuppressed } from '../messaging/email-suppression.ts';
import { insertMessage } from '../messaging/messages.ts';
import { insertPhoneNumber } from '../messaging/phone-numbers.ts';

const actor = { kind: 'system', id: 'system', name: 'Demo' } as const;
const maker = { actor, userId: null };

export async function insertMessaging(sql: Sql, companyId: string, demo: DemoMessaging, now: Date): Promise<void> {
  const scope = { companyId, testMode: true };
  for (const entry of demo.doNotCall)
    await addDnc(sql, scope, { ...entry, notes: null, source: 'app', createdAt: now }, actor);
  for (const entry of demo.suppressed)
    await addSuppressed(sql, scope, { ...entry, source: 'app', campaignId: null, createdAt: now });
  for (const number of demo.phoneNumbers)
    await insertPhoneNumber(sql, scope, {
      ...number,
      country: 'DE',
      numberType: 'local',
      canSms: true,
      canVoice: true,
      canFax: false,
      status: 'active',
      monthlyCostMinor: 500,
      currency: 'EUR',
      isDefaultFax: false,
      assignedUserId: null,
      createdAt: now,
      updatedAt: now,
    });
  for (const campaign of demo.campaigns) await insertCampaign(sql, scope, campaign, maker);
  const by = {
    createdByKind: actor.kind,
    createdById: actor.id,
    createdByName: actor.name,
    createdByUser: null,
  };
  for (const run of demo.runs)
    await insertRun(sql, scope, { ...run, ...by, contentHash: hashOfRun(run.content, run.total) });
  for (const draft of demo.drafts) await insertDraft(sql, scope, draft, maker);
  for (const message of demo.messages)
    await insertMessage(sql, scope, { ...message, source: null, campaignId: null, draftId: null });
}
