// Change sets: the list, one set with its changes before and after, and the decision about it.
import { ApiError } from '../../runtime/errors.ts';
import type { PageResponse } from '../../runtime/http/page-routes.ts';
import { type Html, html, isolateText } from '../../runtime/pages/html.ts';
import {
  badge,
  doneMessage,
  emptyState,
  factList,
  formatTime,
  nextPageLink,
  table,
  tabs,
} from '../pages/components.ts';
import { errorSummary, field, form, submitOrShowAgain, type Typed } from '../pages/forms.ts';
import { canSeeWholeWorkspace, consolePage } from '../pages/layout.ts';
import { ask, buildAddress, type ConsoleParts, type Data, type PersonalRequest, type Show } from '../pages/requests.ts';
import { type ChangeSet, loadNames } from './change-set-names.ts';
import { showOperations } from './change-set-operations.ts';
import { readDecision } from './message-drafts.ts';

type Summary = Data<'listChangeSets'>['change_sets'][number];

const home = '/console/change-sets';
const viewScopes = ['change_sets:view'];
/** By status, in the order of the tabs. */
const statuses = {
  pending: 'Waiting',
  applied: 'Applied',
  rejected: 'Rejected',
  failed: 'Failed',
  withdrawn: 'Withdrawn',
  expired: 'Expired',
} as const;
const tones = {
  pending: 'warning',
  applied: 'good',
  rejected: 'quiet',
  failed: 'bad',
  withdrawn: 'quiet',
  expired: 'quiet',
} as const;
const statusBadge = (status: Summary['status']): Html => badge(statuses[status], tones[status]);
const actors = { user: 'A user', api_key: 'An API key', oauth_client: 'An app', system: 'The system' } as const;

export const showChangeSets: Show = async (parts, request) => {
  const { query, testMode, person } = request;
  const given = query.get('status') ?? 'pending';
  const status = given === 'all' ? '' : given;
  const cursor = query.get('cursor') ?? '';
  const { change_sets: sets, next_cursor: next } = await ask(parts, request, 'listChangeSets', {
    query: { status, cursor, limit: '25' },
  });
  const rows = sets.map((set) => [
    html`<a href="${buildAddress(`${home}/${set.id}`, testMode)}">${isolateText(set.title)}</a>`,
    nameActor(set.proposed_by),
    set.operation_count,
    statusBadge(set.status),
    formatTime(set.created_at),
    set.status === 'pending' ? formatTime(set.expires_at) : null,
  ]);
  const columns = ['Title', 'Proposed by', 'Changes', 'Status', 'Proposed', 'Expires'];
  const nothing = given === 'pending' ? 'No change sets are waiting for a decision.' : 'No change sets.';
  const why = canSeeWholeWorkspace(person.caller, viewScopes)
    ? null
    : html`<p>This page is empty for you, because your role does not see the whole workspace. Only people who see the whole workspace can decide about change sets.</p>`;
  const body = html`<p>API keys and apps propose changes. They take effect after a person approves them.</p>
${why}
${tabs(request, { path: home, parameter: 'status', shown: { ...statuses, all: 'All' }, current: given })}
${sets.length === 0 ? emptyState(nothing) : table('Change sets', columns, rows)}
${nextPageLink(buildAddress(home, testMode, { status: given, cursor: next ?? '' }), next)}`;
  return consolePage(request, 200, 'Change sets', body);
};

const nameActor = ({ kind, name }: Summary['proposed_by']): Html | string =>
  name === null ? actors[kind] : isolateText(name);

/**
 * Counts the change sets that wait for a decision and that the person may see.
 * @returns at most a hundred, with `hasMore` if there are more
 */
export async function countWaiting(
  parts: ConsoleParts,
  request: PersonalRequest,
): Promise<{ count: number; hasMore: boolean }> {
  const { caller } = request.person;
  if (!caller.grants.allows('change_sets:view') || !canSeeWholeWorkspace(caller, viewScopes))
    return { count: 0, hasMore: false };
  const query = { status: 'pending', limit: '100' };
  const { change_sets: sets, has_more: hasMore } = await ask(parts, request, 'listChangeSets', { query });
  return { count: sets.length, hasMore };
}

export const showChangeSet: Show = (parts, request) => changeSetPage(parts, request, 200);

const doneMessages = {
  approved: 'Approved. The changes are applied.',
  partly: 'Approved. Some of the changes are applied. The others failed.',
  rejected: 'Rejected. Nothing was changed.',
};

/** Returns the message of a decision; none for a failure, which the page of the set explains. */
function findDone({ status, error }: ChangeSet): keyof typeof doneMessages | '' {
  if (status === 'applied') return error === null ? 'approved' : 'partly';
  return status === 'rejected' ? 'rejected' : '';
}

async function changeSetPage(
  parts: ConsoleParts,
  request: PersonalRequest,
  status: number,
  typed: Typed = {},
): Promise<PageResponse> {
  const { id = '' } = request.path;
  const { refused } = typed;
  const { change_set: set } = await ask(parts, request, 'getChangeSet', { path: { id } });
  const names = await loadNames(parts, request, set.operations);
  const stale = refused?.details?.reason === 'stale' ? (refused.details.operations as number[]) : [];
  const count = set.operations.length;
  const done = findDone(set);
  const body = html`${done === '' ? null : doneMessage(request, { [done]: doneMessages[done] })}
${refused?.details?.fields ? errorSummary(typed) : refused ? html`<div role="alert"><p>${explainRefusal(refused)}</p></div>` : null}
${set.status === 'failed' ? explainFailure(set) : null}
${renderFacts(set, request)}
<h2>${count === 1 ? '1 change' : `${count} changes`}</h2>
${showOperations(set, names, new Set(stale), request)}
${set.status === 'pending' ? showDecision(parts, set, request, typed, stale.length > 0) : null}`;
  return consolePage(request, status, isolateText(set.title), body);
}

