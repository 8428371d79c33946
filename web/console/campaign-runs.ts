// Runs of campaigns: prepared messages that a person approves or rejects together.
import { findRunToDecide, type RunToDecide } from '../../db/messaging/draft-decisions.ts';
import type { Caller } from '../../runtime/caller.ts';
import { orNotFound } from '../../runtime/errors.ts';
import type { PageResponse } from '../../runtime/http/page-routes.ts';
import { type Html, html, isolateText } from '../../runtime/pages/html.ts';
import { approveRun, rejectRun } from '../../services/messaging/draft-approvals.ts';
import { factList } from '../pages/components.ts';
import { consolePage } from '../pages/layout.ts';
import { act, buildAddress, type ConsoleParts, type PersonalRequest, type Show } from '../pages/requests.ts';
import { channelNames, decisionForms, readDecision } from './message-drafts.ts';

const scopes = ['inbox:create', 'campaigns:create'];

/**
 * Returns true if the person can decide about campaign runs.
 * @param caller with the visibility for `inbox:create`
 */
export const mayDecideRuns = ({ grants, reach }: Caller): boolean =>
  grants.allows('inbox:create') && grants.allows('campaigns:create') && reach.kind === 'company';

export const showRun: Show = async (parts, request) => {
  const { campaign = '', run: id = '' } = request.path;
  const run = await act(parts, request, scopes, async (acting) => {
    acting.authorize('campaigns:create');
    return orNotFound(await findRunToDecide(acting.db.sql, acting.caller, campaign, id));
  });
  const { object, filter } = run.content;
  const body = html`<p>${countMessages(run.total)} prepared. ${run.skipped} skipped: no address, a duplicate, or an opted-out recipient.</p>
${run.content.channels.map(
  ({ channel, sender, subject, body }) => html`<section>
<h2>${isChannel(channel) ? channelNames[channel] : channel}</h2>
${factList({
  From: sender === null ? 'the default' : isolateText(sender),
  To: html`${object}${filter === null ? ', all of them' : html` with <code>${JSON.stringify(filter)}</code>`}`,
  Subject: subject === null ? null : isolateText(subject),
})}
<pre>${body}</pre>
</section>`,
)}
${decisionForms(request, `/console/campaigns/${campaign}/runs/${id}`, run.hash, `${countMessages(run.total)} of ${run.campaignName}`)}
<p><a href="${buildAddress('/console/messages', request.testMode)}">Back to Messages</a></p>`;
  return consolePage(request, 200, isolateText(run.campaignName), body);
};

const isChannel = (channel: string): channel is keyof typeof channelNames => Object.hasOwn(channelNames, channel);

export async function decideRun(parts: ConsoleParts, request: PersonalRequest): Promise<PageResponse> {
  const { testMode, path, form } = request;
  const { campaign = '', run = '' } = path;
  const { isApproved, reason } = readDecision(form);
  await act(parts, request, scopes, (acting) =>
    isApproved ? approveRun(acting, campaign, run, form?.get('hash') ?? '') : rejectRun(acting, campaign, run, reason),
  );
  return {
    redirect: buildAddress('/console/messages', testMode, { done: isApproved ? 'run-approved' : 'run-rejected' }),
  };
}

const countMessages = (messages: number): string => (messages === 1 ? '1 message' : `${messages} messages`);

/** Links to the runs that wait for a decision. */
export const runList = (runs: readonly RunToDecide[], testMode: boolean): Html | null =>
  runs.length === 0
    ? null
    : html`<h2>Campaigns</h2>
<ul>${runs.map(
        (run) =>
          html`<li><a href="${buildAddress(`/console/campaigns/${run.campaignId}/runs/${run.id}`, testMode)}">${isolateText(run.campaignName)}</a>: ${countMessages(run.total)}</li>`,
      )}</ul>`;
