// Runs of campaigns: start and list. A job prepares their messages.
import { v7 as uuidv7 } from 'uuid';
import { toActor } from '../../db/client/created-by.ts';
import * as db from '../../db/messaging/campaign-runs.ts';
import { countDrafts, findCampaign, lockCampaign, updateCampaign } from '../../db/messaging/campaigns.ts';
import { listPhoneNumbers } from '../../db/messaging/phone-numbers.ts';
import { toCampaignRunResponse } from '../../domain/messaging/campaign-view.ts';
import { buildStartChanges, newRun, parseContent } from '../../domain/messaging/campaigns.ts';
import { conflict, orNotFound } from '../../runtime/errors.ts';
import type { Handler } from '../../runtime/handler.ts';
import { readPage } from '../../runtime/paging.ts';

export const listCampaignRuns: Handler<'listCampaignRuns'> = async (call) => {
  const { caller } = call;
  const { path } = call.request;
  const { sql } = call.db;
  orNotFound(await findCampaign(sql, caller, path.id));
  const { rows, ...rest } = await readPage(
    call,
    ['campaign runs', path.id],
    (after, limit) => db.listRuns(sql, caller, path.id, after, limit),
    (last: db.RunRow) => [last.createdAt.toISOString(), last.id],
  );
  const counts = await countDrafts(sql, caller, path.id);
  return { status: 200, data: { runs: rows.map((run) => toCampaignRunResponse(run, toActor(run), counts)), ...rest } };
};

export const createCampaignRun: Handler<'createCampaignRun'> = async (call) => {
  const { caller, now } = call;
  const { path } = call.request;
  const { sql } = call.db;
  const campaign = orNotFound(await lockCampaign(sql, caller, path.id));
  if (campaign.status === 'cancelled') throw conflict('campaign_cancelled', 'This campaign is cancelled.');
  if (await db.findActiveRun(sql, caller, campaign.id))
    throw conflict('run_in_progress', 'A run of this campaign is still in progress. Wait until it has ended.');
  const numbers = new Map((await listPhoneNumbers(sql, caller)).map((each) => [each.id, each.phoneNumber]));
  const content = parseContent(campaign, (id) => numbers.get(id));
  if (content.channels.length === 0)
    throw conflict('no_channel', 'All channels of this campaign are disabled. Enable at least one.');
  const { kind, id, name } = caller.actor;
  const run: db.RunRow = {
    ...newRun(uuidv7(), campaign.id, content, now),
    createdByKind: kind,
    createdById: id,
    createdByName: name,
    createdByUser: caller.userId,
  };
  await db.insertRun(sql, caller, run);
  await updateCampaign(sql, caller, campaign.id, buildStartChanges(now));
  call.db.record({
    action: 'campaign.run',
    object: 'campaigns',
    recordId: campaign.id,
    changes: { status: { from: campaign.status, to: 'running' } },
    metadata: { run_id: run.id },
  });
  return { status: 202, data: { run: toCampaignRunResponse(run, caller.actor, []) } };
};
