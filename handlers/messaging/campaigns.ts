// Campaigns: create, change, schedule, pause, resume and cancel.
import { v7 as uuidv7 } from 'uuid';
import { toActor } from '../../db/client/created-by.ts';
import { findActiveRun, listRuns } from '../../db/messaging/campaign-runs.ts';
import * as db from '../../db/messaging/campaigns.ts';
import { countEngaged } from '../../db/messaging/messages.ts';
import { listPhoneNumbers } from '../../db/messaging/phone-numbers.ts';
import { isActiveUser } from '../../db/people/users.ts';
import { readAddress } from '../../domain/messaging/addresses.ts';
import { toCampaignRunResponse } from '../../domain/messaging/campaign-view.ts';
import { type CampaignChannel, noDrafts, type StoredCampaign } from '../../domain/messaging/campaigns.ts';
import { draftChannels, longestText } from '../../domain/messaging/drafts.ts';
import { readOwnFilter } from '../../domain/objects/filter.ts';
import { findPlaceholderProblems } from '../../domain/objects/placeholders.ts';
import { getBuiltinObject } from '../../domain/objects/workspace.ts';
import type { components } from '../../generated/api.ts';
import { buildProblem, conflict, type FieldProblem, orNotFound, validationFailed } from '../../runtime/errors.ts';
import type { Call, Handler } from '../../runtime/handler.ts';
import { readPage } from '../../runtime/paging.ts';

type Campaign = components['schemas']['Campaign'];
type WritingCall = Pick<Call, 'db' | 'caller' | 'services' | 'authorize' | 'request'>;
type ChangingCall = Pick<Call, 'db' | 'caller' | 'now'>;

/** Runs in the response of one campaign. */
const shownRuns = 5;
/** Milliseconds into the future for which a campaign may be scheduled. */
const maxScheduleAhead = 366 * 86_400_000;

export const listCampaigns: Handler<'listCampaigns'> = async (call) => {
  const { caller } = call;
  const { query } = call.request;
  const { sql } = call.db;
  const { rows, ...rest } = await readPage(
    call,
    ['campaigns', query.status],
    (after, limit) => db.listCampaigns(sql, caller, query.status, after, limit),
    (last: db.CampaignRow) => [last.createdAt.toISOString(), last.id],
  );
  return { status: 200, data: { campaigns: rows.map(toCampaignResponse), ...rest } };
};

export const getCampaign: Handler<'getCampaign'> = async ({ caller, request: { path }, db: { sql } }) => {
  const [row, runs, counts, engaged] = await Promise.all([
    db.findCampaign(sql, caller, path.id),
    listRuns(sql, caller, path.id, undefined, shownRuns),
    db.countDrafts(sql, caller, path.id),
    countEngaged(sql, caller, path.id),
  ]);
  const campaign = orNotFound(row);
  const stats = draftChannels.flatMap((channel_type) => {
    const own = counts.filter(({ channel }) => channel === channel_type);
    const by_status = { ...noDrafts, ...(channel_type === 'email' ? engaged : {}) };
    for (const { status, count } of own) by_status[status] += count;
    const total = own.reduce((sum, { count }) => sum + count, 0);
    return total === 0 ? [] : [{ channel_type, total, by_status }];
  });
  return {
    status: 200,
    data: {
      campaign: toCampaignResponse(campaign),
      channels: campaign.channels.map((channel) => ({ ...channel })),
      latest_runs: runs.map((run) => toCampaignRunResponse(run, toActor(run), counts)),
      stats,
    },
  };
};

export const createCampaign: Handler<'createCampaign'> = async (call) => {
  const { caller, now } = call;
  const { body } = call.request;
  const { sql } = call.db;
  const campaign: StoredCampaign = {
    id: uuidv7(),
    name: body.name.trim(),
    description: body.description ?? null,
    status: 'draft',
    ...(await checkContent(call, { object: body.object, filter: body.filter ?? null, channels: body.channels })),
    audienceSize: null,
    scheduledAt: null,
    startedAt: null,
    completedAt: null,
    dueAt: null,
    createdAt: now,
    updatedAt: now,
  };
  await db.insertCampaign(sql, caller, campaign, caller);
  call.db.record({ action: 'campaign.create', object: 'campaigns', recordId: campaign.id });
  const { kind, id, name } = caller.actor;
  const by = { createdByKind: kind, createdById: id, createdByName: name, createdByUser: caller.userId };
  return { status: 201, data: { campaign: toCampaignResponse({ ...campaign, ...by }) } };
};

