// Message drafts on pages: one in the queue or on its own page, and the rows of the history.
import { toActor } from '../../db/client/created-by.ts';
import type { DraftRow } from '../../db/messaging/drafts.ts';
import type { DraftStatus } from '../../domain/messaging/drafts.ts';
import { notSent } from '../../domain/messaging/senders.ts';
import { ApiError } from '../../runtime/errors.ts';
import { type Html, html, isolateText } from '../../runtime/pages/html.ts';
import type { DraftToApprove } from '../../services/messaging/draft-approvals.ts';
import { badge, factList, formatAge, formatTime, type Tone } from '../pages/components.ts';
import { form } from '../pages/forms.ts';
import { buildAddress, type PersonalRequest } from '../pages/requests.ts';
import { buildKey } from './change-set-values.ts';
import { type RecordReference, recordLink } from './record-names.ts';

export const channelNames = { sms: 'SMS', email: 'Email', whatsapp: 'WhatsApp message' } as const;

const states: Readonly<Record<DraftStatus, readonly [text: string, tone: Tone]>> = {
  draft: ['Waiting', 'warning'],
  approved: ['Approved', 'good'],
  sent: ['Sent', 'good'],
  failed: ['Failed', 'bad'],
  rejected: ['Rejected', 'quiet'],
  withdrawn: ['Withdrawn', 'quiet'],
};

export const statusBadge = ({ status }: Pick<DraftRow, 'status'>): Html => badge(...states[status]);

/** What drafts are shown with. */
export interface Surroundings {
  /** Names of the records that messages are about, by `buildKey`. */
  names: ReadonlyMap<string, string>;
  /** The time of the mode. */
  now: Date;
  /** Parameters of the list, which forms keep. */
  kept: Readonly<Record<string, string>>;
}

/** Returns the record that a draft is about. */
export const findAbout = ({ object, recordId }: DraftRow): RecordReference | undefined =>
  object === null || recordId === null ? undefined : { object, id: recordId };

/** Names a message by its recipient, such as "the message to sara@bluelake.example". */
export const describeMessage = ({ recipient }: DraftRow): string => `the message to ${recipient}`;

function renderAbout(draft: DraftRow, names: ReadonlyMap<string, string>, testMode: boolean): Html | null {
  const about = findAbout(draft);
  if (!about) return null;
  const name = names.get(buildKey(about.object, about.id));
  return name === undefined
    ? html`<span class="none">a record that you cannot see, or that was deleted</span>`
    : recordLink(about, name, testMode);
}

const actors = { user: null, api_key: 'API key', oauth_client: 'app', system: 'automatic' } as const;

/** Names who prepared a draft, and what they are if they are no person. */
function nameCreator(draft: DraftRow): Html {
  const { kind, name } = toActor(draft);
  const what = actors[kind];
  if (name === null) return html`${what ?? 'a user'}`;
  return html`${isolateText(name)}${what === null ? null : html` (${what})`}`;
}

/** Shows everything about a draft but its text and its recipient. */
function draftFacts(draft: DraftRow, { names, now }: Surroundings, testMode: boolean): Html {
  return factList({
    About: renderAbout(draft, names, testMode),
    From: draft.sender === null ? 'the default' : isolateText(draft.sender),
    Subject: draft.subject === null ? null : isolateText(draft.subject),
    'Prepared by': html`${nameCreator(draft)}, ${formatAge(draft.createdAt, now)}`,
    Note: draft.note === null ? null : isolateText(draft.note),
  });
}

/** Characters of a text that are shown at first. */
const previewLength = 600;

function showText({ body }: DraftRow): Html {
  if (body.length <= previewLength) return html`<pre>${body}</pre>`;
  return html`<pre>${body.slice(0, previewLength)}…</pre>
<details><summary>The whole message (${body.length} characters)</summary><pre>${body}</pre></details>`;
}

/** Says why a message would not be sent; null if nothing prevents it. */
function explainObstacle({ isOptedOut, obstacle }: DraftToApprove): Html | null {
  if (obstacle === null) return null;
  return html`<p class="problem">${isOptedOut ? 'Cannot be approved' : 'Would fail if you approve it now'}: ${obstacle}</p>`;
}

/**
 * Shows a draft of the queue, with a check box for the form of several and a form of its own.
 * @param isSelected true if the check box is checked
 */
export function draftArticle(
  shown: DraftToApprove,
  surroundings: Surroundings,
  request: PersonalRequest,
  isSelected: boolean,
): Html {
  const { draft, isOptedOut } = shown;
  const address = `/console/messages/${draft.id}`;
  const what = describeMessage(draft);
  return html`<article aria-labelledby="message-${draft.id}">
<label class="select"><input type="checkbox" name="draft" form="decide" value="${draft.id}.${draft.hash}" aria-label="Select ${what}"${isSelected ? html` checked` : null}>Select</label>
<h2 id="message-${draft.id}"><a href="${buildAddress(address, request.testMode)}">${channelNames[draft.channel]} to ${isolateText(draft.recipient)}</a></h2>
${draftFacts(draft, surroundings, request.testMode)}
${showText(draft)}
${explainObstacle(shown)}
${decisionForms(request, address, isOptedOut ? undefined : draft.hash, what, surroundings.kept)}
</article>`;
}

