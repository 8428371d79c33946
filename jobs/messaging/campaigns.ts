// Campaigns: starts scheduled runs, prepares drafts, and withdraws drafts of cancelled campaigns.
import { v7 as uuidv7 } from 'uuid';
import { type AuditRow, buildSystemAuditRow, type EventRow } from '../../db/client/change-log.ts';
import type { Sql } from '../../db/client/pool.ts';
import type { TenantScope } from '../../db/client/tenant.ts';
import * as runs from '../../db/messaging/campaign-runs.ts';
import * as campaigns from '../../db/messaging/campaigns.ts';
import { findOptOuts } from '../../db/messaging/opt-outs.ts';
import { listPhoneNumbers } from '../../db/messaging/phone-numbers.ts';
import { loadWorkspaceRows } from '../../db/objects/workspace.ts';
import { listRecords } from '../../db/records/records.ts';
import { buildMessages, buildStartChanges, newRun, parseContent } from '../../domain/messaging/campaigns.ts';
import { buildDraftEvent } from '../../domain/messaging/drafts.ts';
import { readOwnFilter } from '../../domain/objects/filter.ts';
import { resolveRelativeDates } from '../../domain/objects/relative-dates.ts';
import { buildWorkspace } from '../../domain/objects/workspace.ts';
import { runDueSteps } from '../due-steps.ts';
import type { TenantJobContext } from '../runner.ts';

/** Processes everything that is due. @returns the number of steps */
export function runCampaigns(context: TenantJobContext): Promise<number> {
  const { batchSize, now } = context;
  return runDueSteps(
    context,
    campaigns.findDueCampaigns,
    (scope, id, ...to) => step(scope, id, batchSize, now(), ...to),
    {
      field: 'campaign',
      text: 'failed to continue a campaign; will retry',
    },
  );
}

/** Performs one step of a campaign atomically. @returns false if another server works on it */
async function step(
  scope: TenantScope,
  id: string,
  batchSize: number,
  now: Date,
  sql: Sql,
  emit: (event: EventRow) => void,
  audit: (row: AuditRow) => void,
): Promise<boolean> {
  const campaign = await campaigns.takeCampaign(sql, scope, id, now);
  if (!campaign) return false;
  if (campaign.status === 'cancelled') await withdraw(sql, scope, campaign, batchSize, now, emit, audit);
  else if (campaign.status === 'scheduled') await begin(sql, scope, campaign, now, audit);
  else if (campaign.status === 'running') await prepare(sql, scope, campaign, batchSize, now, audit);
  else await campaigns.updateCampaign(sql, scope, id, { dueAt: null });
  return true;
}

async function begin(
  sql: Sql,
  scope: TenantScope,
  campaign: campaigns.CampaignRow,
  now: Date,
  audit: (row: AuditRow) => void,
): Promise<void> {
  const { createdByKind, createdById, createdByName, createdByUser } = campaign;
  const numbers = new Map((await listPhoneNumbers(sql, scope)).map((each) => [each.id, each.phoneNumber]));
  const content = parseContent(campaign, (id) => numbers.get(id));
  const by = { createdByKind, createdById, createdByName, createdByUser };
  const run = { ...newRun(uuidv7(), campaign.id, content, now), ...by };
  await runs.insertRun(sql, scope, run);
  await campaigns.updateCampaign(sql, scope, campaign.id, buildStartChanges(now));
  audit(buildSystemAuditRow(scope, 'campaigns', 'campaign.run', { object: 'campaigns', recordId: campaign.id }, now));
}