export const updateCampaign: Handler<'updateCampaign'> = async (call) => {
  const { caller, now } = call;
  const { body, path } = call.request;
  const { sql } = call.db;
  const before = orNotFound(await db.lockCampaign(sql, caller, path.id));
  await assertEditable(call, before);
  const { name, description, object, filter, channels } = body;
  const asked = {
    object: object ?? before.object,
    filter: filter === undefined ? before.filter : filter,
    channels: channels ?? before.channels,
  };
  const changes = {
    name: name?.trim() ?? before.name,
    description: description === undefined ? before.description : description,
    ...(await checkContent(call, asked)),
    updatedAt: now,
  };
  await db.updateCampaign(sql, caller, before.id, changes);
  call.db.record({
    action: 'campaign.update',
    object: 'campaigns',
    recordId: before.id,
    metadata: { fields: Object.keys(body) },
  });
  return { status: 200, data: { campaign: toCampaignResponse({ ...before, ...changes }) } };
};

export const scheduleCampaign: Handler<'scheduleCampaign'> = async (call) => {
  const { caller, now } = call;
  const { body, path } = call.request;
  const { sql } = call.db;
  const at = new Date(body.scheduled_at);
  const ahead = at.getTime() - now.getTime();
  if (ahead <= 0 || ahead > maxScheduleAhead) {
    const message = ahead <= 0 ? 'scheduled_at must be in the future' : 'scheduled_at must be at most one year ahead';
    throw validationFailed([buildProblem('scheduled_at', 'OUT_OF_RANGE', message)], 400);
  }
  const before = orNotFound(await db.lockCampaign(sql, caller, path.id));
  await assertEditable(call, before);
  if (before.status === 'paused') throw notEditable(before);
  assertHasChannel(before);
  return changeStatus(call, before, 'schedule', { status: 'scheduled', scheduledAt: at, dueAt: at });
};

export const pauseCampaign: Handler<'pauseCampaign'> = async (call) => {
  const before = orNotFound(await db.lockCampaign(call.db.sql, call.caller, call.request.path.id));
  if (before.status === 'paused') return { status: 200, data: { campaign: toCampaignResponse(before) } };
  if (before.status !== 'running' && before.status !== 'scheduled')
    throw conflict('not_running', `Only running or scheduled campaigns can be paused. This one is ${before.status}.`, {
      status: before.status,
    });
  return changeStatus(call, before, 'pause', { status: 'paused', dueAt: null });
};

export const resumeCampaign: Handler<'resumeCampaign'> = async (call) => {
  const { caller, now } = call;
  const { path } = call.request;
  const { sql } = call.db;
  const before = orNotFound(await db.lockCampaign(sql, caller, path.id));
  if (before.status !== 'paused')
    throw conflict('not_paused', `Only paused campaigns can be resumed. This one is ${before.status}.`, {
      status: before.status,
    });
  const isRunning = (await findActiveRun(sql, caller, before.id)) !== undefined;
  return isRunning
    ? changeStatus(call, before, 'resume', { status: 'running', dueAt: now })
    : changeStatus(call, before, 'resume', { status: 'scheduled', dueAt: before.scheduledAt });
};

export const cancelCampaign: Handler<'cancelCampaign'> = async (call) => {
  const before = orNotFound(await db.lockCampaign(call.db.sql, call.caller, call.request.path.id));
  if (before.status === 'cancelled') return { status: 200, data: { campaign: toCampaignResponse(before) } };
  return changeStatus(call, before, 'cancel', { status: 'cancelled', scheduledAt: null, dueAt: call.now });
};

/** Changes the status of a campaign. */
async function changeStatus(
  call: ChangingCall,
  before: db.CampaignRow,
  verb: 'schedule' | 'pause' | 'resume' | 'cancel',
  changes: Pick<Partial<StoredCampaign>, 'scheduledAt'> & Pick<StoredCampaign, 'status' | 'dueAt'>,
): Promise<{ status: 200; data: { campaign: Campaign } }> {
  const { caller, now } = call;
  const { sql } = call.db;
  await db.updateCampaign(sql, caller, before.id, { ...changes, updatedAt: now });
  call.db.record({
    action: `campaign.${verb}`,
    object: 'campaigns',
    recordId: before.id,
    changes: { status: { from: before.status, to: changes.status } },
  });
  return { status: 200, data: { campaign: toCampaignResponse({ ...before, ...changes, updatedAt: now }) } };
}

/** @throws ApiError 409 if a run of the campaign is being prepared, or if it was cancelled */
async function assertEditable(
  { caller, db: { sql } }: Pick<Call, 'db' | 'caller'>,
  campaign: db.CampaignRow,
): Promise<void> {
  if (campaign.status === 'cancelled' || (await findActiveRun(sql, caller, campaign.id))) throw notEditable(campaign);
}