/** Shows a draft on its own page. @param shown with the hash, if the draft waits for a decision of its own */
export function draftDetails(draft: DraftRow, surroundings: Surroundings, testMode: boolean): Html {
  return html`<p>${statusBadge(draft)} ${explainStatus(draft)}</p>
${draftFacts(draft, surroundings, testMode)}
<pre>${draft.body}</pre>
${factList({
  Approved:
    draft.approvedAt === null ? null : html`${formatTime(draft.approvedAt)} by ${nameDecider(draft.approvedByName)}`,
  Rejected:
    draft.rejectedAt === null ? null : html`${formatTime(draft.rejectedAt)} by ${nameDecider(draft.rejectedByName)}`,
  Sent: formatTime(draft.sentAt),
})}`;
}

/** Shows the decision about a draft on its own page. */
export const draftDecision = (shown: DraftToApprove, request: PersonalRequest): Html => {
  const { draft, isOptedOut } = shown;
  const hash = isOptedOut ? undefined : draft.hash;
  return html`${explainObstacle(shown)}${decisionForms(request, `/console/messages/${draft.id}`, hash, describeMessage(draft))}`;
};

const nameDecider = (name: string | null): Html => (name === null ? html`a former user` : isolateText(name));

/** Says what became of a draft, and why. */
export function explainStatus(draft: DraftRow): Html | null {
  switch (draft.status) {
    case 'draft':
      return null;
    case 'approved':
      return html`by ${nameDecider(draft.approvedByName)}. It will be sent shortly.`;
    case 'sent':
      return html`Approved by ${nameDecider(draft.approvedByName)}.${explainUnsent(draft)}`;
    case 'failed':
      return html`${draft.errorMessage ?? 'It could not be sent.'}`;
    case 'rejected':
      return html`by ${nameDecider(draft.rejectedByName)}${draft.rejectionReason === null ? '.' : html`: ${isolateText(draft.rejectionReason)}`}`;
    case 'withdrawn':
      return draft.withdrawalReason === null ? null : isolateText(draft.withdrawalReason);
  }
}

/** Says why a sent message reached no one; null if a provider has it. */
function explainUnsent({ providerRef }: DraftRow): string | null {
  if (providerRef === notSent.test) return ' Test mode sends nothing.';
  return providerRef === notSent.kept ? ' No provider is configured, so it was only stored.' : null;
}

/** Returns when a draft got its status. */
const findStatusTime = ({ sentAt, rejectedAt, approvedAt, createdAt, updatedAt, status }: DraftRow): Date => {
  const times = { draft: createdAt, approved: approvedAt, sent: sentAt, rejected: rejectedAt };
  return (Object.hasOwn(times, status) ? times[status as keyof typeof times] : null) ?? updatedAt;
};

export const historyColumns = ['Message', 'About', 'Status', 'When'];

/** Returns the row of a draft in the history. */
export function toHistoryRow(draft: DraftRow, { names, now }: Surroundings, testMode: boolean): (Html | null)[] {
  const preview = draft.subject ?? draft.body;
  return [
    html`<a href="${buildAddress(`/console/messages/${draft.id}`, testMode)}">${channelNames[draft.channel]} to ${isolateText(draft.recipient)}</a><br>${isolateText(preview.length > maxPreview ? `${preview.slice(0, maxPreview)}…` : preview)}`,
    renderAbout(draft, names, testMode),
    html`${statusBadge(draft)} ${explainStatus(draft)}`,
    formatAge(findStatusTime(draft), now),
  ];
}
const maxPreview = 80;

export const maxReasonLength = 200;

/** A decision as a form carries it. */
export interface Decision {
  isApproved: boolean;
  /** Of a rejection; null: none was typed. */
  reason: string | null;
}

/**
 * Reads the decision of a form.
 * @throws ApiError 400 if the form names none, or approves with the reason of a rejection
 */
export function readDecision(given: URLSearchParams | undefined): Decision {
  const action = given?.get('action');
  if (action !== 'approve' && action !== 'reject')
    throw new ApiError('VALIDATION_ERROR', 'Choose Approve or Reject. Nothing was decided.');
  const typed = given?.get('reason')?.trim().slice(0, maxReasonLength) ?? '';
  const isApproved = action === 'approve';
  if (isApproved && typed !== '')
    throw new ApiError(
      'VALIDATION_ERROR',
      'A reason belongs to a rejection. Remove it to approve. Nothing was decided.',
    );
  return { isApproved, reason: typed === '' ? null : typed };
}

/**
 * Builds the forms that decide about one draft or run. They are two, because Enter in the reason
 * presses the first button of its form.
 * @param hash of the displayed content; undefined: the message cannot be approved
 * @param kept further hidden fields
 */
export function decisionForms(
  request: PersonalRequest,
  action: string,
  hash: string | undefined,
  what: string,
  kept: Readonly<Record<string, string>> = {},
): Html {
  const hidden = html`<input type="hidden" name="hash" value="${hash ?? ''}">
${hiddenFields(kept)}`;
  const approve = html`${hidden}
<button name="action" value="approve" aria-label="Approve ${what}">Approve</button>`;
  const reject = html`${hidden}
<button class="quiet" name="action" value="reject" aria-label="Reject ${what}">Reject</button>
<details><summary>Reason for the rejection</summary>
<label>Reason (optional) <input name="reason" maxlength="${maxReasonLength}" autocomplete="off"></label></details>`;
  return html`<div class="decision">
${hash === undefined ? null : form(request, action, approve)}
${form(request, action, reject)}
</div>`;
}

/** Builds the hidden fields of values that are not empty. */
export const hiddenFields = (kept: Readonly<Record<string, string>>): Html =>
  html`${Object.entries(kept).flatMap(([name, value]) => (value === '' ? [] : html`<input type="hidden" name="${name}" value="${value}">`))}`;