function renderFacts(set: ChangeSet, { testMode, person }: PersonalRequest): Html {
  const { decided_by: by, request_id: call } = set;
  const seesLog = call !== null && person.caller.grants.allows('settings:view');
  return factList({
    Status: statusBadge(set.status),
    Reason: set.reason === null ? null : isolateText(set.reason),
    'Proposed by': nameActor(set.proposed_by),
    Proposed: formatTime(set.created_at),
    Expires: set.status === 'pending' ? formatTime(set.expires_at) : null,
    Decided: by === null ? null : html`${formatTime(set.decided_at)} by ${nameActor(by)}`,
    'Reason for rejection': set.rejection_reason === null ? null : isolateText(set.rejection_reason),
    Application: set.atomic ? 'All changes or none' : 'Each change on its own. Changes that fail are skipped.',
    Effects: seesLog
      ? html`<a href="${buildAddress('/console/audit-log', testMode, { request_id: call })}">Audit log of the approval</a>`
      : null,
  });
}

function explainFailure({ error }: ChangeSet): Html {
  const why = error === null ? null : html` Change ${error.index + 1} failed: ${error.message}`;
  return html`<p class="problem">Approved, but nothing was applied.${why}</p>`;
}

/** @param isStale true if an approval has just failed because of changed records */
function showDecision(
  parts: ConsoleParts,
  set: ChangeSet,
  request: PersonalRequest,
  typed: Typed,
  isStale: boolean,
): Html {
  if (!canDecide(parts, set, request))
    return html`<p>Waiting for a decision by someone who may make these changes.</p>`;
  const { id, digest } = set;
  const hidden = html`<input type="hidden" name="digest" value="${digest}">`;
  const approve = html`${hidden}<button name="action" value="approve">Approve and apply</button>`;
  const reject = html`${hidden}${field('reason', 'Reason (optional)', typed, { maxlength: maxReasonLength })}
<button class="danger" name="action" value="reject">Reject</button>`;
  const approval = html`<h2>Approve</h2>
<p>The changes take effect immediately, and the audit log names you. You need the permission for each of them.</p>
${form(request, `${home}/${id}`, approve)}`;
  return html`${isStale ? null : approval}
<h2>Reject</h2>
<p>Nothing is changed, and the change set cannot be approved afterwards.</p>
${form(request, `${home}/${id}`, reject)}`;
}

/**
 * Returns true if a person has the scopes that the operations declare. A decision also requires
 * those that the trial of an operation needed in addition.
 */
const canDecide = (
  { findOperation }: ConsoleParts,
  { operations }: ChangeSet,
  { person: { caller } }: PersonalRequest,
): boolean =>
  operations.every(({ method, path }) =>
    (findOperation(method, path)?.scopes ?? []).every((scope) => caller.grants.allows(scope)),
  );

/** Characters. */
const maxReasonLength = 2000;

export const decideChangeSet: Show = (parts, request) => {
  const given = request.form as URLSearchParams;
  const { id = '' } = request.path;
  const showDecided = (set: ChangeSet) => ({
    redirect: buildAddress(`${home}/${id}`, request.testMode, { done: findDone(set) }),
  });
  return submitOrShowAgain(
    async () => {
      const { isApproved } = readDecision(given);
      return showDecided(isApproved ? await approve(parts, request) : await reject(parts, request));
    },
    async (refused) => {
      if (refused.details?.reason === 'already_decided') {
        const { change_set: set } = await ask(parts, request, 'getChangeSet', { path: { id } });
        // A second click, for instance.
        if (set.decided_by?.id === request.person.caller.actor.id) return showDecided(set);
      }
      return changeSetPage(parts, request, refused.status, { form: given, refused });
    },
  );
};

async function approve(parts: ConsoleParts, request: PersonalRequest): Promise<ChangeSet> {
  const { id = '' } = request.path;
  const body = { digest: request.form?.get('digest') ?? '' };
  return (await ask(parts, request, 'approveChangeSet', { path: { id }, body })).change_set;
}

/** @throws ApiError 409 if the page showed another set */
async function reject(parts: ConsoleParts, request: PersonalRequest): Promise<ChangeSet> {
  const { id = '' } = request.path;
  const { change_set: set } = await ask(parts, request, 'getChangeSet', { path: { id } });
  if (set.digest !== request.form?.get('digest'))
    throw new ApiError('CONFLICT', 'The digest is not that of this change set.', { reason: 'digest_mismatch' });
  const reason = request.form?.get('reason')?.trim() ?? '';
  const body = reason === '' ? {} : { reason };
  return (await ask(parts, request, 'rejectChangeSet', { path: { id }, body })).change_set;
}

/** Returns why a decision had no effect, and what to do. */
function explainRefusal({ message, details }: ApiError): string {
  const { reason, operations } = details ?? {};
  if (reason === 'stale') return explainStale(operations as number[]);
  if (reason === 'digest_mismatch')
    return 'Nothing was done, because the form was not about these changes. Check them below, and decide again.';
  if (reason === 'already_decided') return 'Nothing was done, because this change set is already decided.';
  if (reason === 'expired')
    return 'Nothing was done, because this change set has expired. Its changes can be proposed again.';
  return message;
}

function explainStale(operations: readonly number[]): string {
  const numbers = operations.map((index) => index + 1).join(', ');
  return `Nothing was applied, because records have changed since these changes were proposed (${operations.length === 1 ? 'change' : 'changes'} ${numbers}). Reject the change set, and have the changes proposed again.`;
}
