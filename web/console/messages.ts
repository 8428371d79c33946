// Messages that wait for approval: single drafts, and the runs of campaigns.
import { toActor } from '../../db/client/created-by.ts';
import { findRunToDecide, listRunsToDecide, type RunToDecide } from '../../db/messaging/draft-decisions.ts';
import type { Caller } from '../../runtime/caller.ts';
import { orNotFound } from '../../runtime/errors.ts';
import type { PageResponse } from '../../runtime/http/page-routes.ts';
import { type Html, html, isolateText } from '../../runtime/pages/html.ts';
import {
  approveDraft,
  approveRun,
  type DraftToApprove,
  findDraftsToApprove,
  rejectDraft,
  rejectRun,
} from '../../services/messaging/draft-approvals.ts';
import { formatTime } from '../pages/components.ts';
import { consolePage } from '../pages/layout.ts';
import { buildAddress, type ConsoleParts, type PersonalRequest } from '../pages/requests.ts';

/** Drafts on a page. */
const pageSize = 25;
const doneMessages: Readonly<Record<string, string>> = {
  approved: 'Approved. The message will be sent shortly.',
  rejected: 'Rejected. The message will not be sent.',
};

export async function showMessages({ people }: ConsoleParts, request: PersonalRequest): Promise<PageResponse> {
  const { person, testMode, now, query } = request;
  const [time, id] = query.get('after')?.split(' ') ?? [];
  const after = time !== undefined && id !== undefined && isMoment(time) ? ([time, id] as const) : undefined;
  const { drafts, runs } = await people.act(person, testMode, ['inbox:create'], now, async (acting) => {
    return {
      drafts: await findDraftsToApprove(acting, after, pageSize + 1),
      runs:
        mayDecideRuns(acting.caller) && !after ? await listRunsToDecide(acting.db.sql, acting.caller, pageSize) : [],
    };
  });
  const shown = drafts.slice(0, pageSize);
  const last = shown.at(-1)?.draft;
  const older =
    drafts.length > pageSize && last
      ? html`<p><a href="${buildAddress('/console/messages', testMode, { after: `${last.createdAt.toISOString()} ${last.id}` })}">Older messages</a></p>`
      : null;
  const done = doneMessages[query.get('done') ?? ''];
  const body = html`${done === undefined ? null : html`<p role="status">${done}</p>`}
${runs.length === 0 ? null : html`<h2>Campaigns</h2>${runs.map((run) => runLine(run, testMode))}`}
<h2>Messages</h2>
${shown.length === 0 ? html`<p>No messages are waiting for approval.</p>` : shown.map((each) => draftForm(each, request))}
${older}`;
  return consolePage(request, 200, 'Messages awaiting approval', body);
}

/**
 * Returns true if the person can decide about campaign runs.
 * @param caller with the visibility for `inbox:create`
 */
export const mayDecideRuns = ({ grants, reach }: Caller): boolean =>
  grants.allows('inbox:create') && grants.allows('campaigns:create') && reach.kind === 'company';

const isMoment = (text: string): boolean => /^\d{4}-\d\d-\d\dT[\d:.]+Z$/.test(text);

export async function decideDraft({ people }: ConsoleParts, request: PersonalRequest): Promise<PageResponse> {
  const { person, testMode, now, path, form } = request;
  const { id = '' } = path;
  const isApproved = form?.get('action') === 'approve';
  await people.act(person, testMode, ['inbox:create'], now, (acting) =>
    isApproved ? approveDraft(acting, id, form?.get('hash') ?? '') : rejectDraft(acting, id, readReason(form)),
  );
  return { redirect: buildAddress('/console/messages', testMode, { done: isApproved ? 'approved' : 'rejected' }) };
}

