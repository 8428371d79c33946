// Webhook endpoints: their events, health, secrets and replays.

import type { PageResponse } from '../../runtime/http/page-routes.ts';
import { type Html, html, isolateText, renderHost } from '../../runtime/pages/html.ts';
import { getTimeZone, startDay, toPeriod } from '../../runtime/pages/time-zone.ts';
import { doneMessage, factList, formatTime, nextPageLink, table } from '../pages/components.ts';
import { checkbox, errorSummary, field, form, splitLines, submitOrShowAgain, type Typed } from '../pages/forms.ts';
import { consolePage } from '../pages/layout.ts';
import { ask, buildAddress, type ConsoleParts, type Data, type PersonalRequest, type Show } from '../pages/requests.ts';
import { formKey, type Made, makeOnce, showOnce } from '../pages/shown-once.ts';
import { deliveriesTable, statuses } from './webhook-deliveries.ts';

type Subscription = Data<'getWebhookSubscription'>['subscription'];

const home = '/console/webhooks';
const doneMessages = {
  enabled: 'The webhook endpoint is enabled. Recover skipped deliveries below.',
  disabled: 'The webhook endpoint is disabled. New events are kept, and can be recovered.',
  deleted: 'The webhook endpoint was deleted.',
  queued: 'The deliveries are being sent.',
  none: 'There were no deliveries to send.',
  more: 'The first 10,000 deliveries are being sent. Send the form again for the rest.',
};

const mayChange = ({ person }: PersonalRequest): boolean =>
  ['webhooks:configure', 'settings:configure'].some((scope) => person.caller.grants.allows(scope));

export const showWebhooks: Show = async (parts, request) => {
  const { testMode, query } = request;
  const cursor = query.get('cursor') ?? '';
  const { subscriptions, next_cursor: next } = await ask(parts, request, 'listWebhookSubscriptions', {
    query: { cursor },
  });
  const rows = subscriptions.map(
    ({ id, url, events, status, consecutive_failures: failures, last_success_at: last, success_rate_24h: rate }) => [
      html`<a href="${buildAddress(`${home}/${id}`, testMode)}"><code>${toAsciiUrl(url)}</code></a>`,
      events.join(', '),
      failures > 0 ? `${status}, ${failures} consecutive failures` : status,
      formatShare(rate),
      formatTime(last, 'never'),
    ],
  );
  const add = html`<p><a href="${buildAddress(`${home}/new`, testMode)}">Add webhook endpoint</a></p>`;
  const body = html`${doneMessage(request, doneMessages)}
${mayChange(request) ? add : null}
${rows.length === 0 ? html`<p>No webhook endpoints.</p>` : table('Webhook endpoints', ['URL', 'Events', 'Status', 'Accepted within 24 hours', 'Last success'], rows)}
${nextPageLink(buildAddress(home, testMode, { cursor: next ?? '' }), next)}`;
  return consolePage(request, 200, 'Webhooks', body);
};

export const newWebhook: Show = (parts, request) => newWebhookPage(parts, request, 200);

async function newWebhookPage(
  parts: ConsoleParts,
  request: PersonalRequest,
  status: number,
  typed: Typed = {},
): Promise<PageResponse> {
  const { events } = await ask(parts, request, 'listWebhookEvents', { query: { limit: '200' } });
  const fields = html`${formKey()}
${field('url', 'URL', typed, { type: 'url', required: true, maxlength: 2048, hint: 'The https URL that receives events.' })}
${field('events', 'Events', typed, { long: true, required: true, hint: 'One event per line. record.* selects a group, * selects all events.' })}
<details><summary>Available events</summary><ul>${events.map(({ name }) => html`<li><code>${name}</code></li>`)}</ul></details>
${field('description', 'Description', typed, { maxlength: 200 })}
${checkbox('changes', 'Include old and new values of changed fields', typed)}
<button>Add</button>`;
  return consolePage(
    request,
    status,
    'Add webhook endpoint',
    html`${errorSummary(typed)}${form(request, `${home}/new`, fields)}`,
  );
}

export const createWebhook: Show = (parts, request) => {
  const given = request.form as URLSearchParams;
  const body = {
    url: given.get('url') ?? '',
    events: splitLines(given.get('events')),
    description: given.get('description') || null,
    include: given.has('changes') ? ['changes'] : [],
  };
  return submitOrShowAgain(
    () =>
      makeOnce(parts, request, secrets, async () =>
        madeBy(await ask(parts, request, 'createWebhookSubscription', { body })),
      ),
    (refused) => newWebhookPage(parts, request, refused.status, { form: given, refused }),
  );
};

