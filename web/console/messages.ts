// Messages: those that wait for approval, decisions about one or many of them, and the history.
import { listRunsToDecide } from '../../db/messaging/draft-decisions.ts';
import type { DraftRow } from '../../db/messaging/drafts.ts';
import { type DraftChannel, type DraftStatus, draftChannels } from '../../domain/messaging/drafts.ts';
import { ApiError, orNotFound } from '../../runtime/errors.ts';
import type { PageResponse } from '../../runtime/http/page-routes.ts';
import { type Html, html, isolateText } from '../../runtime/pages/html.ts';
import {
  approveDraft,
  type DraftToApprove,
  decideDrafts,
  findDraftHistory,
  findDraftsToApprove,
  findShownDrafts,
  rejectDraft,
  type ShownDraft,
} from '../../services/messaging/draft-approvals.ts';
import { doneMessage, emptyState, pageLinks, table, tabs } from '../pages/components.ts';
import { field, filterForm, form, noDefaultButton, submitOrShowAgain } from '../pages/forms.ts';
import { consolePage } from '../pages/layout.ts';
import { act, buildAddress, type ConsoleParts, type PersonalRequest, type Show } from '../pages/requests.ts';
import { mayDecideRuns, runList } from './campaign-runs.ts';
import {
  channelNames,
  describeMessage,
  draftArticle,
  draftDecision,
  draftDetails,
  explainStatus,
  findAbout,
  hiddenFields,
  historyColumns,
  maxReasonLength,
  readDecision,
  type Surroundings,
  statusBadge,
  toHistoryRow,
} from './message-drafts.ts';
import { loadRecordNames } from './record-names.ts';

const home = '/console/messages';
/** Drafts on a page, and the most that one form decides about. */
const pageSize = 25;
const scopes = ['inbox:create'];
/** By status, in the order of the tabs. */
const statuses = {
  draft: 'Waiting',
  approved: 'Approved',
  sent: 'Sent',
  failed: 'Failed',
  rejected: 'Rejected',
  withdrawn: 'Withdrawn',
  all: 'All',
} as const;
const doneMessages = {
  'run-approved': 'Approved. The messages of the campaign will be sent shortly.',
  'run-rejected': 'Rejected. The messages of the campaign will not be sent.',
};

/** Parameters that lead back to the same part of the list. */
const placeNames = ['channel', 'cursor', 'trail'];

export const showMessages: Show = (parts, request) => messagesPage(parts, request, 200);

/** @param refused why a form for several drafts was rejected */
async function messagesPage(
  parts: ConsoleParts,
  request: PersonalRequest,
  status: number,
  refused?: ApiError,
): Promise<PageResponse> {
  const { query, testMode } = request;
  const list = readList(query);
  const found = await act(parts, request, scopes, async (acting) => {
    const { caller, now, db } = acting;
    const isQueue = list.status === 'draft';
    const [queue, history, runs, decided] = await Promise.all([
      isQueue ? findDraftsToApprove(acting, list.after, pageSize + 1, list.channel) : [],
      isQueue ? [] : findDraftHistory(acting, toHistoryFilter(list), list.after, pageSize + 1),
      isQueue && list.after === undefined && mayDecideRuns(caller) ? listRunsToDecide(db.sql, caller, pageSize) : [],
      findShownDrafts(acting, readDecidedIds(query)),
    ]);
    return { queue, history, runs, decided, now };
  });
  const drafts = [...found.queue.map(({ draft }) => draft), ...found.history];
  const shown = drafts.slice(0, pageSize);
  const names = await loadRecordNames(
    parts,
    request,
    shown.flatMap((draft) => findAbout(draft) ?? []),
  );
  const kept = Object.fromEntries(placeNames.map((name) => [name, query.get(name) ?? '']));
  const surroundings: Surroundings = { names, now: found.now, kept };
  const last = shown.at(-1);
  const next = drafts.length > pageSize && last ? `${last.createdAt.toISOString()}_${last.id}` : null;
  const channel = list.channel ?? '';
  const body = html`${doneMessage(request, doneMessages)}${summarize(found.decided, request)}
${refused ? html`<div role="alert"><p>${refused.message}</p></div>` : null}
${tabs(request, { path: home, parameter: 'status', shown: statuses, current: list.status, kept: { channel } })}
${filterForm(request, {
  path: home,
  names: ['channel'],
  kept: { status: list.status },
  fields: field('channel', 'Channel', { form: query }, { choices: { '': 'All channels', ...channelNames } }),
})}
${runList(found.runs, testMode)}
${
  list.status === 'draft'
    ? showQueue(found.queue.slice(0, pageSize), surroundings, request)
    : showHistory(shown, surroundings, testMode)
}
${pageLinks(request, home, { status: list.status, channel }, next)}`;
  return consolePage(request, status, 'Messages', body);
}