/** Processes the next page of the audience. */
async function prepare(
  sql: Sql,
  scope: TenantScope,
  campaign: campaigns.CampaignRow,
  batchSize: number,
  now: Date,
  audit: (row: AuditRow) => void,
): Promise<void> {
  const run = await runs.findActiveRun(sql, scope, campaign.id);
  if (!run) throw new Error('a campaign is running without a run');
  const { content } = run;
  const { objects, timezone } = buildWorkspace(await loadWorkspaceRows(sql, scope.companyId));
  const object = objects.get(content.object);
  const { filter, problems } = content.filter && object ? readOwnFilter(content.filter, object) : { problems: [] };
  if (!object || problems.length > 0) {
    const why = problems[0]?.message ?? `the object ${content.object} no longer exists`;
    await finish(sql, scope, campaign, { ...run, status: 'failed', errorSummary: why }, now, audit);
    return;
  }
  const everybody = {
    ...scope,
    reach: { kind: 'company' as const },
    userId: null,
    actor: { kind: 'system' as const, id: 'campaigns', name: null },
  };
  const records = await listRecords(sql, everybody, content.object, {
    sort: [{ field: 'id', descending: false }],
    // Relative dates mean the same in every batch of a run, also if a day ends meanwhile.
    filter: filter && resolveRelativeDates(filter, { now: run.createdAt, timezone }),
    limit: batchSize,
    after: run.lastRecord === null ? undefined : [run.lastRecord],
  });
  const messages = records.flatMap(({ record }) => buildMessages(content, object, record));
  const isOptedOut = await findOptOuts(sql, scope, messages);
  const wanted = messages.filter((message) => !isOptedOut(message));
  const made = await runs.insertRunDrafts(sql, scope, run, wanted, now);
  const after: runs.RunRow = {
    ...run,
    status: 'running',
    startedAt: run.startedAt ?? now,
    lastRecord: records.at(-1)?.record.id ?? run.lastRecord,
    audience: run.audience + records.length,
    total: run.total + made,
    skipped: run.skipped + records.length * content.channels.length - made,
  };
  if (records.length < batchSize) await finish(sql, scope, campaign, { ...after, status: 'completed' }, now, audit);
  else {
    await saveRun(sql, scope, after);
    // Queues the campaign behind others that are due.
    await campaigns.updateCampaign(sql, scope, campaign.id, { dueAt: now });
  }
}

async function finish(
  sql: Sql,
  scope: TenantScope,
  campaign: campaigns.CampaignRow,
  run: runs.RunRow,
  now: Date,
  audit: (row: AuditRow) => void,
): Promise<void> {
  const ended = { ...run, finishedAt: now, contentHash: runs.hashOfRun(run.content, run.total) };
  await saveRun(sql, scope, ended);
  await campaigns.updateCampaign(sql, scope, campaign.id, {
    status: 'completed',
    completedAt: now,
    audienceSize: run.audience,
    dueAt: null,
    updatedAt: now,
  });
  const metadata = { run_id: run.id, status: run.status, total: run.total, skipped: run.skipped };
  const about = { object: 'campaigns', recordId: campaign.id, metadata };
  audit(buildSystemAuditRow(scope, 'campaigns', 'campaign_run.finish', about, now));
}

async function saveRun(sql: Sql, scope: TenantScope, run: runs.RunRow): Promise<void> {
  const { status, contentHash, lastRecord, audience, total, skipped, errorSummary, startedAt, finishedAt } = run;
  const progress = { status, contentHash, lastRecord, audience, total, skipped };
  await runs.updateRun(sql, scope, run.id, { ...progress, errorSummary, startedAt, finishedAt });
}

/** Withdraws drafts that are undecided, or approved and not being sent yet. */
async function withdraw(
  sql: Sql,
  scope: TenantScope,
  campaign: campaigns.CampaignRow,
  batchSize: number,
  now: Date,
  emit: (event: EventRow) => void,
  audit: (row: AuditRow) => void,
): Promise<void> {
  const active = await runs.findActiveRun(sql, scope, campaign.id);
  if (active) await runs.updateRun(sql, scope, active.id, { status: 'cancelled', finishedAt: now });
  const taken = await runs.withdrawSome(sql, scope, campaign.id, 'The campaign is cancelled.', batchSize, now);
  const actor = { kind: 'system', id: 'campaigns', name: null };
  for (const draft of taken) {
    const { name, data } = buildDraftEvent(draft, draft.was, 'withdrawn', now);
    emit({ ...scope, event: name, data, occurredAt: now, actor, requestId: null });
  }
  const about = { object: 'campaigns', recordId: campaign.id, metadata: { withdrawn: taken.length } };
  if (taken.length > 0) audit(buildSystemAuditRow(scope, 'campaigns', 'campaign.withdraw', about, now));
  await campaigns.updateCampaign(sql, scope, campaign.id, { dueAt: taken.length < batchSize ? null : now });
}