const secrets = `${home}/secret`;
const madeBy = ({
  subscription,
  secret,
}: Pick<Data<'createWebhookSubscription'>, 'subscription' | 'secret'>): Made => ({ id: subscription.id, secret });

/** The only page that shows a secret. */
export const showNewSecret = showOnce(async (_, request, { id, secret }) => {
  const body = html`<p role="status">Copy this signing secret now. Your endpoint needs it to verify signatures. It is shown only once.</p>
<p><code class="secret" tabindex="0">${secret}</code></p>
<p><a href="${buildAddress(`${home}/${id}`, request.testMode)}">Continue to the webhook endpoint</a></p>`;
  return consolePage(request, 200, 'Signing secret of the webhook endpoint', body);
}, secretGone);

function secretGone(request: PersonalRequest, id: string | null): PageResponse {
  const where =
    id === null
      ? html`See the <a href="${buildAddress(home, request.testMode)}">list of webhook endpoints</a> for those that exist.`
      : html`If you did not copy it, rotate the secret of <a href="${buildAddress(`${home}/${id}`, request.testMode)}">the webhook endpoint</a>.`;
  const body = html`<p role="alert">A signing secret is shown only once, right after it is created. ${where}</p>`;
  return consolePage(request, 410, 'The signing secret is no longer shown', body);
}

export const showWebhook: Show = (parts, request) => webhookPage(parts, request, 200);

async function webhookPage(
  parts: ConsoleParts,
  request: PersonalRequest,
  status: number,
  typed: Typed = {},
): Promise<PageResponse> {
  const { path, query, testMode } = request;
  const id = path.id ?? '';
  const deliveryId = query.get('tested');
  const tested = deliveryId && (await ask(parts, request, 'getWebhookDelivery', { path: { id, deliveryId } })).delivery;
  const [wanted, cursor] = [query.get('status') ?? '', query.get('cursor') ?? ''];
  const { subscription } = await ask(parts, request, 'getWebhookSubscription', { path: { id } });
  const { deliveries, next_cursor: next } = await ask(parts, request, 'listWebhookDeliveries', {
    path: { id },
    query: { status: wanted, cursor, limit: '25' },
  });
  const here = `${home}/${id}`;
  const body = html`${doneMessage(request, doneMessages)}${errorSummary(typed)}${tested ? renderOutcome(tested) : null}
${renderFacts(subscription)}
${mayChange(request) ? buttons(request, here, subscription) : null}
<h2>Deliveries</h2>
<form method="get" action="${here}" class="inline">
${testMode ? html`<input type="hidden" name="mode" value="test">` : null}
${field('status', 'Status', {}, { choices: { '': 'All', ...statuses }, value: wanted })}
<button class="quiet">Show</button>
</form>
${deliveriesTable(deliveries, here, testMode)}
${nextPageLink(buildAddress(here, testMode, { status: wanted, cursor: next ?? '' }), next)}
${mayChange(request) ? sendingForms(request, here, typed) : null}`;
  return consolePage(request, status, html`Webhook endpoint ${renderHost(subscription.url)}`, body);
}

/** Returns the URL as it is requested: with the host in ASCII. */
const toAsciiUrl = (url: string): string => new URL(url).href;

const renderFacts = (each: Subscription): Html =>
  factList({
    URL: html`<code>${toAsciiUrl(each.url)}</code>`,
    Events: each.events.join(', '),
    Description: each.description === null ? null : isolateText(each.description),
    Filter: each.filter === null ? null : html`<code>${JSON.stringify(each.filter)}</code>`,
    Status: each.disabled_reason === null ? each.status : `${each.status}: ${reasons[each.disabled_reason]}`,
    'Consecutive failures': each.consecutive_failures,
    'Accepted within 24 hours': formatShare(each.success_rate_24h),
    'Last success': formatTime(each.last_success_at, 'never'),
    'Own headers': each.header_names.length === 0 ? null : html`<code>${each.header_names.join(', ')}</code>`,
    'Requests per second': `at most ${each.max_per_second}`,
    'Order of events': each.ordered ? 'one after the other for each record' : 'any',
    'Public key': each.public_key === null ? null : html`<code>${each.public_key}</code>`,
    'Previous public key': each.previous_public_key === null ? null : html`<code>${each.previous_public_key}</code>`,
    'Signing secret': `ends in ${each.secret_last4}`,
    'Previous secret valid until': formatTime(each.previous_secret_expires_at),
    Added: html`${formatTime(each.created_at)} by ${isolateText(each.created_by.name ?? each.created_by.kind)}`,
  });

/** Rounds down, so that 100 % means all. */
/** @param share from 0 to 1; null without attempts */
const formatShare = (share: number | null): string | null =>
  share === null ? null : `${Math.floor(share * 1000) / 10} %`;