/** The requested part of the list. */
interface List {
  status: DraftStatus | 'all';
  channel: DraftChannel | undefined;
  after: readonly [time: string, id: string] | undefined;
}

function readList(query: URLSearchParams): List {
  const status = query.get('status') ?? '';
  const [, time, id] = cursorPattern.exec(query.get('cursor') ?? '') ?? [];
  return {
    status: Object.hasOwn(statuses, status) ? (status as List['status']) : 'draft',
    channel: draftChannels.find((each) => each === query.get('channel')),
    after: time !== undefined && id !== undefined ? [time, id] : undefined,
  };
}

const uuid = '[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}';
const cursorPattern = new RegExp(`^(\\d{4}-[01]\\d-[0-3]\\dT[0-2]\\d:[0-5]\\d:[0-5]\\d\\.\\d{3}Z)_(${uuid})$`);

const toHistoryFilter = ({ status, channel }: List) => ({
  status: status === 'all' ? undefined : status,
  channel,
});

function showQueue(drafts: readonly DraftToApprove[], surroundings: Surroundings, request: PersonalRequest): Html {
  if (drafts.length === 0) return emptyState('No messages are waiting for approval.');
  const { testMode, query } = request;
  const isSelected = query.get('selected') === 'all';
  const place = { ...surroundings.kept, selected: isSelected ? '' : 'all' };
  const text = isSelected
    ? 'Clear the selection'
    : drafts.length === 1
      ? 'Select the message'
      : `Select all ${drafts.length} on this page`;
  const select = html`<p><a href="${buildAddress(home, testMode, place)}#decide">${text}</a></p>`;
  const decision = html`${noDefaultButton}${hiddenFields(surroundings.kept)}
<h2>Decide about the selected messages</h2>
<p class="note">Each message is decided as this page shows it. Those that have changed since are left as they are, and named.</p>
${select}
<label for="reason-of-all">Reason for a rejection (optional)</label>
<input id="reason-of-all" name="reason" maxlength="${maxReasonLength}" autocomplete="off">
<button name="action" value="approve">Approve selected</button>
<button class="danger" name="action" value="reject">Reject selected</button>`;
  return html`${select}
${drafts.map((draft) => draftArticle(draft, surroundings, request, isSelected))}
${form(request, home, decision, 'tall', 'decide')}`;
}

function showHistory(drafts: readonly DraftRow[], surroundings: Surroundings, testMode: boolean): Html {
  if (drafts.length === 0) return emptyState('No messages.');
  const rows = drafts.map((draft) => toHistoryRow(draft, surroundings, testMode));
  return table('Messages', historyColumns, rows);
}

/** Returns the drafts that the last form was about. */
const readDecidedIds = (query: URLSearchParams): string[] =>
  [...new Set((query.get('decided') ?? '').split('.'))].filter((id) => isUuid.test(id)).slice(0, pageSize);
const isUuid = new RegExp(`^${uuid}$`);

/**
 * Says what the person's last form did. It is read from the drafts themselves, so a link cannot
 * announce what did not happen.
 */
function summarize(drafts: readonly DraftToApprove[], { query, person }: PersonalRequest): Html | null {
  if (drafts.length === 0) return null;
  const isApproval = query.get('action') !== 'reject';
  const me = person.caller.actor.id;
  const isDone = ({ draft }: DraftToApprove): boolean => (isApproval ? draft.approvedBy : draft.rejectedBy) === me;
  const left = drafts.filter((each) => !isDone(each));
  const count = drafts.length - left.length;
  return html`${count === 0 ? null : html`<p role="status">${announce(count, isApproval)}</p>`}
${
  left.length === 0
    ? null
    : html`<div role="alert"><p>${left.length} could not be ${isApproval ? 'approved' : 'rejected'}:</p>
<ul>${left.map((each) => html`<li>${isolateText(toSentence(describeMessage(each.draft)))}: ${explainLeft(each, isApproval)}</li>`)}</ul></div>`
}`;
}