export async function showRun({ people }: ConsoleParts, request: PersonalRequest): Promise<PageResponse> {
  const { person, testMode, now, path } = request;
  const { campaign = '', run: id = '' } = path;
  const run = await people.act(person, testMode, ['inbox:create', 'campaigns:create'], now, async (acting) => {
    acting.authorize('campaigns:create');
    return orNotFound(await findRunToDecide(acting.db.sql, acting.caller, campaign, id));
  });
  const body = html`<p>${countMessages(run.total)} prepared. ${run.skipped} skipped: no address, a duplicate, or an opted-out recipient.</p>
${run.content.channels.map(
  ({ channel, sender, subject, body }) => html`<section>
<h2>${channel}</h2>
<dl class="facts">
<dt>From</dt><dd>${sender === null ? 'the default' : isolateText(sender)}</dd>
<dt>To</dt><dd>${run.content.object}${run.content.filter === null ? ', all of them' : html` with <code>${JSON.stringify(run.content.filter)}</code>`}</dd>
${subject === null ? null : html`<dt>Subject</dt><dd>${isolateText(subject)}</dd>`}
</dl>
<pre>${body}</pre>
</section>`,
)}
${decisionForm(request, `/console/campaigns/${campaign}/runs/${id}`, run.hash, `${countMessages(run.total)} of ${run.campaignName}`)}`;
  return consolePage(request, 200, isolateText(run.campaignName), body);
}

export async function decideRun({ people }: ConsoleParts, request: PersonalRequest): Promise<PageResponse> {
  const { person, testMode, now, path, form } = request;
  const { campaign = '', run = '' } = path;
  const isApproved = form?.get('action') === 'approve';
  await people.act(person, testMode, ['inbox:create', 'campaigns:create'], now, (acting) =>
    isApproved
      ? approveRun(acting, campaign, run, form?.get('hash') ?? '')
      : rejectRun(acting, campaign, run, readReason(form)),
  );
  return { redirect: buildAddress('/console/messages', testMode, { done: isApproved ? 'approved' : 'rejected' }) };
}

/** Returns the reason that the person typed, or null. */
function readReason(form: URLSearchParams | undefined): string | null {
  const reason = form?.get('reason')?.trim().slice(0, maxReasonLength) ?? '';
  return reason === '' ? null : reason;
}
const maxReasonLength = 200;

const countMessages = (messages: number): string => (messages === 1 ? '1 message' : `${messages} messages`);

const runLine = (run: RunToDecide, testMode: boolean): Html =>
  html`<p><a href="${buildAddress(`/console/campaigns/${run.campaignId}/runs/${run.id}`, testMode)}">${isolateText(run.campaignName)}</a>: ${countMessages(run.total)}</p>`;

function draftForm({ draft, isOptedOut }: DraftToApprove, request: PersonalRequest): Html {
  const { kind, name } = toActor(draft);
  const by = name ?? kind;
  return html`<article aria-label="Message to ${draft.recipient}">
<dl class="facts">
<dt>${draft.channel} to</dt><dd>${isolateText(draft.recipient)}</dd>
<dt>From</dt><dd>${draft.sender === null ? 'the default' : isolateText(draft.sender)}</dd>
${draft.subject === null ? null : html`<dt>Subject</dt><dd>${isolateText(draft.subject)}</dd>`}
<dt>Prepared by</dt><dd>${isolateText(by)}, ${formatTime(draft.createdAt)}</dd>
${draft.note === null ? null : html`<dt>Note</dt><dd>${isolateText(draft.note)}</dd>`}
</dl>
<pre>${draft.body}</pre>
${isOptedOut ? html`<p role="alert">The recipient has opted out. This message cannot be approved.</p>` : null}
${decisionForm(request, `/console/messages/${draft.id}`, isOptedOut ? undefined : draft.hash, `the message to ${draft.recipient}`)}
</article>`;
}

/** @param hash of the displayed content; undefined: the message cannot be approved */
function decisionForm(
  { person, testMode }: PersonalRequest,
  action: string,
  hash: string | undefined,
  what: string,
): Html {
  const approve = html`<button name="action" value="approve" aria-label="Approve ${what}">Approve</button>`;
  return html`<form method="post" action="${action}">
<input type="hidden" name="token" value="${person.formToken}">
<input type="hidden" name="mode" value="${testMode ? 'test' : 'live'}">
<input type="hidden" name="hash" value="${hash ?? ''}">
<label>Reason for rejection (optional) <input name="reason" maxlength="${maxReasonLength}"></label>
${hash === undefined ? null : approve}
<button class="quiet" name="action" value="reject" aria-label="Reject ${what}">Reject</button>
</form>`;
}