const notEditable = ({ status }: db.CampaignRow) =>
  conflict('not_editable', `This campaign cannot be changed because it is ${status}.`, { status });

/** @throws ApiError 409 if the campaign has no enabled channel */
function assertHasChannel({ channels }: db.CampaignRow): void {
  if (!channels.some(({ enabled }) => enabled))
    throw conflict('no_channel', 'All channels of this campaign are disabled. Enable at least one.');
}

/**
 * Returns the audience and the messages of a campaign in stored form.
 * @throws ApiError 400 if the filter is invalid; 400 or 422 with every problem of the channels
 */
async function checkContent(
  call: WritingCall,
  asked: Pick<StoredCampaign, 'object' | 'filter'> & { channels: readonly Asked[] },
): Promise<Pick<StoredCampaign, 'object' | 'filter' | 'channels'>> {
  call.authorize(`${asked.object}:view`);
  const workspace = await call.services.loadWorkspace();
  const object = getBuiltinObject(asked.object, workspace);
  if (asked.filter) {
    const { problems } = readOwnFilter(asked.filter, object);
    if (problems.length > 0) throw validationFailed(problems, 400);
  }
  const numbers = new Map((await listPhoneNumbers(call.db.sql, call.caller)).map((number) => [number.id, number]));
  const problems: FieldProblem[] = [];
  const channels: CampaignChannel[] = [];
  for (const [index, each] of asked.channels.entries()) {
    const at = `channels[${index}]`;
    const isEmail = each.channel_type === 'email';
    const { channel_type, enabled, phone_number_id, subject, body } = each;
    const channel = { channel_type, enabled, phone_number_id, from: null as string | null, subject, body };
    if (channels.some((other) => other.channel_type === channel_type))
      problems.push(
        buildProblem(
          `${at}.channel_type`,
          'DUPLICATE',
          `${at}.channel_type must be unique. ${channel_type} occurs more than once`,
        ),
      );
    if (isEmail && subject === null)
      problems.push(buildProblem(`${at}.subject`, 'REQUIRED', `${at}.subject is required for emails`));
    for (const name of isEmail ? (['phone_number_id'] as const) : (['subject', 'from'] as const))
      if (each[name] !== null)
        problems.push(
          buildProblem(`${at}.${name}`, 'CONFLICTING_FIELDS', `${at}.${name} is not allowed for ${channel_type}`),
        );
    if (channel_type === 'sms' && [...body].length > longestText)
      problems.push(
        buildProblem(`${at}.body`, 'TOO_LONG', `${at}.body must have at most ${longestText} characters for sms`),
      );
    const number = phone_number_id === null ? undefined : numbers.get(phone_number_id.toLowerCase());
    if (!isEmail && phone_number_id !== null && !(number?.status === 'active' && number.canSms)) {
      const message = `${at}.phone_number_id must be the id of an active phone number that can send SMS`;
      problems.push(buildProblem(`${at}.phone_number_id`, 'NOT_FOUND', message));
    }
    if (isEmail && each.from !== null) {
      const read = readAddress('email', `${at}.from`, each.from, null);
      if ('problem' in read) problems.push(read.problem);
      else if (await isActiveUser(call.db.sql, call.caller.companyId, { email: read.value })) channel.from = read.value;
      else
        problems.push(
          buildProblem(`${at}.from`, 'NOT_FOUND', `${at}.from must be the email address of an active user`),
        );
    }
    for (const [name, text] of Object.entries({ subject, body }))
      if (text !== null) problems.push(...findPlaceholderProblems(`${at}.${name}`, text, object));
    channels.push(channel);
  }
  if (problems.length > 0) throw call.request.rejection(problems);
  return { object: asked.object, filter: asked.filter, channels };
}

type Asked = Pick<CampaignChannel, 'channel_type' | 'enabled' | 'phone_number_id' | 'from' | 'subject' | 'body'>;

function toCampaignResponse(row: db.CampaignRow): Campaign {
  return {
    id: row.id,
    name: row.name,
    description: row.description,
    status: row.status,
    object: row.object,
    filter: row.filter as Campaign['filter'],
    channel_types: row.channels.filter(({ enabled }) => enabled).map(({ channel_type }) => channel_type),
    audience_size: row.audienceSize,
    scheduled_at: row.scheduledAt?.toISOString() ?? null,
    started_at: row.startedAt?.toISOString() ?? null,
    completed_at: row.completedAt?.toISOString() ?? null,
    created_by: toActor(row),
    created_at: row.createdAt.toISOString(),
    updated_at: row.updatedAt.toISOString(),
  };
}