function announce(count: number, isApproval: boolean): string {
  if (count === 1)
    return isApproval ? 'Approved. The message will be sent shortly.' : 'Rejected. The message will not be sent.';
  return isApproval
    ? `${count} approved. The messages will be sent shortly.`
    : `${count} rejected. The messages will not be sent.`;
}

const toSentence = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);

function explainLeft({ draft, isOptedOut, obstacle }: DraftToApprove, isApproval: boolean): Html {
  if (draft.status !== 'draft') return html`it was already decided. ${statusBadge(draft)} ${explainStatus(draft)}`;
  if (isApproval && isOptedOut) return html`${obstacle}`;
  return html`it has changed since you opened the page. Review it again.`;
}

/** Returns the address of the list after a decision, which says what it did. */
function buildResultAddress(
  { testMode, form: given }: PersonalRequest,
  ids: readonly string[],
  action: 'approve' | 'reject',
): string {
  const kept = Object.fromEntries(placeNames.map((name) => [name, given?.get(name) ?? '']));
  return buildAddress(home, testMode, { ...kept, decided: ids.join('.'), action });
}

export async function decideDraft(parts: ConsoleParts, request: PersonalRequest): Promise<PageResponse> {
  const { path, form: given } = request;
  const { id = '' } = path;
  const { isApproved, reason } = readDecision(given);
  try {
    await act(parts, request, scopes, (acting) =>
      isApproved ? approveDraft(acting, id, given?.get('hash') ?? '') : rejectDraft(acting, id, reason),
    );
  } catch (error) {
    // The list says what was left, and why.
    if (!(error instanceof ApiError) || error.status !== 409) throw error;
  }
  return { redirect: buildResultAddress(request, [id], isApproved ? 'approve' : 'reject') };
}

export const decideMessages: Show = (parts, request) => {
  const given = request.form as URLSearchParams;
  return submitOrShowAgain(
    async () => {
      const { isApproved, reason } = readDecision(given);
      const drafts = readSelection(given);
      if (drafts.length === 0) throw invalid('Select at least one message.');
      if (drafts.length > pageSize) throw invalid(`Select at most ${pageSize} messages.`);
      await act(parts, request, scopes, (acting) =>
        decideDrafts(acting, drafts, isApproved ? 'approved' : 'rejected', reason),
      );
      const ids = drafts.map(({ id }) => id);
      return { redirect: buildResultAddress(request, ids, isApproved ? 'approve' : 'reject') };
    },
    (refused) => messagesPage(parts, { ...request, query: given }, refused.status, refused),
  );
};

const invalid = (message: string): ApiError => new ApiError('VALIDATION_ERROR', message);

/** Returns the checked drafts of a form, each with the hash of what the page showed. */
function readSelection(given: URLSearchParams): ShownDraft[] {
  const drafts = given.getAll('draft').flatMap((value) => {
    const [, id, hash] = selectedPattern.exec(value) ?? [];
    return id !== undefined && hash !== undefined ? [[id, hash] as const] : [];
  });
  return [...new Map(drafts)].map(([id, hash]) => ({ id, hash }));
}
const selectedPattern = new RegExp(`^(${uuid})\\.([0-9a-f]{64})$`);

export const showMessage: Show = async (parts, request) => {
  const { path, testMode } = request;
  const { id = '' } = path;
  const { draft: shown, now } = await act(parts, request, scopes, async (acting) => ({
    draft: orNotFound((await findShownDrafts(acting, [id]))[0]),
    now: acting.now,
  }));
  const { draft } = shown;
  const about = findAbout(draft);
  const names = await loadRecordNames(parts, request, about ? [about] : []);
  const run =
    draft.runId === null || draft.campaignId === null || draft.status !== 'draft'
      ? null
      : html`<p>It is decided with the other messages of its <a href="${buildAddress(`/console/campaigns/${draft.campaignId}/runs/${draft.runId}`, testMode)}">campaign run</a>.</p>`;
  const isOpen = draft.status === 'draft' && run === null;
  const body = html`${draftDetails(draft, { names, now, kept: {} }, testMode)}
${run}${isOpen ? draftDecision(shown, request) : null}
<p><a href="${buildAddress(home, testMode)}">Back to Messages</a></p>`;
  return consolePage(request, 200, html`${channelNames[draft.channel]} to ${isolateText(draft.recipient)}`, body);
};