const reasons = { manual: 'manually', failures: 'it kept failing', gone: 'it reported that it is gone' };

function buttons(request: PersonalRequest, here: string, { status }: Subscription): Html {
  const to = status === 'active' ? 'disable' : 'enable';
  const one = (action: string, name: string, look: string): Html =>
    form(
      request,
      `${here}/${action}`,
      html`${action === 'rotate' ? formKey() : null}<button class="${look}">${name}</button>`,
      'line',
    );
  return html`<h2>Change subscription</h2>
<p>${one(to, to === 'enable' ? 'Enable' : 'Disable', 'quiet')}${one('test', 'Test', 'quiet')}${one('rotate', 'Rotate', 'quiet')}${one('delete', 'Delete', 'danger')}</p>
<p class="note">Test sends a sample event and shows the response. Rotate creates a new signing secret; the old one stays valid for 24 hours.</p>`;
}

const renderOutcome = ({
  status,
  last_response_code: code,
  last_error: fault,
}: Data<'getWebhookDelivery'>['delivery']): Html =>
  status === 'succeeded'
    ? html`<p role="status">The endpoint responded with status ${code}.</p>`
    : html`<p role="alert">The test failed: ${code === null ? (fault ?? 'no response') : `the endpoint responded with status ${code}`}.</p>`;

const sendingForms = (request: PersonalRequest, here: string, typed: Typed): Html => html`<h2>Recover</h2>
<p>Sends failed and skipped deliveries again, starting with the given day in ${getTimeZone()}.</p>
${form(request, `${here}/recover`, html`${field('since', 'Since', typed, { type: 'date', required: true })}<button>Recover</button>`)}
<h2>Replay</h2>
<p>Sends copies of all deliveries of the given days in ${getTimeZone()}, for an endpoint that has lost data. At most 1,000, oldest first.</p>
${form(
  request,
  `${here}/replay`,
  html`${field('from', 'From', typed, { type: 'date', required: true })}
${field('to', 'To', typed, { type: 'date', required: true })}
<button>Replay</button>`,
)}`;

export const changeWebhook: Show = async (parts, request) => {
  const { id = '', to } = request.path;
  const isActive = to === 'enable';
  await ask(parts, request, 'updateWebhookSubscription', { path: { id }, body: { is_active: isActive } });
  return { redirect: buildAddress(`${home}/${id}`, request.testMode, { done: isActive ? 'enabled' : 'disabled' }) };
};

export const testWebhook: Show = (parts, request) => {
  const { id = '' } = request.path;
  return submitOrShowAgain(
    async () => {
      const { delivery } = await ask(parts, request, 'testWebhookSubscription', { path: { id } });
      return { redirect: buildAddress(`${home}/${id}`, request.testMode, { tested: delivery.id }) };
    },
    (refused) => webhookPage(parts, request, refused.status, { refused }),
  );
};

export const rotateSecret: Show = (parts, request) => {
  const { id = '' } = request.path;
  return submitOrShowAgain(
    () =>
      makeOnce(parts, request, secrets, async () =>
        madeBy(await ask(parts, request, 'rotateWebhookSecret', { path: { id } })),
      ),
    (refused) => webhookPage(parts, request, refused.status, { refused }),
  );
};

export const removeWebhook: Show = async (parts, request) => {
  const { id = '' } = request.path;
  await ask(parts, request, 'deleteWebhookSubscription', { path: { id } });
  return { redirect: buildAddress(home, request.testMode, { done: 'deleted' }) };
};

/** Queues failed and skipped deliveries again, or copies of all deliveries. */
export const sendAgain: Show = (parts, request) => {
  const given = request.form as URLSearchParams;
  const { id = '', how } = request.path;
  const { since = '', from = '', to = '' } = Object.fromEntries(given);
  return submitOrShowAgain(
    async () => {
      const path = { id };
      const { queued, more } =
        how === 'recover'
          ? await ask(parts, request, 'recoverWebhookDeliveries', {
              path,
              body: { since: startDay(since) ?? since },
            }).then((answer) => ({
              queued: answer.queued,
              more: answer.has_more,
            }))
          : await ask(parts, request, 'replayWebhookDeliveries', { path, body: toPeriod({ from, to }) }).then(
              (answer) => ({
                queued: answer.queued,
                more: false,
              }),
            );
      return {
        redirect: buildAddress(`${home}/${id}`, request.testMode, {
          done: more ? 'more' : queued > 0 ? 'queued' : 'none',
        }),
      };
    },
    (refused) => webhookPage(parts, request, refused.status, { form: given, refused }),
  );
};
